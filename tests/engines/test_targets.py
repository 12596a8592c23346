"""Who is asked: a server, vLLM, the embedded engine; one model for pages, another for figures."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_descriptions, load_pages, run
from llm_ocr.engines.failures import STARTED
from llm_ocr.engines.targets import EngineKind, engine_command, resolve_engine
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import ProblemCode
from llm_ocr.settings import EngineChoice, EngineOptions
from tests import documents
from tests.servers.chat import vllm_shim

DEEPSEEK, QWEN = "deepseek-ai/DeepSeek-OCR", "Qwen/Qwen3-VL-8B-Instruct"


def test_base_url_is_used_whatever_is_installed() -> None:
    options = EngineOptions(base_url="http://there:8000/v1", served_model="ours", revision="abc")
    target = resolve_engine(options, options.model)
    assert (target.kind, target.base_url) == (EngineKind.SERVER, "http://there:8000/v1")
    assert (target.model.name, target.model.revision) == ("ours", "abc")


def test_served_model_name_applies_to_the_main_model_only() -> None:
    options = EngineOptions(base_url="http://there:8000/v1", served_model="ours")
    assert resolve_engine(options, "qwen3-vl-8b").model.name == QWEN


def test_vllm_serves_a_pinned_revision() -> None:
    options = EngineOptions(engine=EngineChoice.VLLM)
    target = resolve_engine(options, options.model)
    assert target.kind is EngineKind.VLLM
    assert target.model.revision == target.model.profile.serving.revision is not None


def test_weights_in_a_folder_have_no_revision_in_the_target(tmp_path: Path) -> None:
    options = EngineOptions(engine=EngineChoice.VLLM, weights=tmp_path)
    assert resolve_engine(options, options.model).model.revision is None


def test_weights_and_revision_are_of_the_main_model_only(tmp_path: Path) -> None:
    options = EngineOptions(
        engine=EngineChoice.VLLM, vllm=vllm_shim(tmp_path), weights=tmp_path, revision="abc"
    )
    commands = {}
    for model in (options.model, "qwen3-vl-8b"):
        target = resolve_engine(options, model)
        commands[target.model.name] = engine_command(options, target, print).argv
        is_main = model == options.model
        assert (target.model.revision is None) == is_main
    assert str(tmp_path) in commands[DEEPSEEK]
    assert str(tmp_path) not in commands[QWEN]
    assert "abc" not in commands[QWEN]


def test_the_embedded_engine_reads_under_its_own_name() -> None:
    options = EngineOptions(engine=EngineChoice.EMBEDDED)
    target = resolve_engine(options, options.model)
    assert target.kind is EngineKind.EMBEDDED
    assert target.model.name != DEEPSEEK


def test_model_without_an_engine_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_ocr.engines.targets.find_gpus", tuple)
    with pytest.raises(EngineFailedError, match="qwen3-vl-8b needs a GPU") as refused:
        resolve_engine(EngineOptions(model="qwen3-vl-8b"), "qwen3-vl-8b")
    assert refused.value.code is ProblemCode.MODEL_NEEDS_GPU


def test_describe_model_starts_after_the_first_engine_has_ended(
    tmp_path: Path,
) -> None:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=6)
    out = tmp_path / "out"
    chosen: dict[str, Any] = {"engine": "vllm", "vllm": vllm_shim(tmp_path)}
    run(tmp_path / "in", out, describe_model="qwen3-vl-8b", **chosen)
    assert {row["model"] for row in load_pages(str(out))} == {DEEPSEEK}
    descriptions = list(load_descriptions(str(out)))
    assert descriptions
    assert {(row["model"], row["status"]) for row in descriptions} == {(QWEN, "ok")}
    assert (out / "logs" / "vllm.log").read_text().count(STARTED) == 2
