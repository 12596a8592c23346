"""Parse: whatever a model answers, each document ends as a record or says why there is none."""

import io
import json
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from PIL import Image

from llm_ocr import load_pages, load_records, run
from llm_ocr.batch.events import Event, Note
from llm_ocr.batch.maintenance import retry
from llm_ocr.batch.parse_run import parse
from llm_ocr.messages import ProblemCode
from llm_ocr.parsing.schema import SchemaError
from llm_ocr.report.status import read_status
from llm_ocr.settings import Fallback, Settings
from llm_ocr.sources.inputs import NoInputError
from llm_ocr.tables.plan import SettingsMismatchError
from llm_ocr.tables.schema import Row
from tests import documents
from tests.cli.test_commands import llm_ocr
from tests.servers.chat import (
    ChatServer,
    answer,
    at_once,
    image_of,
    prompt_of,
    refusal,
    serving_beside,
)

BILL = """
from datetime import date
from pydantic import BaseModel, model_validator

class Line(BaseModel):
    text: str
    amount: float

class Bill(BaseModel):
    number: str
    issued: date | None = None
    lines: list[Line] = []
    total: float | None = None

    @model_validator(mode="after")
    def adds_up(self):
        if self.total is not None and sum(one.amount for one in self.lines) != self.total:
            raise ValueError("the lines are not the total")
        return self
"""
GOOD = {
    "number": "A-7",
    "issued": "2026-03-01",
    "lines": [{"text": "Pipes", "amount": 10.0}, {"text": "Valves", "amount": 2.5}],
    "total": 12.5,
}
DEEPSEEK, QWEN = "deepseek-ai/DeepSeek-OCR", "Qwen/Qwen3-VL-8B-Instruct"
Bodies = list[dict[str, Any]]


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "bill.py"
    path.write_text(BILL)
    return str(path)


def is_guided(body: dict[str, Any]) -> bool:
    return "response_format" in body


def records(
    tmp_path: Path,
    schema: str,
    says: Callable[[dict[str, Any]], web.Response],
    pages: int = 1,
    **given: Any,  # noqa: ANN401
) -> tuple[list[Row], Bodies]:
    """What comes of one document whose pages are asked about so, and what was asked."""
    asked: Bodies = []

    def reply(body: dict[str, Any]) -> web.Response:
        if "<|grounding|>" in prompt_of(body) or body["max_tokens"] <= 16:
            return at_once(body)
        asked.append(body)
        return says(body)

    # The pages say the file's name, and too little else for an answer to be compared with.
    folder = tmp_path / uuid.uuid4().hex
    source, out = documents.pdf(folder / "bill.pdf", pages=pages), folder / "out"
    with serving_beside(reply) as server:
        parse(source, out, schema, Settings(base_url=server.base_url), **given)
    status = read_status(str(out)).stages["parse"]
    found = list(load_records(out))
    assert status.items_committed == len(found)
    return found, asked


def test_an_answer_becomes_a_record_by_a_guided_request(tmp_path: Path, schema: str) -> None:
    [row], [body] = records(tmp_path, schema, lambda body: answer(json.dumps(GOOD)))
    assert (row["status"], row["fields"], row["errors"]) == ("ok", GOOD, [])
    assert row["source_uri"].endswith(".pdf")
    assert row["schema"] == "Bill"
    guide = body["response_format"]["json_schema"]
    assert guide["name"] == "Bill"
    assert set(guide["schema"]["properties"]) == set(GOOD)
    assert "What stands on the page." in prompt_of(body)


ADVERSE = {
    "prose": (f"Sure! Here it is:\n```json\n{json.dumps(GOOD)}\n```\nAnything else?", "ok", ()),
    "two objects": ('{"note": "thinking"} ' + json.dumps(GOOD), "ok", ("2 JSON objects",)),
    "trailing commas": ('{"number": "A-7", "lines": [], "total": 0,}', "ok", ("",)),
    "NaN": ('{"number": "A-7", "total": NaN}', "ok", ("NaN read as null",)),
    "wrong types": ('{"number": "A-7", "total": "many", "issued": 5.5}', "ok", ("total", "issued")),
    "extra keys": (json.dumps({**GOOD, "mood": "fine"}), "ok", ("mood",)),
    "null for required": ('{"number": null, "total": null}', "ok", ("number",)),
    "bad line": (
        json.dumps({**GOOD, "lines": [{"text": "Pipes", "amount": "?"}], "total": None}),
        "ok",
        ("lines.0.amount",),
    ),
    "does not add up": (json.dumps({**GOOD, "total": 99.0}), "ok", ("not the total",)),
    "cut in a string": ('{"number": "A-7", "lines": [{"text": "Pip', "truncated", ("",)),
    "a list": ("[1, 2, 3]", "failed", ()),
    "empty": ("", "failed", ()),
    "no JSON": ("I can't see any bill on this page.", "failed", ()),
    "long": ('{"number": "A-7", "total": 0} ' + "x" * 9_900_000, "ok", ()),
}


