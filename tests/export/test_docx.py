"""DOCX, by pandoc."""

import io
import shutil
import zipfile

import pytest

from llm_ocr.export.document import ExportError
from llm_ocr.export.docx import docx, find_pandoc
from llm_ocr.records import Box, Figure
from tests.export.test_pdf import jpeg

MARKDOWN = "# The report\n\n![A river](figures/a-p1-1.jpg)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


def test_without_pandoc_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ExportError, match="pandoc, which is not installed"):
        find_pandoc()


def test_what_pandoc_says_is_in_the_error() -> None:
    with pytest.raises(ExportError, match="a: pandoc failed"):
        docx("a", MARKDOWN, [], shutil.which("false") or "")


@pytest.mark.skipif(shutil.which("pandoc") is None, reason="needs pandoc")
def test_text_tables_and_figures_are_in_it() -> None:
    figure = Figure("d/1/1", "d/1", "d", "a-p1-1.jpg", "image", Box(0, 0, 9, 9), jpeg(), 9, 9)
    made = zipfile.ZipFile(io.BytesIO(docx("a", MARKDOWN, [figure], find_pandoc())))
    content = made.read("word/document.xml").decode()
    assert "The report" in content
    assert "<w:tbl>" in content
    assert [name for name in made.namelist() if name.startswith("word/media/")]
