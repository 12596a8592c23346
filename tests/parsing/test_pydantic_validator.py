"""Raw objects validated with pydantic models: nothing raises, nothing is lost."""

import json
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)

from llm_ocr.parsing.loading import schema_from_model
from llm_ocr.parsing.schema import ValidatedRecord


class Kind(StrEnum):
    BILL = "bill"
    NOTE = "credit note"


class Line(BaseModel):
    text: str | None = None
    quantity: Annotated[Decimal, Field(ge=0)] = Decimal(1)
    amount: Decimal | None = Field(default=None, alias="Betrag")

    @model_validator(mode="after")
    def not_too_much(self) -> Self:
        if self.amount is not None and self.amount > 1000:
            raise ValueError("too much")
        return self


class Party(BaseModel):
    name: str
    town: str | None = None


class Bill(BaseModel):
    number: str = Field(min_length=2, validation_alias=AliasChoices("No", "Nummer"))
    day: date | None = None
    due: date | None = None
    kind: Kind = Kind.BILL
    paid: Literal["yes", "no"] | None = None
    seller: Party | None = None
    lines: list[Line] = []
    tags: list[str] = []
    rates: dict[str, Decimal] = {}
    pair: tuple[int, str] | None = None
    total: float | None = None

    @field_validator("number")
    @classmethod
    def number_is_plain(cls, value: str) -> str:
        if value == "broken":
            raise TypeError("not for people")
        return value.upper()

    @model_validator(mode="after")
    def due_is_later(self) -> Self:
        if self.day and self.due and self.due < self.day:
            raise ValueError("due before it was written")
        return self

    @model_validator(mode="after")
    def total_is_not_five(self) -> Self:
        if self.total == 5:
            raise AssertionError("five is never right")
        return self


BILL = schema_from_model(Bill)
GOOD = {"number": "A1"}


def errors_by_path(found: ValidatedRecord) -> dict[str, tuple[str | None, str]]:
    return {error.path: (error.value, error.reason) for error in found.errors}


def validate(model: type[BaseModel], raw: dict[str, Any]) -> ValidatedRecord:
    return schema_from_model(model).validate(raw)


def test_valid_records_equal_those_of_pydantic() -> None:
    raw = {
        "No": "a1",
        "day": "2026-03-01",
        "kind": "credit note",
        "paid": "no",
        "seller": {"name": "Nordlicht"},
        "lines": [{"text": "Paper", "quantity": "2", "Betrag": "12.50"}, {"amount": 3}],
        "tags": ["x"],
        "rates": {"full": 19},
        "pair": [1, "one"],
        "total": 15.5,
    }
    found = BILL.validate(raw)
    assert found.errors == ()
    expected = Bill.model_validate(raw, by_name=True, by_alias=True)
    assert found.fields == expected.model_dump(mode="json")
    assert found.fields["lines"][0]["amount"] == "12.50"
    assert found.fields["number"] == "A1"


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("day", "yesterday", None),
        ("kind", "letter", "bill"),
        ("paid", "maybe", None),
        ("seller", "Nordlicht", None),
        ("lines", "two", []),
        ("lines", {"text": "a"}, []),
        ("total", "12,50", None),
        ("total", "NaN", None),
        ("total", [1], None),
        ("pair", [1], None),
        ("number", "x", None),
        ("number", 7, None),
        ("number", "broken", None),
    ],
)
def test_an_invalid_field_becomes_its_default_and_is_reported_and_others_are_kept(
    name: str, value: object, instead: object
) -> None:
    found = BILL.validate({**GOOD, "tags": ["kept"], name: value})
    assert found.fields[name] == instead
    assert found.fields["tags"] == ["kept"]
    assert list(errors_by_path(found)) == [name]
    raw, reason = errors_by_path(found)[name]
    assert json.loads(raw or "") == value
    assert reason


def test_an_exception_of_a_validator_is_reported_with_its_type() -> None:
    assert (
        "TypeError: not for people"
        in errors_by_path(BILL.validate({"number": "broken"}))["number"][1]
    )


