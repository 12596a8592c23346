"""Stored answers that a newer parser reads otherwise, without asking anyone."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from llm_ocr import load_documents, load_figures, load_pages, run
from llm_ocr.batch.maintenance import reparse
from llm_ocr.batch.reparse import reparse_answer
from llm_ocr.batch.worker import resume
from llm_ocr.models import catalog
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.elements import ElementRegion, compose
from llm_ocr.models.two_step import MINERU_2_5_PRO
from llm_ocr.records import Block, Box, ParsedAnswer
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.commits import latest_generations
from tests import documents
from tests.servers.chat import ChatServer, answer, prompt_of, serving_beside

ANSWER = (
    "<|ref|>title<|/ref|><|det|>[[100, 50, 900, 90]]<|/det|>\n# Read\n\n"
    "<|ref|>image<|/ref|><|det|>[[200, 300, 800, 700]]<|/det|>\n"
)
CHOSEN: dict[str, Any] = {"render_workers": 1, "viewer_pages": 0, "shard_pages": 2}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        return answer(ANSWER if "<|grounding|>" in prompt_of(body) else "A picture.")

    with serving_beside(reply) as running:
        yield running


@pytest.fixture
def out(tmp_path: Path, server: ChatServer) -> Path:
    """Two shards of a document of two pages each, each page with a figure."""
    for name in ("a", "b"):
        documents.pdf(tmp_path / "in" / f"{name}.pdf", pages=2)
    run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **CHOSEN)
    server.requests.clear()
    return tmp_path / "out"


def newer(monkeypatch: pytest.MonkeyPatch, *, shout: bool = True, move: bool = False) -> None:
    """A parser of DeepSeek-OCR's answers that shouts, or puts boxes elsewhere."""

    def changed(block: Block) -> Block:
        text, box = block.text.upper() if shout else block.text, block.box
        if move and box is not None:
            box = Box(box.x1, box.y1, box.x2 - 20, box.y2 - 20)
        return Block(block.label, text, box)

    def parse(text: str, width: int, height: int) -> ParsedAnswer:
        parsed = DEEPSEEK_OCR.parse(text, width, height)
        return ParsedAnswer(tuple(changed(one) for one in parsed.blocks), parsed.notes)

    version = DEEPSEEK_OCR.parser_version + 1
    profile = replace(DEEPSEEK_OCR, parse=parse, parser_version=version)
    monkeypatch.setitem(catalog.PROFILES, DEEPSEEK_OCR.id, profile)


def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser of DeepSeek-OCR's answers that knew no blocks."""

    def parse(text: str, width: int, height: int) -> ParsedAnswer:
        return ParsedAnswer((Block("text", "The page.", None),), ())

    version = DEEPSEEK_OCR.parser_version - 1
    profile = replace(DEEPSEEK_OCR, parse=parse, parser_version=version)
    monkeypatch.setitem(catalog.PROFILES, DEEPSEEK_OCR.id, profile)


