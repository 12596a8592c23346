"""The notebook of hf-jobs/, executed whole."""

import json
import os
import sys
from pathlib import Path

import pytest
from aiohttp import web

from llm_ocr import load_descriptions, load_documents, load_figures, load_pages
from llm_ocr.storage.store import create_repository, open_store
from tests.platforms.hf import READ, SCANS, Cloud
from tests.platforms.notebooks import MINE, assert_shown, execute, is_paired, scans
from tests.servers.hub_images import Image

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "hf-jobs" / "hf-jobs-pipeline.ipynb"
# The tasks have no server to ask: each starts the embedded engine.
EMBEDDED = {
    "LLM_OCR_ENGINE": "embedded",
    "LLM_OCR_ENGINE_THREADS": "1",
    "LLM_OCR_RENDER_WORKERS": "1",
    "LLM_OCR_FLUSH_PAGES": "1",
}


@pytest.mark.long
def test_hf_notebook_reads_24_documents_with_three_tasks_and_one_killed(
    tmp_path: Path, cloud: Cloud, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_paired(NOTEBOOK)
    hub = cloud.hub
    alone = image.having(**EMBEDDED, LLM_OCR_SKIP_MODEL_CHECK="true")
    hub.images = dict.fromkeys(hub.images, alone)
    create_repository(SCANS, private=True)
    files: dict[str, bytes | Path] = {file.name: file for file in scans(tmp_path / "in")}
    open_store(SCANS).put_many(files, "Scans")
    killed: list[str] = []

    def watch(request: web.Request) -> None:
        """Once something of its shards is staged, so that there is something to go on with."""
        bucket = hub.buckets.get("user/read-run")
        if killed or bucket is None:
            return
        paths = [path for path in bucket.files if path.startswith("_staging/extract/")]
        if staged := [path for path in paths if int(path.split("/")[2].split("-")[0]) % 3 == 1]:
            killed.append(staged[0])
            cloud.task_job(1).kill()

    hub.watch = watch
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    given = {**MINE, "INPUT": SCANS, "OUT": READ, "SHARD_PAGES": 2, "CLEAN_UP": True}
    executed = execute(NOTEBOOK, given, tmp_path)
    attempts = [len(job.attempts) for job in hub.jobs.values()]
    assert attempts == [1, 2, 1, 1, 1, 1, 1]
    pages = list(load_pages(READ))
    summary = json.loads(open_store(READ).get("summary.json"))
    assert len({page["page_id"] for page in pages}) == len(pages) == summary["pages"]
    assert sum(summary["pages_by_status"].values()) == summary["pages"]
    assert len(list(load_documents(READ))) == 24 == summary["documents"]
    figures = {figure["figure_id"] for figure in load_figures(READ)}
    assert figures == {row["figure_id"] for row in load_descriptions(READ)} != set()
    assert_shown(executed)
    assert "user/read-run is removed" in executed.printed
