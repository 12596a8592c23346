"""Merging the records of a document's parts."""

from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from llm_ocr.parsing.leaves import leaves
from llm_ocr.parsing.loading import schema_from_model
from llm_ocr.parsing.merging import merge_fields, merge_records
from llm_ocr.records import FieldError

Parts = list[dict[str, Any]]


class Line(BaseModel):
    text: str | None = None
    amount: float | None = None


class Who(BaseModel):
    name: str | None = None
    town: str | None = None


class Paper(BaseModel):
    number: str | None = None
    first: str | None = Field(None, json_schema_extra={"merge": "first"})
    last: float | None = Field(None, json_schema_extra={"merge": "last"})
    story: str | None = Field(None, json_schema_extra={"merge": "join"})
    tags: list[str] = Field([], json_schema_extra={"merge": "conflict"})
    who: Who | None = None
    lines: list[Line] = []


SCHEMA = schema_from_model(Paper)
EACH = range(1, 9)  # each part begins with what the one before it ends with


def lines(*amounts: float) -> list[dict[str, Any]]:
    return [{"text": f"thing {amount:g}", "amount": amount} for amount in amounts]


def test_the_first_value_is_kept_and_another_one_is_reported() -> None:
    fields, errors = merge_fields(SCHEMA, [{"number": None}, {"number": "A"}, {"number": "B"}])
    assert fields["number"] == "A"
    assert [(error.path, error.value) for error in errors] == [("number", '"B"')]
    assert '"A"' in errors[0].reason


def test_values_differing_in_spaces_and_case_are_equal() -> None:
    assert merge_fields(SCHEMA, [{"number": "Re 1"}, {"number": "RE  1"}]) == (
        {"number": "Re 1"},
        (),
    )


def test_merge_rules_of_the_schema_report_no_conflict() -> None:
    parts: Parts = [
        {"first": None, "last": 1.0},
        {"first": "a", "last": 2.0},
        {"first": "b", "last": None},
    ]
    assert merge_fields(SCHEMA, parts) == ({"first": "a", "last": 2.0}, ())


def test_texts_are_joined_with_the_lines_of_the_overlap_once() -> None:
    parts: Parts = [
        {"story": "one\ntwo"},
        {"story": "two \nthree"},
        {"story": None},
        {"story": "three"},
    ]
    assert merge_fields(SCHEMA, parts, EACH)[0]["story"] == "one\ntwo\nthree"
    assert merge_fields(SCHEMA, parts)[0]["story"] == "one\ntwo\ntwo \nthree\nthree"


def test_lists_with_the_rule_conflict_are_compared() -> None:
    fields, errors = merge_fields(SCHEMA, [{"tags": []}, {"tags": ["a"]}, {"tags": ["b"]}])
    assert fields["tags"] == ["a"]
    assert [(error.path, error.value) for error in errors] == [("tags", '["b"]')]


def test_objects_are_merged_field_by_field() -> None:
    parts: Parts = [
        {"who": {"name": "Ada", "town": None}},
        {"who": {"name": "Bo", "town": "Bremen"}},
    ]
    fields, errors = merge_fields(SCHEMA, parts)
    assert fields["who"] == {"name": "Ada", "town": "Bremen"}
    assert [error.path for error in errors] == ["who.name"]


def test_lists_are_concatenated_with_the_seam_once() -> None:
    parts: Parts = [
        {"lines": lines(1, 2, 3)},
        {"lines": lines(2, 3, 4)},
        {"lines": []},
        {"lines": lines(5)},
    ]
    assert merge_fields(SCHEMA, parts, EACH) == ({"lines": lines(1, 2, 3, 4, 5)}, ())


def test_equal_lines_of_disjoint_parts_are_all_kept() -> None:
    parts: Parts = [{"lines": lines(5)}, {"lines": lines(5)}, {"lines": lines(5)}]
    assert merge_fields(SCHEMA, parts) == ({"lines": lines(5, 5, 5)}, ())
    assert merge_fields(SCHEMA, parts, [2])[0] == {"lines": lines(5, 5)}


def test_equal_lines_away_from_the_seam_are_kept() -> None:
    parts: Parts = [{"lines": lines(1, 1, 2)}, {"lines": lines(3, 1)}]
    assert merge_fields(SCHEMA, parts, EACH)[0]["lines"] == lines(1, 1, 2, 3, 1)


def test_missing_values_of_a_line_come_from_its_other_reading() -> None:
    ends = [*lines(1), {"text": "thing 2", "amount": None}]
    fields, errors = merge_fields(SCHEMA, [{"lines": ends}, {"lines": lines(2, 3)}], EACH)
    assert fields["lines"] == lines(1, 2, 3)
    assert errors == ()


def test_one_line_of_a_long_seam_may_differ() -> None:
    again = lines(2, 3, 4, 5)
    again[1]["amount"] = 30.0
    fields, errors = merge_fields(SCHEMA, [{"lines": lines(1, 2, 3, 4)}, {"lines": again}], EACH)
    assert fields["lines"] == lines(1, 2, 3, 4, 5)
    assert [(error.path, error.value) for error in errors] == [("lines.2.amount", "30.0")]


