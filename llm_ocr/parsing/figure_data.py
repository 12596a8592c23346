"""The data of a chart or table figure: read from a model's answer, written as JSON, CSV and HTML.

    {"kind": "chart", "title": "Rain", "x_label": "Month", "y_label": "mm",
     "series": [{"name": null, "points": [{"x": "May", "y": 71}]}], "columns": [], "rows": []}

Values keep the type they have in the answer, number or text, so that nothing is lost.
"""

import csv
import io
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.parsing import json_answers
from llm_ocr.text.table_markup import first_table, html_cell, html_table

CellValue = str | float | int | None
CHART, TABLE, NONE = "chart", "table", "none"
# Of a value that a note shows.
_MAX_SHOWN_CHARACTERS = 200

_TEXT: Mapping[str, object] = {"type": ["string", "null"]}
_VALUE: Mapping[str, object] = {"type": ["string", "number", "null"]}


def _object(properties: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: object) -> Mapping[str, object]:
    return {"type": "array", "items": items}


_POINT = _object({"x": _VALUE, "y": _VALUE})
SCHEMA_NAME = "figure_data"
SCHEMA: Mapping[str, object] = _object(
    {
        "kind": {"type": "string", "enum": [CHART, TABLE, NONE]},
        "title": _TEXT,
        "x_label": _TEXT,
        "y_label": _TEXT,
        "series": _list(_object({"name": _TEXT, "points": _list(_POINT)})),
        "columns": _list(_TEXT),
        "rows": _list(_list(_VALUE)),
    }
)
KEYS = ("kind", "title", "x_label", "y_label", "series", "columns", "rows")


class NoDataError(ValueError):
    """An answer is neither JSON of the schema nor a table."""


@dataclass(frozen=True)
class Series:
    """One line, or one color of bars, of a chart."""

    name: str | None
    points: tuple[tuple[CellValue, CellValue], ...]


