"""`llm-ocr serve` as processes, with a stub engine."""

import asyncio
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from aiohttp import web

from tests import documents
from tests.processes import run_module
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.ports import free_port
from tests.servers.service import KEY, ServiceApi, reply_unless_paused, serving, state_options
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_serve(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    return run_module("llm_ocr", "serve", *arguments, env={**os.environ, **environment})


@pytest.fixture
def engine() -> Iterator[ChatServer]:
    with serving_beside() as running:
        yield running


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return documents.pdf(tmp_path / "in" / "report.pdf", pages=2)


async def never(body: dict[str, Any]) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def test_the_first_start_prints_a_key_and_commands_that_work(
    tmp_path: Path, engine: ChatServer, report: Path
) -> None:
    arguments = [*state_options(tmp_path), "--base-url", engine.base_url]
    with serving(*arguments) as first:
        key = first.key
        assert first.output.count(key) == 1
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LLM_OCR_SERVICE_KEY": key,
        }
        submit, curl = re.findall(
            r"^  (llm-ocr submit .*|curl (?:.|\n)*upload)$", first.output, re.M
        )
        for line in (submit, f"{curl} --fail-with-body"):
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=report.parent,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        assert (report.parent / "results" / "report.md").read_text("utf-8").count("# Page") == 2
        assert '"state":"succeeded"' in done.stdout
        assert first.stop(signal.SIGINT) == 0, first.output
    with serving(*arguments) as second:
        second.wait_for("llm-ocr serve key create --database")
        assert not KEY.search(second.output)
        assert ServiceApi(second.url, key).get("/v1/documents")["documents"]


@pytest.mark.long
def test_settings_come_from_options_the_environment_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "worker.env"
    file.write_text("LLM_OCR_TASKS=7\nLLM_OCR_DATABASE=elsewhere.sqlite\nLLM_OCR_ENGINE=embedded\n")
    state = {
        "LLM_OCR_DATABASE": str(tmp_path / "service.sqlite"),
        "LLM_OCR_STORAGE": str(tmp_path / "storage"),
    }
    base_url = ["--base-url", "http://127.0.0.1:9/v1"]
    with serving("worker", *base_url, "--env-file", file, env=state) as worker:
        worker.wait_for("up to 7 documents")
        assert "not taken from a file: LLM_OCR_DATABASE" in worker.output
        # Workers don't listen on any port.
        process = psutil.Process(worker.pid)
        for each in (process, *process.children(recursive=True)):
            assert not [found for found in each.net_connections() if found.status == "LISTEN"]
    assert (tmp_path / "service.sqlite").exists()
    assert (tmp_path / "storage").is_dir()
    environment = {**state, "LLM_OCR_TASKS": "8", "LLM_OCR_ENV_FILE": str(file)}
    with serving("worker", *base_url, env=environment) as worker:
        worker.wait_for("up to 8 documents")
    with serving("worker", *base_url, "--tasks", 9, env=environment) as worker:
        worker.wait_for("up to 9 documents")


@pytest.mark.long
def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    database = ("--database", tmp_path / "service.sqlite")
    made = run_serve("key", "create", *database, "--name", "scanner", "--days", "90")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    assert KEY.fullmatch(key)
    assert "it can't be shown again" in made.stderr
    listed = run_serve("key", "list", *database).stdout
    assert re.fullmatch(
        rf"{key[3:11]}  default  documents:read,documents:write  created [\d-]+  expires [\d-]+  "
        r"scanner\n",
        listed,
    )
    with serving("gateway", *state_options(tmp_path)) as gateway:
        api = ServiceApi(gateway.url, key)
        assert api.request("GET", "/v1/documents").status_code == 200
        revoked = run_serve("key", "revoke", *database, key[3:11])
        assert revoked.returncode == 0, revoked.stderr
        assert api.request("GET", "/v1/documents").status_code == 401
    assert "revoked" in run_serve("key", "list", *database).stdout
    unknown = run_serve("key", "revoke", *database, "nonesuch")
    assert (unknown.returncode, "there is no key nonesuch" in unknown.stderr) == (2, True)
    wrong = run_serve("key", "create", *database, "--scopes", "documents:all")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "documents:write" in wrong.stderr


