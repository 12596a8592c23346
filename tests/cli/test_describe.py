"""`llm-ocr describe --task` and `llm-ocr run --describe-task`, as processes."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import load_descriptions
from tests import documents
from tests.processes import run_module
from tests.servers.chat import FIGURE, ChatServer, answer, prompt_of, serving_beside

TABLE = "<table><tr><td>River</td><td>m</td></tr><tr><td>Inn</td><td>2</td></tr></table>"


def reply(body: dict[str, Any]) -> web.Response:
    prompt = prompt_of(body)
    if "<|grounding|>" in prompt:
        return answer(FIGURE)
    if "structured_outputs" in body:
        return answer(body["structured_outputs"]["choice"][-1])
    return answer(TABLE if prompt == "Parse the figure." else "A sentence.")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside(reply) as running:
        yield running


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return documents.pdf(tmp_path / "in" / "report.pdf", pages=2)


def llm_ocr(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    settings = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160", **environment}
    return run_module("llm_ocr", *arguments, env=settings)


def output_of(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_figure_tasks_are_in_summary_and_status(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    out, base = tmp_path / "out", ("--base-url", server.base_url)
    first = output_of(
        llm_ocr("run", inputs, "--out", out, "--describe-task", "describe,data", *base)
    )
    assert "Figures 2, 2 described; data: 2 ok" in first
    assert TABLE.replace("td", "th", 4) in (out / "markdown" / "report.md").read_text()
    assert (out / "markdown" / "figures" / "report-p1-1.csv").exists()
    tasks = ("--task", "caption", "--task", "classify", "--classes", "photo,map")
    again = output_of(llm_ocr("describe", out, *tasks, *base))
    assert "Figures 2, 2 described; caption: 2 ok; classify: 2 ok; data: 2 ok" in again
    assert {row["text"] for row in load_descriptions(out) if row["task"] == "classify"} == {"map"}
    status = output_of(llm_ocr("status", out))
    assert "caption: 2 ok; classify: 2 ok; data: 2 ok; describe: 2 ok" in status
    assert "describe 1 of 1 8 0" in status
    summary = json.loads((out / "summary.json").read_text())
    assert summary["tasks"]["classify"] == {"ok": 2}
    assert (summary["descriptions"], summary["rows"]["descriptions"]) == (8, 8)
    card = (out / "README.md").read_text()
    assert "Stage describe (classify): `deepseek-ai/DeepSeek-OCR`" in card
    assert "LLM_OCR_DESCRIBE_TASK=caption,classify" in card
    assert "LLM_OCR_CLASSES=photo,map" in card


def test_small_figures_are_skipped_and_counted(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    small = ("--base-url", server.base_url, "--min-figure-area", "0.5")
    done = output_of(llm_ocr("run", inputs, "--out", tmp_path / "out", *small))
    assert "Figures 2, 0 described, 2 skipped as small" in done
    assert re.search(
        r"describe 1 of 1 2 0 2 skipped", output_of(llm_ocr("status", tmp_path / "out"))
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--task", "poem"], "choose from describe, caption, data, classify"),
        (["--classes", "a,b"], "--classes only applies to --describe-task classify"),
        (["--task-schema", "nowhere.json"], "--task-schema: The schema file"),
        (["--task-prompt", "@nowhere.txt"], "--task-prompt: nowhere.txt can't be read"),
        (["--min-figure-area", "2"], "--min-figure-area"),
    ],
)
def test_wrong_tasks_exit_with_2_before_any_request(
    inputs: Path, tmp_path: Path, server: ChatServer, arguments: list[str], problem: str
) -> None:
    base = ("--base-url", server.base_url)
    if arguments[0] == "--task":
        arguments = ["--describe-task", *arguments[1:]]
    done = llm_ocr("run", inputs, "--out", tmp_path / "out", *arguments, *base)
    assert done.returncode == 2, done.stdout
    assert problem in " ".join(done.stderr.split())
    assert not server.requests