PRICES = """
from decimal import Decimal
from pydantic import BaseModel

class Prices(BaseModel):
    net: Decimal
    total: Decimal
    rate: float
"""


@pytest.mark.parametrize("end", ["}", ",}"], ids=["JSON", "mended JSON"])
def test_decimals_keep_the_digits_that_were_answered(tmp_path: Path, end: str) -> None:
    path = tmp_path / "prices.py"
    path.write_text(PRICES)
    text = '{"net": 2298.00, "total": 1e3, "rate": 19.50' + end
    rows, _ = records(tmp_path, str(path), lambda body: answer(text))
    assert rows[0]["fields"] == {"net": "2298.00", "total": "1000.0", "rate": 19.5}


@pytest.mark.parametrize("kind", ADVERSE)
def test_adverse_answers_lose_nothing(tmp_path: Path, schema: str, kind: str) -> None:
    text, status, told = ADVERSE[kind]
    [row], asked = records(tmp_path, schema, lambda body: answer(text))
    assert row["status"] == status, row
    said = [f"{one['path']}: {one['reason']}" for one in row["errors"]]
    for part in told:
        assert any(part in one for one in said), said
    if status == "failed":
        assert (row["fields"], row["raw_answer"]) == (None, text)
        assert row["error_code"] in ("unreadable_answer", "empty_answer")
    else:
        assert row["fields"]["number"] == (None if kind == "null for required" else "A-7")
    # What is no object, or was cut, is asked for once more.
    assert len(asked) == (1 if status == "ok" else 2)


def test_better_second_answer_is_kept(tmp_path: Path, schema: str) -> None:
    answers = iter(["No idea.", json.dumps(GOOD)])
    [row], asked = records(tmp_path, schema, lambda body: answer(next(answers)))
    assert (row["status"], row["fields"], row["attempts"]) == ("ok", GOOD, 2)
    assert "the answer holds no JSON object" in prompt_of(asked[1])
    assert (asked[0]["temperature"], asked[1]["temperature"]) == (0.0, 0.3)


def test_truncated_answer_is_retried_with_more_tokens(tmp_path: Path, schema: str) -> None:
    answers = iter(['{"number": "A-7", "lines": [{"te', json.dumps(GOOD)])
    [row], asked = records(tmp_path, schema, lambda body: answer(next(answers)))
    assert (row["status"], row["fields"], row["attempts"]) == ("ok", GOOD, 2)
    assert asked[1]["max_tokens"] > 1.5 * asked[0]["max_tokens"]


def test_equal_lines_on_three_pages_are_three_items(tmp_path: Path, schema: str) -> None:
    fee = {"number": "A-7", "lines": [{"text": "Fee", "amount": 5.0}]}
    [row], _ = records(tmp_path, schema, lambda body: answer(json.dumps(fee)), pages=3)
    assert [line["amount"] for line in row["fields"]["lines"]] == [5.0, 5.0, 5.0]


def test_only_the_page_with_the_bad_answer_is_requested_again(tmp_path: Path, schema: str) -> None:
    answers = iter(["Hm.", json.dumps(GOOD), json.dumps({"number": "A-7"}), '{"lines": []}'])
    [row], asked = records(tmp_path, schema, lambda body: answer(next(answers)), pages=3)
    assert (row["status"], len(asked)) == ("ok", 4)
    assert row["fields"]["number"] == "A-7"


def test_refused_page_loses_only_its_part_of_the_record(tmp_path: Path, schema: str) -> None:
    guided = 0

    def says(body: dict[str, Any]) -> web.Response:
        nonlocal guided
        guided += is_guided(body)
        if guided == 1 or not is_guided(body):
            return refusal(400, "this image is no image")
        return answer(json.dumps(GOOD if guided == 2 else {"number": "A-7"}))

    [row], _ = records(tmp_path, schema, says, pages=3)
    assert (row["status"], row["fields"]["total"]) == ("truncated", 12.5)
    assert "Pipes" in row["raw_answer"]
    [told] = [one["reason"] for one in row["errors"]]
    assert "nobody could be asked about it" in told
    assert "this image is no image" in told


