"""Several tasks over the figures of one run: what is asked, what is kept, and that it balances."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import load_descriptions, load_documents, load_figures, run
from llm_ocr.batch import worker
from llm_ocr.batch.maintenance import retry
from llm_ocr.document.figure_tasks import UnknownTaskError
from llm_ocr.report.status import read_status
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.tables.schema import Row
from tests import documents
from tests.servers.chat import ChatServer, answer, prompt_of, refusal, serving_beside

# A figure that takes 0.15 of its page, and an icon that takes 0.0025.
FIGURES = '<img data-bbox="200 450 800 700"/><img data-bbox="900 20 950 70"/>'
PAGE = f'<h1 data-bbox="100 50 700 90">Read</h1>{FIGURES}'
DATA = json.dumps({"kind": "table", "columns": ["River", "m"], "rows": [["Inn", 2]]})
CHOSEN: dict[str, Any] = {
    "concurrency": 2,
    "render_workers": 1,
    "viewer_pages": 0,
    "fallback": "none",
    "model": "qwen3-vl-8b",
}
PAGES = 3


class Describer:
    """Answers by what is asked, and counts it. May refuse guides, or fail the first page."""

    def __init__(self) -> None:
        self.refuses = self.fails_pages = False
        self.logprobs = True
        self.data, self.class_ = DATA, "photo"
        self.asked: Counter[str] = Counter()

    def reply(self, body: dict[str, Any]) -> web.Response:
        prompt = prompt_of(body)
        if "qwenvl" in prompt:
            self.asked["page"] += 1
            return refusal(400, "no") if self.fails_pages else answer(PAGE)
        if self.refuses and ("structured_outputs" in body or "response_format" in body):
            self.asked["refused"] += 1
            return refusal(400, "no such parameter")
        if "alternative text" in prompt:
            return self._answer("caption", answer("A blue box."))
        if "data in this figure" in prompt:
            return self._answer("data", answer(self.data))
        if "classes" in prompt:
            said = likely(self.class_) if self.logprobs else answer(self.class_)
            return self._answer("classify", said)
        if "river" in prompt:
            return self._answer("own", answer('{"name": "Inn", "odd": 1}'))
        return self._answer("describe", answer("It is blue."))

    def _answer(self, task: str, said: web.Response) -> web.Response:
        self.asked[task] += 1
        return said


def likely(text: str) -> web.Response:
    """An answer in two tokens, as vLLM tells their log-probabilities, and the one that ends it."""
    body = json.loads(str(answer(text).text))
    pieces = [(text[:2], -0.1), (text[2:], -0.2), ("<|im_end|>", -3.0)]
    content = [{"token": token, "logprob": value} for token, value in pieces]
    body["choices"][0]["logprobs"] = {"content": content}
    return web.json_response(body)


@pytest.fixture
def model() -> Describer:
    return Describer()


@pytest.fixture
def server(model: Describer) -> Iterator[ChatServer]:
    with serving_beside(model.reply) as running:
        yield running


@pytest.fixture
def out(tmp_path: Path, server: ChatServer, model: Describer) -> Path:
    """A run of three pages with a figure and an icon each, described."""
    documents.pdf(tmp_path / "in" / "a.pdf", pages=PAGES)
    run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, shard_pages=2, **CHOSEN)
    model.asked.clear()
    server.requests.clear()
    return tmp_path / "out"


def describe(out: Path, server: ChatServer, **settings: Any) -> Summary:  # noqa: ANN401
    chosen = Settings(base_url=server.base_url, **{**CHOSEN, **settings})
    return worker.resume(out, chosen, stages=("describe",))


def rows(out: Path) -> dict[str, Row]:
    found = list(load_descriptions(out))
    by_id = {row["description_id"]: row for row in found}
    assert len(by_id) == len(found)
    figures = [row["figure_id"] for row in load_figures(out)]
    tasks = {row["task"] for row in found}
    assert sorted(by_id) == sorted(f"{one}/{task}" for one in figures for task in tasks)
    # In the order of their figures, and of one figure by task.
    places = {figure: k for k, figure in enumerate(figures)}
    assert list(by_id) == sorted(by_id, key=lambda one: (places[one.rpartition("/")[0]], one))
    return by_id


def of(found: dict[str, Row], task: str) -> list[Row]:
    return [row for row in found.values() if row["task"] == task]


def test_later_task_adds_rows_and_requests_only_missing_ones(
    out: Path, server: ChatServer, model: Describer
) -> None:
    before = rows(out)
    assert Counter(row["status"] for row in before.values()) == {"ok": PAGES, "skipped": PAGES}
    summary = describe(out, server, describe_task="data,caption")
    assert model.asked == {"data": PAGES, "caption": PAGES}
    after = rows(out)
    assert {key: after[key] for key in before} == before
    assert {row["text"] for row in of(after, "caption")} == {"A blue box.", None}
    small = {"ok": PAGES, "skipped": PAGES}
    assert summary.tasks == {"caption": small, "data": small, "describe": small}
    assert (summary.figures, summary.descriptions) == (2 * PAGES, 3 * PAGES)
    assert read_status(str(out)).stages["describe"].tasks == summary.tasks
    assert read_status(str(out)).stages["describe"].items_committed == 6 * PAGES
    describe(out, server, describe_task=["data", "caption"])
    describe(out, server)
    assert model.asked == {"data": PAGES, "caption": PAGES}, "both are done already"
    assert rows(out) == after


def test_data_is_json_and_csv_and_a_table_in_the_document(out: Path, server: ChatServer) -> None:
    describe(out, server, describe_task="data")
    asked = server.requests[0]
    schema = asked["response_format"]["json_schema"]
    assert schema["name"] == "figure_data"
    assert schema["schema"]["required"][0] == "kind"
    row = of(rows(out), "data")[0]
    assert row["text"] == "River,m\r\nInn,2\r\n"
    assert json.loads(row["data"])["rows"] == [["Inn", 2]]
    assert row["raw_answer"] == DATA
    worker.resume(out, Settings(**CHOSEN), stages=("assemble",))
    document = next(load_documents(out))["markdown"]
    table = "<table><tr><th>River</th><th>m</th></tr><tr><td>Inn</td><td>2</td></tr></table>"
    assert document.count(f"> It is blue.\n\n{table}") == PAGES
    csv = sorted((out / "markdown" / "figures").glob("*.csv"))
    assert [path.name for path in csv] == [f"a-p{number}-1.csv" for number in range(1, PAGES + 1)]
    assert csv[0].read_bytes() == b"River,m\r\nInn,2\r\n"


@pytest.mark.parametrize(
    ("said", "status", "code", "text"),
    [
        ('{"kind": "none"}', "blank", None, None),
        ("I see no data here.", "failed", "unreadable_answer", None),
        ('{"kind": "chart", "series": []}', "failed", "unreadable_answer", None),
        ("", "failed", "empty_answer", None),
        ("<table><tr><td>a<td>b<tr><td>1<td>2</table>", "ok", None, "a,b\r\n1,2\r\n"),
    ],
)
def test_every_figure_has_one_row_whatever_the_answer(
    out: Path,
    server: ChatServer,
    model: Describer,
    said: str,
    status: str,
    code: str | None,
    text: str | None,
) -> None:
    model.data = said
    summary = describe(out, server, describe_task="data")
    assert summary.tasks["data"] == {status: PAGES, "skipped": PAGES}
    row = of(rows(out), "data")[0]
    assert (row["status"], row["error_code"], row["text"]) == (status, code, text)
    assert row["raw_answer"] == said
    assert (row["data"] is None) == (status != "ok")
    if code is not None:
        assert "a-p1-1.jpg: data: " in row["error"]
    worker.resume(out, Settings(**CHOSEN), stages=("assemble",))


def test_truncated_answer_is_kept_up_to_its_end(
    out: Path, server: ChatServer, model: Describer
) -> None:
    cut = '{"kind": "table", "columns": ["River", "m"], "rows": [["Inn", 2], ["Isar", 3'
    server.reply = lambda body: answer(cut, "length")
    summary = describe(out, server, describe_task="data")
    assert summary.tasks["data"] == {"truncated": PAGES, "skipped": PAGES}
    row = of(rows(out), "data")[0]
    assert row["text"].startswith("River,m\r\nInn,2\r\nIsar")
    assert any("truncated" in one["reason"] for one in row["errors"])


def test_class_has_the_model_confidence(out: Path, server: ChatServer, model: Describer) -> None:
    describe(out, server, describe_task="classify", classes="photo,map, logo")
    asked = server.requests[0]
    assert asked["structured_outputs"] == {"choice": ["photo", "map", "logo"]}
    assert asked["logprobs"] is True
    assert "photo, map, logo?" in prompt_of(asked)
    row = of(rows(out), "classify")[0]
    assert (row["text"], row["status"]) == ("photo", "ok")
    assert row["confidence"] == pytest.approx(0.7408, abs=1e-4)
    # Other classes are another question; the same ones are done already.
    model.asked.clear()
    model.logprobs = False
    model.class_ = "It is a map."
    describe(out, server, describe_task="classify", classes=["photo", "map", "logo"])
    assert not model.asked
    describe(out, server, describe_task="classify", classes="map,other")
    assert model.asked == {"classify": PAGES}
    row = of(rows(out), "classify")[0]
    assert (row["text"], row["confidence"]) == ("map", None)


def test_unknown_class_fails_with_the_answer(
    out: Path, server: ChatServer, model: Describer
) -> None:
    model.class_ = "a chart or a photo"
    describe(out, server, describe_task="classify")
    row = of(rows(out), "classify")[0]
    assert (row["status"], row["error_code"]) == ("failed", "unreadable_answer")
    assert "'a chart or a photo' is not one of the classes" in row["error"]
    assert row["raw_answer"] == "a chart or a photo"


def test_server_without_structured_outputs_gets_them_in_the_prompt(
    out: Path, server: ChatServer, model: Describer
) -> None:
    model.refuses = True
    describe(out, server, describe_task="data,classify", concurrency=1)
    refused = model.asked.pop("refused")
    assert model.asked == {"data": PAGES, "classify": PAGES}
    plain = [one for one in server.requests if "response_format" not in one]
    told = next(prompt_of(one) for one in plain if "data in this figure" in prompt_of(one))
    assert "Answer with JSON of this schema" in told
    assert '"x_label"' in told
    found = rows(out)
    assert {row["status"] for row in found.values()} == {"ok", "skipped"}
    attempts = sum(row["attempts"] for row in found.values() if row["task"] != "describe")
    assert attempts == refused + 2 * PAGES


def test_small_figures_are_requested_once_the_limit_allows(
    out: Path, server: ChatServer, model: Describer
) -> None:
    before = rows(out)
    describe(out, server, min_figure_area=0.2)
    assert not model.asked, "what is described stays"
    summary = describe(out, server, min_figure_area=0.001)
    assert model.asked == {"describe": PAGES}
    after = rows(out)
    kept = {key: row for key, row in before.items() if row["status"] == "ok"}
    assert {key: after[key] for key in kept} == kept
    assert summary.tasks == {"describe": {"ok": 2 * PAGES}}


def test_retried_pages_run_all_earlier_figure_tasks(
    tmp_path: Path, server: ChatServer, model: Describer
) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=PAGES)
    documents.pdf(tmp_path / "in" / "b.pdf", pages=1)
    chosen = {**CHOSEN, "base_url": server.base_url, "shard_pages": 1, "concurrency": 1}
    model.fails_pages = True
    out = tmp_path / "out"
    run(tmp_path / "in" / "b.pdf", out, max_failed_ratio=1, describe_task="caption", **chosen)
    describe(out, server, describe_task="classify", classes="photo,other")
    assert list(load_descriptions(out)) == []
    model.fails_pages = False
    model.asked.clear()
    summary = retry(out, Settings(**chosen))
    assert model.asked == {"page": 1, "caption": 1, "classify": 1}
    assert summary.tasks == {
        "caption": {"ok": 1, "skipped": 1},
        "classify": {"ok": 1, "skipped": 1},
    }
    choice = server.requests[-1].get("structured_outputs") or server.requests[-2]
    assert "photo" in json.dumps(choice)
    assert {row["task"] for row in rows(out).values()} == {"caption", "classify"}


def test_custom_task_by_prompt_and_schema(
    out: Path, server: ChatServer, model: Describer, tmp_path: Path
) -> None:
    (tmp_path / "prompt.txt").write_text("Which river is this?\n")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    (tmp_path / "river.json").write_text(json.dumps({"title": "River", **schema}))
    own = {"task_prompt": f"@{tmp_path}/prompt.txt", "task_schema": str(tmp_path / "river.json")}
    describe(out, server, **own)
    assert model.asked == {"own": PAGES}
    asked = server.requests[0]
    assert prompt_of(asked) == "Which river is this?"
    assert asked["response_format"]["json_schema"]["schema"]["required"] == ["name"]
    found = rows(out)
    (task,) = {row["task"] for row in found.values()} - {"describe"}
    row = of(found, task)[0]
    assert (json.loads(row["data"]), row["status"]) == ({"name": "Inn"}, "ok")
    describe(out, server, **own)
    assert model.asked == {"own": PAGES}, "the same is done already"
    (tmp_path / "river.json").write_text(json.dumps({"title": "River", **schema, "$id": "new"}))
    describe(out, server, **own)
    assert model.asked == {"own": 2 * PAGES}, "another schema is another question"
    describe(out, server, describe_task="rivers", task_prompt="Which river is this?")
    row = of(rows(out), "rivers")[0]
    assert (row["text"], row["data"]) == ('{"name": "Inn", "odd": 1}', None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"describe_task": "poem"}, "choose from describe, caption, data, classify"),
        ({"describe_task": "a,b", "task_prompt": "x"}, "or define one of your own"),
        (
            {"describe_task": "A b", "task_prompt": "x"},
            "must start with a letter",
        ),
        ({"classes": "a,b"}, "`classes` only applies to `describe_task` classify"),
        ({"describe_task": "classify", "classes": "a,a"}, "give at least two"),
    ],
)
def test_unknown_task_is_refused_before_any_request(
    out: Path, server: ChatServer, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnknownTaskError, match=said):
        describe(out, server, **settings)
    assert not server.requests


def test_a_prompt_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match=r"nowhere\.txt can't be read as a prompt"):
        Settings(task_prompt="@nowhere.txt")
