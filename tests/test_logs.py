"""JSON logs of the service's processes, and of a process whose errors nothing catches."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from aiohttp import web

from tests import documents
from tests.processes import run_module
from tests.servers.chat import Reply, at_once, refusal, serving_beside
from tests.servers.otlp import receiving_traces
from tests.servers.service import KEY, ServiceApi, ServiceProcess, serving, state_options
from tests.waiting import wait_until

# RFC 3339, in UTC.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
JSON_LOGS = {"LLM_OCR_JSON_LOGS": "1"}
Line = Mapping[str, Any]


def parse(text: str) -> Sequence[Line]:
    """The objects of JSON lines: every line must be one."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(TIME.fullmatch(line["time"]) for line in lines)
    return lines


def url_of(process: ServiceProcess) -> str:
    process.wait_for("listening at ")
    (found,) = find(process, "listening at ")
    return str(found["message"].rpartition(" ")[2])


def find(process: ServiceProcess, text: str) -> list[Line]:
    return [line for line in parse(process.output) if text in line["message"]]


def reply_unless_refusing(refuses: threading.Event) -> Reply:
    """An engine's reply, which refuses every request while `refuses` is set."""

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        return refusal(400, "not this page") if refuses.is_set() else at_once(body)

    return reply


@pytest.mark.long
def test_a_failing_step_names_document_and_trace_in_the_logs_of_all_processes(
    tmp_path: Path,
) -> None:
    refuses = threading.Event()
    config = tmp_path / "inference.yaml"
    state = state_options(tmp_path)
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving_traces())
        engine = stack.enter_context(serving_beside(reply_unless_refusing(refuses)))
        replicas = {"replicas": [{"base_url": engine.base_url}]}
        config.write_text(yaml.safe_dump({"models": {"deepseek-ocr": replicas}}))
        env = {**JSON_LOGS, **receiver.environment}

        def start(*arguments: object) -> ServiceProcess:
            return stack.enter_context(serving(*arguments, env=env))

        tier = start("inference", "--config", config, "--port", 0)
        gateway = start("gateway", *state)
        ready = f"{url_of(tier).removesuffix('/v1')}/readyz"
        wait_until(lambda: httpx2.get(ready).status_code == 200)
        options = ("--base-url", url_of(tier), "--fallback", "none", "--metrics-port", 0)
        worker = start("worker", *state[:4], *options)
        key = create_key(state)
        api = ServiceApi(url_of(gateway), key)
        good = api.upload(documents.pdf(tmp_path / "good.pdf", pages=1))
        api.wait(good, "succeeded")
        refuses.set()
        bad = api.upload(documents.picture(tmp_path / "bad.jpg"))
        error = api.wait(bad, "failed")["error"]
        assert api.request("GET", f"/v1/documents/{bad}?secret=in-the-query").status_code == 422
        assert all(process.stop() == 0 for process in (worker, gateway, tier))
    # What they print, on standard output too, is nothing but JSON lines.
    lines = {process: parse(process.output) for process in (gateway, worker, tier)}
    created = {line["document_id"]: line for line in lines[gateway] if "created" in line["message"]}
    assert created.keys() == {good, bad}
    traces = {document: line["trace_id"] for document, line in created.items()}
    assert {span.trace for span in receiver.named("process document")} == set(traces.values())
    (failed,) = find(worker, f"{bad}: failed")
    assert failed["level"] == "warning"
    assert failed["document_id"] == bad
    assert failed["tenant"] == "default"
    assert failed["trace_id"] == traces[bad]
    assert failed["step"] == "extract"
    assert {name: failed["error"][name] for name in ("code", "message")} == {
        name: error[name] for name in ("code", "message")
    }
    (done,) = find(worker, f"{good}: succeeded")
    assert (done["level"], done["trace_id"]) == ("info", traces[good])
    (asked,) = [line for line in lines[tier] if line.get("trace_id") == traces[good]][:1]
    assert (asked["status"], asked["model"]) == (200, "deepseek-ocr")
    uploads = find(gateway, "POST /v1/documents:upload 202")
    assert [line["trace_id"] for line in uploads] == [traces[good], traces[bad]]
    assert {line["tenant"] for line in uploads} == {"default"}
    assert find(gateway, "GET /v1/documents/{document_id} 422")[0]["document_id"] == bad
    for text in (gateway.output, worker.output, tier.output):
        assert "in-the-query" not in text
        assert key not in text


def create_key(state: Sequence[object]) -> str:
    done = run_module("llm_ocr", "serve", "key", "create", *map(str, state[:2]))
    assert KEY.fullmatch(done.stdout.strip()), done.stderr
    return done.stdout.strip()


def test_errors_at_the_start_are_json_and_have_no_password(tmp_path: Path) -> None:
    url = "postgresql://user:geheim@127.0.0.1:1/none"
    env = {**JSON_LOGS, "LLM_OCR_ENV_FILE": str(tmp_path / "settings.env")}
    (tmp_path / "settings.env").write_text("LLM_OCR_JSON_LOGS=no\nLLM_OCR_TASKS=2\n")
    done = run_module("llm_ocr", "serve", "worker", "--database", url, env=env)
    assert done.returncode == 4
    read, stopped = parse(done.stderr)
    assert "read LLM_OCR_TASKS" in read["message"]
    assert (read["level"], stopped["level"]) == ("warning", "error")
    assert "Connection refused" in stopped["message"]
    assert "geheim" not in done.stderr


UNCAUGHT = """
import logging, os, subprocess, sys, threading, warnings
from llm_ocr import logs

def fail(*arguments):
    raise ValueError("no", *arguments)

logs.use_json_logs()
logs.bind(document_id="doc_1", step="extract")
logging.getLogger("llm_ocr.one").info("a\\nb", extra=logs.about(page=3, left_out=None))
logging.getLogger("other").info("not logged")
warnings.warn("old")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
child = "import logging; from llm_ocr import logs; logs.inherit_format(); logging.error('child')"
subprocess.run([sys.executable, "-c", child], check=True)
print(logs.format_message("direct"), file=sys.stderr)
fail(1)
"""


def test_what_nothing_catches_is_logged_as_json() -> None:
    command = [sys.executable, "-c", UNCAUGHT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    lines = parse(done.stderr)
    own, warning, thread, child, direct, last = lines
    assert (own["message"], own["page"], own["level"]) == ("a\nb", 3, "info")
    assert "left_out" not in own
    bound = [line.get("document_id") for line in lines]
    # Another thread and another process have their own.
    assert bound == ["doc_1", "doc_1", None, None, "doc_1", "doc_1"]
    assert "old" in warning["message"]
    assert thread["error"]["message"] == "no"
    assert (child["message"], child["level"]) == ("child", "error")
    assert direct["message"] == "direct"
    assert last["error"]["type"] == "ValueError"
    assert "in fail" in last["error"]["stack"]
