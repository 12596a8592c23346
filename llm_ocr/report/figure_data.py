"""The data that was read in figures, as CSV files beside their images."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import figure_table, load_figure_data
from llm_ocr.report.record_csv import cell
from llm_ocr.tables.schema import Row

RowsOf = Callable[[str], Iterable[Row]]
DATA_COLUMNS = ["figure_id", "doc_id", "task", "data"]


def with_data(figures_of: RowsOf, descriptions_of: RowsOf) -> RowsOf:
    """As `figures_of` a document, with a file `NAME.csv` behind them for each that has data."""

    def of(doc_id: str) -> Iterator[Row]:
        names: dict[str, str] = {}
        for figure in figures_of(doc_id):
            names[figure["figure_id"]] = figure["name"]
            yield figure
        for row in descriptions_of(doc_id):
            if row["task"] == Task.DATA and row["data"] and row["figure_id"] in names:
                name = PurePath(names[row["figure_id"]]).with_suffix(".csv").name
                yield {"name": name, "image": {"bytes": _sheet(row["data"])}}

    return of


def _sheet(data: str) -> bytes:
    """Data as a file for spreadsheets: no text in it is a formula."""
    columns, rows = figure_table(load_figure_data(data))
    sink = io.StringIO()
    csv.writer(sink).writerows([cell(value) for value in row] for row in (columns, *rows))
    return sink.getvalue().encode()