def test_lines_without_anything_in_common_are_no_seam() -> None:
    one, other = {"text": "a", "amount": None}, {"text": None, "amount": 1.0}
    assert merge_fields(SCHEMA, [{"lines": [one]}, {"lines": [other]}], EACH)[0]["lines"] == [
        one,
        other,
    ]


def test_the_whole_is_checked_and_the_parts_errors_are_where_their_fields_went() -> None:
    class Sum(BaseModel):
        number: str
        lines: list[Line] = []
        total: float = Field(0, json_schema_extra={"merge": "last"})

    schema = schema_from_model(Sum)
    first = schema.validate({"number": "A", "lines": [*lines(1, 2)], "total": 3})
    second = schema.validate({"number": 7, "lines": [*lines(2), {"amount": "x"}], "total": "y"})
    third = schema.validate({"lines": lines(4), "odd": 1})
    made = merge_records(schema, [first, second, third], [1]).record
    assert made.fields["number"] == "A"
    assert made.fields["total"] == 3  # the last page that has one
    assert [line["amount"] for line in made.fields["lines"]] == [1, 2, None, 4]
    told = {(error.path, error.value) for error in made.errors}
    assert ("lines.2.amount", '"x"') in told
    assert ("total", '"y"') in told
    assert ("odd", "1") in told
    assert ("number", "7") in told  # it was an answer, and is in no record
    assert not any(error.path == "number" and error.value is None for error in made.errors)


def test_defaults_are_not_answers_of_a_part() -> None:
    class Priced(BaseModel):
        currency: str = "EUR"
        who: Who = Who(town="Bremen")

    schema = schema_from_model(Priced)
    parts = [schema.validate({}), schema.validate({"currency": "USD", "who": {"town": "Ulm"}})]
    made = merge_records(schema, parts).record
    assert made.fields == {"currency": "USD", "who": {"name": None, "town": "Ulm"}}
    assert made.errors == ()
    assert merge_records(schema, [parts[0], parts[0]]).record == parts[0]


def test_checks_are_made_of_the_whole_only() -> None:
    schema = schema_from_model(Checked)
    parts = [schema.validate({"a": 1}), schema.validate({"b": 1})]
    assert all(part.errors for part in parts)
    assert merge_records(schema, parts).record.errors == ()
    wrong = merge_records(schema, [schema.validate({"a": 1}), schema.validate({"b": 2})])
    assert wrong.record.errors == (FieldError("", None, "a is not b"),)


class Checked(BaseModel):
    a: int | None = None
    b: int | None = None

    def model_post_init(self, context: object) -> None:
        if self.a != self.b:
            raise ValueError("a is not b")


def test_single_part_is_unchanged() -> None:
    one = SCHEMA.validate({"number": 3})
    assert merge_records(SCHEMA, [one]).record is one


@pytest.mark.parametrize("count", [0, 1, 3])
def test_parts_with_nothing_in_them_are_an_empty_record(count: int) -> None:
    fields, errors = merge_fields(SCHEMA, [{"number": None, "lines": []}] * count)
    assert errors == ()
    assert fields in ({}, {"number": None, "lines": []})


def test_values_know_their_part() -> None:
    parts: Parts = [
        {"number": None, "who": {"name": "Ada"}, "lines": lines(1, 2)},
        {"number": "A", "who": {"town": "Bremen"}, "lines": lines(2, 3), "last": 4.0},
        {"number": "A", "lines": lines(9), "last": 5.0},
    ]
    made = merge_records(SCHEMA, [SCHEMA.validate(part) for part in parts], [1])
    homes = {path: made.origin(path) for path, _ in leaves(made.record.fields)}
    assert [line["amount"] for line in made.record.fields["lines"]] == [1, 2, 3, 9]
    assert homes["number"] == (1, "number")
    assert homes["last"] == (2, "last")
    assert (homes["who.name"], homes["who.town"]) == ((0, "who.name"), (1, "who.town"))
    amounts = [homes[f"lines.{place}.amount"] for place in range(4)]
    assert amounts == [
        (0, "lines.0.amount"),
        (0, "lines.1.amount"),
        (1, "lines.1.amount"),
        (2, "lines.0.amount"),
    ]


def test_no_value_is_changed_by_a_second_validation() -> None:
    class Rated(BaseModel):
        rate: float | None = None
        code: str | None = None

        @field_validator("rate")
        @classmethod
        def is_a_share(cls, value: float | None) -> float | None:
            return None if value is None else value / 100

    schema = schema_from_model(Rated)
    made = merge_records(schema, [schema.validate({"rate": 19}), schema.validate({"code": "7"})])
    assert made.record.fields == {"rate": 0.19, "code": "7"}
    assert ["not validated as a whole" in error.reason for error in made.record.errors] == [True]
