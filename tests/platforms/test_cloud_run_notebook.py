"""The notebook of google-cloud-run/, and the one that compares runs, executed whole."""

import json
import os
import sys
from pathlib import Path

import pytest

from llm_ocr import load_descriptions, load_documents, load_figures, load_pages, run
from llm_ocr.storage.store import open_store
from tests import documents
from tests.platforms.gcp import ACCOUNT, project
from tests.platforms.notebooks import MINE, assert_shown, execute, is_paired, scans
from tests.servers.chat import serving_beside
from tests.servers.google_accounts import PROJECT

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "google-cloud-run" / "cloudrun-jobs-pipeline.ipynb"
COMPARE = ROOT / "notebooks" / "compare-platforms.ipynb"


@pytest.mark.long
def test_notebook_reads_24_documents_with_three_tasks_and_one_killed(
    tmp_path: Path, gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_paired(NOTEBOOK)
    with project(tmp_path, gcs) as cloud:
        for name, value in cloud.mine.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        # The tasks have no server to ask: each starts the embedded engine.
        cloud.server.machines.network = {
            **gcs,
            "LLM_OCR_ENGINE": "embedded",
            "LLM_OCR_ENGINE_THREADS": "1",
            "LLM_OCR_RENDER_WORKERS": "1",
            "LLM_OCR_FLUSH_PAGES": "1",
        }
        store = open_store(cloud.bucket)
        for file in scans(tmp_path / "in"):
            store.put(f"scans/{file.name}", file)
        killed: list[int] = []

        def kill_when(task: int) -> bool:
            # Once something is staged or committed, so that there is something to go on with.
            begun = task == 1 and not killed and any(True for _ in store.list("run/_staging"))
            if begun:
                killed.append(task)
            return begun

        cloud.server.machines.kill_when = kill_when
        prefix = cloud.bucket.removeprefix("gs://bucket/")
        given = {
            "PROJECT": PROJECT,
            "BUCKET": "bucket",
            **MINE,
            "INPUT": f"{cloud.bucket}/scans",
            "RUN": f"{prefix}/run",
            "SHARD_PAGES": 2,
            "SERVICE_ACCOUNT": ACCOUNT,
        }
        executed = execute(NOTEBOOK, given, tmp_path)
        jobs = list(cloud.server.running.values())
        attempts = [cloud.server.attempts(one.execution.job) for one in jobs]
    assert attempts == [[1, 2, 1], [1, 1, 1], [1]]
    out = f"{cloud.bucket}/run"
    pages = list(load_pages(out))
    summary = json.loads(open_store(out).get("summary.json"))
    assert len({page["page_id"] for page in pages}) == len(pages) == summary["pages"]
    assert sum(summary["pages_by_status"].values()) == summary["pages"]
    assert len(list(load_documents(out))) == 24 == summary["documents"]
    figures = {figure["figure_id"] for figure in load_figures(out)}
    assert figures == {row["figure_id"] for row in load_descriptions(out)} != set()
    assert_shown(executed)
    assert "Container called exit(0)." in executed.printed, "the log of a task"


@pytest.mark.long
def test_runs_are_compared(tmp_path: Path) -> None:
    assert is_paired(COMPARE)
    source = documents.pdf(tmp_path / "a.pdf", pages=4)
    places = {}
    with serving_beside() as server:
        for name, price in (("cheap", 0.8), ("dear", 4.0)):
            places[name] = str(tmp_path / name)
            run(source, places[name], base_url=server.base_url, price_per_hour=price)
        places["unpriced"] = str(tmp_path / "unpriced")
        run(source, places["unpriced"], base_url=server.base_url)
    executed = execute(COMPARE, {"RUNS": places}, tmp_path)
    [table] = executed.markdown
    rows = {line.split(" | ")[0].strip("| "): line for line in table.splitlines()}
    assert rows["cheap"].count("$") == rows["dear"].count("$") == 2
    assert rows["unpriced"].count("not known") == 2
    assert executed.pictures == 1
