"""Reads the documents whose Markdown is kept: `python -m tests.goldens` renews it."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.pages.making import make

ROOT = Path(__file__).parents[2]
GOLDENS = Path(__file__).parent / "markdown"
EXAMPLES = ROOT / "examples"
# Pages of a seed that nothing else uses: six layouts, born-digital, scanned, turned and dark.
SEED, LAYOUTS = 16, 6


def read_documents(folder: Path) -> dict[str, str]:
    """Every example, invoice and generated page read by the embedded engine with the settings that
    users meet, in a run below a folder: Markdown by the name of its file."""
    pages = folder / "pages"
    make(pages, SEED, LAYOUTS)
    # Dark scans are read like dark pages without a text layer elsewhere; they would be most of
    # the time.
    for path in (pages / "dark").glob("*-scan.*"):
        path.unlink()
    inputs = sorted(EXAMPLES.glob("*.*"))
    documents = [path for path in inputs if path.suffix in {".pdf", ".jpg", ".tiff"}]
    out = folder / "run"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("LLM_OCR_")
    }
    command = [sys.executable, "-m", "llm_ocr", "run", "--engine", "embedded", "--out", str(out)]
    command += [str(place) for place in (*documents, EXAMPLES / "invoices", pages)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    markdown = out / "markdown"
    return {
        path.relative_to(markdown).as_posix(): path.read_text("utf-8")
        for path in sorted(markdown.rglob("*.md"))
    }
