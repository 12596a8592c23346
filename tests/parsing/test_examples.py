"""Examples in a schema: validated when it is loaded, part of its hash, in the form of an answer."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from llm_ocr import FewShotExample
from llm_ocr.parsing.loading import load_schema, schema_from_json, schema_from_model
from llm_ocr.parsing.schema import SchemaError
from tests import documents

FILE = """
from datetime import date
from decimal import Decimal
from pydantic import BaseModel, Field
from llm_ocr import FewShotExample

class Line(BaseModel):
    text: str
    amount: Decimal

class Bill(BaseModel):
    number: str = Field(alias="Bill no")
    issued: date | None = None
    lines: list[Line] = []

class Other(BaseModel):
    bill: Bill

FEW_SHOT = [
    FewShotExample(text="# Bill A-1\\n\\nPipes 10.50", record={EXAMPLE}),
    FewShotExample(image="{IMAGE}", text="more", record={{"Bill no": "A-2"}}),
    FewShotExample(text="another schema's", record=Other(bill=Bill(**{{"Bill no": "B"}}))),
]
"""
GOOD = '{"number": "A-1", "lines": [{"text": "Pipes", "amount": "10.50"}]}'
JSON = {
    "title": "bill",
    "type": "object",
    "properties": {"number": {"type": "string"}, "total": {"type": "number", "maximum": 10}},
    "required": ["number"],
    "few_shot": [{"text": "A-1, 3.50", "record": {"number": "A-1", "total": 3.5}}],
}


def write(folder: Path, example: str = GOOD, image: str = "page.png") -> str:
    if not (folder / "page.png").exists():
        documents.picture(folder / "page.png")
    path = folder / "bill.py"
    path.write_text(FILE.format(EXAMPLE=example, IMAGE=image))
    return f"{path}:Bill"


def test_examples_of_a_file_are_what_a_model_would_answer(tmp_path: Path) -> None:
    first, second = load_schema(write(tmp_path)).examples
    assert first.text == "# Bill A-1\n\nPipes 10.50"
    assert first.image is None
    assert json.loads(first.answer) == {
        "number": "A-1",
        "issued": None,
        "lines": [{"text": "Pipes", "amount": 10.5}],
    }, "all fields, amounts as numbers, as guided decoding has it"
    assert json.loads(second.answer)["number"] == "A-2", "by the field's name, not its alias"
    assert second.image == (tmp_path / "page.png").read_bytes()


def test_a_json_schema_may_have_examples(tmp_path: Path) -> None:
    path = tmp_path / "bill.json"
    path.write_text(json.dumps(JSON))
    schema = load_schema(str(path))
    assert [(one.text, json.loads(one.answer)) for one in schema.examples] == [
        ("A-1, 3.50", {"number": "A-1", "total": 3.5})
    ]
    assert "few_shot" not in schema.json_schema


class Receipt(BaseModel):
    shop: str


FEW_SHOT = [FewShotExample(text="Corner shop", record=Receipt(shop="Corner shop"))]


def test_a_model_has_those_of_its_module() -> None:
    assert [one.answer for one in schema_from_model(Receipt).examples] == [
        '{"shop": "Corner shop"}'
    ]


def test_the_hash_changes_with_examples_and_their_images(tmp_path: Path) -> None:
    where = write(tmp_path)
    hashes = {load_schema(where).schema_hash}
    assert load_schema(where).schema_hash in hashes
    documents.picture(tmp_path / "page.png", "Another picture")
    hashes.add(load_schema(where).schema_hash)
    hashes.add(load_schema(write(tmp_path, '{"number": "A-9"}')).schema_hash)
    assert len(hashes) == 3
    swapped = {**JSON, "few_shot": [{"text": "A-2", "record": {"number": "A-2"}}]}
    assert schema_from_json(JSON).schema_hash != schema_from_json(swapped).schema_hash


@pytest.mark.parametrize(
    ("example", "image", "message"),
    [
        (
            '{"number": "A", "issued": "soon"}',
            "page.png",
            r"example 1 is not valid: issued: .*soon",
        ),
        ('{"issued": None}', "page.png", "example 1 is not valid: number: missing"),
        ('{"number": "A", "Lines": []}', "page.png", "example 1 is not valid: Lines: not"),
        ('{"number": "A", "lines": [{"text": "x"}]}', "page.png", r"lines\.0\.amount: missing"),
        ('"A-1"', "page.png", "example 1: its record is not an object"),
        (GOOD, "gone.png", "example 2: its image .*gone.png can't be read: No such file"),
        (GOOD, "bill.py", "example 2: its image .*bill.py can't be read: it is not an image"),
    ],
)
def test_a_wrong_example_is_named_with_its_field(
    tmp_path: Path, example: str, image: str, message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        load_schema(write(tmp_path, example, image))


@pytest.mark.parametrize(
    ("few_shot", "message"),
    [
        ({}, "its examples are not a list"),
        ([{"record": {"number": "A"}}], "example 1: it has neither a text nor an image"),
        ([{"text": "A"}], "example 1: it needs a record"),
        ([{"text": 5, "record": {"number": "A"}}], "example 1: its text is not a string: 5"),
        ([{"text": "A", "record": {"number": "A"}, "note": 1}], "and nothing else"),
        ([{"text": "A", "record": {"number": "A", "total": 11}}], "total: 11 is greater"),
        ([{"image": "/etc/hostname", "record": {"number": "A"}}], "only the schema of a file"),
    ],
)
def test_wrong_examples_of_a_json_schema_are_errors(few_shot: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_from_json({**JSON, "few_shot": few_shot})
