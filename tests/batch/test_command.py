"""The command that a card shows: it can be given again, and holds no secret."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from llm_ocr.batch.command import WITHOUT_OPTION, reproduce_command
from llm_ocr.cli.options import settings_options
from llm_ocr.settings import GROUPS, Settings

ALL = ("extract", "describe", "assemble")


def command(*inputs: str, **settings: Any) -> str:  # noqa: ANN401
    # What stands in the environment of the tests is no one's choice here.
    given = {"skip_model_check": False, "min_agreement": 0.5, **settings}
    return reproduce_command(inputs, "/out", Settings(**given), ALL)


def test_command_contains_only_non_default_settings() -> None:
    assert command("/in") == "llm-ocr run /in --out /out"
    said = command("/a b", pages="1-3", describe=False, skip_model_check=True, weights=Path("/w"))
    words = shlex.split(said)
    assert words[:5] == ["llm-ocr", "run", "/a b", "--out", "/out"]
    assert words[5:] == ["--pages", "1-3", "--no-describe", "--weights", "/w", "--skip-model-check"]


def test_every_setting_is_an_option_of_run_or_listed_as_none() -> None:
    known = {name for group in GROUPS for name in settings_options(group)}
    secret = {
        name for name, one in Settings.model_fields.items() if "SecretStr" in str(one.annotation)
    }
    hidden = {"log_dir", "stop_seconds", "allow_http_urls", "allow_private_urls"}
    of_parse = {"record_schema"}  # its --schema
    assert set(Settings.model_fields) - known - secret - hidden - of_parse == WITHOUT_OPTION


def test_other_commands_get_settings_from_the_environment() -> None:
    chosen = Settings(
        base_url="http://h/v1", skip_model_check=False, min_agreement=0.5, flush_pages=3
    )
    assert reproduce_command(None, "/my out", chosen, ("describe",)) == (
        "LLM_OCR_BASE_URL=http://h/v1 LLM_OCR_FLUSH_PAGES=3 llm-ocr describe '/my out'"
    )
    assert command("/in", flush_pages=3) == "LLM_OCR_FLUSH_PAGES=3 llm-ocr run /in --out /out"


def test_parse_command_contains_its_schema() -> None:
    chosen = Settings(record_schema="my bill.py", skip_model_check=False, min_agreement=0.5)
    assert reproduce_command(("/in",), "/out", chosen, ("extract", "parse")) == (
        "llm-ocr parse /in --out /out --schema 'my bill.py'"
    )
    assert reproduce_command(None, "/out", chosen, ("parse",)) == (
        "llm-ocr parse /out --schema 'my bill.py'"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": SecretStr("hush")},
        {"password": SecretStr("hush")},
        {"base_url": "http://me:hush@host:8000/v1"},
        {"base_url": "https://host/v1?key=hush"},
        {"fallback_base_url": "https://hush@host/v1"},
        {"vllm_args": "--seed 3 --api-key hush"},
        {"vllm_args": "--hf-token=hush"},
    ],
)
def test_command_contains_no_secret(settings: dict[str, Any]) -> None:
    assert "hush" not in command("/in", **settings)


def test_arguments_that_only_sound_secret_stay() -> None:
    assert "--max-num-batched-tokens 8192" in command(vllm_args="--max-num-batched-tokens 8192")


def test_a_long_list_of_inputs_is_shortened() -> None:
    said = command(*(f"/in/{k}.pdf" for k in range(2000)))
    assert said.endswith("# … stands for 1,990 more inputs")
    assert (said.count(".pdf"), len(said) < 300) == (10, True)


def test_single_process_options_are_left_out() -> None:
    own = {"prices": Path("/mine.toml"), "throughput": Path("/mine.toml"), "metrics_port": 0}
    said = command("/in", shard_index=3, shard_count=8, steal_work=True, **own)
    assert said == "llm-ocr run /in --out /out"