@pytest.mark.long
def test_gateway_and_worker_run_as_separate_processes(
    tmp_path: Path, engine: ChatServer, report: Path
) -> None:
    state = state_options(tmp_path)
    with serving("gateway", *state) as gateway:
        gateway.wait_for("There is no API key yet; create one with: llm-ocr serve key create")
        made = run_serve("key", "create", *state[:2])
        api = ServiceApi(gateway.url, made.stdout.strip())
        document = api.upload(report)
        assert api.document(document)["state"] == "queued"
        with serving("worker", *state[:4], "--base-url", engine.base_url) as worker:
            ended = api.wait(document, "succeeded")
            assert ended["progress"]["pages_done"] == 2
            # Stopping the gateway affects neither the document in progress nor its worker.
            second = api.upload(report)
            assert gateway.stop() == 0, gateway.output
            assert worker.is_running
            with serving("gateway", *state) as another:
                ServiceApi(another.url, api.key).wait(second, "succeeded")
            assert worker.stop() == 0, worker.output


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_requeues_documents_in_progress(
    tmp_path: Path, report: Path, number: signal.Signals
) -> None:
    with serving_beside(never) as engine:
        arguments = [*state_options(tmp_path), "--drain-seconds", "0.5"]
        with serving(*arguments, "--base-url", engine.base_url) as service:
            key = service.key
            document = ServiceApi(service.url, key).upload(report)
            wait_until(lambda: engine.requests)
            assert service.stop(number) == 0, service.output
        assert "Stopping" in service.output
    with serving("gateway", *state_options(tmp_path)) as gateway:
        found = ServiceApi(gateway.url, key).document(document)
    assert (found["state"], found["attempts"]) == ("queued", 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_second_signal_stops_immediately(
    tmp_path: Path, report: Path, number: signal.Signals, code: int
) -> None:
    with serving_beside(never) as engine:
        arguments = [*state_options(tmp_path), "--drain-seconds", "60"]
        with serving(*arguments, "--base-url", engine.base_url) as service:
            ServiceApi(service.url, service.key).upload(report)
            wait_until(lambda: engine.requests)
            service.send(number)
            service.wait_for("Stopping")
            assert service.is_running
            assert service.stop(number, seconds=5) == code
    assert "another worker resumes" in service.output


@pytest.mark.long
def test_a_worker_that_was_suspended_finishes_its_document(tmp_path: Path) -> None:
    paused, state = threading.Event(), state_options(tmp_path)
    paused.set()
    with (
        serving_beside(reply_unless_paused(paused)) as engine,
        serving("gateway", *state) as gateway,
    ):
        key = run_serve("key", "create", *state[:2]).stdout.strip()
        api = ServiceApi(gateway.url, key)
        document = api.upload(documents.pdf(tmp_path / "a.pdf", pages=3))
        arguments = ["worker", *state[:4], "--base-url", engine.base_url, "--lease-seconds", "3"]
        with serving(*arguments) as worker:
            wait_until(lambda: engine.requests)
            with sqlite3.connect(str(state[1])) as database:
                # A worker that is suspended in a transaction would lock everyone else out.
                database.execute("BEGIN IMMEDIATE")
                worker.send(signal.SIGSTOP)
            api.wait(document, "queued")
            worker.send(signal.SIGCONT)
            api.wait(document, "processing")
            paused.clear()
            ended = api.wait(document, "succeeded", "failed")
    # More where the machine was so busy that the worker lost its lease again.
    assert ended["error"] is None
    assert ended["attempts"] >= 2


def test_without_a_key_a_gateway_listens_only_on_loopback(tmp_path: Path) -> None:
    done = run_serve("gateway", *state_options(tmp_path), "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "other machines can reach 0.0.0.0, and there is no API key yet" in done.stderr
    assert "(press" not in done.stdout


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_serve(*state_options(tmp_path), "--port", port)
    assert done.returncode == 2
    assert f"can't listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    # A key of the failed start would never be shown.
    assert run_serve("key", "list", *state_options(tmp_path)[:2]).stdout == ""


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    url = f"postgresql://ocr:hush@127.0.0.1:{free_port()}/ocr"
    done = run_serve("migrate", "--database", url)
    assert done.returncode == 4
    assert "127.0.0.1" in done.stderr
    assert "hush" not in done.stderr + done.stdout


def test_options_come_after_the_command(tmp_path: Path) -> None:
    done = run_serve("--port", "0", "worker")
    assert done.returncode == 2
    assert "put the options after the command: llm-ocr serve worker" in done.stderr


def test_a_missing_extra_is_reported_with_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None; sys.argv = ['llm-ocr', 'serve']\n"
        "from llm_ocr.cli.commands import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the service needs the package sqlalchemy, which is not installed" in done.stderr
    assert "uv sync --inexact --extra service" in done.stderr


def test_other_commands_import_nothing_of_the_service() -> None:
    code = (
        "import sys, llm_ocr.cli.commands\n"
        "print({'fastapi', 'sqlalchemy', 'uvicorn', 'alembic', 'aiohttp'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_api_docs_need_no_key(tmp_path: Path) -> None:
    with serving("gateway", *state_options(tmp_path)) as gateway:
        assert httpx2.get(f"{gateway.url}/docs").status_code == 200
        assert httpx2.get(f"{gateway.url}/livez").status_code == 200


@pytest.mark.long
def test_the_embedded_engine_reads_the_examples_although_the_server_is_killed(
    tmp_path: Path,
) -> None:
    files = [*EXAMPLES.glob("*.pdf"), EXAMPLES / "letters.tiff", EXAMPLES / "invoice.jpg"]
    out, port = tmp_path / "results", free_port()
    arguments = [*state_options(tmp_path)[:4], "--port", port, "--engine", "embedded"]
    with serving(*arguments, "--lease-seconds", "2") as first:
        api = ServiceApi(first.url, first.key)
        client = subprocess.Popen(
            [
                *(sys.executable, "-m", "llm_ocr", "submit", *map(str, files), "--to", api.url),
                *("--wait", "--out", str(out)),
            ],
            env={**os.environ, "LLM_OCR_SERVICE_KEY": api.key},
            stderr=subprocess.PIPE,
            text=True,
        )

        def pages_done() -> int:
            found = api.get("/v1/documents")["documents"]
            return sum(document["progress"]["pages_done"] for document in found)

        wait_until(lambda: pages_done() > 0, 300)
        first.stop(signal.SIGKILL)
    with serving(*arguments, "--lease-seconds", "2"):
        _, error = client.communicate(timeout=600)
    assert client.returncode == 0, error
    for file in files:
        assert (out / f"{file.stem}.md").stat().st_size > 100
        assert (out / f"{file.stem}.json").is_file()
