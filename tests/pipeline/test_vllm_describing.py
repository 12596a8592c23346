"""Tasks about figures with real vLLM, whose model is noise: what binds its answers is the guide."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_descriptions, run
from llm_ocr.pipeline import worker
from llm_ocr.records import PageStatus
from llm_ocr.settings import Settings
from tests import documents
from tests.conftest import ENVIRONMENT, TINY
from tests.servers.chat import FIGURE, answer, serving_beside

pytestmark = pytest.mark.vllm

# DeepSeek-OCR bound to the schema of data, with answers that end soon.
PROFILE = """
id = "brief"
model = "deepseek-ai/DeepSeek-OCR"
base = "deepseek-ocr"
ladder = []

[prompts.data]
text = "Read the data."
max_tokens = 300

[sampling]
temperature = 0.0
skip_special_tokens = false

[image]
longest_side = 800
"""
CLASSES = ("photo", "map", "bar chart")


def test_noise_becomes_one_of_the_classes_and_json_of_the_schema(
    vllm: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    documents.pdf(tmp_path / "in" / "report.pdf", pages=3)
    with serving_beside(lambda body: answer(FIGURE)) as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, describe=False)
    (tmp_path / "brief.toml").write_text(PROFILE)
    chosen: dict[str, Any] = {
        "engine": "vllm",
        "vllm": vllm,
        "vllm_args": TINY,
        "weights": checkpoint,
        "model": str(tmp_path / "brief.toml"),
        "ready_timeout": 300,
        "describe_task": "classify,data",
        "classes": ",".join(CLASSES),
    }
    summary = worker.resume(tmp_path / "out", Settings(**chosen), stages=("describe",))

    rows = list(load_descriptions(tmp_path / "out"))
    assert len(rows) == 6
    assert summary.tasks["classify"] == {"ok": 3}
    for row in rows:
        assert row["attempts"] == 1, "no guide was refused"
        if row["task"] == "classify":
            assert row["text"] in CLASSES
            assert 0 < row["confidence"] <= 1
        else:
            # Noise has no end of its own: most are cut, all are of the schema as far as they go.
            assert row["raw_answer"].lstrip().startswith("{")
            assert '"kind"' in row["raw_answer"]
            assert row["status"] != PageStatus.OK or row["data"]
