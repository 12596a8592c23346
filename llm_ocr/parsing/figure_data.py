"""What a chart or a table figure holds, as JSON of one schema, and as a table.

    {"kind": "chart", "title": "Rain", "x_label": "Month", "y_label": "mm",
     "series": [{"name": null, "points": [{"x": "May", "y": 71}]}], "columns": [], "rows": []}

Values stay as they were given, numbers or text: nothing is lost by reading them.
"""

import csv
import html
import io
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.parsing import json_answers
from llm_ocr.text.table_markup import first_table

CellValue = str | float | int | None
CHART, TABLE, NONE = "chart", "table", "none"
# Of a value in a note.
_LONGEST = 200

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
    """An answer that is neither JSON of the schema nor a table."""


@dataclass(frozen=True)
class Series:
    """One line, or one color of bars, of a chart."""

    name: str | None
    points: tuple[tuple[CellValue, CellValue], ...]


@dataclass(frozen=True)
class FigureData:
    """A chart has series, a table columns and rows, and what is neither has nothing."""

    kind: str
    title: str | None = None
    x_label: str | None = None
    y_label: str | None = None
    series: tuple[Series, ...] = ()
    columns: tuple[str | None, ...] = ()
    rows: tuple[tuple[CellValue, ...], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(self.rows) and not any(one.points for one in self.series)

    def as_json(self) -> str:
        """As `SCHEMA` has it."""
        series = [
            {"name": one.name, "points": [{"x": x, "y": y} for x, y in one.points]}
            for one in self.series
        ]
        labels = {"title": self.title, "x_label": self.x_label, "y_label": self.y_label}
        grid = {"columns": list(self.columns), "rows": [list(row) for row in self.rows]}
        body = {"kind": self.kind, **labels, "series": series, **grid}
        return json.dumps(body, ensure_ascii=False)


def parse_figure_answer(answer: str) -> tuple[FigureData, tuple[str, ...]]:
    """The data in a model's answer: JSON of the schema, or else its first table in HTML or with
    bars between the cells; and what was mended in it or left out of it. Raises NoDataError."""
    read = json_answers.extract_json(answer, KEYS)
    if read.value is not None and read.value.get("kind") in (CHART, TABLE, NONE):
        reading = _Reading()
        return reading.data(read.value), (*read.notes, *reading.notes)
    rows = first_table(answer)
    if rows is None:
        raise NoDataError("the answer is neither JSON of the schema nor a table")
    return FigureData(TABLE, columns=tuple(rows[0]), rows=tuple(map(tuple, rows[1:]))), ()


def load_figure_data(text: str) -> FigureData:
    """What `as_json` wrote."""
    return _Reading().data(json.loads(text))


@dataclass
class _Reading:
    """Of an object that may have another form than `SCHEMA`; `notes` say what isn't in the data."""

    notes: list[str] = field(default_factory=list)

    def data(self, raw: Mapping[str, Any]) -> FigureData:
        self._others("the answer", raw, KEYS)
        columns = tuple(map(_text, self._list("columns", raw.get("columns"))))
        rows = self._list("rows", raw.get("rows"))
        if not columns:
            columns = tuple(
                dict.fromkeys(key for row in rows if isinstance(row, dict) for key in row)
            )
        return FigureData(
            kind=str(raw["kind"]),
            title=_text(raw.get("title")),
            x_label=_text(raw.get("x_label")),
            y_label=_text(raw.get("y_label")),
            series=tuple(self._all_series(raw.get("series"))),
            columns=columns,
            rows=tuple(self._row(f"row {k}", row, columns) for k, row in enumerate(rows, 1)),
        )

    def _row(self, where: str, raw: object, columns: Sequence[str | None]) -> tuple[CellValue, ...]:
        """Its cells; of an object those under the columns' names."""
        if isinstance(raw, dict):
            self._others(where, raw, columns)
            return tuple(_cell(raw.get(column)) for column in columns)
        if isinstance(raw, list):
            return tuple(map(_cell, raw))
        return () if raw is None else (_cell(raw),)

    def _all_series(self, raw: object) -> Iterator[Series]:
        for number, one in enumerate(self._list("series", raw), 1):
            where = f"series {number}"
            if isinstance(one, dict):
                self._others(where, one, ("name", "points"))
                points = self._list(f"{where}, points", one.get("points"))
                yield Series(_text(one.get("name")), tuple(self._points(where, points)))
            else:
                self._left_out(where, one)

    def _points(self, where: str, raw: Sequence[Any]) -> Iterator[tuple[CellValue, CellValue]]:
        for number, one in enumerate(raw, 1):
            here = f"{where}, point {number}"
            if isinstance(one, list) and len(one) == 2:
                yield _cell(one[0]), _cell(one[1])
            elif isinstance(one, dict) and one.keys() & {"x", "y"}:
                self._others(here, one, ("x", "y"))
                yield _cell(one.get("x")), _cell(one.get("y"))
            else:
                self._left_out(here, one)

    def _list(self, where: str, raw: object) -> Sequence[Any]:
        if isinstance(raw, list):
            return raw
        if raw is not None:
            self._left_out(where, raw)
        return ()

    def _others(self, where: str, raw: Mapping[str, Any], known: Collection[str | None]) -> None:
        for key in [key for key in raw if key not in known]:
            self._left_out(f"{where}, {key!r}", raw[key])

    def _left_out(self, where: str, raw: object) -> None:
        said = json.dumps(raw, ensure_ascii=False)
        said = said if len(said) <= _LONGEST else said[:_LONGEST] + "…"
        self.notes.append(f"{where} left out: {said}")


def _text(raw: object) -> str | None:
    return None if raw is None else str(raw)


def _cell(raw: object) -> CellValue:
    """A value as it is; what is no value, as its JSON."""
    if isinstance(raw, float) and not math.isfinite(raw):
        return None
    if raw is None or (isinstance(raw, str | int | float) and not isinstance(raw, bool)):
        return raw
    return json.dumps(raw, ensure_ascii=False)


TableValues = Sequence[Sequence[CellValue]]


def figure_table(data: FigureData) -> tuple[Sequence[str], TableValues]:
    """Columns and rows. Of a chart, a row for each x and a column for each series; where a series
    has an x twice, a row for each point."""
    if data.series:
        return _of_chart(data)
    columns = ["" if one is None else one for one in data.columns]
    widest = max((len(row) for row in data.rows), default=0)
    columns += [""] * (widest - len(columns))
    return columns, [[*row, *[None] * (len(columns) - len(row))] for row in data.rows]


def _of_chart(data: FigureData) -> tuple[Sequence[str], TableValues]:
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


def figure_csv(data: FigureData) -> str:
    """With a head, commas, and lines that end as RFC 4180 has them."""
    columns, rows = figure_table(data)
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(columns)
    writer.writerows(rows)
    return sink.getvalue()


def figure_html(data: FigureData) -> str:
    """One line, as tables are in a document's Markdown."""
    columns, rows = figure_table(data)
    lines = [_line(columns, "th"), *(_line(row, "td") for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _line(cells: Sequence[CellValue], tag: str) -> str:
    inner = (f"<{tag}>{_said(cell)}</{tag}>" for cell in cells)
    return f"<tr>{''.join(inner)}</tr>"


def _said(cell: CellValue) -> str:
    text = "" if cell is None else str(cell)
    return html.escape(" ".join(text.split()), quote=False)
