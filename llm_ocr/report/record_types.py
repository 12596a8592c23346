"""Map a JSON schema to Arrow types, and convert a record's values to them.

Schemas without an Arrow type (unions, free objects, recursion, `true`) become strings: text as it
is, everything else as JSON.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from llm_ocr.parsing.references import alternatives, followed_references, is_null, resolve
from llm_ocr.records import FieldError

Json = Mapping[str, Any]

# Amounts as written: 29 digits before the decimal point, and 9 after it.
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
    """The Arrow type of a JSON schema; a struct for an object. Never raises: what the schema
    doesn't define is a string."""
    try:
        return _type(json_schema, json_schema, frozenset())
    except RecursionError:
        return pa.string()


def _type(node: object, root: Json, within: frozenset[str]) -> pa.DataType:
    """`within` has the definitions around this one, to stop at recursion."""
    if not isinstance(node, Mapping):
        return pa.string()  # `true`, `false`: anything, nothing
    try:
        refs = followed_references(root, node)
        if refs & within:
            return pa.string()
        node = resolve(root, node)
    except (LookupError, ValueError, TypeError):  # it refers to nothing, or to no schema
        return pa.string()
    within |= refs
    kind = _kind(node)
    if kind:
        return _type_of_kind(kind, node, root, within)
    choices = alternatives(node) or _sequence(node.get("allOf"))
    if choices:
        given = [choice for choice in choices if not is_null(choice)]
        return _type_of_choices(given, root, within)
    return _type_of_values(node)


def _kind(node: Json) -> str:
    """The type that a node declares; empty if only its alternatives do."""
    declared = node.get("type")
    kinds = [
        name
        for name in ([declared] if isinstance(declared, str) else _sequence(declared))
        if name != "null"
    ]
    kind = kinds[0] if len(kinds) == 1 else None
    if isinstance(kind, str) and kind in _PLAIN:
        return kind
    if len(kinds) <= 1 and isinstance(node.get("properties"), Mapping) and kind in (None, "object"):
        return "object"
    return "array" if len(kinds) <= 1 and "items" in node and kind in (None, "array") else ""


def _type_of_kind(kind: str, node: Json, root: Json, within: frozenset[str]) -> pa.DataType:
    if kind == "object":
        names = node["properties"]
        if not all(map(_can_be_column, names)):
            return pa.string()
        inside = [pa.field(name, _type(one, root, within)) for name, one in names.items()]
        # Parquet has no struct without fields.
        return pa.struct(inside) if inside else pa.string()
    if kind == "array":
        items = node["items"]
        of_one = isinstance(items, Mapping) and "prefixItems" not in node
        return pa.list_(_type(items, root, within)) if of_one else pa.string()
    if kind == "string" and node.get("format") == "date":
        return pa.date32()
    if kind == "string" and _takes_only_numbers(node):
        return DECIMAL
    return _PLAIN[kind]


def _can_be_column(name: object) -> bool:
    return isinstance(name, str) and encodable(name) == name


def _type_of_choices(choices: Sequence[object], root: Json, within: frozenset[str]) -> pa.DataType:
    typed = [(choice, _type(choice, root, within)) for choice in choices]
    kinds = {kind for _, kind in typed}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    # Pydantic's schema of a decimal: a number or a string, with or without a pattern.
    others = [one for one, kind in typed if kind not in (pa.float64(), DECIMAL)]
    return DECIMAL if pa.float64() in kinds and all(map(_is_text, others)) else pa.string()


def _is_text(node: object) -> bool:
    return (
        isinstance(node, Mapping)
        and node.get("type") == "string"
        and not node.keys() & {"format", "enum", "const"}
    )


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _type_of_values(schema: Json) -> pa.DataType:
    """The type of the values of an enum or constant without a declared type."""
    values = _sequence(schema.get("enum")) or [schema.get("const")]
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
    except (KeyError, TypeError, re.error):
        return False
    return all(map(pattern.search, _NUMBERS)) and not any(map(pattern.search, _NO_NUMBERS))


def convert_value(value: object, kind: pa.DataType, path: str, misfits: list[FieldError]) -> object:
    """Convert a JSON value for an Arrow type.

    A value that doesn't fit becomes None and is added to `misfits`.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        known = {field.name for field in kind}
        for name in value.keys() - known:
            misfits.append(_misfit(f"{path}.{name}", value[name], "the schema has no such field"))
        return {
            field.name: convert_value(
                value.get(field.name), field.type, f"{path}.{field.name}", misfits
            )
            for field in kind
        }
    if pa.types.is_list(kind) and isinstance(value, list):
        return [
            convert_value(one, kind.value_type, f"{path}.{k}", misfits)
            for k, one in enumerate(value)
        ]
    try:
        return _CONVERTERS[str(kind)](value)
    except (KeyError, ValueError, TypeError, OverflowError, InvalidOperation):
        misfits.append(_misfit(path, value, f"doesn't fit into a column of type {kind}"))
        return None


def _misfit(path: str, value: object, reason: str) -> FieldError:
    return FieldError(encodable(path.removeprefix(".")), as_json(value), reason)


def as_json(value: object) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))


def encodable(text: str) -> str:
    """Text without unpaired surrogates, which JSON can escape but UTF-8 can't encode."""
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
    # As written: 0.1 is exactly a tenth.
    number = Decimal(str(_numeric(value)))
    if (fit := _DIGITS.quantize(number, Decimal(1).scaleb(-DECIMAL.scale))) != number:
        raise ValueError
    return fit


def _numeric(value: object) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _date(value: object) -> date:
    if not isinstance(value, str):
        raise TypeError
    return date.fromisoformat(value)


_CONVERTERS: Mapping[str, Callable[[object], object]] = {
    str(pa.string()): _text,
    str(pa.int64()): _integer,
    str(pa.float64()): _number,
    str(DECIMAL): _decimal,
    str(pa.bool_()): _boolean,
    str(pa.date32()): _date,
}