def test_record_names_the_page_that_failed(tmp_path: Path, schema: str) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        return answer(json.dumps(GOOD)) if is_guided(body) else at_once(body)

    documents.corrupt_page_pdf(tmp_path / "a.pdf")
    with serving_beside(reply) as server:
        settings = Settings(base_url=server.base_url)
        parse(tmp_path / "a.pdf", tmp_path / "out", schema, settings, input_mode="text")
    [row] = load_records(tmp_path / "out")
    assert (row["status"], row["fields"]["number"]) == ("truncated", "A-7")
    assert "page 2 could not be read" in row["errors"][0]["reason"]


def test_server_without_log_probabilities_is_supported(tmp_path: Path, schema: str) -> None:
    def says(body: dict[str, Any]) -> web.Response:
        if "logprobs" in body:
            return refusal(400, "logprobs is not supported")
        return answer(json.dumps(GOOD))

    [row], _ = records(tmp_path, schema, says)
    assert (row["status"], row["fields"]) == ("ok", GOOD)
    assert {one["extraction"] for one in row["evidence"]} == {None}


def test_values_have_the_confidence_of_their_answer_but_none_of_a_reading_that_reports_none(
    tmp_path: Path, schema: str
) -> None:
    def says(body: dict[str, Any]) -> web.Response:
        text = json.dumps({"number": "What stands on the page"})
        said = json.loads(str(answer(text).text))
        content = [{"token": text[:12], "logprob": -0.1}, {"token": text[12:], "logprob": -0.5}]
        said["choices"][0]["logprobs"] = {"content": content}
        return web.json_response(said)

    [row], _ = records(tmp_path, schema, says)
    [found] = row["evidence"]
    assert found["extraction"] == pytest.approx(math.exp(-0.5), abs=1e-4)
    assert found["confidence"] == pytest.approx(found["extraction"], abs=1e-4)
    assert found["reading"] is None


def test_server_without_schema_support_gets_it_in_the_prompt(tmp_path: Path, schema: str) -> None:
    def says(body: dict[str, Any]) -> web.Response:
        if is_guided(body):
            return refusal(400, "response_format is not supported")
        assert '"properties"' in prompt_of(body)
        return answer(json.dumps(GOOD))

    [row], asked = records(tmp_path, schema, says)
    assert (row["status"], row["fields"]) == ("ok", GOOD)
    assert [is_guided(body) for body in asked] == [True, False]


def test_pages_of_a_document_are_one_record_or_one_each(tmp_path: Path, schema: str) -> None:
    parts = [
        {"number": "A-7", "lines": [{"text": "Pipes", "amount": 10.0}]},
        {"lines": [{"text": "Valves", "amount": 2.5}], "total": 12.5},
    ]

    def says(body: dict[str, Any]) -> web.Response:
        return answer(json.dumps(parts[len(seen)]))

    seen: list[int] = []

    def in_turn(body: dict[str, Any]) -> web.Response:
        said = says(body)
        seen.append(1)
        return said

    [whole], _ = records(tmp_path, schema, in_turn, pages=2)
    assert whole["fields"] == {**GOOD, "issued": None}
    assert whole["errors"] == []
    seen.clear()
    each, _ = records(tmp_path, schema, in_turn, pages=2, record_per="page")
    assert [row["record_id"][-2:] for row in each] == ["/1", "/2"]
    assert [len(row["fields"]["lines"]) for row in each] == [1, 1]


def test_text_input_mode_sends_no_image(tmp_path: Path, schema: str) -> None:
    [row], [body] = records(
        tmp_path, schema, lambda body: answer(json.dumps(GOOD)), pages=3, input_mode="text"
    )
    assert row["fields"] == GOOD
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text"]
    assert prompt_of(body).count("# Page ") == 3


