"""Rows of lists that a first answer left out."""

from typing import Any

import pytest

from llm_ocr.parsing.loading import load_schema
from llm_ocr.parsing.missing_rows import may_lack_rows, with_missing_rows
from llm_ocr.parsing.schema import Schema

TEXT = "| Text | Amount |\n| --- | ---: |\n| Pipes | 1,200.00 |\n| Valves | 2.50 |\n| Seals | 3 |"


@pytest.fixture
def schema(tmp_path: Any) -> Schema:  # noqa: ANN401
    path = tmp_path / "bill.py"
    path.write_text(
        "from pydantic import BaseModel\n"
        "class Line(BaseModel):\n    text: str\n    amount: float | None = None\n"
        "class Part(BaseModel):\n    lines: list[Line] = []\n"
        "class Bill(BaseModel):\n    part: Part = Part()\n    tags: list[str] = []\n"
    )
    return load_schema(f"{path}:Bill")


def lines(*rows: tuple[str, float]) -> dict[str, Any]:
    return {"part": {"lines": [{"text": text, "amount": amount} for text, amount in rows]}}


PIPES, VALVES, SEALS = ("Pipes", 1200.0), ("Valves", 2.5), ("Seals", 3.0)


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ([VALVES], [PIPES, SEALS], [PIPES, VALVES, SEALS]),
        ([PIPES], [("Glue", 7.0), VALVES], [PIPES, VALVES, ("Glue", 7.0)]),
        ([], [SEALS], [SEALS]),
        ([PIPES], [("PIPES", 1200.0)], [PIPES]),
        ([PIPES, SEALS], [], [PIPES, SEALS]),
    ],
)
def test_rows_are_merged_in_the_order_of_the_text(
    schema: Schema,
    first: list[tuple[str, float]],
    second: list[tuple[str, float]],
    merged: list[tuple[str, float]],
) -> None:
    sure = {f"part.lines.{k}.text": 0.9 for k in range(len(first))}
    others = {f"part.lines.{k}.text": 0.1 * k for k in range(len(second))}
    one, other = schema.validate(lines(*first)), schema.validate(lines(*second))
    found = with_missing_rows(schema, (one, sure), (other, others), TEXT)
    assert found.record.fields["part"] == lines(*merged)["part"]
    assert found.rows_added == len(merged) - len(first)
    # Each row has the confidence of the answer that it is from.
    assert found.confidences == {
        f"part.lines.{k}.text": 0.9 if row in first else 0.1 * second.index(row)
        for k, row in enumerate(merged)
    }


def test_an_error_moves_with_its_row(schema: Schema) -> None:
    broken = {"part": {"lines": [{"text": "Valves", "amount": "much"}]}}
    one, other = schema.validate(broken), schema.validate(lines(PIPES))
    found = with_missing_rows(schema, (one, {}), (other, {}), TEXT)
    assert [error.path for error in found.record.errors] == ["part.lines.1.amount"]
    assert found.record.fields["part"]["lines"][0]["text"] == "Pipes"


@pytest.mark.parametrize(
    ("count", "text", "lacks"),
    [(2, TEXT, True), (3, TEXT, False), (9, "", False), (10, "", True), (0, "no table", False)],
)
def test_a_list_may_lack_rows(count: int, text: str, lacks: bool) -> None:
    assert may_lack_rows(lines(*[PIPES] * count), text) is lacks


def test_a_record_without_lists_lacks_none() -> None:
    assert not may_lack_rows({"number": "A-7"}, TEXT)
