"""Settings from an env file: which file is read, what it may set, and what is said of it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_ocr.env_file import REFUSED, variable_name
from llm_ocr.settings import Settings
from tests import documents
from tests.processes import run_module
from tests.servers.chat import serving_beside

# Not what the tests' own environment has.
SECRET = "planted-key-0123456789"


def llm_ocr(
    folder: Path, *arguments: object, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """What a user types in a folder."""
    settings = {**os.environ, **environment}
    return run_module("llm_ocr", *arguments, cwd=folder, env=settings, timeout=240)


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """A folder of somebody's, with a page and a program in it."""
    folder = tmp_path / "scans"
    folder.mkdir()
    documents.picture(folder / "page.png")
    program = folder / "x.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was_run\nexit 1\n")
    program.chmod(0o755)
    return folder


def output_of(done: "subprocess.CompletedProcess[str]") -> str:
    return " ".join((done.stdout + done.stderr).split())


def test_env_file_next_to_the_scans_starts_no_program(scans: Path, tmp_path: Path) -> None:
    (scans / ".env").write_text("LLM_OCR_VLLM=./x.sh\nLLM_OCR_ENGINE=vllm\n")
    for named in ((), ("--env-file", ".env")):
        done = llm_ocr(scans, "run", ".", "--out", tmp_path / f"out{len(named)}", *named)
        assert not (tmp_path / "was_run").exists(), done.stderr
        assert "LLM_OCR_VLLM" in done.stderr
    assert "LLM_OCR_VLLM (it would be executed)" in done.stderr


def test_env_file_next_to_the_scans_redirects_no_page(scans: Path, tmp_path: Path) -> None:
    with serving_beside() as foreign, serving_beside() as mine:
        lines = [f"LLM_OCR_BASE_URL={foreign.base_url}", f"LLM_OCR_API_KEY={SECRET}"]
        (scans / ".env").write_text("\n".join(lines))
        command = ("run", ".", "--base-url", mine.base_url, "--fallback", "none", "--out")
        unread = llm_ocr(scans, *command, tmp_path / "one")
        assert unread.returncode == 0, unread.stderr
        assert f"{scans}/.env is not read" in unread.stderr
        assert not any("Authorization" in one for one in mine.headers)
        named = llm_ocr(scans, *command, tmp_path / "two", "--env-file", ".env")
        assert named.returncode == 0, named.stderr
        assert mine.headers[-1]["Authorization"] == f"Bearer {SECRET}"
        by_variable = llm_ocr(
            *(scans, "run", ".", "--fallback", "none", "--engine", "vllm", "--vllm", "no-such"),
            *("--out", tmp_path / "three"),
            LLM_OCR_ENV_FILE=str(scans),
        )
        assert foreign.requests == []
    assert "LLM_OCR_BASE_URL (pages would be sent there)" in by_variable.stderr
    for done in (unread, named, by_variable):
        assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["llm-ocr", "llm-ocr-job"])
def test_python_files_next_to_the_scans_are_not_run(
    scans: Path, tmp_path: Path, command: str
) -> None:
    """Not in place of a module that the engine, its supervisor or a page's worker imports."""
    for name in ("signal", "queue", "aiohttp", "PIL", "llm_ocr"):
        (scans / f"{name}.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    program = Path(sys.executable).with_name(command)
    words = ("run", "page.png", "--engine", "embedded", "--no-describe", "--out", tmp_path / "out")
    done = subprocess.run([program, *words], cwd=scans, capture_output=True, text=True, timeout=240)
    assert not (tmp_path / "was_run").exists(), done.stderr
    assert done.returncode == 0, done.stderr


def test_env_file_is_reported_once_without_values(scans: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.env"
    mine.write_text("LLM_OCR_VIEWER_PAGES=0\nLLM_OCR_CONCURENCY=4\nAWS_SECRET_ACCESS_KEY=abc\n")
    with serving_beside() as server:
        done = llm_ocr(
            *(scans, "run", ".", "--out", tmp_path / "out", "--base-url", server.base_url),
            *("--env-file", mine),
        )
    assert done.returncode == 0, done.stderr
    line = f"{mine}: read LLM_OCR_VIEWER_PAGES; unknown settings: LLM_OCR_CONCURENCY"
    assert done.stderr.splitlines().count(line) == 1
    assert "AWS_SECRET" not in done.stdout + done.stderr
    assert not (tmp_path / "out" / "index.html").exists()


def test_options_override_the_environment_and_that_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".env"
    file.write_text("LLM_OCR_SHARD_PAGES=3\nLLM_OCR_FLUSH_PAGES=3\nllm_ocr_seed=3\n")
    monkeypatch.setenv("LLM_OCR_ENV_FILE", str(tmp_path))
    monkeypatch.setenv("LLM_OCR_SHARD_PAGES", "2")
    monkeypatch.setenv("LLM_OCR_FLUSH_PAGES", "2")
    found = Settings(flush_pages=1)
    assert (found.flush_pages, found.shard_pages, found.seed) == (1, 2, 3)
    file.write_text("LLM_OCR_PASSWORD=${PATH}\n")
    password = Settings().password
    assert password is not None
    assert password.get_secret_value() == "${PATH}", "a file tells nothing of the environment"


@pytest.mark.parametrize(
    "line",
    [
        *(f"{variable_name(field)}=x" for field in REFUSED),
        "LLM_OCR_MODEL=./profile.toml",
        "LLM_OCR_MODEL=profile.YAML",
        "LLM_OCR_PARSE_MODEL=s3://bucket/profile.yml",
        "LLM_OCR_RECORD_SCHEMA=bill.py",
        "LLM_OCR_RECORD_SCHEMA=bills:Bill",
        "LLM_OCR_TASK_SCHEMA=./bill.py:Bill",
        "LLM_OCR_TASK_PROMPT=@/etc/hostname",
        "export LLM_OCR_VLLM='./x.sh'",
    ],
)
def test_no_file_sets_commands_and_addresses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    line: str,
) -> None:
    file = tmp_path / "some.env"
    file.write_text(f"{line}\nLLM_OCR_MODEL=dots-ocr\n" if "MODEL" not in line else line)
    monkeypatch.setenv("LLM_OCR_ENV_FILE", str(file))
    found = Settings()
    name = line.removeprefix("export ").partition("=")[0]
    assert name.removeprefix("LLM_OCR_").lower() not in found.model_fields_set
    assert f"not taken from a file: {name} (" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (("--env-file", "none.env"), {}, "'none.env' does not exist"),
        ((), {"LLM_OCR_ENV_FILE": ".env"}, "LLM_OCR_ENV_FILE=.env: use an absolute path"),
        ((), {"LLM_OCR_ENV_FILE": "/none"}, "LLM_OCR_ENV_FILE=/none: no such file"),
        (("--env-file", "page.png"), {}, "page.png can't be read as an env file"),
    ],
)
def test_unreadable_env_file_is_reported(
    scans: Path, tmp_path: Path, arguments: Sequence[str], environment: dict[str, str], message: str
) -> None:
    done = llm_ocr(scans, "run", ".", "--out", tmp_path / "out", *arguments, **environment)
    assert done.returncode == 2
    assert message in output_of(done)
    assert not (tmp_path / "out").exists()
