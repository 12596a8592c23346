"""A second pass asks for the rows of lists that the first answer left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from llm_ocr import load_records
from llm_ocr.batch.parse_run import parse
from llm_ocr.settings import Settings
from llm_ocr.tables.schema import Row
from tests import documents
from tests.batch.test_parse_run import BILL, is_guided
from tests.servers.chat import answer, at_once, prompt_of, refusal, serving_beside

ROWS = [("Pipes", 10.0), ("Valves", 2.5), ("Seals", 0.3), ("Labor", 40.1)]
TABLE = "".join(f"<tr><td>{text}</td><td>{amount:.2f}</td></tr>" for text, amount in ROWS)
PAGE = (
    "<|ref|>table<|/ref|><|det|>[[100, 100, 900, 500]]<|/det|>\n"
    f"<table><tr><td>Text</td><td>Amount</td></tr>{TABLE}</table>"
)


def bill(*rows: int, **changes: object) -> dict[str, object]:
    lines = [{"text": ROWS[k][0], "amount": ROWS[k][1]} for k in rows]
    return {"number": "A-7", "issued": None, "lines": lines, "total": 52.9, **changes}


def second_request(body: dict[str, Any]) -> bool:
    return "rows of the lists are missing" in prompt_of(body)


def parsed(
    tmp_path: Path,
    first: object,
    second: Callable[[], web.Response] | None,
    *,
    second_pass: bool = True,
) -> tuple[Row, list[dict[str, Any]]]:
    """The record, and the requests of second passes; `None`: such a request fails the test."""
    schema = tmp_path / "bill.py"
    schema.write_text(BILL)

    def reply(body: dict[str, Any]) -> web.Response:
        if not is_guided(body):
            return answer(PAGE) if "<|grounding|>" in prompt_of(body) else at_once(body)
        if not second_request(body):
            return answer(json.dumps(first))
        assert second is not None, "nothing is missing"
        return second()

    with serving_beside(reply) as server:
        settings = Settings(
            base_url=server.base_url, api_key=SecretStr("key"), second_pass=second_pass
        )
        parse(documents.pdf(tmp_path / "bill.pdf"), tmp_path / "out", str(schema), settings)
        asked = [body for body in server.requests if is_guided(body) and second_request(body)]
    [row] = load_records(tmp_path / "out")
    return row, asked


def test_missing_rows_are_added_in_the_order_of_the_page(tmp_path: Path) -> None:
    again = bill(2, 1, number="of the second pass", total=None)
    row, [asked] = parsed(tmp_path, bill(0, 1, 3), lambda: answer(json.dumps(again)))
    assert row["fields"] == bill(0, 1, 2, 3)
    assert (row["status"], row["errors"], row["rows_added"]) == ("ok", [], 1)
    assert '"Labor"' in prompt_of(asked), "the rows that were found"
    places = {one["path"]: one["matched"] for one in row["evidence"]}
    assert [places[f"lines.{k}.text"] for k in range(4)] == ["exact"] * 4


def test_nothing_is_asked_where_no_row_is_missing(tmp_path: Path) -> None:
    row, asked = parsed(tmp_path, bill(0, 1, 2, 3), None)
    assert (row["fields"], row["rows_added"], asked) == (bill(0, 1, 2, 3), 0, [])


def test_nothing_is_asked_unless_it_is_wanted(tmp_path: Path) -> None:
    row, asked = parsed(tmp_path, bill(0, 1), None, second_pass=False)
    assert (len(row["fields"]["lines"]), row["rows_added"], asked) == (2, None, [])


@pytest.mark.parametrize(
    "second",
    [
        lambda: refusal(400, "no"),
        lambda: answer("I see no rows."),
        lambda: answer(json.dumps({"lines": [{"text": "Pipes", "amount": 10.1}]})),
    ],
    ids=["refused", "without a record", "a row read otherwise"],
)
def test_the_first_record_stays_where_nothing_is_added(
    tmp_path: Path, second: Callable[[], web.Response]
) -> None:
    first = bill(0, 1, total=12.5)
    row, asked = parsed(tmp_path, first, second)
    assert (row["fields"], row["errors"], row["rows_added"]) == (first, [], 0)
    assert asked


def test_rows_that_make_the_record_invalid_are_left_out(tmp_path: Path) -> None:
    first = bill(0, 1, total=12.5)
    row, asked = parsed(tmp_path, first, lambda: answer(json.dumps(bill(3))))
    assert (row["fields"], row["errors"], row["rows_added"]) == (first, [], 0)
    assert len(asked) == 1
