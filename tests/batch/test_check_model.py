"""A second model answers the same parse requests, and where it disagrees is said."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from llm_ocr import load_records
from llm_ocr.batch.parse_run import parse
from llm_ocr.document.converter import convert
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.tables.schema import Row
from tests import documents
from tests.batch.test_parse_run import BILL, DEEPSEEK, GOOD, QWEN, is_guided
from tests.cli.test_commands import llm_ocr
from tests.servers.chat import answer, at_once, prompt_of, refusal, serving_beside

Says = Callable[[dict[str, Any]], web.Response]


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "bill.py"
    path.write_text(BILL)
    return str(path)


def is_parse(body: dict[str, Any]) -> bool:
    return is_guided(body) or "The JSON schema" in prompt_of(body)


def says(*records: object) -> Says:
    """Reads pages, and answers parse requests with these records, in turn, the last one forever."""
    left = list(records)

    def reply(body: dict[str, Any]) -> web.Response:
        if not is_parse(body):
            return at_once(body)
        record = left.pop(0) if len(left) > 1 else left[0]
        return record() if callable(record) else answer(json.dumps(record))

    return reply


def checked(
    tmp_path: Path, schema: str, second: Says, first: Says | None = None, pages: int = 1
) -> tuple[Row, Summary, list[dict[str, Any]]]:
    """The record, the summary, and the requests that the second model got."""
    source, out = documents.pdf(tmp_path / "bill.pdf", pages=pages), tmp_path / "out"
    with serving_beside(first or says(GOOD)) as main, serving_beside(second) as other:
        given = Settings(
            base_url=main.base_url,
            api_key=SecretStr("first"),
            check_base_url=other.base_url,
            check_model="qwen3-vl-8b",
            check_api_key=SecretStr("second"),
        )
        summary = parse(source, out, schema, given)
        assert {headers["Authorization"] for headers in main.headers} == {"Bearer first"}
        assert {headers["Authorization"] for headers in other.headers} <= {"Bearer second"}
        requests = [body for body in other.requests if is_guided(body)]
    [row] = load_records(out)
    return row, summary, requests


def test_disagreements_of_two_models_are_listed_and_change_nothing(
    tmp_path: Path, schema: str
) -> None:
    second = {**GOOD, "number": "a-7", "issued": "2026-03-07", "lines": [GOOD["lines"][0]]}  # type: ignore[index]
    row, summary, [request] = checked(tmp_path, schema, says(second))
    assert request["model"] == QWEN
    assert (row["status"], row["fields"], row["errors"]) == ("ok", GOOD, [])
    assert (row["model"], row["check_model"], row["check_error"]) == (DEEPSEEK, QWEN, None)
    line = json.dumps(GOOD["lines"][1])  # type: ignore[index]
    assert row["disagreements"] == [
        {"path": "issued", "value": '"2026-03-01"', "check_value": '"2026-03-07"'},
        {"path": "lines.1", "value": line, "check_value": None},
    ]
    assert row["attempts"] == 2
    counts = summary.records
    assert (counts.checked, counts.disagreeing, counts.not_checked) == (1, 1, 0)
    assert counts.disagreements_by_field == {"issued": 1, "lines.*": 1}
    [written] = (tmp_path / "out/records/records.jsonl").read_text().splitlines()
    assert json.loads(written)["disagreements"] == row["disagreements"]
    with (tmp_path / "out/records/disagreements.csv").open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert [(one["path"], one["check_value"]) for one in listed] == [
        ("issued", '"2026-03-07"'),
        ("lines.1", ""),
    ]
    assert "the second model" in (tmp_path / "out/index.html").read_text()


def test_models_that_agree_have_an_empty_list(tmp_path: Path, schema: str) -> None:
    second = {**GOOD, "number": " a-7 ", "total": "12.50"}
    row, summary, requests = checked(tmp_path, schema, says(second), pages=2, first=says(GOOD))
    assert len(requests) == 2, "one for each page, as the first model got"
    assert row["disagreements"] == []
    assert dict(summary.records.summary_rows())["Checked"] == "1  0 disagree"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (says(lambda: refusal(400, "too large")), "too large"),
        (says(lambda: answer("I see no bill.")), "the answer holds no JSON object"),
        (says(lambda: answer('{"number": "A-7"', "length")), "the answer was cut"),
    ],
)
def test_a_check_that_fails_keeps_the_record_and_says_so(
    tmp_path: Path, schema: str, second: Says, why: str
) -> None:
    row, summary, _ = checked(tmp_path, schema, second)
    assert (row["status"], row["fields"]) == ("ok", GOOD)
    assert row["disagreements"] is None
    assert why in row["check_error"]
    assert (summary.records.checked, summary.records.not_checked) == (0, 1)


def test_no_record_is_not_checked(tmp_path: Path, schema: str) -> None:
    first = says(lambda: answer("I see no bill."))
    row, summary, requests = checked(tmp_path, schema, says(GOOD), first)
    assert (row["status"], row["check_model"], requests) == ("failed", None, [])
    assert (summary.records.checked, summary.records.not_checked) == (0, 0)


def test_another_check_model_redoes_the_records(tmp_path: Path, schema: str) -> None:
    source, out = documents.pdf(tmp_path / "a.pdf"), tmp_path / "out"
    with serving_beside(says(GOOD)) as server:
        given: dict[str, Any] = {"base_url": server.base_url}
        parse(source, out, schema, Settings(**given))
        command = ("parse", str(out), "--schema", schema, "--base-url", server.base_url)
        done = llm_ocr(*command, "--check-model", "qwen3-vl-8b")
        assert done.returncode == 0, done.stderr
        assert "1  0 disagree" in done.stdout + done.stderr
        parse(out, None, schema, Settings(**given, check_model="qwen3-vl-8b"))
        names = [body["model"] for body in server.requests if is_parse(body)]
    assert names == [DEEPSEEK, DEEPSEEK, QWEN], "the same server serves both; the last run has none"
    [row] = load_records(out)
    assert row["disagreements"] == []


def test_a_converter_checks_too(tmp_path: Path, schema: str) -> None:
    source = documents.pdf(tmp_path / "a.pdf")
    with serving_beside(says(GOOD)) as main, serving_beside(says({**GOOD, "total": 9})) as other:
        result = convert(
            source,
            schema=schema,
            base_url=main.base_url,
            check_base_url=other.base_url,
            check_model="qwen3-vl-8b",
        )
    [record] = result.records
    assert record.check_model == QWEN
    assert [one.path for one in record.disagreements or ()] == ["total"]


def test_a_model_can_not_check_itself(tmp_path: Path, schema: str) -> None:
    source = documents.pdf(tmp_path / "a.pdf")
    done = llm_ocr("parse", str(source), "--schema", schema, "--check-model", "qwen3-vl-8b")
    assert done.returncode == 3
    assert "--check-model needs a server" in done.stderr
    assert "--check-base-url" in done.stderr
    with serving_beside(says(GOOD)) as server:
        same = Settings(base_url=server.base_url, check_model="deepseek-ocr")
        with pytest.raises(EngineFailedError, match="makes the records already"):
            parse(source, tmp_path / "out", schema, same)
        assert server.requests == [], "nothing is read before"
