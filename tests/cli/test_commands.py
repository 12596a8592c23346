"""The command line, as a process."""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests import documents
from tests.leaks import files_with
from tests.processes import run_module
from tests.servers.chat import ChatServer, answer, at_once, prompt_of, refusal, serving_beside

LLM_OCR = [sys.executable, "-m", "llm_ocr"]


def llm_ocr(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    settings = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **environment}
    return run_module("llm_ocr", *arguments, env=settings)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside() as running:
        yield running


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=3)
    documents.picture(tmp_path / "in" / "scan.png")
    return tmp_path / "in"


def test_run_prints_its_summary_and_outputs(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    done = llm_ocr("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Documents\s+2", done.stdout)
    assert re.search(r"Pages\s+4\s+4 ok", done.stdout)
    assert f"{tmp_path}/out/index.html" in done.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"index.html", "markdown", "data", "summary.json"} <= names
    assert "# Page" in (tmp_path / "out" / "markdown" / "report.md").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["pages_by_status"]["ok"] == 4


def test_settings_come_from_the_environment_and_arguments_win(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    done = llm_ocr(
        *("run", inputs, "--out", tmp_path / "out", "--pages", "2"),
        LLM_OCR_BASE_URL=server.base_url,
        LLM_OCR_PAGES="1-3",
        LLM_OCR_DESCRIBE="false",
    )
    assert re.search(r"Pages\s+2\s+1 ok\s+1 failed", done.stdout)
    assert "--pages selects no page: it has 1 page" in " ".join(done.stdout.split())
    assert done.returncode == 1, "half of the pages failed"


def test_single_stages_end_like_a_run(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    base = ("--base-url", server.base_url)
    assert llm_ocr("extract", inputs, "--out", tmp_path / "steps", *base).returncode == 0
    assert not (tmp_path / "steps" / "data" / "documents").exists()
    assert llm_ocr("assemble", tmp_path / "steps").returncode == 0
    bare = (tmp_path / "steps" / "markdown" / "report.md").read_text()
    assert llm_ocr("describe", tmp_path / "steps", *base).returncode == 0
    assert llm_ocr("assemble", tmp_path / "steps").returncode == 0
    assert llm_ocr("run", inputs, "--out", tmp_path / "whole", *base).returncode == 0
    step = (tmp_path / "steps" / "markdown" / "report.md").read_text()
    assert step == (tmp_path / "whole" / "markdown" / "report.md").read_text()
    assert ("> A picture" in step) == ("![" in step)
    assert "> A picture" not in bare
    tables = list((tmp_path / "steps" / "data" / "documents").iterdir())
    assert len(tables) == 1, "the older generation is gone"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.pdf", "--out", "OUT"], "nowhere.pdf: no such file or folder"),
        (["run", "IN", "--out", "OUT", "--pages", "5-1"], "--pages: pages '5-1'"),
        (["run", "IN", "--out", "OUT", "--model", "nonesuch"], "unknown model profile 'nonesuch'"),
        (["run", "IN", "--out", "OUT", "--shard-pages", "0"], "--shard-pages"),
        (["run", "IN"], "--out"),
        (["describe", "OUT"], "holds no run"),
        (["status", "OUT"], "holds no run"),
        (["view", "OUT"], "has no viewer"),
    ],
)
def test_wrong_usage_exits_with_2(
    inputs: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    places = {"IN": str(inputs), "OUT": str(tmp_path / "out")}
    done = llm_ocr(*(places.get(one, one) for one in arguments))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# The command line where a module can't be imported, as where its extra is not installed.
WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from llm_ocr.cli.commands import main
main()
"""


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("rapidocr", ["run", "IN", "--out", "OUT", "--engine", "embedded"], "cpu"),
        ("onnxruntime", ["check", "--engine", "embedded"], "cpu"),
        ("nothing", ["engine", "--engine", "vllm", "--vllm", "no-such-vllm"], "vllm"),
        ("huggingface_hub", ["run", "IN", "--out", "hf://datasets/a/b"], "hub"),
        ("huggingface_hub", ["jobs", "list", "hf-jobs"], "hub"),
        ("boto3", ["jobs", "list", "sagemaker"], "aws"),
        ("google.cloud", ["jobs", "list", "cloud-run"], "gcp"),
        ("ray", ["run", "IN", "--out", "OUT", "--executor", "ray"], "ray"),
    ],
)
def test_missing_extra_exits_with_2_and_names_the_install_command(
    inputs: Path, tmp_path: Path, module: str, command: list[str], extra: str
) -> None:
    places = {"IN": str(inputs), "OUT": str(tmp_path / "out")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, module, *(places.get(one, one) for one in command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert f'uv sync --inexact --extra {extra}, or pip install ".[{extra}]"' in done.stderr
    assert "llm_ocr[" not in done.stderr, "it is not on PyPI"
    assert "Traceback" not in done.stderr


def test_unloadable_opencv_names_the_commands_that_replace_it(inputs: Path, tmp_path: Path) -> None:
    """As pip leaves it on a machine without libGL."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "cv2.py").write_text(
        "raise ImportError('libGL.so.1: cannot open shared object file')"
    )
    run = ("run", inputs, "--out", tmp_path / "out", "--engine", "embedded")
    done = llm_ocr(*run, PYTHONPATH=str(tmp_path / "broken"))
    assert done.returncode == 2, done.stderr
    assert "libGL.so.1: cannot open shared object file" in done.stderr
    assert re.search(r"pip uninstall (-y )?opencv-python opencv-python-headless\n", done.stderr)
    assert re.search(r"pip install --no-deps opencv-python-headless\n", done.stderr)


