"""What the engine is to do is a field of the request: the words of prompts don't matter."""

from dataclasses import replace
from pathlib import Path

import pytest

from llm_ocr import load_descriptions, load_pages, load_records, parse, run
from llm_ocr.engines import targets as engine_targets
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.engines.targets import EngineKind, EngineTarget
from llm_ocr.inference.model_item import ModelRef
from llm_ocr.models.profile import Task
from llm_ocr.settings import EngineChoice, Settings

EXAMPLES = Path(__file__).parents[4] / "examples"
SETTINGS = Settings(
    engine=EngineChoice.EMBEDDED,
    describe_task="describe,caption,data",
    pages="2",
    viewer_pages=0,
)


def read(out: Path) -> tuple[list[str], dict[tuple[str, str], str], list[object]]:
    run(str(EXAMPLES / "report.pdf"), out, SETTINGS)
    parse(str(out), None, "invoice", SETTINGS)
    pages = [row["markdown"] for row in load_pages(str(out))]
    said = {(row["figure_id"], row["task"]): row["text"] for row in load_descriptions(str(out))}
    fields = [row["fields"] for row in load_records(str(out))]
    return pages, said, fields


@pytest.mark.long
def test_reworded_prompts_are_answered_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = read(tmp_path / "usual")
    assert usual[0][0]
    assert {task for _, task in usual[1]} == {"describe", "caption", "data"}
    assert len(usual[2]) == 1
    prompts = {
        task: replace(EMBEDDED.prompt(task), text=f"Bitte Aufgabe {number} lösen")
        for number, task in enumerate(Task)
    }
    reworded = replace(EMBEDDED, prompts=prompts)
    target = EngineTarget(ModelRef(reworded, reworded.model), EngineKind.EMBEDDED)
    monkeypatch.setattr(engine_targets, "EMBEDDED_TARGET", target)
    assert read(tmp_path / "reworded") == usual
