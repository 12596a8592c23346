"""DOCX, made by pandoc from a document's HTML."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from llm_ocr.export.document import ExportError
from llm_ocr.records import Figure
from llm_ocr.report.document_files import html_page

PANDOC = "pandoc"
# Seconds for one document: pandoc takes a second or so for a hundred pages.
TIMEOUT = 300.0


def find_pandoc() -> str:
    """The path of pandoc. Raises ExportError if it isn't installed."""
    found = shutil.which(PANDOC)
    if found is None:
        raise ExportError(
            "DOCX is made by pandoc, which is not installed: install the package pandoc of your "
            "system, or see https://pandoc.org/installing.html"
        )
    return found


def docx(title: str, markdown: str, figures: Iterable[Figure], pandoc: str) -> bytes:
    """A document as DOCX, with its figures. Raises ExportError where pandoc fails."""
    html = html_page(title, markdown, figures)
    with tempfile.TemporaryDirectory(prefix="llm-ocr-export-") as folder:
        path = Path(folder) / "document.docx"
        command = [pandoc, "-f", "html+tex_math_dollars", "-t", "docx", "-o", str(path)]
        try:
            subprocess.run(
                # No --sandbox: Debian's pandoc can't find its own files with it. The HTML refers to
                # nothing outside.
                command,
                input=html.encode(),
                capture_output=True,
                check=True,
                timeout=TIMEOUT,
                cwd=folder,
            )
        except subprocess.CalledProcessError as error:
            message = error.stderr.decode(errors="replace").strip()
            raise ExportError(f"{title}: pandoc failed: {message}") from error
        except subprocess.TimeoutExpired as error:
            raise ExportError(f"{title}: pandoc took longer than {TIMEOUT:g} s") from error
        return path.read_bytes()
