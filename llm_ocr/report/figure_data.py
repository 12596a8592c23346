"""The data that was read in figures, as CSV files beside their images."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from llm_ocr.models.profile import Task
from llm_ocr.tables.schema import Row

RowsOf = Callable[[str], Iterable[Row]]
DATA_COLUMNS = ["figure_id", "doc_id", "task", "text"]


def with_data(figures_of: RowsOf, descriptions_of: RowsOf) -> RowsOf:
    """As `figures_of` a document, with a file `NAME.csv` behind them for each that has data."""

    def of(doc_id: str) -> Iterator[Row]:
        names: dict[str, str] = {}
        for figure in figures_of(doc_id):
            names[figure["figure_id"]] = figure["name"]
            yield figure
        for row in descriptions_of(doc_id):
            if row["task"] == Task.DATA and row["text"] and row["figure_id"] in names:
                name = PurePath(names[row["figure_id"]]).with_suffix(".csv").name
                yield {"name": name, "image": {"bytes": row["text"].encode()}}

    return of
