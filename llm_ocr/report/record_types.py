"""A JSON schema as Arrow types, and a record's values as these types.

What has no type of its own (unions, free objects, recursion) is a string: text as it is,
everything else as JSON.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from llm_ocr.parsing.record import FieldError

Json = Mapping[str, Any]

# Amounts as they are written: 29 digits before the point, and 9 behind it.
DECIMAL = pa.decimal128(38, 9)
_DIGITS = Context(prec=DECIMAL.precision)
_PLAIN = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_NUMBERS = ("7", "12.5", "-12.5")
_NO_NUMBERS = ("", "x", "1.2.3", "12.5 EUR", "2024-01-31")


def arrow_type(json_schema: Json) -> pa.DataType:
    """The type of what a JSON schema describes; an object's is a struct."""
    return _type(json_schema, json_schema, frozenset())


def _type(schema: Json, root: Json, within: frozenset[str]) -> pa.DataType:
    """`within` are the definitions that this one is a part of: one that has itself in it ends."""
    if "$ref" in schema:
        reference = str(schema["$ref"])
        if reference in within:
            return pa.string()
        return _type(_resolved(reference, root), root, within | {reference})
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        return _of_choices([one for one in choices if one.get("type") != "null"], root, within)
    named = schema.get("type")
    kinds = [
        kind for kind in ([named] if isinstance(named, str) else named or ()) if kind != "null"
    ]
    if len(kinds) > 1:
        return _of_choices([{**schema, "type": kind} for kind in kinds], root, within)
    if not kinds:
        return _of_values(schema)
    return _of_kind(kinds[0], schema, root, within)


def _of_kind(kind: str, schema: Json, root: Json, within: frozenset[str]) -> pa.DataType:
    if kind == "object":
        inside = [
            pa.field(name, _type(one, root, within))
            for name, one in (schema.get("properties") or {}).items()
        ]
        # Parquet has no struct without fields.
        return pa.struct(inside) if inside else pa.string()
    if kind == "array":
        items = schema.get("items")
        return pa.list_(_type(items, root, within)) if isinstance(items, dict) else pa.string()
    if kind == "string" and schema.get("format") == "date":
        return pa.date32()
    if kind == "string" and _takes_only_numbers(schema):
        return DECIMAL
    return _PLAIN.get(kind, pa.string())


def _resolved(reference: str, root: Json) -> Json:
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found[step.replace("~1", "/").replace("~0", "~")]
    resolved: Json = found
    return resolved


def _of_choices(choices: Sequence[Json], root: Json, within: frozenset[str]) -> pa.DataType:
    kinds = {_type(one, root, within) for one in choices}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    # How pydantic writes a decimal number: a number, or a text, with or without its pattern.
    return (
        DECIMAL if kinds in ({pa.float64(), DECIMAL}, {pa.float64(), pa.string()}) else pa.string()
    )


def _of_values(schema: Json) -> pa.DataType:
    """The type of an enum, or of a constant, that says nothing of it."""
    values = schema.get("enum") or [schema.get("const")]
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _takes_only_numbers(schema: Json) -> bool:
    if schema.get("format") == "decimal":
        return True
    try:
        pattern = re.compile(schema["pattern"])
    except (KeyError, re.error):
        return False
    return all(map(pattern.search, _NUMBERS)) and not any(map(pattern.search, _NO_NUMBERS))


def fitted(value: object, kind: pa.DataType, path: str, misfits: list[FieldError]) -> object:
    """A JSON value as Arrow takes it for a type.

    What doesn't fit becomes None and is added to `misfits`: JSON has more values than types have.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        known = {field.name for field in kind}
        for name in value.keys() - known:
            misfits.append(_misfit(f"{path}.{name}", value[name], "the schema has no such field"))
        return {
            field.name: fitted(value.get(field.name), field.type, f"{path}.{field.name}", misfits)
            for field in kind
        }
    if pa.types.is_list(kind) and isinstance(value, list):
        return [fitted(one, kind.value_type, f"{path}.{k}", misfits) for k, one in enumerate(value)]
    try:
        return _READ[str(kind)](value)
    except (KeyError, ValueError, TypeError, OverflowError, InvalidOperation):
        misfits.append(_misfit(path, value, f"doesn't fit into a column of type {kind}"))
        return None


def _misfit(path: str, value: object, reason: str) -> FieldError:
    return FieldError(path.removeprefix("."), as_json(value), reason)


def as_json(value: object) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))


def encodable(text: str) -> str:
    """Text without halves of characters, which JSON can escape and no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _text(value: object) -> str:
    return encodable(value) if isinstance(value, str) else as_json(value)


def _integer(value: object) -> int:
    number = int(value) if isinstance(value, str) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def _number(value: object) -> float:
    number = float(_numeric(value))
    if not math.isfinite(number):
        raise ValueError
    return number


def _decimal(value: object) -> Decimal:
    # As it is written: 0.1 is a tenth.
    number = Decimal(str(_numeric(value)))
    if (fit := _DIGITS.quantize(number, Decimal(1).scaleb(-DECIMAL.scale))) != number:
        raise ValueError
    return fit


def _numeric(value: object) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _date(value: object) -> date:
    if not isinstance(value, str):
        raise TypeError
    return date.fromisoformat(value)


_READ: Mapping[str, Callable[[object], object]] = {
    str(pa.string()): _text,
    str(pa.int64()): _integer,
    str(pa.float64()): _number,
    str(DECIMAL): _decimal,
    str(pa.bool_()): _truth,
    str(pa.date32()): _date,
}
