"""The schema for guided decoding: its shape, in keywords that vLLM accepts."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import AliasChoices, BaseModel, Field

from llm_ocr.parsing.decoding_schema import decoding_schema
from llm_ocr.parsing.loading import BUILT_IN, load_schema, schema_from_model

# What vLLM 0.32 refuses with a 400, or takes as a schema with other meaning (its
# vllm/v1/structured_output/backend_xgrammar.py), and what would force a value.
REFUSED = {
    *("multipleOf", "uniqueItems", "contains", "minContains", "maxContains", "patternProperties"),
    *("propertyNames", "allOf", "oneOf", "not", "if", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minProperties"),
}
NULL = {"type": "null"}


class Part(BaseModel):
    """A part."""

    size: Annotated[Decimal, Field(gt=0, multiple_of=Decimal("0.5"))]
    code: str = Field(pattern="^[A-Z]+$", max_length=3)


class Whole(BaseModel):
    """A whole."""

    name: str = Field(title="Its name", description="As printed", examples=["Ada"], alias="Name")
    day: date
    mail: str | None = Field(None, json_schema_extra={"format": "email", "aliases": ["E-mail"]})
    kind: Literal["a", "b"] = Field("a", validation_alias=AliasChoices("Kind", "Art"))
    version: Literal[1] = 1
    number: int | str = 0
    parts: set[int] = set()
    best: Part | None = Field(None, title="Best")
    others: Annotated[list[Part], Field(min_length=1)] = Field(validation_alias="Others")
    rates: dict[str, float] = {}
    pair: tuple[int, str]
    anything: Any = None
    inner: "list[Whole]" = []


GUIDE = schema_from_model(Whole).json_schema


def keywords(node: Any, names: bool = False) -> Iterator[str]:  # noqa: ANN401
    """All keywords of a schema, without the names of properties and definitions."""
    if isinstance(node, dict):
        for key, one in node.items():
            yield from () if names else (key,)
            if key not in ("examples", "enum", "const", "aliases") or names:
                yield from keywords(one, not names and key in ("properties", "$defs"))
    elif isinstance(node, list):
        for one in node:
            yield from keywords(one)


def test_decoding_schema_has_only_the_shape() -> None:
    assert not set(keywords(GUIDE)) & REFUSED
    fields = GUIDE["properties"]
    text = {"type": "string"}
    assert fields["name"]["anyOf"] == [text, NULL]
    assert fields["day"]["anyOf"] == [{"type": "string", "format": "date"}, NULL]
    assert fields["mail"]["anyOf"] == [text, NULL]
    assert fields["kind"]["anyOf"] == [{"enum": ["a", "b"]}, NULL]
    assert fields["version"]["const"] == 1
    assert fields["number"]["anyOf"] == [{"type": "integer"}, text, NULL]
    assert fields["parts"] | {"title": ""} == {
        "title": "",
        "type": "array",
        "items": {"type": "integer"},
    }
    assert fields["others"]["items"]["properties"]["size"]["anyOf"] == [{"type": "number"}, NULL]
    assert fields["rates"]["additionalProperties"] == {"type": "number"}
    assert fields["pair"]["prefixItems"] == [{"type": "integer"}, text]


def test_decoding_schema_requires_all_keys_and_no_others() -> None:
    assert GUIDE["required"] == list(Whole.model_fields)
    assert GUIDE["additionalProperties"] is False
    best = next(one for one in GUIDE["properties"]["best"]["anyOf"] if one != NULL)
    assert best["required"] == ["size", "code"]
    assert best["additionalProperties"] is False


def test_titles_descriptions_and_aliases_are_kept_as_hints() -> None:
    name = GUIDE["properties"]["name"]
    assert name["title"] == "Its name"
    assert name["description"] == "As printed"
    assert name["examples"] == ["Ada"]
    assert name["aliases"] == ["Name"]
    assert GUIDE["properties"]["kind"]["aliases"] == ["Kind", "Art"]
    assert GUIDE["properties"]["mail"]["aliases"] == ["E-mail"]
    assert GUIDE["properties"]["others"]["aliases"] == ["Others"]
    assert GUIDE["properties"]["best"]["title"] == "Best"
    assert GUIDE["description"] == "A whole."


def test_references_are_inlined_unless_recursive() -> None:
    assert list(GUIDE["$defs"]) == ["Whole"]
    assert GUIDE["properties"]["inner"]["items"] == {"$ref": "#/$defs/Whole"}
    circle = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "other": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"type": "object", "properties": {"a": {"$ref": "#/definitions/A"}}}},
    }
    made = decoding_schema(circle)
    answer = {"next": {"next": None, "other": None}, "other": {"a": {"a": None}}}
    jsonschema.validate(answer, made)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer, "next": 5}, made)


def test_compositions_become_one_object() -> None:
    made = decoding_schema(
        {
            "allOf": [
                {"$ref": "#/$defs/Base"},
                {"properties": {"b": {"oneOf": [{"type": "integer"}, {"type": "null"}]}}},
            ],
            "$defs": {
                "Base": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
            },
        }
    )
    assert set(made["properties"]) == {"a", "b"}
    jsonschema.validate({"a": None, "b": 3}, made)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_schema_is_self_contained(name: str) -> None:
    made = load_schema(name).json_schema
    jsonschema.Draft202012Validator.check_schema(made)
    assert not set(keywords(made)) & REFUSED
    assert "$ref" not in json.dumps(made)


@pytest.mark.parametrize("name", BUILT_IN)
def test_empty_answer_fits_the_decoding_schema_and_the_record(name: str) -> None:
    schema = load_schema(name)
    answer = _empty(schema.json_schema)
    jsonschema.validate(answer, schema.json_schema)
    found = schema.validate(answer)
    assert found.errors == ()
    assert found == schema.validate({})


def _empty(node: Any) -> Any:  # noqa: ANN401
    if node.get("type") == "object":
        return {name: _empty(one) for name, one in node["properties"].items()}
    return [] if node.get("type") == "array" else None
