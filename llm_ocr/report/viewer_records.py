"""A record as the viewer shows it: a line a value, with its place and what is wrong with it."""

import json
from collections.abc import Sequence

from llm_ocr.parsing.leaves import leaves
from llm_ocr.report.record_types import as_json, encodable
from llm_ocr.tables.schema import Row

_KEYS = ("record_id", "schema", "status", "error_code", "error")
_PLACE = ("page_id", "page_number", "quote", "confidence", "matched")


def shown_record(row: Row) -> dict[str, object]:
    """Values in the order of the schema, then those of errors at places where no value is.

    A value's box is in pixels of its page's image; `unverified` is one that was looked for and
    isn't on the page.
    """
    fields = None if row["fields"] is None else json.loads(row["fields"], parse_constant=str)
    values = dict(leaves(fields, empty=True)) if fields is not None else {}
    errors: dict[str, list[Row]] = {}
    for error in row["errors"] or ():
        errors.setdefault(error["path"], []).append(error)
    evidence = {one["path"]: one for one in row["evidence"] or ()}
    paths = dict.fromkeys([*values, *errors])
    shown = {key: row.get(key) for key in _KEYS}
    shown["fields"] = [
        _field(path, values.get(path), evidence.get(path), errors.get(path, ()))
        for path in paths
        if path
    ]
    shown["errors"] = _errors(errors.get("", ()))
    shown["raw"] = row["raw_answer"] if fields is None else None
    return shown


def _field(
    path: str, value: object, evidence: Row | None, errors: Sequence[Row]
) -> dict[str, object]:
    if value is not None and not isinstance(value, str):
        value = as_json(value)
    field: dict[str, object] = {"path": path, "value": value and encodable(value)}
    if errors:
        field["errors"] = _errors(errors)
    if evidence is not None:
        field |= {name: evidence[name] for name in _PLACE if evidence[name] is not None}
        box = [evidence[corner] for corner in ("x1", "y1", "x2", "y2")]
        field["box"] = None if None in box else box
        field["unverified"] = evidence["matched"] is None
    return field


def _errors(errors: Sequence[Row]) -> list[dict[str, object]]:
    return [{"value": one["value"], "reason": one["reason"]} for one in errors]
