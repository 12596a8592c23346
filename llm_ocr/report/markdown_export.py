"""Export documents as Markdown files, with their figures as images and figure data as CSV files."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath

from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import figure_table, load_figure_data
from llm_ocr.records import PageStatus
from llm_ocr.report.record_csv import format_cell
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.tables.schema import Row

RowsOf = Callable[[str], Iterable[Row]]
DATA_COLUMNS = ["figure_id", "doc_id", "task", "data"]
# Writes a file: its path relative to the export's folder, and its content.
Write = Callable[[PurePath, bytes], object]


def export_markdown(documents: Iterable[Row], figures_of: RowsOf, write: Write) -> int:
    """Write `NAME.md` for each document, with a folder `figures/` next to it; returns the number of
    documents.

    A document's `name` may have folders in it. `figures_of` returns the figures of a `doc_id`;
    `write` is `export_into(folder)`, or writes elsewhere. A failed document without text has no
    file.

    Raises ValueError for a name that leads out of the folder.
    """
    count = 0
    for document in documents:
        path = _safe_path(f"{document['name']}.md")
        for figure in figures_of(document["doc_id"]):
            write(path.parent / "figures" / _safe_path(figure["name"]), figure["image"]["bytes"])
        if document["status"] == PageStatus.FAILED and not document["markdown"]:
            continue
        # Last, so that a document that exists has all its figures.
        write(path, (document["markdown"] or "").encode())
        count += 1
    return count


def _safe_path(name: str) -> PurePath:
    path = PurePath(name)
    # An anchor is a leading slash, or a drive on Windows.
    if path.anchor or ".." in path.parts or not path.name:
        raise ValueError(
            f"{name!r} would be written outside of the output folder; names must be relative and "
            "without '..'. Rename the input."
        )
    return path


def export_into(folder: Path) -> Write:
    """Writes files that changed below `folder`; each appears only when it is complete."""
    return lambda path, content: _write(folder / path, content)


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    with atomic_write(path) as target:
        target.write(content)


def with_data_files(figures_of: RowsOf, descriptions_of: RowsOf) -> RowsOf:
    """`figures_of`, followed by a file `NAME.csv` for each figure that has data."""

    def files_of(doc_id: str) -> Iterator[Row]:
        names: dict[str, str] = {}
        for figure in figures_of(doc_id):
            names[figure["figure_id"]] = figure["name"]
            yield figure
        for row in descriptions_of(doc_id):
            if row["task"] == Task.DATA and row["data"] and row["figure_id"] in names:
                name = PurePath(names[row["figure_id"]]).with_suffix(".csv").name
                yield {"name": name, "image": {"bytes": _to_csv(row["data"])}}

    return files_of


def _to_csv(data: str) -> bytes:
    """Data as CSV in which no text is a formula."""
    columns, rows = figure_table(load_figure_data(data))
    sink = io.StringIO()
    csv.writer(sink).writerows([format_cell(value) for value in row] for row in (columns, *rows))
    return sink.getvalue().encode()