def test_failed_pages_are_reported_and_fail_the_run_above_the_ratio(
    inputs: Path, tmp_path: Path
) -> None:
    (inputs / "notes.pdf").write_text("no PDF")
    with serving_beside() as server:
        run = ("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
        assert llm_ocr(*run, "--max-failed-ratio", "0.5").returncode == 0
        done = llm_ocr(*run)
    assert done.returncode == 1
    assert "notes.pdf: this is text" in done.stdout


def test_unreachable_engine_exits_with_3(inputs: Path, tmp_path: Path) -> None:
    with serving_beside() as gone:
        pass
    run = ("run", inputs, "--out", tmp_path / "out", "--base-url", gone.base_url)
    done = llm_ocr(*run, "--ready-timeout", "0.5")
    assert done.returncode == 3
    assert "The engine failed: no response from http://127.0.0.1" in done.stderr


def test_unwritable_output_exits_with_4(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    done = llm_ocr("run", inputs, "--out", tmp_path / "out")
    assert done.returncode == 4
    assert "choose another --out" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_keeps_its_work_and_resumes(
    inputs: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    hold, held = threading.Event(), threading.Event()
    asked = 0
    # What takes a while to read, so that the signal comes while it is read.
    words = " ".join(f"{number} is {number * number % 9973}" for number in range(8_000))
    long = f"<|ref|>text<|/ref|><|det|>[[100, 50, 900, 900]]<|/det|>\n{words}"

    async def slow(body: dict[str, Any]) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked == 3 and not held.is_set():
            held.set()
            await asyncio.to_thread(hold.wait, 30)
        return answer(long) if asked == 2 else at_once(body)

    out = tmp_path / "out"
    run = ["run", str(inputs), "--out", str(out), "--concurrency", "1"]
    with serving_beside(slow) as server:
        process = subprocess.Popen(
            [*LLM_OCR, *run, "--base-url", server.base_url], stderr=subprocess.PIPE, text=True
        )
        assert held.wait(30)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
        hold.set()
    assert process.returncode == code
    assert "rerun the same command to resume" in said
    state = json.loads(llm_ocr("status", out, "--json").stdout)
    assert state["stages"]["extract"]["items_staged"] == 2
    asked = 0
    with serving_beside(slow) as server:
        done = llm_ocr(*run, "--base-url", server.base_url, "--no-describe")
    assert done.returncode == 0
    assert asked == 2, "only the two pages that were not staged"


def test_status_at_any_time(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    llm_ocr("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
    done = llm_ocr("status", tmp_path / "out")
    assert "2 documents, about 4 pages" in done.stdout
    assert re.search(r"extract\s+1 of 1\s+4\s+0\s+4 ok", done.stdout)


def test_json_logs_are_json_lines(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    run = ("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
    done = llm_ocr(*run, "--json-logs")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [event for event in events if event["event"] == "stage_ended"]
    assert [event["stage"] for event in ended] == ["plan", "extract", "describe", "assemble"]
    assert ended[0]["statuses"] == {"ok": 2}
    assert ended[1]["statuses"] == {"ok": 4}


def test_api_key_is_sent_to_the_server_only(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    run = ("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
    done = llm_ocr(*run, "--json-logs", LLM_OCR_API_KEY="sk-very-secret")
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer sk-very-secret"}
    assert "sk-very-secret" not in done.stdout + done.stderr
    assert files_with("sk-very-secret", tmp_path / "out") == []


def test_password_in_a_url_is_sent_to_the_server_only(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    address = server.base_url.replace("//", "//bob:open%40sesame@")
    done = llm_ocr("run", inputs, "--out", tmp_path / "out", "--base-url", address, "--json-logs")
    assert done.returncode == 0, done.stderr
    expected = "Basic " + base64.b64encode(b"bob:open@sesame").decode()
    assert {headers["Authorization"] for headers in server.headers} == {expected}
    said = done.stdout.encode() + done.stderr.encode()
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    for text in (said, *(path.read_bytes() for path in written)):
        assert b"sesame" not in text
        assert expected.partition(" ")[2].encode() not in text


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (
            ("--base-url", "http://bob:sesame@127.0.0.1:9/v1", "--ready-timeout", "0.1"),
            {},
            "127.0.0.1:9",
        ),
        (("--base-url", "bob:sesame@127.0.0.1:9/v1"), {}, "give one as http://host:8000/v1"),
        (("--fallback-base-url", "ftp://bob:sesame@there/v1"), {}, "fallback_base_url: this is no"),
        (
            ("--base-url", "http://bob:sesame@127.0.0.1:9/v1"),
            {"LLM_OCR_API_KEY": "another-sesame"},
            "api_key is set too",
        ),
        ((), {"LLM_OCR_BASE_URL": "http://bob:sesame@127.0.0.1:9/v1", "LLM_OCR_SEED": "x"}, "seed"),
    ],
)
def test_password_in_a_url_is_in_no_message(
    inputs: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    words: str,
) -> None:
    done = llm_ocr("run", inputs, "--out", tmp_path / "out", *arguments, **environment)
    assert done.returncode in (2, 3)
    assert words in done.stderr
    assert "sesame" not in done.stdout + done.stderr


def test_view_serves_the_viewer(inputs: Path, tmp_path: Path, server: ChatServer) -> None:
    llm_ocr("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
    viewing = subprocess.Popen(
        [*LLM_OCR, "view", str(tmp_path / "out"), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert viewing.stdout is not None
    url = viewing.stdout.readline().split()[0]
    with urllib.request.urlopen(url) as response:
        assert b"<title>" in response.read()
    viewing.send_signal(signal.SIGINT)
    assert viewing.wait(10) == 0


def sections(*arguments: str) -> dict[str, list[str]]:
    """A help page's sections by title, with the names that begin their lines."""
    found: dict[str, list[str]] = {}
    for line in llm_ocr(*arguments, "--help", COLUMNS="80").stdout.splitlines():
        if re.fullmatch(r"[A-Z].*:", line):
            found[line[:-1]] = []
        elif found and (named := re.match(r"  (?:-\w, )?([\w-]+)", line)):
            list(found.values())[-1].append(named[1])
    return found


COMMANDS = [
    "run", "extract", "describe", "parse", "convert", "assemble", "retry", "reparse", "compact",
    "eval", "export", "compare", "status", "view", "plan", "launch", "run-batch-job", "check",
    "engine", "models", "schemas", "mcp",
]  # fmt: skip


def test_help_groups_commands_by_purpose() -> None:
    found = sections()
    groups = {
        *("classifier", "jobs", "pipelines", "registry", "review", "serve", "service", "submit"),
        "version",
    }
    assert {*COMMANDS, *groups} == {
        name for title, names in found.items() if title != "Options" for name in names
    }
    assert found["Read documents"] == ["run", "extract", "parse", "convert"]
    assert "...\n" not in llm_ocr("--help", COLUMNS="80").stdout.partition("\n")[2], "none is cut"


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS,
        "classifier fit",
        "jobs list",
        "jobs logs",
        "pipelines list",
        "registry publish",
        "review export",
        "serve gateway",
        "service status",
        "submit",
    ],
)
def test_options_are_in_sections_short_enough_to_read_the_common_ones_first(command: str) -> None:
    page = llm_ocr(*command.split(), "--help", COLUMNS="80").stdout
    found = sections(*command.split())
    options = {title: names for title, names in found.items() if title != "Arguments"}
    assert next(iter(options)) == "Options"
    assert max(map(len, options.values())) <= 16
    listed = [name for names in options.values() for name in names]
    assert len(listed) == len(set(listed)) >= 1
    assert max(map(len, page.splitlines())) <= 80


def test_common_options_come_first_in_help() -> None:
    first = sections("run")["Options"]
    assert {"--out", "--model", "--base-url", "--engine", "--pages", "--limit"} <= {*first}
    assert "--shard-index" not in first
    assert len(sections("run")) >= 6


def test_the_version_is_one_line() -> None:
    for asked in ("version", "--version"):
        assert re.fullmatch(r"\d+\.\d+\.\d+\n", llm_ocr(asked).stdout)


def test_the_job_command_prints_the_same_version_without_its_variables() -> None:
    command = Path(sys.executable).with_name("run-batch-job")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == llm_ocr("--version").stdout


def test_shell_completion_offers_commands_and_options(tmp_path: Path) -> None:
    # typer looks for the shell among the processes above it, and there need be none in CI.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = llm_ocr("--show-completion", "bash", **named).stdout
    assert "complete -o default -F _llm_ocr_completion llm-ocr" in script
    (tmp_path / "completion.sh").write_text(script)
    (tmp_path / "llm-ocr").symlink_to(Path(sys.executable).with_name("llm-ocr"))

    def completed(*words: str) -> list[str]:
        ask = (
            f"PATH={tmp_path}:$PATH; . {tmp_path}/completion.sh; COMP_WORDS=({' '.join(words)}); "
            f"COMP_CWORD={len(words) - 1}; _llm_ocr_completion llm-ocr; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("llm-ocr", "ret") == ["retry"]
    assert completed("llm-ocr", "run", "--base") == ["--base-url"]


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("run", "https://arxiv.org/pdf/1706.03762", "a run can't read a URL"),
        ("plan", "http://arxiv.org/pdf/1706.03762", "a run can't read a URL"),
        ("parse", "https://arxiv.org/pdf/1706.03762", "a run can't read a URL"),
        ("run", "@https://example.org/list.txt", "a run can't read a URL"),
        ("run", "file:///home/report.pdf", "give the path alone, without file://"),
        ("run", "azure://box/scans", "azure:// can't be read; give a local path, s3://"),
    ],
)
def test_unsupported_url_is_refused(tmp_path: Path, command: str, given: str, said: str) -> None:
    more = {"run": ["--out", str(tmp_path / "out")], "plan": [], "parse": ["--schema", "invoice"]}
    done = llm_ocr(command, given, *more[command])
    assert done.returncode == 2
    assert done.stderr.startswith(f"{given.removeprefix('@')}: ")
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_unsupported_url_in_a_file_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "files.txt").write_text("# scans\nhttps://example.org/a.pdf\n")
    done = llm_ocr("run", f"@{tmp_path}/files.txt", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert (
        f"@{tmp_path}/files.txt: https://example.org/a.pdf: a run can't read a URL" in done.stderr
    )


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, llm_ocr; print([m for m in sys.modules if m.split('.')[0] in HEAVY])"
    heavy = (
        "{'pyarrow', 'pydantic', 'aiohttp', 'openai', 'PIL', 'pypdfium2', 'obstore', 'rich', "
        "'typer'}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace("HEAVY", heavy)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_server_refusing_the_model_is_reported(inputs: Path, tmp_path: Path) -> None:
    with serving_beside(lambda body: refusal(404, f"The model {body['model']} does not exist")) as (
        server
    ):
        run = ("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
        done = llm_ocr(*run, "--served-model", "other")
    assert done.returncode == 2
    assert "404: The model other does not exist" in done.stderr
    assert "--served-model" in done.stderr


def test_blank_descriptions_count_as_failed(inputs: Path, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> web.Response:
        return at_once(body) if "<|grounding|>" in prompt_of(body) else answer("")

    with serving_beside(reply) as server:
        run = ("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
        done = llm_ocr(*run)
    assert done.returncode == 0
    assert re.search(r"Figures\s+\d, 0 described", done.stdout)


def test_check_reports_every_page(server: ChatServer) -> None:
    server.passes_check = False
    good = llm_ocr("check", "--engine", "embedded")
    assert good.returncode == 0, good.stderr
    assert good.stdout.count("as expected") == 4
    bad = llm_ocr("check", "--base-url", server.base_url)
    assert bad.returncode == 2
    assert "known words were read" in bad.stdout
    assert "0 of 2 figures have a box" in bad.stdout


def test_failed_check_stops_the_run_before_any_page(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    server.passes_check = False
    run = ("run", inputs, "--out", tmp_path / "out", "--base-url", server.base_url)
    done = llm_ocr(*run)
    assert done.returncode == 2
    assert "does not answer as its profile expects" in done.stderr
    assert "--skip-model-check" in done.stderr
    assert len(server.requests) == 4
    assert llm_ocr(*run, "--skip-model-check").returncode == 0


def test_models_are_listed_as_text_and_json() -> None:
    listed = llm_ocr("models")
    for name in ("deepseek-ocr ", "olmocr-2", "qwen3-vl-8b", "dots-ocr", "generic"):
        assert name in listed.stdout
    assert listed.stdout.splitlines()[0].split()[-2:] == ["parameters", "license"]
    assert "surya-ocr-2: free of charge for research" in listed.stdout
    told = json.loads(llm_ocr("models", "--json").stdout)
    default = next(one for one in told if one["id"] == "deepseek-ocr")
    assert default["verified"] is True
    assert default["gives"] == ["boxes", "figures", "tables"]
    assert re.fullmatch("[0-9a-f]{40}", default["revision"])


def test_engine_command_is_printed_with_the_reason_of_each_argument(tmp_path: Path) -> None:
    shown = llm_ocr("engine", "--print-command", "--vllm-args", "--max-num-seqs 7")
    assert shown.returncode == 0, shown.stderr
    command = shown.stdout[shown.stdout.index("vllm serve") :]
    for flag in ("--no-enable-prefix-caching", "--mm-processor-cache-gb 0", "--max-num-seqs 7"):
        assert flag in command
    assert command.count("--max-num-seqs") == 1
    assert "#   --mm-processor-cache-gb: no page comes twice" in shown.stdout
    embedded = llm_ocr("engine", "--print-command", "--engine", "embedded", "--port", "7777")
    assert "--port 7777" in embedded.stdout
    assert "vllm serve" not in embedded.stdout


def test_run_is_retried_updated_and_reparsed(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    base, out = ("--base-url", server.base_url, "--fallback", "none"), tmp_path / "out"
    server.reply = lambda body: refusal(400, "not today")
    assert llm_ocr("run", inputs, "--out", out, *base).returncode == 1
    wrong = llm_ocr("retry", out, "--status", "failed,awful", *base)
    assert wrong.returncode == 2
    assert "'awful' is not a known status; choose from ok, blank" in wrong.stderr
    server.reply = at_once
    done = llm_ocr("retry", out, "--status", "failed,truncated", *base)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Pages\s+4\s+4 ok", done.stdout)
    again = llm_ocr("retry", out, *base)
    assert "has no pages to retry (failed)" in " ".join(again.stdout.split())
    documents.pdf(inputs / "new.pdf", pages=2)
    updated = llm_ocr("run", inputs, "--out", out, "--update", *base)
    assert re.search(r"Pages\s+6\s+6 ok", updated.stdout)
    asked = len(server.requests)
    assert llm_ocr("reparse", out).returncode == 0
    assert len(server.requests) == asked