def test_unverified_values_are_marked_or_dropped(tmp_path: Path, schema: str) -> None:
    seen = {**GOOD, "number": "What stands on the page"}
    says = lambda body: answer(json.dumps(seen))  # noqa: E731
    [row], _ = records(tmp_path, schema, says)
    found = {one["path"]: one for one in row["evidence"]}
    assert found["number"]["matched"] == "exact"
    assert found["number"]["x1"] is not None
    assert found["lines.0.text"]["matched"] is None
    [row], _ = records(tmp_path, schema, says, drop_unverified=True)
    assert row["fields"]["number"] == "What stands on the page"
    assert row["fields"]["lines"][0]["text"] is None
    assert any(one["path"] == "lines.0.text" for one in row["errors"])
    assert row["fields"]["issued"] is None
    says_little = lambda body: answer('{"number": "What stands on the page"}')  # noqa: E731
    [row], _ = records(tmp_path, schema, says_little, drop_unverified=True)
    assert (row["fields"]["lines"], row["errors"]) == ([], []), "the schema's own defaults stay"


def test_run_is_parsed_again_only_with_another_schema(tmp_path: Path, schema: str) -> None:
    source, out = documents.pdf(tmp_path / "a.pdf", pages=2), tmp_path / "out"

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(json.dumps(GOOD)) if is_guided(body) else at_once(body)

    with serving_beside(reply) as server:
        run(source, out, base_url=server.base_url)
        command = ("parse", str(out), "--base-url", server.base_url)
        for number, wanted in enumerate((schema, schema, "receipt")):
            before = len(server.requests)
            done = llm_ocr(*command, "--schema", wanted)
            assert done.returncode == 0, done.stderr
            assert (len(server.requests) > before) == (number != 1)
    assert [row["schema"] for row in load_records(out)] == ["receipt"]
    assert len(list(load_pages(out))) == 2


def test_records_written_elsewhere_leave_the_run_unchanged(tmp_path: Path, schema: str) -> None:
    source, home, out = documents.pdf(tmp_path / "a.pdf", pages=2), "home", tmp_path / "out"

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(json.dumps(GOOD)) if is_guided(body) else at_once(body)

    with serving_beside(reply) as server:
        run(source, tmp_path / home, base_url=server.base_url)
        before = documents_of(tmp_path / home)
        pages = len(server.requests)
        settings = Settings(base_url=server.base_url)
        for _ in range(2):
            parse(tmp_path / home, out, schema, settings)
        asked = len(server.requests)
        with pytest.raises(NoInputError, match="one run at a time"):
            parse([tmp_path / home, source], out, schema, settings)
        run(documents.pdf(tmp_path / "b.pdf"), tmp_path / "other", base_url=server.base_url)
        with pytest.raises(SettingsMismatchError, match="a run of other documents") as refused:
            parse(tmp_path / "other", out, schema, settings)
    assert refused.value.code is ProblemCode.OTHER_DOCUMENTS
    assert asked - pages == 2, "each page of the document once"
    assert documents_of(tmp_path / home) == before
    [row] = load_records(out)
    assert row["fields"] == {**GOOD, "lines": 2 * GOOD["lines"]}  # type: ignore[operator]
    assert row["source_uri"] == str(source)
    assert [page["markdown"] for page in load_pages(out)] == [
        page["markdown"] for page in load_pages(tmp_path / home)
    ]
    assert (out / "records").is_dir()
    assert "A-7" in (out / "index.html").read_text()


def test_failed_records_are_redone_on_request(tmp_path: Path, schema: str) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf")
    documents.picture(tmp_path / "in" / "b.png")
    out, is_mended = tmp_path / "out", False

    def reply(body: dict[str, Any]) -> web.Response:
        if not is_guided(body):
            return at_once(body)
        return answer(json.dumps(GOOD) if is_mended else "Nothing.")

    def asked_of(server: ChatServer) -> int:
        return sum(map(is_guided, server.requests))

    with serving_beside(reply) as server:
        settings = Settings(base_url=server.base_url, concurrency=1)
        first = parse(tmp_path / "in", out, schema, settings)
        assert first.records.by_status == {"failed": 2}
        assert first.failed_ratio == 1
        problems = [(one.source_uri, one.page_number, one.status) for one in first.problems]
        names = (tmp_path / "in" / "a.pdf", tmp_path / "in" / "b.png")
        assert problems == [(str(name), 0, "failed") for name in names]
        assert all("holds no JSON object" in one.error for one in first.problems)
        is_mended = True
        asked = asked_of(server)
        assert parse(out, None, schema, settings).records.by_status == {"failed": 2}
        assert asked_of(server) == asked
        again = settings.model_copy(update={"redo": "failed"})
        mended = parse(out, None, schema, again)
        assert (mended.records.by_status, mended.problems) == ({"ok": 2}, ())
        assert asked_of(server) == asked + 2
        parse(out, None, schema, again)
        assert asked_of(server) == asked + 2
        with pytest.raises(SchemaError, match="`redo` bad"):
            parse(out, None, schema, settings.model_copy(update={"redo": "bad"}))


