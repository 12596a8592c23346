"""Raw objects validated with JSON Schemas: as with models, nothing raises, nothing is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.parsing.loading import schema_from_json
from llm_ocr.parsing.schema import ValidatedRecord

BILL: dict[str, Any] = {
    "title": "Bill",
    "type": "object",
    "required": ["number", "total"],
    "properties": {
        "number": {"type": "string", "pattern": "^[A-Z]", "aliases": ["No", "Nummer"]},
        "total": {"type": ["number", "null"], "minimum": 0},
        "day": {"type": "string", "format": "date"},
        "kind": {"enum": ["bill", "credit note"], "default": "bill"},
        "seller": {"$ref": "#/$defs/Party"},
        "lines": {"type": "array", "default": [], "items": {"$ref": "#/$defs/Line"}},
        "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        "either": {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
    },
    "if": {"properties": {"total": {"minimum": 100}}, "required": ["total"]},
    "then": {"required": ["day"]},
    "$defs": {
        "Party": {"type": "object", "properties": {"name": {"type": "string"}}},
        "Line": {
            "allOf": [
                {"$ref": "#/$defs/Party"},
                {
                    "type": "object",
                    "required": ["amount"],
                    "properties": {
                        "amount": {"type": "number"},
                        "tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                    },
                },
            ]
        },
    },
}
SCHEMA = schema_from_json(BILL)
GOOD = {"number": "A1", "total": 5}


def errors_by_path(found: ValidatedRecord) -> dict[str, tuple[str | None, str]]:
    return {error.path: (error.value, error.reason) for error in found.errors}


def test_valid_records_are_unchanged() -> None:
    raw = {
        **GOOD,
        "day": "2026-03-01",
        "kind": "credit note",
        "seller": {"name": "N"},
        "lines": [{"name": "x", "amount": 1.5, "tags": ["a"]}],
        "rates": {"full": 19},
        "either": ["a"],
    }
    assert SCHEMA.validate(raw) == ValidatedRecord(raw)


def test_fields_come_by_alias_too() -> None:
    assert SCHEMA.validate({"Nummer": "A1", "total": 5}).fields["number"] == "A1"


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("number", "a", None),
        ("number", 5, None),
        ("total", -1, None),
        ("total", "12.50", None),
        ("day", "2026-02-30", None),
        ("kind", "letter", "bill"),
        ("seller", "N", None),
        ("lines", {}, []),
        ("rates", 5, None),
        ("either", "a", None),
    ],
)
def test_an_invalid_field_becomes_its_default_and_is_reported(
    name: str, value: object, instead: object
) -> None:
    found = SCHEMA.validate({**GOOD, name: value})
    assert found.fields[name] == instead
    assert list(errors_by_path(found)) == [name]
    assert json.loads(errors_by_path(found)[name][0] or "") == value


def test_one_bad_field_of_a_line_costs_that_field() -> None:
    lines = [
        {"name": "a", "amount": "x", "tags": ["a", "a"]},
        7,
        {"amount": 1, "tags": ["a", 1], "odd": 2},
        {"name": "b"},
    ]
    found = SCHEMA.validate({**GOOD, "lines": lines, "rates": {"full": 19, "half": "?"}})
    assert found.fields["lines"] == [
        {"name": "a", "amount": None, "tags": None},
        None,
        {"name": None, "amount": 1, "tags": ["a", None]},
        {"name": "b", "amount": None, "tags": None},
    ]
    assert found.fields["rates"] == {"full": 19, "half": None}
    assert set(errors_by_path(found)) == {
        *("lines.0.amount", "lines.0.tags", "lines.1", "lines.2.tags.1", "lines.2.odd"),
        *("lines.3.amount", "rates.half"),
    }


def test_missing_fields_strange_keys_and_nulls() -> None:
    found = SCHEMA.validate({"odd": 1, "kind": None, "day": None})
    assert errors_by_path(found)["odd"][0] == "1"
    assert "missing" in errors_by_path(found)["number"][1]
    assert "missing" in errors_by_path(found)["total"][1]
    assert set(errors_by_path(found)) == {"odd", "number", "total"}
    assert found.fields["kind"] == "bill"
    assert errors_by_path(SCHEMA.validate({"number": None, "total": None}))["number"][0] == "null"


def test_a_field_given_under_two_names_is_reported() -> None:
    found = SCHEMA.validate({**GOOD, "No": "B1"})
    assert found.fields["number"] == "A1"
    assert errors_by_path(found)["No"][0] == '"B1"'
    assert "another name" in errors_by_path(found)["No"][1]


def test_other_keys_are_kept_where_the_schema_says_so() -> None:
    fields = {"properties": {"a": {"type": "integer"}}, "type": "object"}
    raw = {"a": 1, "b": "x"}
    others: list[dict[str, Any]] = [
        {"additionalProperties": True},
        {"patternProperties": {"^b": {}}},
    ]
    for allowed in others:
        assert schema_from_json({**fields, **allowed}).validate(raw) == ValidatedRecord(raw)
    typed = schema_from_json({**fields, "additionalProperties": {"type": "integer"}}).validate(raw)
    assert typed.fields == {"a": 1, "b": None}
    assert set(errors_by_path(typed)) == {"b"}


def test_rules_of_the_whole_object_are_reported_and_keep_the_fields() -> None:
    found = SCHEMA.validate({"number": "A", "total": 200})
    assert errors_by_path(found)[""] == (None, "'day' is a required property")
    assert found.fields["total"] == 200


@given(
    st.dictionaries(
        st.sampled_from([*BILL["properties"], "No", "odd"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["name", "amount", "odd"]), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_any_input_gives_a_complete_record(raw: dict[str, Any]) -> None:
    found = SCHEMA.validate(raw)
    assert list(found.fields) == list(BILL["properties"])
    json.dumps(found.fields, allow_nan=False)
