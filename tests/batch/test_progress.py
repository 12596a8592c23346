"""What is shown of a run while it goes on: to people, to logs, in notebooks."""

import asyncio
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from aiohttp import web
from nbclient import NotebookClient
from rich.console import Console

from llm_ocr.batch.events import Event, ItemsDone, Note, StageEnded, StageStarted
from llm_ocr.batch.progress import watch
from tests import documents
from tests.servers.chat import at_once, serving_beside

STORY: list[Event] = [
    Note("starting the embedded engine"),
    Note("starting the embedded engine"),
    StageStarted("extract", 1),
    ItemsDone("extract", "ok", 1, fresh=True),
    StageEnded("extract", 1),
    StageStarted("assemble", 0),
    StageEnded("assemble", 0),
]


class Sink(io.StringIO):
    """A file that says when a line with these words was written."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.came = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._words in self.getvalue():
            self.came.set()
        return count


@pytest.mark.parametrize("begun", [False, True], ids=["before the first stage", "in a stage"])
def test_progress_line_says_what_is_waited_for(begun: bool) -> None:
    words = "extract: waiting for weights, for" if begun else "waiting for weights, for"
    sink = Sink(words)
    with watch(Console(file=sink, width=80), False, seconds=0.02) as notify:
        if begun:
            notify(StageStarted("extract", 12))
        notify(Note("waiting for weights"))
        assert sink.came.wait(20), sink.getvalue()


def test_progress_line_counts_items_while_none_finishes() -> None:
    sink = Sink("extract: 2 of 12 pages (1 ok, 1 failed)")
    with watch(Console(file=sink, width=80), False, seconds=0.02) as notify:
        notify(StageStarted("extract", 12))
        notify(ItemsDone("extract", "ok", 1, fresh=True))
        notify(ItemsDone("extract", "failed", 1, fresh=True))
        assert sink.came.wait(20), sink.getvalue()


def test_a_run_with_more_pages_than_expected_never_counts_more_than_all() -> None:
    lines = io.StringIO()
    with watch(Console(file=lines, width=80), False) as notify:
        notify(StageStarted("extract", 3))
        notify(ItemsDone("extract", "ok", 4, fresh=True))
        notify(StageEnded("extract", 4))
    assert lines.getvalue().startswith("extract: 4 of 4 pages (4 ok), ")


def test_progress_lines_are_not_repeated_and_use_singular_and_plural() -> None:
    sink = Sink("")
    with watch(Console(file=sink, width=40), False) as notify:
        for event in STORY:
            notify(event)
    lines = sink.getvalue().splitlines()
    assert lines[0] == "starting the embedded engine"
    assert re.fullmatch(r"extract: 1 of 1 page \(1 ok\), [\d.]+/s, \d+ s", lines[1])
    assert re.fullmatch(r"assemble: 0 of 0 documents \(none\), 0.00/s, 0 s", lines[2])
    assert len(lines) == 3


def test_json_progress_says_what_is_waited_for_at_intervals() -> None:
    sink = Sink('"event": "waiting"')
    with watch(Console(file=sink), True, seconds=0.02) as notify:
        notify(Note("starting vLLM"))
        assert sink.came.wait(20)
        notify(StageStarted("extract", 2))
    found = [json.loads(line) for line in sink.getvalue().splitlines()]
    waiting = next(one for one in found if one["event"] == "waiting")
    assert waiting["message"] == "starting vLLM"
    assert waiting["seconds"] >= 0
    assert "stage_started" in {one["event"] for one in found}


@pytest.mark.long
def test_run_with_redirected_output_reports_waiting_for_the_server(
    tmp_path: Path,
) -> None:
    documents.picture(tmp_path / "scan.png")
    hold = threading.Event()

    async def slow(body: dict[str, Any]) -> web.StreamResponse:
        await asyncio.to_thread(hold.wait, 60)
        return at_once(body)

    with serving_beside(slow) as server:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "llm_ocr", "run", str(tmp_path / "scan.png")),
                *("--out", str(tmp_path / "out"), "--base-url", server.base_url),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if re.match(r"extract: (0 of 1 page .*|.*, for )\d+ s", line):
                # Only now is the page answered: without the clock this line would never come.
                hold.set()
        assert process.wait(60) == 0
    assert hold.is_set()
    assert len(lines) == len(set(lines)), "no line comes twice"


def _program(tmp_path: Path, base_url: str, more: str = "") -> str:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=2)
    places = f"{str(tmp_path / 'in')!r}, out={str(tmp_path / 'out')!r}, base_url={base_url!r}"
    return f"import llm_ocr\nllm_ocr.run({places}{more})"


def _on_a_terminal(code: str) -> str:
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:
        # The other end is closed.
        pass
    os.close(ours)
    assert process.wait(60) == 0, said
    return said.decode(errors="replace")


def test_a_run_from_python_shows_bars_on_a_terminal_unless_told_otherwise(tmp_path: Path) -> None:
    with serving_beside() as server:
        shown = _on_a_terminal(_program(tmp_path, server.base_url))
        silent = _on_a_terminal(_program(tmp_path / "b", server.base_url, ", progress=False"))
    assert "extract" in shown
    assert "2/2" in shown
    assert silent == ""


def test_a_run_in_a_notebook_shows_one_block_of_progress(tmp_path: Path) -> None:
    with serving_beside() as server:
        book = nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_code_cell(_program(tmp_path, server.base_url) + ";"),
                nbformat.v4.new_code_cell(
                    _program(tmp_path / "b", server.base_url, ", progress=False") + ";"
                ),
            ]
        )
        NotebookClient(book, kernel_name="python3", timeout=120).execute()
    shown, silent = (cell["outputs"] for cell in book["cells"])
    assert len(shown) == 1
    text = shown[0]["data"]["text/plain"]
    assert re.search(r"^extract: 2 of 2 pages \(2 ok\)", text, re.MULTILINE)
    assert re.search(r"^assemble: 1 of 1 document \(1 ok\)", text, re.MULTILINE)
    assert silent == []
