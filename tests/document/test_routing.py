"""Pages that the embedded engine reads instead of the model, because they are simple."""

from pathlib import Path
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas
from rich.console import Console

from llm_ocr import Summary, load_pages, run
from llm_ocr.batch.events import Event, Note, Notify
from llm_ocr.engines import targets
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.engines.launch import EngineCommand
from llm_ocr.report.summary import render_summary
from llm_ocr.settings import PageRouting
from tests import documents
from tests.servers.chat import answer, serving_beside

LINES = (
    "The river rose by a meter in March, and the lower meadows",
    "stood under water until the old weir was opened again in",
    "the first days of May, when the miller came back to town.",
)
SIZE = (420, 560)
BY_MODEL = "<|ref|>text<|/ref|><|det|>[[40, 40, 960, 960]]<|/det|>\n" + " ".join(LINES)


def page(path: Path) -> Canvas:
    sheet = Canvas(str(path), pagesize=SIZE)
    for k, line in enumerate(LINES):
        sheet.drawString(50, 480 - 16 * k, line)
    return sheet


def with_formula(path: Path) -> None:
    sheet = page(path)
    sheet.drawString(150, 390, "v = s / t ± d")
    sheet.save()


def with_table(path: Path) -> None:
    sheet = page(path)
    for row, cells in enumerate((("Gauge", "March", "April"), ("Weir", "412", "388"))):
        for column, text in enumerate(cells):
            x, y = 50 + 100 * column, 380 - 24 * row
            sheet.rect(x, y, 100, 24)
            sheet.drawString(x + 8, y + 8, text)
    sheet.save()


def with_three_columns(path: Path) -> None:
    sheet = Canvas(str(path), pagesize=(800, 560))
    for column, row in ((column, row) for column in range(3) for row in range(20)):
        sheet.drawString(40 + 250 * column, 500 - 20 * row, LINES[row % 3][:36])
    sheet.save()


def routed_run(
    inputs: Path, notify: Notify | None = None
) -> tuple[Summary, dict[str, dict[str, Any]], int]:
    """The summary, the row of each document's one page, and how many requests the model got."""
    out = inputs.parent / "out"
    with serving_beside(lambda body: answer(BY_MODEL)) as server:
        summary = run(
            inputs,
            out,
            base_url=server.base_url,
            route=PageRouting.AUTO,
            describe=False,
            min_agreement=0.0,
            render_workers=1,
            engine_threads=1,
            notify=notify,
        )
        rows = {row["name"]: dict(row) for row in load_pages(str(out))}
        return summary, rows, len(server.requests)


def test_simple_pages_are_read_by_the_embedded_engine_and_all_others_by_the_model(
    tmp_path: Path,
) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    page(inputs / "simple.pdf").save()
    with_formula(inputs / "formula.pdf")
    with_table(inputs / "table.pdf")
    with_three_columns(inputs / "columns.pdf")
    documents.picture(inputs / "scan.png")
    summary, rows, requests = routed_run(inputs)
    by_model = {"formula", "table", "columns", "scan"}
    assert {name: row["strategy"] for name, row in rows.items()} == {
        "simple": "routed",
        **dict.fromkeys(by_model, "first"),
    }
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert rows["simple"]["model"] == EMBEDDED.model
    assert rows["simple"]["markdown"].split() == " ".join(LINES).split()
    assert requests == len(by_model)
    # What it took to find out that a page isn't simple is nothing that the model was asked.
    assert {rows[name]["attempts"] for name in by_model} == {1}
    assert summary.routed == 1
    assert summary.routed_tokens == rows["simple"]["completion_tokens"] > 0
    console = Console(width=200, record=True)
    console.print(render_summary(summary))
    assert "1 of 5 pages to the embedded engine (20%)" in console.export_text()


def test_pages_that_would_queue_at_the_embedded_engine_are_read_by_the_model(
    tmp_path: Path,
) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    for number in range(12):
        page(inputs / f"{number}.pdf").save()
    # On one core it reads one page, and has the next one waiting; the others are drawn meanwhile.
    summary, rows, requests = routed_run(inputs)
    assert summary.pages_by_status["ok"] == len(rows) == 12
    assert 1 <= summary.routed < 12
    assert requests == 12 - summary.routed


def test_all_pages_are_read_by_the_model_if_the_embedded_engine_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EngineCommand("the embedded engine", ["false"], EMBEDDED.model)
    monkeypatch.setattr(targets, "embedded_command", lambda *_: broken)
    inputs = tmp_path / "in"
    inputs.mkdir()
    page(inputs / "simple.pdf").save()
    told: list[Event] = []
    summary, rows, requests = routed_run(inputs, told.append)
    assert (summary.routed, requests, rows["simple"]["strategy"]) == (0, 1, "first")
    notes = [one.text for one in told if isinstance(one, Note)]
    assert any("no page was read by the embedded engine" in one for one in notes)
