"""The data of a figure as a table, in CSV and HTML."""

import csv
import html
import io
from collections.abc import Sequence

from llm_ocr.parsing.figure_data import Cell, FigureData, Series

Rows = Sequence[Sequence[Cell]]


def as_table(data: FigureData) -> tuple[Sequence[str], Rows]:
    """Columns and rows. Of a chart, a row for each x and a column for each series; where a series
    has an x twice, a row for each point."""
    if data.series:
        return _of_chart(data)
    columns = ["" if one is None else one for one in data.columns]
    widest = max((len(row) for row in data.rows), default=0)
    columns += [""] * (widest - len(columns))
    return columns, [[*row, *[None] * (len(columns) - len(row))] for row in data.rows]


def _of_chart(data: FigureData) -> tuple[Sequence[str], Rows]:
    x = data.x_label or "x"
    if any(_repeats(one) for one in data.series):
        points = [(one.name, *point) for one in data.series for point in one.points]
        return ["series", x, data.y_label or "y"], points
    places = list(dict.fromkeys(x for one in data.series for x, _ in one.points))
    values = [dict(one.points) for one in data.series]
    rows = [[place, *(one.get(place) for one in values)] for place in places]
    return [x, *_names(data)], rows


def _repeats(series: Series) -> bool:
    return len({x for x, _ in series.points}) < len(series.points)


def _names(data: FigureData) -> list[str]:
    """What the columns of the series are called: a single one by its axis."""
    if len(data.series) == 1:
        return [data.series[0].name or data.y_label or "y"]
    return [one.name or f"series {k}" for k, one in enumerate(data.series, 1)]


def as_csv(data: FigureData) -> str:
    """With a head, commas, and lines that end as RFC 4180 has them."""
    columns, rows = as_table(data)
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(columns)
    writer.writerows(rows)
    return sink.getvalue()


def as_html(data: FigureData) -> str:
    """One line, as tables are in a document's Markdown."""
    columns, rows = as_table(data)
    lines = [_line(columns, "th"), *(_line(row, "td") for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _line(cells: Sequence[Cell], tag: str) -> str:
    inner = (f"<{tag}>{_said(cell)}</{tag}>" for cell in cells)
    return f"<tr>{''.join(inner)}</tr>"


def _said(cell: Cell) -> str:
    text = "" if cell is None else str(cell)
    return html.escape(" ".join(text.split()), quote=False)