def test_records_are_redone_for_retried_pages_only(tmp_path: Path, schema: str) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf")
    documents.picture(tmp_path / "in" / "b.png")
    out, is_mended = tmp_path / "out", False

    def reply(body: dict[str, Any]) -> web.Response:
        if is_guided(body):
            return answer(json.dumps(GOOD))
        with Image.open(io.BytesIO(image_of(body))) as image:
            is_picture = image.width > image.height
        return refusal(400, "no") if is_picture and not is_mended else at_once(body)

    with serving_beside(reply) as server:
        settings = Settings(base_url=server.base_url, fallback=Fallback.NONE)
        parse(tmp_path / "in", out, schema, settings)
        is_mended = True
        notes: list[str] = []

        def heard(event: Event) -> None:
            notes.extend([event.text] if isinstance(event, Note) else [])

        retry(out, settings, notify=heard)
        assert any("records made from older page text" in note for note in notes)
        assert read_status(str(out)).stages["parse"].shards_outdated == 1
        before = sum(map(is_guided, server.requests))
        parse(out, None, schema, settings)
        assert sum(map(is_guided, server.requests)) == before + 1
    assert read_status(str(out)).stages["parse"].shards_outdated == 0
    assert [row["status"] for row in load_records(out)] == ["ok", "ok"]


def documents_of(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_examples_are_shown_and_another_one_redoes_the_records(tmp_path: Path, schema: str) -> None:
    source, out = documents.pdf(tmp_path / "a.pdf"), tmp_path / "out"
    example = "FewShotExample(text='{}', record={{'number': 'A'}})"
    shown = f"from llm_ocr import FewShotExample\nFEW_SHOT = [{example}]\n"

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(json.dumps(GOOD)) if is_guided(body) else at_once(body)

    with serving_beside(reply) as server:
        settings = Settings(base_url=server.base_url)
        for text in ("Bill A", "Bill A", "Another bill"):
            Path(schema).write_text(BILL + shown.format(text))
            parse(source if not out.exists() else out, out, schema, settings)
        turns = [body["messages"] for body in server.requests if is_guided(body)]
        Path(schema).write_text(BILL + shown.format("Bill A " * 9_000))
        before = len(server.requests)
        with pytest.raises(SchemaError, match="examples of the schema Bill take up to"):
            parse(out, None, schema, settings)
        assert len(server.requests) == before
    assert [len(messages) for messages in turns] == [3, 3]
    assert ["Another bill" in str(messages[0]) for messages in turns] == [False, True]
    [row] = load_records(out)
    assert row["fields"] == GOOD


def test_records_may_be_made_by_another_model(tmp_path: Path, schema: str) -> None:
    source, out = documents.pdf(tmp_path / "a.pdf"), tmp_path / "out"

    def reply(body: dict[str, Any]) -> web.Response:
        return answer(json.dumps(GOOD)) if is_guided(body) else at_once(body)

    with serving_beside(reply) as server:
        given: dict[str, Any] = {"base_url": server.base_url}
        parse(source, out, schema, Settings(**given))
        parse(out, None, schema, Settings(**given, parse_model="qwen3-vl-8b"))
        names = {body["model"] for body in server.requests if is_guided(body)}
    assert names == {DEEPSEEK, QWEN}
    assert [row["model"] for row in load_records(out)] == [QWEN]
    assert [row["model"] for row in load_pages(out)] == [DEEPSEEK]


def test_invalid_schema_or_input_is_reported_before_any_request(
    tmp_path: Path, schema: str
) -> None:
    source = documents.pdf(tmp_path / "a.pdf")
    with pytest.raises(SchemaError, match="There is no schema 'invoise'"):
        parse(source, tmp_path / "out", "invoise")
    assert not (tmp_path / "out").exists()
    done = llm_ocr("parse", str(source), "--schema", schema)
    assert done.returncode == 2
    assert "to read documents, pass --out" in done.stderr
