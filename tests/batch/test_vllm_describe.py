"""Tasks about figures with real vLLM, whose model is noise: what binds its answers is the guide."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from llm_ocr import load_descriptions, run
from llm_ocr.batch import worker
from llm_ocr.parsing.figure_data import NONE, SCHEMA
from llm_ocr.records import ErrorCode, PageStatus
from llm_ocr.settings import Settings
from tests import documents
from tests.servers.chat import FIGURE, answer, serving_beside
from tests.servers.vllm_cpu.checkpoint import pushed

pytestmark = pytest.mark.vllm

BIAS = ", ".join(f"{token} = {by}" for token, by in pushed({'"': 12, "n": 9, "]": 2}).items())
# DeepSeek-OCR bound to the schema of data, with short strings and few points.
PROFILE = f"""
id = "brief"
model = "deepseek-ai/DeepSeek-OCR"
base = "deepseek-ocr"
ladder = []

[prompts.data]
text = "Read the data."
max_tokens = 1000

[sampling]
temperature = 1.0
skip_special_tokens = false
logit_bias = {{ {BIAS} }}

[image]
longest_side = 640
smallest_side = 0
"""
CLASSES = ("photo", "map", "bar chart")


def test_structured_outputs_turn_noise_into_classes_and_json(vllm_url: str, tmp_path: Path) -> None:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=3)
    with serving_beside(lambda body: answer(FIGURE)) as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, describe=False)
    (tmp_path / "brief.toml").write_text(PROFILE)
    chosen: dict[str, Any] = {
        "base_url": vllm_url,
        "model": str(tmp_path / "brief.toml"),
        "describe_task": "classify,data",
        "classes": ",".join(CLASSES),
        # A random model passes no check.
        "skip_model_check": True,
    }
    summary = worker.resume(tmp_path / "out", Settings(**chosen), stages=("describe",))

    rows = list(load_descriptions(tmp_path / "out"))
    assert len(rows) == 6
    assert summary.tasks["classify"] == {"ok": 3}
    for row in rows:
        assert (row["attempts"], row["finish_reason"]) == (1, "stop"), "no guide was refused"
        if row["task"] == "classify":
            assert row["text"] in CLASSES
            assert 0 < row["confidence"] < 1
        else:
            said = json.loads(row["raw_answer"])
            assert list(Draft202012Validator(SCHEMA).iter_errors(said)) == []
            # A chart without a point, and a figure that is neither, are told as such.
            assert (
                row["data"]
                or row["error_code"] == ErrorCode.UNREADABLE_ANSWER
                or (said["kind"] == NONE and row["status"] == PageStatus.BLANK)
            )