def test_one_bad_field_of_a_line_costs_that_field() -> None:
    lines = [{"text": "a", "quantity": -1, "Betrag": "x"}, 5, {"text": "b", "Betrag": 2000}]
    found = BILL.validate({**GOOD, "lines": lines})
    assert found.fields["lines"] == [
        {"text": "a", "quantity": "1", "amount": None},
        None,
        {"text": "b", "quantity": "1", "amount": "2000"},
    ]
    assert {path: value for path, (value, _) in errors_by_path(found).items()} == {
        "lines.0.quantity": "-1",
        "lines.0.amount": '"x"',
        "lines.1": "5",
        "lines.2": None,  # the check of the line
    }
    assert errors_by_path(found)["lines.2"][1] == "too much"


def test_items_keep_their_places() -> None:
    found = BILL.validate({**GOOD, "tags": ["a", 5, "b"], "rates": {"full": 19, "half": "?"}})
    assert found.fields["tags"] == ["a", None, "b"]
    assert found.fields["rates"] == {"full": "19", "half": None}
    assert set(errors_by_path(found)) == {"tags.1", "rates.half"}


def test_missing_required_fields_are_null_and_reported() -> None:
    found = BILL.validate({"seller": {}})
    assert found.fields["number"] is None
    assert found.fields["seller"] == {"name": None, "town": None}
    assert errors_by_path(found)["number"][0] is None
    assert "missing" in errors_by_path(found)["seller.name"][1]


def test_null_for_a_required_field_is_reported_with_what_the_record_has() -> None:
    found = BILL.validate({"number": None})
    assert errors_by_path(found)["number"][0] == "null"
    assert "the record has null here" in errors_by_path(found)["number"][1]


def test_null_for_a_field_with_a_default_is_the_default() -> None:
    found = BILL.validate({**GOOD, "kind": None, "lines": None, "total": None})
    assert found == BILL.validate(GOOD)
    assert found.errors == ()


def test_unknown_keys_are_reported_at_every_level() -> None:
    found = BILL.validate(
        {**GOOD, "odd": 1, "lines": [{"odd": [2]}], "seller": {"name": "N", "x": 3}}
    )
    assert {path: value for path, (value, _) in errors_by_path(found).items()} == {
        "odd": "1",
        "lines.0.odd": "[2]",
        "seller.x": "3",
    }
    assert "odd" not in found.fields
    assert "odd" not in found.fields["lines"][0]


def test_a_field_given_under_two_names_is_reported() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = Field(0, alias="A")

    found = BILL.validate({"No": "A1", "Nummer": "A2", "number": "A3"})
    assert found.fields["number"] == "A1"
    assert {path: value for path, (value, _) in errors_by_path(found).items()} == {
        "Nummer": '"A2"',
        "number": '"A3"',
    }
    assert "another name" in errors_by_path(found)["Nummer"][1]
    assert validate(Open, {"A": 1, "a": 2}).fields == {"a": 1}
    assert set(errors_by_path(validate(Open, {"A": 1, "a": 2}))) == {"a"}


def test_a_model_that_allows_other_keys_keeps_them() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = 0

    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int = 0

    assert validate(Open, {"a": 1, "b": "x"}) == ValidatedRecord({"a": 1, "b": "x"})
    assert validate(Closed, {"a": 1, "b": "x"}).fields == {"a": 1}
    assert set(errors_by_path(validate(Closed, {"a": 1, "b": "x"}))) == {"b"}


def test_every_failed_check_is_reported_and_keeps_the_fields() -> None:
    found = BILL.validate({**GOOD, "day": "2026-03-02", "due": "2026-03-01", "total": 5})
    assert [(error.path, error.value, error.reason) for error in found.errors] == [
        ("", None, "due before it was written"),
        ("", None, "five is never right"),
    ]
    assert found.fields["due"] == "2026-03-01"
    assert found.fields["total"] == 5


