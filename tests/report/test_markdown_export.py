import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_ocr.parsing.figure_data import FigureData, Series
from llm_ocr.report.markdown_export import export_into, export_markdown, with_data_files
from llm_ocr.tables.schema import Row

FIGURE = {"name": "a-p1-1.jpg", "image": {"bytes": b"jpeg", "path": None}}


def document(name: str, markdown: str | None = "# A", status: str = "ok") -> Row:
    return {"doc_id": f"id of {name}", "name": name, "markdown": markdown, "status": status}


def no_figures(_doc_id: str) -> Sequence[Row]:
    return []


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_documents_and_their_figures_become_files(tmp_path: Path) -> None:
    figures = {"id of reports/a": [FIGURE]}
    documents = [document("reports/a", "![](figures/a-p1-1.jpg)"), document("b.v2", "É")]

    count = export_markdown(
        documents, lambda doc_id: figures.get(doc_id, []), export_into(tmp_path / "out")
    )

    assert count == 2
    assert files(tmp_path / "out") == {"reports/a.md", "reports/figures/a-p1-1.jpg", "b.v2.md"}
    assert (tmp_path / "out/reports/a.md").read_text("utf-8") == "![](figures/a-p1-1.jpg)"
    assert (tmp_path / "out/reports/figures/a-p1-1.jpg").read_bytes() == b"jpeg"
    assert (tmp_path / "out/b.v2.md").read_text("utf-8") == "É"


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "../"])
def test_a_document_that_would_escape_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        export_markdown([document(name)], no_figures, export_into(tmp_path / "out"))
    assert files(tmp_path) == set()


@pytest.mark.parametrize("name", ["../../a.jpg", "/tmp/a.jpg", "..", ""])
def test_a_figure_that_would_escape_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        export_markdown(
            [document("a")], lambda _: [{**FIGURE, "name": name}], export_into(tmp_path / "out")
        )
    assert files(tmp_path) == set()


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    documents = [document("a"), document("b")]
    export_markdown(documents, no_figures, export_into(tmp_path))
    before = {name: (tmp_path / name).stat().st_ino for name in ("a.md", "b.md")}

    export_markdown([document("a"), document("b", "# B")], no_figures, export_into(tmp_path))

    # A file that was written anew has replaced the old one, and is another inode.
    assert (tmp_path / "a.md").stat().st_ino == before["a.md"]
    assert (tmp_path / "b.md").stat().st_ino != before["b.md"]
    assert (tmp_path / "b.md").read_text("utf-8") == "# B"


def test_a_failed_document_without_text_has_no_file(tmp_path: Path) -> None:
    documents = [document("a", None, "failed"), document("b", "half", "failed"), document("c", "")]
    assert export_markdown(documents, no_figures, export_into(tmp_path)) == 2
    assert files(tmp_path) == {"b.md", "c.md"}


def sheet_of(data: FigureData) -> list[list[str]]:
    figure = {"figure_id": "d/1/1", "name": "d-p1-1.jpg", "image": {"bytes": b"JPEG"}}
    said = {"figure_id": "d/1/1", "doc_id": "d", "task": "data", "data": data.as_json()}
    first, sheet = with_data_files(lambda _: [figure], lambda _: [said])("d")
    assert (first, sheet["name"]) == (figure, "d-p1-1.csv")
    return list(csv.reader(io.StringIO(sheet["image"]["bytes"].decode(), newline="")))


def test_no_text_of_a_figure_is_a_formula() -> None:
    table = FigureData("table", columns=("=cmd|x", None), rows=(("=1+1", "@x"), ("-12.5", "a=b")))
    assert sheet_of(table) == [["'=cmd|x", ""], ["'=1+1", "'@x"], ["-12.5", "a=b"]]
    series = Series("+a", (("=x", -1e-07), ("May", None)))
    chart = FigureData("chart", x_label="-b", series=(series,))
    assert sheet_of(chart) == [["'-b", "'+a"], ["'=x", "-1e-07"], ["May", ""]]