def test_reparse_rewrites_pages_that_the_parser_reads_differently(
    out: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, figures = list(load_pages(out)), list(load_figures(out))
    newer(monkeypatch)
    summary = reparse(out)
    after = list(load_pages(out))
    assert summary.pages == 4
    assert all("# READ" in row["markdown"] for row in after)
    assert {row["parser_version"] for row in after} == {DEEPSEEK_OCR.parser_version + 1}
    same = ("image", "raw_answer", "attempts", "seconds", "page_id", "status")
    for old, new in zip(before, after, strict=True):
        assert {key: new[key] for key in same} == {key: old[key] for key in same}
    assert list(load_figures(out)) == figures, "the same boxes: the same crops"
    assert all("# READ" in row["markdown"] for row in load_documents(out))
    assert "# READ" in (out / "markdown" / "a.md").read_text()
    assert server.requests == []
    generations = latest_generations(open_store(str(out)), "extract")
    reparse(out)
    assert latest_generations(open_store(str(out)), "extract") == generations, (
        "nothing is left to be read"
    )


@pytest.mark.parametrize("use", ["auto", "off"])
def test_reparsed_pages_equal_those_of_a_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """Also where it mends answers from the PDF's own text, and only there."""
    lines = ["Input 220-240V AC at 1234.50 W", "• Unplug it first", "• Then open the lid"]
    sheet = Canvas(str(tmp_path / "page.pdf"), pagesize=(300, 400))
    for k, line in enumerate(lines):
        sheet.drawString(20, 350 - 40 * k, line)
    sheet.save()
    said = (
        "<|ref|>text<|/ref|><|det|>[[60, 90, 700, 140]]<|/det|>\n"
        "Input 220- 240V AC at 1 234.50 W\n\n"
        "<|ref|>text<|/ref|><|det|>[[60, 190, 700, 250]]<|/det|>\n"
        "• Unplug it first • Then open the lid"
    )
    with serving_beside(lambda body: answer(said)) as server:
        chosen = {**CHOSEN, "base_url": server.base_url, "text_layer": use}
        run(tmp_path / "page.pdf", tmp_path / "today", **chosen)
        with monkeypatch.context() as before:
            older(before)
            # The older parser knows no boxes, without which the server and its answers are doubted.
            lenient = {**chosen, "skip_model_check": True, "min_agreement": 0.0}
            run(tmp_path / "page.pdf", tmp_path / "out", **lenient)
        [old] = load_pages(tmp_path / "out")
        reparse(tmp_path / "out")
    [row], [wanted] = load_pages(tmp_path / "out"), load_pages(tmp_path / "today")
    for name in ("markdown", "blocks", "notes", "flaw", "status"):
        assert row[name] == wanted[name]
    assert row["markdown"] != old["markdown"]
    assert ("220-240V" in row["markdown"]) == (use == "auto")


def test_reparse_without_differences_writes_nothing(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer(monkeypatch, shout=False)
    reparse(out)
    assert set(latest_generations(open_store(str(out)), "extract").values()) == {0}


def test_moved_figures_are_cropped_again_from_the_source_or_the_page(
    out: Path, tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {row["figure_id"]: row for row in load_figures(out)}
    (tmp_path / "in" / "b.pdf").unlink()
    newer(monkeypatch, move=True)
    reparse(out)
    notes = {row["name"]: row["notes"] for row in load_pages(out)}
    assert not any("figures cut" in one for one in notes["a"])
    assert any("cut from the page image" in one and "b.pdf" in one for one in notes["b"])
    for row in load_figures(out):
        assert row["x2"] == before[row["figure_id"]]["x2"] - 20
        with Image.open(io.BytesIO(row["image"]["bytes"])) as image:
            assert image.size == (row["width"], row["height"])
    assert all("A picture." not in row["markdown"] for row in load_documents(out))
    for stage in ("describe", "assemble"):
        resume(out, Settings(base_url=server.base_url, **CHOSEN), stages=[stage])
    assert len(server.requests) == 4
    assert all("A picture." in row["markdown"] for row in load_documents(out))


@pytest.mark.parametrize("status", ["truncated", "repetitive", "ok"])
def test_a_page_of_elements_keeps_the_status_that_they_gave_it(status: str) -> None:
    regions = [ElementRegion("text", (0, 100 * k, 900, 100 * k + 90)) for k in range(9)]
    row: dict[str, Any] = {
        "raw_answer": compose(regions, dict.fromkeys(range(9), "The same line in each box.")),
        "finish_reason": "stop",
        "completion_tokens": 90,
        "width": 1000,
        "height": 1000,
        "status": status,
        "agreement": None,
        "notes": [],
        "blocks": [],
    }
    found = reparse_answer(row, MINERU_2_5_PRO, None)
    assert found is not None
    assert found.status == status
    assert [block.text for block in found.blocks] == ["The same line in each box."] * 9
