"""A whole run with real vLLM behind it, which answers noise: see tests/servers/vllm_cpu."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_documents, load_pages, run
from llm_ocr.batch.events import Note
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.records import PageStatus
from tests import documents
from tests.conftest import ENVIRONMENT, TINY

pytestmark = pytest.mark.vllm

# DeepSeek-OCR with answers that end soon, as noise has no end of its own.
PROFILE = """
id = "brief"
model = "deepseek-ai/DeepSeek-OCR"
base = "deepseek-ocr"

[prompts.document]
text = "<|grounding|>Convert the document to markdown."
max_tokens = 24

[image]
longest_side = 800

[[ladder]]
name = "in two strips"
sampling = {}
bands = 2
"""
STARTING = Note("starting vLLM")


def test_every_page_gets_a_row(
    vllm: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    inputs, out = tmp_path / "inputs", tmp_path / "out"
    documents.pdf(inputs / "report.pdf", pages=3)
    documents.blank_image(inputs / "sheet.png")
    (tmp_path / "brief.toml").write_text(PROFILE)
    events: list[object] = []
    settings: dict[str, Any] = {
        "notify": events.append,
        "engine": "vllm",
        "vllm": vllm,
        "vllm_args": TINY,
        "weights": checkpoint,
        "model": str(tmp_path / "brief.toml"),
        "ready_timeout": 300,
        # A random model passes no check, and reads nothing of its pages.
        "skip_model_check": True,
        "min_agreement": 0.0,
        "fallback": "none",
    }
    summary = run(inputs, out, **settings)

    rows = {(row["name"], row["page_number"]): row for row in load_pages(out)}
    assert rows.keys() == {("report", 1), ("report", 2), ("report", 3), ("sheet", 1)}
    assert rows.pop(("sheet", 1))["status"] == PageStatus.BLANK
    for row in rows.values():
        # Cut, and so were the strips that were asked about next.
        assert row["status"] == PageStatus.TRUNCATED
        assert (row["model"], row["finish_reason"]) == (DEEPSEEK_OCR.model, "length")
        assert row["raw_answer"]
        assert row["attempts"] == 3
        assert row["completion_tokens"] == 3 * 24
        assert row["prompt_tokens"] > 3 * 273
    assert sum(summary.pages_by_status.values()) == summary.pages == 4
    assert (summary.completion_tokens, summary.engine_restarts) == (3 * 3 * 24, 0)
    assert {row["name"] for row in load_documents(out)} == {"report", "sheet"}
    assert STARTING in events
    assert "DeepseekOCRForCausalLM" in (out / "logs" / "vllm.log").read_text()

    before = len(events)
    again = run(inputs, out, **settings)
    assert (again.pages, again.pages_done) == (4, 0)
    assert STARTING not in events[before:], "there is nothing to ask"
