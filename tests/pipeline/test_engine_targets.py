"""Who is asked: a server, vLLM, the embedded engine; one model for pages, another for figures."""

from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_descriptions, load_pages, run
from llm_ocr.engines.failures import STARTED
from llm_ocr.inference.replies import EngineFailedError
from llm_ocr.pipeline.engine_targets import EngineKind, resolve_engine, run_fingerprint
from llm_ocr.settings import EngineChoice, Settings
from llm_ocr.tables.plan import SettingsMismatchError
from tests import documents
from tests.servers.chat import serving_beside, vllm_shim

DEEPSEEK, QWEN = "deepseek-ai/DeepSeek-OCR", "Qwen/Qwen3-VL-8B-Instruct"


def test_a_base_url_is_asked_whatever_is_installed() -> None:
    settings = Settings(base_url="http://there:8000/v1", served_model="ours", revision="abc")
    target = resolve_engine(settings, settings.model)
    assert (target.kind, target.base_url) == (EngineKind.SERVER, "http://there:8000/v1")
    assert (target.reader.model, target.reader.revision) == ("ours", "abc")


def test_the_name_on_the_server_is_the_main_models_alone() -> None:
    settings = Settings(base_url="http://there:8000/v1", served_model="ours")
    assert resolve_engine(settings, "qwen3-vl-8b").reader.model == QWEN


def test_vllm_serves_a_pinned_revision() -> None:
    settings = Settings(engine=EngineChoice.VLLM)
    target = resolve_engine(settings, settings.model)
    assert target.kind is EngineKind.VLLM
    assert target.reader.revision == target.reader.profile.serving.revision is not None


def test_of_weights_in_a_folder_no_revision_is_known(tmp_path: Path) -> None:
    settings = Settings(engine=EngineChoice.VLLM, weights=tmp_path)
    assert resolve_engine(settings, settings.model).reader.revision is None


def test_the_embedded_engine_reads_under_its_own_name() -> None:
    settings = Settings(engine=EngineChoice.EMBEDDED)
    target = resolve_engine(settings, settings.model)
    assert target.kind is EngineKind.EMBEDDED
    assert target.reader.model != DEEPSEEK


def test_a_model_that_nothing_here_can_serve_is_not_replaced_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_ocr.pipeline.engine_targets.find_gpus", tuple)
    with pytest.raises(EngineFailedError, match=r"qwen3-vl-8b needs a GPU.*--engine embedded"):
        resolve_engine(Settings(model="qwen3-vl-8b"), "qwen3-vl-8b")


def test_figures_are_described_by_another_model_after_the_first_engine_has_ended(
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


def test_tasks_that_a_run_may_be_asked_later_are_no_part_of_what_it_is() -> None:
    chosen: dict[str, Any] = {"base_url": "http://there:8000/v1"}
    asked = run_fingerprint(Settings(**chosen), ["/in"])
    assert (
        run_fingerprint(Settings(**chosen, describe_task="data", min_figure_area=0.5), ["/in"])
        == asked
    )
    assert set(asked["prompts"]) == {"document", "free_ocr", "figure", "describe"}  # type: ignore[call-overload]


def test_a_run_goes_on_only_with_the_same_models(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "one.pdf")
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url}
        run(tmp_path / "one.pdf", tmp_path / "out", **chosen)
        for name, value in (("describe_model", "qwen3-vl-8b"), ("revision", "abc")):
            with pytest.raises(SettingsMismatchError):
                run(tmp_path / "one.pdf", tmp_path / "out", **{**chosen, name: value})
