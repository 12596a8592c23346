"""What a chart or a table figure holds, as JSON of one schema, and as a table.

    {"kind": "chart", "title": "Rain", "x_label": "Month", "y_label": "mm",
     "series": [{"name": null, "points": [{"x": "May", "y": 71}]}], "columns": [], "rows": []}

Values stay as they were given, numbers or text: nothing is lost by reading them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.parsing import answers
from llm_ocr.parsing.tables_in_text import first_table

Cell = str | float | int | None
CHART, TABLE, NONE = "chart", "table", "none"

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
    """One line, or one colour of bars, of a chart."""

    name: str | None
    points: tuple[tuple[Cell, Cell], ...]


@dataclass(frozen=True)
class FigureData:
    """A chart has series, a table columns and rows, and what is neither has nothing."""

    kind: str
    title: str | None = None
    x_label: str | None = None
    y_label: str | None = None
    series: tuple[Series, ...] = ()
    columns: tuple[str | None, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.rows and not any(one.points for one in self.series)

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


def read_answer(answer: str) -> tuple[FigureData, tuple[str, ...]]:
    """The data in a model's answer: JSON of the schema, or else its first table in HTML or with
    bars between the cells; and what was mended in it. Raises NoDataError."""
    read = answers.read_answer(answer, KEYS)
    if read.value is not None and read.value.get("kind") in (CHART, TABLE, NONE):
        return _from_object(read.value), read.notes
    rows = first_table(answer)
    if rows is None:
        raise NoDataError("the answer is neither JSON of the schema nor a table")
    return FigureData(TABLE, columns=tuple(rows[0]), rows=tuple(map(tuple, rows[1:]))), ()


def from_json(text: str) -> FigureData:
    """What `as_json` wrote."""
    return _from_object(json.loads(text))


def _from_object(raw: Mapping[str, Any]) -> FigureData:
    series = [
        Series(_text(one.get("name")), tuple(_points(one.get("points"))))
        for one in _sequence(raw.get("series"))
        if isinstance(one, dict)
    ]
    return FigureData(
        kind=str(raw["kind"]),
        title=_text(raw.get("title")),
        x_label=_text(raw.get("x_label")),
        y_label=_text(raw.get("y_label")),
        series=tuple(series),
        columns=tuple(_text(one) for one in _sequence(raw.get("columns"))),
        rows=tuple(tuple(map(_cell, _sequence(row))) for row in _sequence(raw.get("rows"))),
    )


def _points(raw: object) -> list[tuple[Cell, Cell]]:
    points: list[tuple[Cell, Cell]] = []
    for one in _sequence(raw):
        if isinstance(one, dict):
            points.append((_cell(one.get("x")), _cell(one.get("y"))))
        elif isinstance(one, list) and len(one) == 2:
            points.append((_cell(one[0]), _cell(one[1])))
    return points


def _sequence(raw: object) -> Sequence[Any]:
    return raw if isinstance(raw, list) else []


def _text(raw: object) -> str | None:
    return None if raw is None else str(raw)


def _cell(raw: object) -> Cell:
    """A value as it is; what is no value, as its JSON."""
    if isinstance(raw, float) and not math.isfinite(raw):
        return None
    if raw is None or (isinstance(raw, str | int | float) and not isinstance(raw, bool)):
        return raw
    return json.dumps(raw, ensure_ascii=False)