def test_failed_checks_before_and_around_the_fields_are_reported() -> None:
    class Odd(BaseModel):
        a: int = 0

        @model_validator(mode="before")
        @classmethod
        def renamed(cls, data: dict[str, Any]) -> dict[str, Any]:
            return {"a": data["b"]}

        @model_validator(mode="wrap")
        @classmethod
        def around(cls, data: Any, handler: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
            if "stop" in data:
                raise ValueError("stopped")
            return handler(data)

    assert validate(Odd, {"b": 3}) == ValidatedRecord({"a": 3})
    found = validate(Odd, {"a": 4, "stop": 1})
    assert found.fields == {"a": 4}
    reasons = [error.reason for error in found.errors if error.path == ""]
    assert "stopped" in reasons
    assert "renamed could not be checked: KeyError: 'b'" in reasons


def test_a_field_that_a_before_validator_added_is_validated() -> None:
    class Made(BaseModel):
        a: int = 0
        b: int = 0

        @model_validator(mode="before")
        @classmethod
        def split(cls, data: dict[str, Any]) -> dict[str, Any]:
            first, second = data["both"].split("/")
            return {"a": first, "b": second}

    found = validate(Made, {"both": "1/x"})
    assert found.fields == {"a": 1, "b": 0}
    assert errors_by_path(found)["b"][0] == '"x"'


def test_check_skipped_for_an_invalid_field_is_reported() -> None:
    class Sum(BaseModel):
        a: int
        b: int

        @model_validator(mode="after")
        def ordered(self) -> Self:
            if self.a > self.b:
                raise ValueError("a is more than b")
            return self

    found = validate(Sum, {"a": 1, "b": "two"})
    assert found.fields == {"a": 1, "b": None}
    assert errors_by_path(found)[""][1].startswith("ordered could not be checked: TypeError")


def test_validator_without_a_return_value_loses_nothing() -> None:
    class Forgets(BaseModel):
        a: int = 0

        @model_validator(mode="after")
        def checks(self) -> Self:
            return None  # type: ignore[return-value]

    assert validate(Forgets, {"a": 3}) == ValidatedRecord({"a": 3})


def test_recursive_models_are_validated() -> None:
    found = validate(Node, {"name": "a", "inner": [{"name": 1, "inner": [{"name": "c"}]}]})
    assert found.fields["inner"][0]["inner"][0]["name"] == "c"
    assert set(errors_by_path(found)) == {"inner.0.name"}


class Node(BaseModel):
    name: str | None = None
    inner: list["Node"] = []


def test_first_fitting_type_of_a_union_is_used() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"] = "cat"
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog"] = "dog"
        tricks: list[str]

    class Home(BaseModel):
        pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
        either: int | list[Line] | None = None

    found = validate(Home, {"pet": {"kind": "dog", "tricks": ["sit"]}, "either": [{"text": "a"}]})
    assert found.fields["pet"] == {"kind": "dog", "tricks": ["sit"]}
    assert found.fields["either"][0]["text"] == "a"
    wrong = validate(Home, {"pet": {"kind": "dog", "tricks": 3}, "either": 5})
    assert wrong.fields == {"pet": None, "either": 5}
    assert set(errors_by_path(wrong)) == {"pet"}


def test_fields_are_by_their_names_and_nothing_is_computed() -> None:
    class Named(BaseModel):
        model_config = ConfigDict(serialize_by_alias=True, frozen=True)
        a: int = Field(0, serialization_alias="A")
        deep: int = Field(0, validation_alias=AliasPath("x", 1))
        _own: int = PrivateAttr(default=0)

        @computed_field  # type: ignore[prop-decorator]
        @property
        def twice(self) -> int:
            return self.a * 2

    class Outer(BaseModel):
        inner: Named

    assert validate(Named, {"a": 2, "x": [1, 7]}).fields == {"a": 2, "deep": 7}
    assert validate(Outer, {"inner": {"a": 2}}).fields == {"inner": {"a": 2, "deep": 0}}


def test_a_serializer_that_breaks_costs_its_field() -> None:
    class Breaks(BaseModel):
        a: int = 0
        b: int = 0

        @field_serializer("a")
        def shown(self, value: int) -> str:
            raise RuntimeError("no")

    found = validate(Breaks, {"a": 1, "b": 2})
    assert found.fields == {"a": None, "b": 2}
    assert errors_by_path(found)["a"][0] == "1"


def test_validated_default_does_not_recurse() -> None:
    class Careful(BaseModel):
        model_config = ConfigDict(validate_default=True)
        a: int = Field("7")  # type: ignore[assignment]
        b: int = -1

        @field_validator("b")
        @classmethod
        def positive(cls, value: int) -> int:
            if value < 0:
                raise ValueError("below zero")
            return value

    found = validate(Careful, {"b": "x"})
    assert found.fields == {"a": 7, "b": -1}
    assert errors_by_path(found)["b"][0] == '"x"'


@pytest.mark.parametrize("checked", [True, False])
def test_a_default_that_cannot_be_computed_is_null_and_reported(checked: bool) -> None:
    class Inner(BaseModel):
        numbers: list[int] = []
        first: int = Field(default_factory=lambda values: values["numbers"][0])

    class Made(BaseModel):
        model_config = ConfigDict(validate_default=checked)
        numbers: list[int] = Field(default_factory=list)
        first: int = Field(default_factory=lambda values: values["numbers"][0])
        right: int = Field(default_factory=lambda: 4)
        inner: list[Inner] = []

    found = validate(Made, {"inner": [{}, {"numbers": [3]}]})
    assert found.fields == {
        "numbers": [],
        "first": None,
        "right": 4,
        "inner": [{"numbers": [], "first": None}, {"numbers": [3], "first": 3}],
    }
    assert [(error.path, error.value) for error in found.errors] == [
        ("first", None),
        ("inner.0.first", None),
    ]
    said = "the default could not be computed: IndexError: list index out of range"
    assert {error.reason for error in found.errors} == {said}
    wrong = validate(Made, {"first": "x"})
    assert wrong.fields["first"] is None
    assert [(error.path, error.value) for error in wrong.errors] == [
        ("first", '"x"'),
        ("first", None),
    ]


def test_model_with_failing_private_attributes_raises_nothing() -> None:
    class Odd(BaseModel):
        a: int = 3
        b: int = Field(default_factory=lambda: 1 // 0)
        _own: int = PrivateAttr(default_factory=lambda: 1 // 0)

    found = validate(Odd, {"a": 4})
    assert found.fields == {"a": None, "b": None}
    paths = [error.path for error in found.errors]
    assert (paths.count("b"), paths.count("")) == (1, 2)
    assert errors_by_path(validate(Odd, {"a": 4}))["b"][1].startswith(
        "the default could not be computed"
    )
    assert '{"a": 4}' in {error.value for error in found.errors}


def test_model_that_cannot_be_created_is_a_record_with_an_error() -> None:
    class Refuses(BaseModel):
        a: int = 3

        def __init__(self, **given: Any) -> None:  # noqa: ANN401
            raise RuntimeError("never")

    found = validate(Refuses, {"a": 4})
    assert found.fields == {"a": 3}
    assert errors_by_path(found)[""] == ('{"a": 4}', "RuntimeError: never")


def test_deeply_nested_input_raises_nothing() -> None:
    class Anything(BaseModel):
        a: Any = None
        b: int = 0

    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    found = validate(Anything, {"a": deep, "b": deep})
    assert found.fields["b"] == 0
    assert {"a", "b"} <= set(errors_by_path(found))


RAW = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "text", "Betrag", "odd", "a"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)
NAMES = st.sampled_from([*Bill.model_fields, "No", "odd"])


@given(st.dictionaries(NAMES, RAW, max_size=6))
def test_any_input_gives_a_complete_record_with_its_errors(raw: dict[str, Any]) -> None:
    found = BILL.validate(raw)
    assert list(found.fields) == list(Bill.model_fields)
    json.dumps(found.fields, allow_nan=False)
    for error in found.errors:
        assert error.reason
    if not found.errors:
        cleaned = {key: value for key, value in raw.items() if value is not None}
        expected = Bill.model_validate(cleaned, by_name=True, by_alias=True)
        assert found.fields == expected.model_dump(mode="json")