@dataclass(frozen=True)
class FigureData:
    """The data of a chart (series), of a table (columns and rows), or of neither (empty)."""

    kind: str
    title: str | None = None
    x_label: str | None = None
    y_label: str | None = None
    series: tuple[Series, ...] = ()
    columns: tuple[str | None, ...] = ()
    rows: tuple[tuple[CellValue, ...], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(self.rows) and not any(series.points for series in self.series)

    def as_json(self) -> str:
        """JSON by `SCHEMA`."""
        series = [
            {"name": series.name, "points": [{"x": x, "y": y} for x, y in series.points]}
            for series in self.series
        ]
        labels = {"title": self.title, "x_label": self.x_label, "y_label": self.y_label}
        grid = {"columns": list(self.columns), "rows": [list(row) for row in self.rows]}
        body = {"kind": self.kind, **labels, "series": series, **grid}
        return json.dumps(body, ensure_ascii=False)


def parse_figure_answer(answer: str) -> tuple[FigureData, tuple[str, ...]]:
    """The data in a model's answer, and notes on what was repaired or dropped.

    The answer is JSON of the schema, or else its first table in HTML or Markdown is read. Raises
    NoDataError.
    """
    read = json_answers.extract_json(answer, KEYS)
    if read.value is not None and read.value.get("kind") in (CHART, TABLE, NONE):
        reader = _FigureDataReader()
        return reader.data(read.value), (*read.notes, *reader.notes)
    rows = first_table(answer)
    if rows is None:
        raise NoDataError("the answer is neither JSON of the schema nor a table")
    return FigureData(TABLE, columns=tuple(rows[0]), rows=tuple(map(tuple, rows[1:]))), ()


def load_figure_data(text: str) -> FigureData:
    """The data that `as_json` wrote."""
    return _FigureDataReader().data(json.loads(text))


@dataclass
class _FigureDataReader:
    """Reads an object that may deviate from `SCHEMA`; `notes` list what was dropped."""

    notes: list[str] = field(default_factory=list)

    def data(self, raw: Mapping[str, Any]) -> FigureData:
        self._drop_unknown("", raw, KEYS)
        columns = tuple(map(_optional_text, self._list("columns", raw.get("columns"))))
        rows = self._list("rows", raw.get("rows"))
        if not columns:
            columns = tuple(
                dict.fromkeys(key for row in rows if isinstance(row, dict) for key in row)
            )
        return FigureData(
            kind=str(raw["kind"]),
            title=_optional_text(raw.get("title")),
            x_label=_optional_text(raw.get("x_label")),
            y_label=_optional_text(raw.get("y_label")),
            series=tuple(self._read_series(raw.get("series"))),
            columns=columns,
            rows=tuple(self._read_row(f"row {k}", row, columns) for k, row in enumerate(rows, 1)),
        )

    def _read_row(
        self, where: str, raw: object, columns: Sequence[str | None]
    ) -> tuple[CellValue, ...]:
        """The cells of a row; of an object, the values under the columns' names."""
        if isinstance(raw, dict):
            self._drop_unknown(where, raw, columns)
            return tuple(_cell(raw.get(column)) for column in columns)
        if isinstance(raw, list):
            return tuple(map(_cell, raw))
        return () if raw is None else (_cell(raw),)

    def _read_series(self, raw: object) -> Iterator[Series]:
        for number, item in enumerate(self._list("series", raw), 1):
            where = f"series {number}"
            if isinstance(item, dict):
                self._drop_unknown(where, item, ("name", "points"))
                points = self._list(f"{where}, points", item.get("points"))
                yield Series(
                    _optional_text(item.get("name")), tuple(self._read_points(where, points))
                )
            else:
                self._note_dropped(where, item)

    def _read_points(self, where: str, raw: Sequence[Any]) -> Iterator[tuple[CellValue, CellValue]]:
        for number, item in enumerate(raw, 1):
            here = f"{where}, point {number}"
            if isinstance(item, list) and len(item) == 2:
                yield _cell(item[0]), _cell(item[1])
            elif isinstance(item, dict) and item.keys() & {"x", "y"}:
                self._drop_unknown(here, item, ("x", "y"))
                yield _cell(item.get("x")), _cell(item.get("y"))
            else:
                self._note_dropped(here, item)

    def _list(self, where: str, raw: object) -> Sequence[Any]:
        if isinstance(raw, list):
            return raw
        if raw is not None:
            self._note_dropped(where, raw)
        return ()

    def _drop_unknown(
        self, where: str, raw: Mapping[str, Any], known: Collection[str | None]
    ) -> None:
        for key in [key for key in raw if key not in known]:
            self._note_dropped(f"{where}, {key!r}" if where else repr(key), raw[key])

    def _note_dropped(self, where: str, raw: object) -> None:
        shown = json.dumps(raw, ensure_ascii=False)
        if len(shown) > _MAX_SHOWN_CHARACTERS:
            shown = shown[:_MAX_SHOWN_CHARACTERS] + "…"
        self.notes.append(f"dropped {where}: {shown}")


def _optional_text(raw: object) -> str | None:
    return None if raw is None else str(raw)


def _cell(raw: object) -> CellValue:
    """A scalar unchanged, null for NaN and infinity, and any other value as JSON text."""
    if isinstance(raw, float) and not math.isfinite(raw):
        return None
    if raw is None or (isinstance(raw, str | int | float) and not isinstance(raw, bool)):
        return raw
    return json.dumps(raw, ensure_ascii=False)


TableValues = Sequence[Sequence[CellValue]]


def figure_table(data: FigureData) -> tuple[Sequence[str], TableValues]:
    """Columns and rows. A chart has a row for each x and a column for each series; if a series has
    an x twice, a row for each point."""
    if data.series:
        return _chart_table(data)
    columns = ["" if column is None else column for column in data.columns]
    widest = max((len(row) for row in data.rows), default=0)
    columns += [""] * (widest - len(columns))
    return columns, [[*row, *[None] * (len(columns) - len(row))] for row in data.rows]


def _chart_table(data: FigureData) -> tuple[Sequence[str], TableValues]:
    x = data.x_label or "x"
    if any(_has_repeated_x(series) for series in data.series):
        points = [(series.name, *point) for series in data.series for point in series.points]
        return ["series", x, data.y_label or "y"], points
    places = list(dict.fromkeys(x for series in data.series for x, _ in series.points))
    values = [dict(series.points) for series in data.series]
    rows = [[place, *(points.get(place) for points in values)] for place in places]
    return [x, *_series_names(data)], rows


def _has_repeated_x(series: Series) -> bool:
    return len({x for x, _ in series.points}) < len(series.points)


def _series_names(data: FigureData) -> list[str]:
    """The column names of the series; a single unnamed series is named after its axis."""
    if len(data.series) == 1:
        return [data.series[0].name or data.y_label or "y"]
    return [series.name or f"series {k}" for k, series in enumerate(data.series, 1)]


def figure_csv(data: FigureData) -> str:
    """The table as CSV by RFC 4180, with a header row."""
    columns, rows = figure_table(data)
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(columns)
    writer.writerows(rows)
    return sink.getvalue()


def figure_html(data: FigureData) -> str:
    """The table as HTML in one line, as a document's Markdown has it."""
    columns, rows = figure_table(data)
    head = [_html_cell("th", name) for name in columns]
    return html_table([head, *([_html_cell("td", value) for value in row] for row in rows)])


def _html_cell(tag: str, value: CellValue) -> str:
    return html_cell(tag, "" if value is None else " ".join(str(value).split()))
