"""The notebooks of SageMaker and AWS Batch, executed whole, with the embedded engine."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llm_ocr import load_descriptions, load_documents, load_pages
from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from tests.platforms import aws_module
from tests.platforms.aws_place import QUICK, kill_worker, new_run, settle
from tests.platforms.notebooks import DOCUMENTS, MINE, assert_shown, execute, is_paired, scans
from tests.servers.aws import REGION, Account
from tests.servers.aws_batch import serving_batch
from tests.servers.aws_batch_jobs import RECLAIMED
from tests.servers.aws_sagemaker import ROLE, serving_sagemaker

ROOT = aws_module.ROOT
SAGEMAKER = ROOT / "sagemaker" / "sm-jobs-pipeline.ipynb"
BATCH = ROOT / "aws-batch" / "batch-jobs-pipeline.ipynb"
EMBEDDED = {
    **QUICK,
    "LLM_OCR_ENGINE": "embedded",
    "LLM_OCR_ENGINE_THREADS": "1",
    "LLM_OCR_RENDER_WORKERS": "1",
}


def fill(folder: Path) -> str:
    """The documents in the bucket; their folder there."""
    place = new_run().replace("/runs/", "/in/")
    store = open_store(place)
    for file in scans(folder):
        store.put(file.name, file.read_bytes())
    return place


@contextmanager
def once_begun(out: str, happens: Callable[[], None]) -> Iterator[list[str]]:
    """Does something, in a thread, when the run at `out` has its first commit."""
    noted: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            if next(iter(open_store(out).list("commits")), None) is not None:
                happens()
                noted.append("done")
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield noted
    finally:
        ended.set()
        thread.join()


def parameters(place: str, out: str) -> dict[str, object]:
    return {
        **MINE,
        "INPUT": place,
        "BUCKET": "bucket",
        "RUN": out.removeprefix("s3://bucket/"),
        "SHARD_PAGES": 2,
        "CLEAN_UP": False,
        "REGION": REGION,
    }


def assert_balanced(out: str) -> None:
    assert len(list(load_documents(out))) == DOCUMENTS
    assert {row["status"] for row in load_pages(out)} <= {"ok", "blank"}
    assert list(load_descriptions(out))
    status = read_status(out)
    assert {stage.shards_committed for stage in status.stages.values()} == {status.shards}


@pytest.fixture
def path_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells call `llm-ocr`."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.long
@pytest.mark.usefixtures("path_of_tools")
def test_sagemakers_notebook_with_a_worker_killed(
    tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_paired(SAGEMAKER)
    registry = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0"
    images: dict[str, tuple[str, ...]] = {f"{registry}-{one}-root": () for one in ("gpu", "cpu")}
    account = Account(tmp_path / "sagemaker", {**s3, **EMBEDDED}, images)
    with serving_sagemaker(account) as processing:
        settle(monkeypatch, account.client_environment())
        place, out = fill(tmp_path / "in"), new_run()

        def kill() -> None:
            (job,) = processing.jobs.values()
            running = [one.process for one in job.containers if one.process is not None]
            kill_worker(next(one.pid for one in running if one.returncode is None))

        with once_begun(out, kill) as noted:
            done = execute(SAGEMAKER, {"ROLE": ROLE, **parameters(place, out)}, tmp_path)
        assert noted
        extracted = next(iter(processing.jobs.values()))
        logs = [container.lines() for container in extracted.containers]
    assert sum("restarting it (attempt 2 of 3)" in line for lines in logs for line in lines) == 1
    assert [job.status for job in processing.jobs.values()] == ["Completed"] * 3
    assert_shown(done)
    assert_balanced(out)


@pytest.mark.long
@pytest.mark.usefixtures("path_of_tools")
def test_batchs_notebook_with_a_machine_reclaimed(
    tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_paired(BATCH)
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0"
    account = Account(
        tmp_path / "batch",
        {**s3, **EMBEDDED},
        {image: (sys.executable, "-m", "llm_ocr.platforms.entrypoint")},
    )
    account.folder.mkdir()
    with serving_batch(account) as batch:
        settle(monkeypatch, account.client_environment())
        for kind in ("l4", "cpu"):
            batch.make_queue(f"llm-ocr-{kind}")
            batch.register(aws_module.definition(kind, image, {}))
        place, out = fill(tmp_path / "in"), new_run()

        def reclaim() -> None:
            (made,) = batch.submissions.values()
            batch.end(
                next(job for job in made.jobs if job.status == "RUNNING"), host_reason=RECLAIMED
            )

        with once_begun(out, reclaim) as noted:
            done = execute(BATCH, {**parameters(place, out)}, tmp_path)
        assert noted
        extracted = next(iter(batch.submissions.values()))
    assert sorted(len(job.attempts) for job in extracted.jobs) == [1, 1, 2]
    assert [made.status for made in batch.submissions.values()] == ["SUCCEEDED"] * 3
    assert_shown(done)
    assert_balanced(out)
