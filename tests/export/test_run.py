"""Exports of a run: which files there are, resuming, failures, and what a run lacks."""

import json
import shutil
from pathlib import Path

import pytest
from lxml import etree

from llm_ocr import export_run
from llm_ocr.export.document import ExportError
from llm_ocr.export.run import DocumentExport
from llm_ocr.report.status import NoRunError
from tests.export.conftest import TEXT
from tests.export.xml_schemas import validated


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _words(alto: Path) -> list[str]:
    root = validated(alto.read_bytes(), "alto4")
    return [one.get("CONTENT") for one in root.iter("{*}String")]


def test_a_file_per_document_and_failures_are_named(finished_run: Path, tmp_path: Path) -> None:
    noted: list[DocumentExport] = []
    formats = ["text", "html", "hocr", "alto", "page-xml"]
    summary = export_run(finished_run, formats, tmp_path, notify=noted.append)
    assert _files(tmp_path) == sorted(
        [
            *("a.txt", "a.html", "a.hocr", "a.alto.xml"),
            *("a.page/0001.jpg", "a.page/0001.xml", "a.page/0002.jpg", "a.page/0002.xml"),
            "a.page/index.json",
            *("deep/b.txt", "deep/b.html", "deep/b.hocr", "deep/b.alto.xml"),
            *("deep/b.page/0001.jpg", "deep/b.page/0001.xml", "deep/b.page/index.json"),
        ]
    )
    assert (summary.written, summary.skipped, len(summary.failed)) == (10, 0, 5)
    assert {(one.name, one.to) for one in summary.failed} == {("c", one) for one in formats}
    assert all("c.pdf" in (one.message or "") for one in summary.failed)
    assert len(noted) == 15


def test_words_come_from_the_text_layer_of_the_original(finished_run: Path, tmp_path: Path) -> None:
    """The model's answer has no lines, and the PDF's own text has words."""
    export_run(finished_run, "alto", tmp_path)
    alto = tmp_path / "a.alto.xml"
    assert " ".join(_words(alto)).count(TEXT) == 2
    tags = {line.get("TAGREFS") for line in etree.parse(str(alto)).iter("{*}TextLine")}
    assert "words-of-text-layer" in tags
    index = export_run(finished_run, "page-xml", tmp_path)
    assert index.written == 2
    pages = json.loads((tmp_path / "a.page" / "index.json").read_text())["pages"]
    assert "text_layer" in pages[0]["words"]


def test_without_the_original_words_are_estimated(finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run.parent, tmp_path / "moved")
    original = finished_run.parent / "in" / "a.pdf"
    original.rename(tmp_path / "a.pdf")
    try:
        export_run(finished_run, "alto", tmp_path / "alto")
    finally:
        (tmp_path / "a.pdf").rename(original)
    alto = tmp_path / "alto" / "a.alto.xml"
    tags = {line.get("TAGREFS") for line in etree.parse(str(alto)).iter("{*}TextLine")}
    assert tags == {"words-estimated"}
    assert "stands" in _words(alto)


def test_files_that_exist_are_left_alone_unless_overwritten(
    finished_run: Path, tmp_path: Path
) -> None:
    export_run(finished_run, "text", tmp_path)
    (tmp_path / "a.txt").write_text("mine")
    (tmp_path / "deep" / "b.txt").unlink()
    again = export_run(finished_run, "text", tmp_path)
    assert (again.written, again.skipped, len(again.failed)) == (1, 1, 1)
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert "stands on the page" in (tmp_path / "deep" / "b.txt").read_text()
    over = export_run(finished_run, "text", tmp_path, overwrite=True)
    assert (over.written, over.skipped) == (2, 0)
    assert (tmp_path / "a.txt").read_text() != "mine"


def test_html_has_no_errors_and_needs_no_other_file(finished_run: Path, tmp_path: Path) -> None:
    export_run(finished_run, "html", tmp_path)
    for name in ("a.html", "deep/b.html"):
        parser = etree.HTMLParser(encoding="utf-8")
        page = etree.fromstring((tmp_path / name).read_bytes(), parser)
        assert [str(error) for error in parser.error_log] == []
        assert page.xpath("//title/text()") == [name.removesuffix(".html")]
        assert page.xpath("//h1 | //h2 | //p[text()]")
        assert all(source.startswith("data:") for source in page.xpath("//@src"))
        assert not page.xpath("//script | //link")


def test_figures_stay_with_their_documents_when_others_are_skipped(
    finished_run: Path, tmp_path: Path
) -> None:
    export_run(finished_run, "html", tmp_path)
    whole = {name: (tmp_path / name).read_bytes() for name in ("a.html", "deep/b.html")}
    assert any(b"data:image/jpeg;base64" in html for html in whole.values())
    (tmp_path / "deep" / "b.html").unlink()
    export_run(finished_run, "html", tmp_path)
    assert (tmp_path / "deep" / "b.html").read_bytes() == whole["deep/b.html"]


def test_what_is_no_run_or_no_format_is_an_error(finished_run: Path, tmp_path: Path) -> None:
    with pytest.raises(NoRunError):
        export_run(tmp_path / "nothing", "alto")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(NoRunError):
        export_run(tmp_path, "alto")
    with pytest.raises(ExportError, match="'odt' is none of the formats text, html"):
        export_run(finished_run, "odt", tmp_path)


def test_a_run_that_is_not_assembled_has_no_text(finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "data" / "documents")
    with pytest.raises(ExportError, match="llm-ocr assemble"):
        export_run(tmp_path / "run", "text")
    assert export_run(tmp_path / "run", "hocr").written == 2
    assert (tmp_path / "run" / "exports" / "deep" / "b.hocr").is_file()
