"""Runs on a real Ray cluster of two nodes, which are killed in part or as a whole."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from llm_ocr import load_descriptions, load_documents, load_figures, load_pages, run
from llm_ocr.engines.embedded.serving.command import MODEL_NAME
from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from tests import documents
from tests.platforms.test_batch_job import ASKED, reads
from tests.servers.chat import (
    ChatServer,
    answer,
    at_once,
    grounded,
    prompt_of,
    serving_beside,
    vllm_shim,
)
from tests.servers.cluster import RayCluster, serving_ray
from tests.servers.ports import free_port
from tests.servers.s3 import SECRET

pytestmark = pytest.mark.ray

SHARDS, PAGES = 20, 40
# Pages of an engine that are under way: its window, those being drawn ahead, those of a shard
# whose other page is not answered yet.
UNDER_WAY = 2 + 2 + 2
RUN = ("--shard-pages", "2", "--concurrency", "2", "--render-workers", "1", "--viewer-pages", "0")
# All processes of a run, and only they, have this in their environment.
MARK = "LLM_OCR_TEST_RUN"
SECONDS = 300
SCHEMA = """from pydantic import BaseModel


class Bill(BaseModel):
    invoice_number: str
    total: str
"""


@pytest.fixture(scope="module")
def client_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def two_nodes(client_port: int) -> Iterator[RayCluster]:
    pytest.importorskip("ray")
    with serving_ray(client_port) as cluster:
        yield cluster
    left = [one for one in psutil.Process().children(recursive=True) if "raylet" in one.name()]
    assert left == []


@pytest.fixture
def cluster(two_nodes: RayCluster) -> RayCluster:
    two_nodes.mend()
    return two_nodes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for k in range(SHARDS):
        documents.pdf(tmp_path / "in" / f"{k:02d}.pdf", pages=PAGES // SHARDS)
    return tmp_path / "in"


def start(source: Path, out: str, *options: str, **environment: str) -> "subprocess.Popen[str]":
    """A run as in a terminal: in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "llm_ocr", "run", str(source), "--out", out, *RUN, *options],
        env={**os.environ, MARK: out, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def command(cluster: RayCluster, folder: Path, *words: str) -> str:
    """What `llm-ocr WORDS --executor ray` says, typed in that folder, with exit code 0."""
    done = subprocess.run(
        [sys.executable, "-m", "llm_ocr", *words, "--executor", "ray"],
        cwd=folder,
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def wait_for_exit(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit code, and all that was said, as one line."""
    said, errors = process.communicate(timeout=SECONDS)
    return process.returncode, " ".join((said + errors).split())


def processes_of(out: str) -> list[str]:
    """Those that belong to a run and still live."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == out and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def engines_alive() -> list[str]:
    """Engines' processes on any node, and what they have started."""
    marks = (
        "ray::EngineActor",
        "llm_ocr.sources.render_worker",
        "llm_ocr.engines",
        "tests.servers.chat",
    )
    titles = []
    for process in psutil.Process().children(recursive=True):
        try:
            titles.append(" ".join(process.cmdline()))
        except psutil.NoSuchProcess:
            continue
    return [title for title in titles if any(mark in title for mark in marks)]


class Counted:
    """Answers at once, and counts pages. From the n-th page on it holds its answers until so many
    requests are in flight `together`, does something, and goes on."""

    def __init__(self, at: Mapping[int, Callable[[], object]], together: int = 1) -> None:
        self.pages = 0
        self._ahead, self._together = sorted(at.items()), together
        self._held: list[asyncio.Future[None]] = []

    async def reply(self, body: dict[str, Any]) -> web.Response:
        if "<|grounding|>" in prompt_of(body):
            self.pages += 1
            if self._ahead and self.pages >= self._ahead[0][0]:
                await self._hold()
        return at_once(body)

    async def _hold(self) -> None:
        if len(self._held) + 1 < self._together:
            self._held.append(asyncio.get_running_loop().create_future())
            await self._held[-1]
            return
        self._ahead.pop(0)[1]()
        held, self._held = self._held, []
        for one in held:
            one.set_result(None)


def assert_same(there: str, here: str, *, but: frozenset[str] = frozenset({"seconds"})) -> None:
    """Both runs are whole, and have the same rows."""
    for load in (load_pages, load_figures, load_descriptions, load_documents):
        both = ([{**row, **dict.fromkeys(but)} for row in load(one)] for one in (there, here))
        assert next(both) == next(both), load.__name__
    status = read_status(there)
    assert {stage.shards_committed for stage in status.stages.values()} == {SHARDS}
    assert (status.stages["extract"].items_committed, status.stages["extract"].items_staged) == (
        PAGES,
        0,
    )
    store = open_store(there)
    assert store.exists("summary.json")
    assert len(list(store.list("data/pages"))) == SHARDS


def alone(source: Path, out: Path, server: ChatServer) -> str:
    """The same without Ray."""
    run(source, out, base_url=server.base_url, shard_pages=2)
    return str(out)


@pytest.mark.parametrize("place", ["disk", "s3"])
def test_two_nodes_give_the_same_tables_as_one_process(
    cluster: RayCluster,
    client_port: int,
    source: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    out, on = str(tmp_path / "out"), f"ray://127.0.0.1:{client_port}"
    if place == "s3":
        for key, value in request.getfixturevalue("s3").items():
            monkeypatch.setenv(key, value)
        out, on = f"s3://bucket/runs/{uuid.uuid4().hex}", "ray"
    # Three at once are more than one engine asks.
    counted = Counted({5: int}, together=3)
    with serving_beside(counted.reply) as server:
        options = ("--executor", on, "--base-url", server.base_url)
        code, said = wait_for_exit(start(source, out, *options, RAY_ADDRESS=cluster.address))
        assert code == 0, said
        assert counted.pages == PAGES
        assert_same(out, alone(source, tmp_path / "alone", server))
        asked = len(server.requests)
        code, said = wait_for_exit(start(source, out, *options, RAY_ADDRESS=cluster.address))
        assert (code, len(server.requests)) == (0, asked), "a finished run asks nothing"
    assert SECRET not in said
    assert engines_alive() == []


def test_killed_processes_and_nodes_lose_only_work_in_progress(
    cluster: RayCluster, source: Path, tmp_path: Path
) -> None:
    out, killed = str(tmp_path / "out"), []
    counted = Counted(
        {
            10: lambda: killed.append(cluster.kill_an_engine()),
            25: cluster.kill_node,
        },
        together=3,
    )
    with serving_beside(counted.reply) as server:
        options = ("--executor", "ray", "--base-url", server.base_url)
        code, said = wait_for_exit(start(source, out, *options, RAY_ADDRESS=cluster.address))
        assert code == 0, said
        assert killed == [True]
        assert len(re.findall("died and is being restarted", said)) == 2, said
        assert_same(out, alone(source, tmp_path / "alone", server))
    again = counted.pages - 2 * PAGES
    assert 0 <= again <= 2 * UNDER_WAY
    assert engines_alive() == []


def test_ctrl_c_stages_finished_pages_and_the_same_command_resumes(
    source: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    runs: list[subprocess.Popen[str]] = []
    # As a terminal does it: all that is in the foreground is told.
    counted = Counted({20: lambda: os.killpg(runs[0].pid, signal.SIGINT)})
    with serving_beside(counted.reply) as server:
        options = ("--executor", "ray", "--engines", "1", "--base-url", server.base_url)
        environment = {"RAY_ADDRESS": "local"}
        runs.append(start(source, out, *options, **environment))
        code, said = wait_for_exit(runs[0])
        assert code == 130, said
        assert "rerun the same command to resume" in said
        assert processes_of(out) == []
        stage = read_status(out).stages["extract"]
        finished = stage.items_committed + stage.items_staged
        assert 0 < finished < PAGES
        before = counted.pages
        code, said = wait_for_exit(start(source, out, *options, **environment))
        assert code == 0, said
        assert counted.pages - before == PAGES - finished
        assert_same(out, alone(source, tmp_path / "alone", server))
    assert processes_of(out) == []


def test_engines_are_started_on_nodes_with_logs_of_their_own(
    cluster: RayCluster, source: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    options = ("--executor", "ray", "--engine", "vllm", "--vllm", vllm_shim(tmp_path))
    code, said = wait_for_exit(start(source, out, *options, RAY_ADDRESS=cluster.address))
    assert code == 0, said
    # The first may have read everything before the other was up.
    started = set(re.findall(r"engine (\d): starting vLLM", said))
    logs = tmp_path / "out" / "logs"
    assert started
    assert {path.parent.name for path in logs.rglob("vllm.log")} == {f"engine-{k}" for k in started}
    assert len(list(load_pages(out))) == PAGES
    assert engines_alive() == []


def test_node_reports_its_engine(cluster: RayCluster, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    page = documents.pdf(tmp_path / "page.pdf")
    code, said = wait_for_exit(start(page, out, "--executor", "ray", RAY_ADDRESS=cluster.address))
    assert code == 0, said
    assert [row["model"] for row in load_pages(out)] == [MODEL_NAME]
    # It is the same run without Ray.
    assert run(page, out, engine="embedded").pages_done == 0


def test_failed_engines_end_the_run_only_when_none_is_left(
    cluster: RayCluster, source: Path, tmp_path: Path
) -> None:
    out, vllm = str(tmp_path / "out"), tmp_path / "vllm"
    once = tmp_path / "once"
    shim = Path(vllm_shim(tmp_path)).read_text()
    # The first that starts dies of something that no restart mends.
    broken = f'[ "$1" = serve ] && mkdir {once} 2>/dev/null && echo no memory && exit 1\n'
    vllm.write_text(shim.replace("#!/bin/sh\n", f"#!/bin/sh\n{broken}"))
    options = ("--executor", "ray", "--engine", "vllm", "--vllm", str(vllm))
    code, said = wait_for_exit(start(source, out, *options, RAY_ADDRESS=cluster.address))
    assert code == 0, said
    assert re.search(r"engine \d failed, the run continues on the others", said)
    assert len(list(load_pages(out))) == PAGES
    vllm.write_text(shim.replace("exec ", "exit 1 #"))
    code, said = wait_for_exit(start(source, f"{out}-2", *options, RAY_ADDRESS=cluster.address))
    assert code == 3, said
    assert "The engine failed" in said
    assert engines_alive() == []


def test_stages_run_on_the_cluster_one_by_one(
    cluster: RayCluster, source: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with serving_beside() as server:
        asks = ("--base-url", server.base_url)
        run(source, out, base_url=server.base_url, stages=("extract",), shard_pages=2)
        said = command(cluster, tmp_path, "describe", out, *asks)
        assert f"describe: {len(list(load_figures(out)))} of" in said
        command(cluster, tmp_path, "assemble", out)
        assert_same(out, alone(source, tmp_path / "alone", server))
    assert engines_alive() == []


def test_parse_with_a_custom_schema_runs_on_the_cluster(
    cluster: RayCluster, source: Path, tmp_path: Path
) -> None:
    # What the nodes are shown is not the folder that the schema is in.
    mine, out = tmp_path / "mine", str(tmp_path / "out")
    mine.mkdir()
    (mine / "bill.py").write_text(SCHEMA)
    with serving_beside(reads) as server:
        words = ("parse", str(source), "--schema", "bill.py", "--out", out, "--shard-pages", "2")
        command(cluster, mine, *words, "--base-url", server.base_url)
        asked = sum(ASKED in prompt_of(body) for body in server.requests)
        (mine / "bill.py").unlink()
        again = tmp_path / "again"
        again.mkdir()
        (again / "bill.py").write_text(SCHEMA)
        command(cluster, again, "parse", out, "--schema", "bill.py", "--base-url", server.base_url)
        assert sum(ASKED in prompt_of(body) for body in server.requests) == asked
    records = (tmp_path / "out" / "records" / "records.jsonl").read_text().splitlines()
    assert len(records) == SHARDS
    assert {json.loads(one)["fields"]["invoice_number"] for one in records} == {"A-17"}


def test_retry_runs_on_the_cluster(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")

    def cuts(body: dict[str, Any]) -> web.StreamResponse:
        """Every page is cut off that has no figure."""
        text = grounded(body)
        is_cut = "<|grounding|>" in prompt_of(body) and "image<|/ref|>" not in text
        return answer(text, "length" if is_cut else "stop")

    with serving_beside(cuts) as server:
        run(source, out, base_url=server.base_url, fallback="none", shard_pages=2)
        cut = [row["page_id"] for row in load_pages(out) if row["status"] == "truncated"]
        assert 0 < len(cut) < PAGES
        server.reply = at_once
        server.requests.clear()
        words = ("retry", out, "--status", "truncated", "--base-url", server.base_url)
        command(cluster, tmp_path, *words, "--fallback", "none")
        pages = [body for body in server.requests if "<|grounding|>" in prompt_of(body)]
        assert len(pages) == len(cut)
        assert {row["status"] for row in load_pages(out)} == {"ok"}
        said = command(cluster, tmp_path, *words)
        assert "no page" in said
    assert read_status(out).stages["assemble"].shards_committed == SHARDS


def test_reparse_runs_on_the_cluster(cluster: RayCluster, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving_beside() as server:
        run(source, out, base_url=server.base_url, shard_pages=2)
        asked = len(server.requests)
        older = sorted((out / "data" / "pages").glob("*.parquet"))[: SHARDS // 2]
        for file in older:
            table = pq.read_table(file)
            shouted = [one.as_py().replace("What", "WHAT") for one in table["raw_answer"]]
            for name, values in (("raw_answer", shouted), ("parser_version", [0] * len(shouted))):
                at = table.schema.get_field_index(name)
                column = pa.array(values, table.schema.field(name).type)
                table = table.set_column(at, table.schema.field(name), column)
            pq.write_table(table, file)
        command(cluster, tmp_path, "reparse", str(out))
        assert len(server.requests) == asked
    anew = [row for row in load_pages(out) if "WHAT" in row["markdown"]]
    assert len(anew) == PAGES // 2
    assert len(list(load_pages(out))) == PAGES
    assert sum("WHAT" in row["markdown"] for row in load_documents(out)) == SHARDS // 2
    # There is nothing left to be read, which is no mistake of the nodes.
    command(cluster, tmp_path, "reparse", str(out))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--executor", "ray", "--cpus-per-engine", "9"),
            r"no node .* 9 CPUs and 0 GPUs \(.*: 4 CPUs",
        ),
        (("--executor", "ray", "--gpus-per-engine", "1"), r"no node of the cluster .* 1 GPU"),
        (("--executor", "ray://127.0.0.1:1"), "ray://127.0.0.1:1 can't be reached"),
    ],
)
def test_unusable_cluster_is_reported(
    cluster: RayCluster, source: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    process = start(source, str(tmp_path / "out"), *options, RAY_ADDRESS=cluster.address)
    code, text = wait_for_exit(process)
    assert code == 3, text
    assert re.search(said, text), text
