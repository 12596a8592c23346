"""Notebooks, executed whole."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from reportlab.pdfgen.canvas import Canvas

ROOT = Path(__file__).parents[2]
EXAMPLES = ("report.pdf", "invoice.jpg", "letters.tiff", "rotated-scan.pdf")
DOCUMENTS = 24
# Read are these, all of them, on a machine that nobody pays for.
MINE = {"LIMIT": None, "PRICE": 0.0}


@dataclass(frozen=True)
class Executed:
    """What a notebook left: all that was printed, its PNGs, and the Markdown it displayed."""

    printed: str
    pictures: int
    markdown: Sequence[str]


def scans(folder: Path) -> list[Path]:
    """24 documents: some of examples/, and letters of a page."""
    folder.mkdir()
    files = [ROOT / "examples" / name for name in EXAMPLES]
    return files + [_letter(folder / f"{n:02d}.pdf", n) for n in range(DOCUMENTS - len(files))]


def _letter(path: Path, number: int) -> Path:
    """A page whose text layer is long enough to be trusted."""
    sheet = Canvas(str(path), pagesize=(300, 400))
    sheet.setFont("Helvetica", 11)
    for line in range(8):
        sheet.drawString(
            30, 350 - 20 * line, f"Letter {number}, line {line}: the river rose again."
        )
    sheet.save()
    return path


def execute(notebook: Path, parameters: Mapping[str, Any], folder: Path) -> Executed:
    """Run the notebook with these parameters behind its own.

    The executed copy goes to `folder`, or to LLM_OCR_EXECUTED. Raises nbclient's CellExecutionError
    for a cell that fails.
    """
    read = nbformat.read(notebook, as_version=4)
    marked = ("parameters" in cell.metadata.get("tags", ()) for cell in read.cells)
    given = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    read.cells.insert(list(marked).index(True) + 1, nbformat.v4.new_code_cell(given))
    client = NotebookClient(
        read, timeout=1800, kernel_name="python3", resources={"metadata": {"path": notebook.parent}}
    )
    try:
        client.execute()
    finally:
        nbformat.write(read, Path(os.environ.get("LLM_OCR_EXECUTED", folder)) / notebook.name)
    outputs = [output for cell in read.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}) for output in outputs]
    return Executed(
        printed="".join(output.get("text", "") for output in outputs),
        pictures=sum("image/png" in one for one in shown),
        markdown=[one["text/markdown"] for one in shown if "text/markdown" in one],
    )


def assert_shown(executed: Executed) -> None:
    """Pages, boxes, figures, and speed and cost against the plan; the Markdown with its figures."""
    assert executed.pictures >= 4
    assert any("](data:image/jpeg;base64," in one for one in executed.markdown)
    assert "all counted" in executed.printed, "the plan"
    assert "24 documents" in executed.printed
    assert "assemble" in executed.printed, "the status"
    assert "The embedded engine read these pages on CPUs" in executed.printed
    assert "Sessions that ended read " in executed.printed
    assert "1 session was killed and left no count" in executed.printed
    costs = next(one for one in executed.markdown if "| figure | source | retrieved |" in one)
    for named in ("GPT-", "Gemini", "Claude", "speed on a100"):
        assert named in costs
    assert any(one.startswith("| bottleneck |") for one in executed.markdown)


def is_paired(notebook: Path) -> bool:
    """Whether the notebook has the cells of the py:percent file beside it."""
    source = jupytext.read(notebook.with_suffix(".py"))
    cells = nbformat.read(notebook, as_version=4).cells
    # The blank lines before a cell's first function are the format's.
    both = [[(one.cell_type, one.source.strip()) for one in some] for some in (cells, source.cells)]
    return both[0] == both[1] and not any(cell.get("outputs") for cell in cells)
