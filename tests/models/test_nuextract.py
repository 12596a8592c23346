"""JSON Schemas as NuExtract3's templates."""

import json
from collections.abc import Mapping
from typing import Any

from llm_ocr.models.nuextract import schema_arguments

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {
                "amount": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            },
        }
    },
    "properties": {
        "number": {"type": "string", "description": "The invoice's\nown number."},
        "day": {"type": ["string", "null"], "format": "date"},
        "mail": {"type": "string", "format": "email"},
        "pages": {"type": "integer"},
        "paid": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "by": {"enum": ["cash", "card", None]},
        "kind": {"const": "invoice"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "description": "Each."},
        "extra": {"type": "object"},
    },
}


def template(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return json.loads(str(schema_arguments(schema)["template"]))


def test_leaves_of_the_template_name_types() -> None:
    found = template(SCHEMA)
    lines = found.pop("lines")
    assert found == {
        "number": "verbatim-string",
        "day": "date",
        "mail": "email-address",
        "pages": "integer",
        "paid": "boolean",
        "by": ["cash", "card"],
        "kind": "verbatim-string",
        "tags": [["a", "b"]],
        "extra": "verbatim-string",
    }
    assert lines[0]["amount"] == "number"
    assert lines[0]["lines"][0]["amount"] == "number", "a schema may refer to itself"


def test_descriptions_are_instructions() -> None:
    said = schema_arguments(SCHEMA, "Mind the dates.")["instructions"]
    assert said == "number: The invoice's own number.\nlines: Each.\nMind the dates."
    assert "instructions" not in schema_arguments({"type": "object", "properties": {}})


def test_a_schema_of_choices_without_end_has_a_template() -> None:
    loop = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert template({"type": "object", **loop}) == {"a": "verbatim-string"}
