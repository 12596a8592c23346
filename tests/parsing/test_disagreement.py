"""The values on which the records of two models disagree, and what counts as the same value."""

from typing import Any

import pytest

from llm_ocr.parsing.disagreement import find_disagreements
from llm_ocr.parsing.value_equality import same_value

SAME: list[tuple[Any, Any]] = [
    (12.5, "12.50"),
    ("1,234.50", 1234.5),
    ("1 234,50", "1,234.50"),
    ("-7.00", -7),
    ("3 January 2026", "2026-01-03"),
    ("Main  Street\n5", "main street 5"),
    ("ﬁve", "five"),
    (None, ""),
    (None, []),
    ({"a": 1, "b": None}, {"a": 1.0}),
    (["A", 1], ["a", "1"]),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (12.5, 12.05),
    ("0381", "381"),
    ("1.234", "1234"),
    ("03/04/2026", "2026-04-03"),
    (True, 1),
    ("Café", "Cafe"),
    ("A-7", "A 7"),
    (["a", "b"], ["b", "a"]),
    ("x", None),
    (0, None),
    ({"a": "1"}, ["1"]),
]


@pytest.mark.parametrize(("value", "other"), SAME)
def test_notation_is_not_compared(value: object, other: object) -> None:
    assert same_value(value, other)
    assert same_value(other, value)


@pytest.mark.parametrize(("value", "other"), DIFFERENT)
def test_other_values_are_not_the_same(value: object, other: object) -> None:
    assert not same_value(value, other)
    assert not same_value(other, value)


def found(fields: Any, other: Any) -> list[tuple[str, str | None, str | None]]:  # noqa: ANN401
    return [(one.path, one.value, one.check_value) for one in find_disagreements(fields, other)]


def row(number: int, **changes: object) -> dict[str, object]:
    return {"text": f"Article {number}", "pieces": number, "price": number + 0.5, **changes}


def test_values_are_compared_field_by_field() -> None:
    ours = {"number": "A-7", "total": 12.5, "vendor": {"name": "Corner", "city": "Bonn"}}
    theirs = {"number": "a-7", "total": 12.0, "vendor": {"name": "Corner", "city": None}}
    assert found(ours, theirs) == [
        ("total", "12.5", "12.0"),
        ("vendor.city", '"Bonn"', None),
    ]


def test_a_row_that_one_model_left_out_is_one_disagreement() -> None:
    rows = [row(number) for number in range(6)]
    missing = [rows[0], *rows[2:4], row(4, price=99), rows[5], row(7)]
    disagreements = found({"lines": rows}, {"lines": missing})
    assert [path for path, *_ in disagreements] == ["lines.1", "lines.4.price", "lines"]
    assert disagreements[1] == ("lines.4.price", "4.5", "99")
    assert disagreements[2][1] is None
    assert '"Article 7"' in str(disagreements[2][2])


def test_rows_that_differ_in_all_lists_are_paired_by_their_values() -> None:
    ours = [row(1), row(2), row(3)]
    theirs = [row(2, price=0), row(3, price=0)]
    assert [path for path, *_ in found({"lines": ours}, {"lines": theirs})] == [
        "lines.0",
        "lines.1.price",
        "lines.2.price",
    ]


def test_long_lists_without_an_equal_row_are_compared_in_order() -> None:
    ours = [row(number) for number in range(300)]
    theirs = [row(number, price=0) for number in range(299)]
    paths = [path for path, *_ in found({"lines": ours}, {"lines": theirs})]
    assert len(paths) == 300
    assert paths[-1] == "lines.299"
