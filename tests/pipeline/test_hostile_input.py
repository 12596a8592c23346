"""Values from outside that no table can hold: none ends a run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import load_documents, load_pages, run
from llm_ocr.stages.page import PageItem
from llm_ocr.tables.schema import Row
from tests import documents, shards
from tests.servers.chat import Reply, at_once, image_of, serving_beside

ALONE: dict[str, Any] = {"render_workers": 1, "fallback": "none", "describe": False}


def rows(out: Path) -> dict[str, Row]:
    """The rows of pages, by the documents' names: one of each."""
    found = list(load_pages(str(out)))
    named = {row["name"]: row for row in found}
    assert len(named) == len(found) == len(list(load_documents(str(out))))
    return named


def read(inputs: Path, out: Path, reply: Reply = at_once, **settings: Any) -> dict[str, Row]:  # noqa: ANN401
    with serving_beside(reply) as server:
        run(inputs, out, base_url=server.base_url, **{**ALONE, **settings})
    return rows(out)


def is_wide(body: dict[str, Any]) -> bool:
    image = documents.decoded(image_of(body))
    return image.width > 2 * image.height


def reply_with(change: Callable[[dict[str, Any]], None]) -> Reply:
    """A server whose answers about pictures that are wide are changed."""

    def reply(body: dict[str, Any]) -> web.Response:
        whole = at_once(body)
        if is_wide(body) and isinstance(whole.body, bytes):
            said = json.loads(whole.body)
            change(said)
            # Half a character only passes as an escape.
            return web.json_response(said, dumps=lambda one: json.dumps(one, ensure_ascii=True))
        return whole

    return reply


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "good.pdf")
    documents.picture(tmp_path / "in" / "odd.png", size=(900, 300))
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("code", "shown"),
    [("d835", "\ufffd"), ("d835dc00", "\U0001d400"), ("dc00d835", "\ufffd\ufffd")],
)
def test_halves_of_characters_in_a_text_layer(tmp_path: Path, code: str, shown: str) -> None:
    """TeX's mathematical letters are two halves to pdfium; a font may name one alone."""
    (tmp_path / "in").mkdir()
    documents.letter_pdf(
        tmp_path / "in" / "odd.pdf", "One grave text, long enough to be used for itself", "a", code
    )
    run(tmp_path / "in", tmp_path / "out", text_layer="only", render_workers=1)
    found = rows(tmp_path / "out")
    assert f"gr{shown}ve" in found["odd"]["markdown"]


def test_half_a_character_in_an_answer(inputs: Path, tmp_path: Path) -> None:
    def change(said: dict[str, Any]) -> None:
        said["choices"][0]["message"]["content"] += "half \ud835 and whole \ud835\udc00"

    found = read(inputs, tmp_path / "out", reply_with(change))
    assert found["odd"]["status"] == "ok"
    assert "half \ufffd and whole \U0001d400" in found["odd"]["markdown"]


@pytest.mark.parametrize("count", [10**12, -5, 1e300, "many", [7]])
def test_counts_of_tokens_that_can_be_none(inputs: Path, tmp_path: Path, count: object) -> None:
    def change(said: dict[str, Any]) -> None:
        said["usage"] = {"prompt_tokens": count, "completion_tokens": count}

    found = read(inputs, tmp_path / "out", reply_with(change))
    assert found["odd"]["status"] == "ok", "the answer is not lost for it"
    assert found["odd"]["prompt_tokens"] == 0


@pytest.mark.parametrize("reason", [5, ["stop"], {"a": 1}])
def test_a_finish_reason_that_is_no_text(inputs: Path, tmp_path: Path, reason: object) -> None:
    def change(said: dict[str, Any]) -> None:
        said["choices"][0]["finish_reason"] = reason

    found = read(inputs, tmp_path / "out", reply_with(change))
    assert found["good"]["status"] == "ok"
    assert (found["odd"]["status"], found["odd"]["error_code"]) == ("failed", "engine_error")
    assert "odd.png" in found["odd"]["error"]
    assert "finish_reason" in found["odd"]["error"]


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    documents.pdf(inputs / "good.pdf")
    folder = os.fsencode(inputs)
    os.rename(documents.pdf(inputs / "odd.pdf"), folder + b"/caf\xe9.pdf")
    found = read(inputs, tmp_path / "out")
    assert found["good"]["status"] == "ok"
    assert found["caf_"]["error_code"] == "not_found"
    assert r"caf\udce9.pdf: its name is no UTF-8" in found["caf_"]["error"]
    tars = tmp_path / "tars"
    shards.samples(tars / "good.tar", 1)
    os.rename(shards.samples(tars / "odd.tar", 1), os.fsencode(tars) + b"/caf\xe9.tar")
    found = read(tars, tmp_path / "out2")
    assert sorted(row["status"] for row in found.values()) == ["failed", "ok"]
    assert any(r"caf\udce9.tar" in (row["error"] or "") for row in found.values())


@pytest.mark.parametrize(("column", "value"), [("rotation", "no number"), ("width", 1 << 40)])
def test_a_row_that_cannot_be_stored_is_that_pages_failure(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, value: object
) -> None:
    """Nothing known makes such a row any more; this is for what is not known."""
    plain = PageItem._page_row

    def broken(self: PageItem, *given: Any) -> dict[str, object]:  # noqa: ANN401
        row = plain(self, *given)
        return {**row, column: value} if "odd" in self.source_uri else row

    monkeypatch.setattr(PageItem, "_page_row", broken)
    found = read(inputs, tmp_path / "out")
    assert found["good"]["status"] == "ok"
    assert (found["odd"]["status"], found["odd"]["error_code"]) == ("failed", "internal_error")
    assert "odd.png, page 1: what was read can't be stored" in found["odd"]["error"]
    assert f"pages.{column}" in found["odd"]["error"]
