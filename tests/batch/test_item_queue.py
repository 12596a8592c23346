"""The order in which pages are requested, and what becomes of it when a run is killed."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from reportlab.pdfgen.canvas import Canvas

from llm_ocr import load_pages, run
from llm_ocr.batch.item_queue import ItemQueue, ordered_count
from llm_ocr.documents import Document
from llm_ocr.report.status import read_status
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import open_store
from tests.processes import run_module
from tests.servers.chat import at_once, grounded, image_of, prompt_of, serving_beside

# One request at a time, and two pages that are rendered ahead of it.
ONE: dict[str, Any] = {"concurrency": 1, "render_workers": 1, "shard_pages": 4, "viewer_pages": 0}
SLOTS = 3
CHANGES = '{"concurrency": 1, "min_agreement": 0}'
# Lines on the page of each document, in the order of their names: five shards.
LINES = (1, 1, 1, 1, 2, 30, 1, 2, 1, 2, 30, 1, 8, 1, 1, 2, 1, 30, 8, 2)


def lined_pdf(path: Path, lines: int) -> Path:
    """A page with so many lines of text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = Canvas(str(path), pagesize=(600, 800))
    for line in range(lines):
        text = f"{path.stem}, line {line} of {lines}, and what follows it up to the margin."
        sheet.drawString(60, 760 - 20 * line, text)
    sheet.save()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document of one page for each of `LINES`."""
    where = tmp_path_factory.mktemp("lined")
    for number, lines in enumerate(LINES):
        lined_pdf(where / f"{number:02d}.pdf", lines)
    return where


def asked_pages(requests: Sequence[dict[str, Any]], out: Path) -> list[int]:
    """The numbers of the documents whose pages were requested, in order."""
    text_of = {row["name"]: row["markdown"] for row in load_pages(out)}
    titles = [
        grounded(body).split("# ")[1].split("\n")[0]
        for body in requests
        if "<|grounding|>" in prompt_of(body) and image_of(body)
    ]
    return [next(int(name) for name, text in text_of.items() if title in text) for title in titles]


def test_pages_expected_to_be_long_are_requested_first_and_rows_keep_their_order(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: set[str] = set()
    are_measured = threading.Event()
    measure = RenderPool.expected_tokens

    async def noting(self: RenderPool, document: Document, numbers: Sequence[int]) -> list[int]:
        found = await measure(self, document, numbers)
        measured.add(document.name)
        if len(measured) == len(LINES) - SLOTS:
            are_measured.set()
        return found

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        assert await asyncio.to_thread(are_measured.wait, 60)
        return at_once(body)

    monkeypatch.setattr(RenderPool, "expected_tokens", noting)
    with serving_beside(reply) as server:
        run(folder, tmp_path / "out", base_url=server.base_url, min_agreement=0, **ONE)
        asked = asked_pages(server.requests, tmp_path / "out")
    rows = load_pages(tmp_path / "out")
    assert [row["name"] for row in rows] == [f"{number:02d}" for number in range(len(LINES))]
    # There was room for these at once: they were not even measured.
    assert asked[:SLOTS] == [0, 1, 2]
    assert measured == {f"{number:02d}" for number in range(SLOTS, len(LINES))}
    lengths = [LINES[number] for number in asked[SLOTS:]]
    assert lengths == sorted(LINES[SLOTS:], reverse=True)
    # Pages that are about as long stay in the order in which they came.
    assert [number for number in asked if LINES[number] == 30] == [5, 10, 17]


@pytest.mark.long
def test_a_kill_with_several_shards_open_loses_and_repeats_nothing(
    folder: Path, tmp_path: Path
) -> None:
    out, measured = tmp_path / "out", tmp_path / "measured"

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        while not measured.exists():
            await asyncio.sleep(0.02)
        return at_once(body)

    with serving_beside(reply) as server:
        arguments = ("tests.batch.dying_run", folder, out, server.base_url)
        fourth, all_measured = r"after:^_staging/extract/.*\.json$:4", len(LINES) - SLOTS
        killed = run_module(*arguments, fourth, CHANGES, f"{measured}:{all_measured}")
        assert killed.returncode == -9, killed.stderr
        staged = {entry.path.split("/")[2] for entry in open_store(str(out)).list("_staging")}
        assert len(staged) > 1
        stage = read_status(str(out)).stages["extract"]
        finished = stage.items_committed + stage.items_staged
        server.requests.clear()
        done = run_module(*arguments, "never", CHANGES)
        assert done.returncode == 0, done.stderr
        again = sum("<|grounding|>" in prompt_of(body) for body in server.requests)
    assert again == len(LINES) - finished
    names = [row["name"] for row in load_pages(out)]
    assert names == [f"{number:02d}" for number in range(len(LINES))]


def test_items_without_a_length_come_first_then_the_long_ones() -> None:
    queue = ItemQueue[str]()
    for name, tokens in (("short", 90), ("long", 1000), ("unknown", 0), ("longer", 1020)):
        queue.put(name, tokens)
    queue.put("earlier", None)
    assert [queue.get() for _ in range(5)] == ["earlier", "long", "longer", "short", "unknown"]
    with pytest.raises(IndexError):
        queue.get()


def test_what_is_ordered_grows_with_the_window_up_to_a_bound() -> None:
    assert ordered_count(3) == 24
    assert ordered_count(512) == ordered_count(10_000) == 2048
