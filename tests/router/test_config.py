"""The router's configuration: what is valid, and messages about what is not."""

from pathlib import Path

import pytest

from llm_ocr.router.config import (
    InvalidRouterConfigError,
    load_config,
    parse_config,
    read_api_key,
    single_model_config,
)
from llm_ocr.settings import EngineChoice, EngineOptions
from tests.docs.blocks import read_blocks
from tests.processes import run_module
from tests.servers.chat import vllm_shim

VALID = """\
models:
  deepseek-ocr:
    replicas:
      - {base_url: http://127.0.0.1:8000/v1, api_key_env: GPU_KEY, max_concurrency: 64}
      - engine: vllm
        gpus: [0, 1]
        weights: /models/deepseek
  writer:
    profile: qwen3-vl-8b
    probe: text
    replicas:
      - {engine: vllm, gpus: [2]}
  cpu:
    replicas:
      - {engine: embedded, threads: 2}
aliases:
  extract: {deepseek-ocr: 9, cpu: 1}
  parse: writer
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidRouterConfigError) as caught:
        parse_config(text, "inference.yaml")
    return str(caught.value).splitlines()


def test_names_stand_for_models_and_aliases_for_shares_of_them() -> None:
    config = parse_config(VALID, "inference.yaml")
    routes = config.routes()
    assert routes["deepseek-ocr"] == routes["deepseek-ai/DeepSeek-OCR"] == {"deepseek-ocr": 1.0}
    assert routes["llm-ocr-embedded"] == routes["cpu"] == {"cpu": 1.0}
    assert routes["extract"] == {"deepseek-ocr": 0.9, "cpu": 0.1}
    assert routes["parse"] == {"writer": 1.0}
    assert "Qwen/Qwen3-VL-8B-Instruct" in routes


def test_options_of_a_replica_reach_its_engine() -> None:
    config = parse_config(VALID, "inference.yaml")
    vllm = config.models["deepseek-ocr"].replicas[1].engine_options("deepseek-ocr")
    assert vllm.weights == Path("/models/deepseek")
    assert vllm.engine is EngineChoice.VLLM
    embedded = config.models["cpu"].replicas[0].engine_options(None)
    assert embedded.engine_threads == 2


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    probe: text", "    prob: text", "10: unknown key 'prob'; use profile, probe, "),
        ("max_concurrency: 64", "max: 64", "4: unknown key 'max'; use base_url, api_key_env, "),
        ("aliases:", "alias:", "16: unknown key 'alias'; use models, aliases, "),
        ("parse: writer", "parse: reader", "18: there is no model 'reader'; this file's models: "),
        ("cpu: 1}", "cpu: 0}", "17: cpu: input should be greater than 0"),
        ("cpu: 1}", "cpu: .inf}", "17: cpu: input should be a finite number"),
        ("{deepseek-ocr: 9, cpu: 1}", "{}", "17: the alias 'extract' names no model"),
        ("  parse: writer", "  cpu: writer", "18: a model has the name 'cpu', too"),
        ("gpus: [2]", "gpus: [1]", "12: writer/0 and deepseek-ocr/1 share a GPU"),
        (", gpus: [2]", "", "12: writer/0 and deepseek-ocr/1 share a GPU"),
        ("threads: 2", "gpus: [3]", "15: a replica with engine: embedded can't have gpus; use "),
        ("embedded, threads: 2", "auto", "15: engine must be vllm or embedded"),
        ("engine: embedded, threads: 2", "max_concurrency: 2", "15: a replica has either base_url"),
        ("qwen3-vl-8b", "qwen9", "9: profile: unknown model profile 'qwen9'"),
        ("    profile: qwen3-vl-8b\n", "", "8: vLLM needs a model profile: add profile, one of "),
        ("http://127", "http://user:secret@127", "4: base_url contains a user name or password"),
        ("gpus: [2]}", "gpus: [2]", "13: invalid YAML"),
        ("  cpu:\n", "  writer:\n", "13: duplicate key 'writer'"),
        ("  extract:", "  a b:", "17: a b: a name has up to 200 of "),
    ],
)
def test_problems_have_the_line_and_what_is_allowed(old: str, new: str, problem: str) -> None:
    assert old in VALID
    [found] = problems(VALID.replace(old, new, 1))
    assert found.startswith(f"inference.yaml:{problem}"), found


def test_the_file_in_the_docs_is_valid() -> None:
    [block] = [
        block.text
        for block in read_blocks("yaml")
        if block.page.endswith("service/inference.md") and "models:" in block.text
    ]
    routes = parse_config(block, "inference.yaml").routes()
    assert routes["extract"] == {"deepseek-ocr": 0.9, "deepseek-ocr-2": 0.1}


def test_the_embedded_engine_is_no_replica_of_another_model() -> None:
    text = VALID.replace(
        "      - engine: vllm\n", "      - {engine: embedded}\n      - engine: vllm\n"
    )
    [problem] = problems(text)
    assert problem.startswith("inference.yaml:5: the embedded engine can't be a replica of another")


def test_one_model_needs_no_file(tmp_path: Path) -> None:
    vllm = EngineOptions(
        model="olmocr-2",
        engine=EngineChoice.VLLM,
        vllm=vllm_shim(tmp_path),
        vllm_args="--x 1",
        engine_memory=20,
    )
    config = single_model_config(vllm)
    assert config.engine_memory == 20
    [replica] = config.models["olmocr-2"].replicas
    assert (replica.vllm, replica.vllm_args) == (vllm.vllm, "--x 1")
    embedded = single_model_config(EngineOptions(engine=EngineChoice.EMBEDDED, engine_threads=3))
    # What the embedded engine reads must not be called DeepSeek-OCR's.
    assert list(embedded.models) == ["llm-ocr-embedded"]
    assert embedded.models["llm-ocr-embedded"].replicas[0].threads == 3
    assert embedded.routes()["deepseek-ocr"] == {"llm-ocr-embedded": 1.0}


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_KEY", "secret")
    assert read_api_key("GPU_KEY") == "secret"
    assert read_api_key(None) is None
    monkeypatch.delenv("GPU_KEY")
    with pytest.raises(InvalidRouterConfigError, match="GPU_KEY is not set"):
        read_api_key("GPU_KEY")


def test_check_prints_the_routes_or_the_problems(tmp_path: Path) -> None:
    path = tmp_path / "inference.yaml"
    path.write_text(VALID)
    checked = run_module("llm_ocr", "serve", "inference", "--config", path, "--check")
    assert checked.returncode == 0, checked.stderr
    lines = checked.stdout.splitlines()
    assert "extract -> deepseek-ocr 90.0%, cpu 10.0%" in lines
    assert "deepseek-ocr/1: vllm on GPUs [0, 1]" in lines
    path.write_text(VALID.replace("parse: writer", "parse: reader"))
    wrong = run_module("llm_ocr", "serve", "inference", "--config", path, "--check")
    assert wrong.returncode == 2
    assert f"{path}:18: there is no model 'reader'" in wrong.stderr
    absent = run_module("llm_ocr", "serve", "inference", "--config", tmp_path / "no.yaml")
    assert absent.returncode == 2
    assert "can't be read" in absent.stderr
    with pytest.raises(InvalidRouterConfigError, match="can't be read"):
        load_config(tmp_path / "no.yaml")
    neither = run_module("llm_ocr", "serve", "inference", "--check")
    assert neither.returncode == 2
    assert "give either --config, or --model" in neither.stderr
