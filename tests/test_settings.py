"""Settings that are changed where they are read, so that they hold elsewhere."""

from pathlib import Path

import pytest

from llm_ocr.settings import EngineOptions, Settings


@pytest.mark.parametrize("field", ["record_schema", "task_schema"])
@pytest.mark.parametrize("name", ["bill.py", "bill.py:Bill", "bill.py:Bill.Line", "bill.json"])
def test_a_schema_s_file_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, name: str
) -> None:
    (tmp_path / name.partition(":")[0]).write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in (name, f"~/{name}", f"{tmp_path}/{name}"):
        found = Settings.model_validate({field: given})
        assert getattr(found, field) == f"{tmp_path}/{name}"


@pytest.mark.parametrize("name", ["invoice", "bills:Bill", "gone.py", "gone.py:Bill", "gone.json"])
def test_a_schema_that_is_no_file_here_is_as_it_was_given(name: str) -> None:
    assert Settings(record_schema=name).record_schema == name


def test_a_tilde_in_a_path_is_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell leaves it in `--weights=~/model`, and where no shell looks."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LLM_OCR_WEIGHTS", "~/weights")
    (tmp_path / "mine.toml").write_text('id = "mine"\nmodel = "me/mine"\n')
    (tmp_path / "prompt.txt").write_text("What is it?")
    found = Settings(
        log_dir=Path("~/logs"),
        prices=Path("~/prices.toml"),
        throughput=Path("~nobody-of-that-name/speeds.toml"),
        model="~/mine.toml",
        task_prompt="@~/prompt.txt",
    )
    assert (found.weights, found.log_dir) == (tmp_path / "weights", tmp_path / "logs")
    assert found.prices == tmp_path / "prices.toml"
    assert found.throughput == Path("~nobody-of-that-name/speeds.toml")
    assert found.task_prompt == "What is it?"


def test_engine_options_are_what_is_given_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_file = tmp_path / "settings.env"
    env_file.write_text("LLM_OCR_CONCURRENCY=3\n")
    monkeypatch.setenv("LLM_OCR_ENV_FILE", str(env_file))
    monkeypatch.setenv("LLM_OCR_BASE_URL", "http://elsewhere/v1")
    options = EngineOptions(base_url="http://user:password@here/v1", weights=Path("~/weights"))
    assert options.base_url == "http://here/v1"
    assert options.api_key is not None
    assert options.concurrency is None
    assert options.weights == Path("~/weights").expanduser()
    settings = Settings()
    assert isinstance(settings, EngineOptions)
    assert (settings.base_url, settings.concurrency) == ("http://elsewhere/v1", 3)
    with pytest.raises(ValueError, match="base_ulr"):
        EngineOptions.model_validate({"base_ulr": "http://here/v1"})
    with pytest.raises(ValueError, match="unknown model profile"):
        EngineOptions(model="no-such-model")
