"""The commands of hf-jobs/README.md, given in their order by someone who has documents."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from llm_ocr import load_documents, load_pages
from llm_ocr.storage.store import open_store
from tests import documents
from tests.platforms.aws_place import soon
from tests.platforms.hf import SCANS, Cloud, put_documents
from tests.platforms.readme import commands
from tests.servers.hub_jobs import OVER

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
README = ROOT / "hf-jobs" / "README.md"
WHEEL = "dist/llm_ocr-0.1.0-py3-none-any.whl"


# Not what is done once before, nor what needs more than a Hub.
GIVEN = ("hf upload", "hf jobs", "for", "hf buckets", "hf repos", "llm-ocr", "python")


def test_hf_readme_commands_work(tmp_path: Path, cloud: Cloud, wheel: Path) -> None:
    for number in range(3):
        documents.pdf(tmp_path / "scans" / f"{number}.pdf", pages=2)
    (tmp_path / "dist").mkdir()
    (tmp_path / WHEEL).symlink_to(wheel)
    bins = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": bins}
    job = scheduled = ""
    for command in commands(README, *GIVEN):
        typed = re.sub(r"\bJOB\b", job, re.sub(r"\bORG\b", "user", command))
        typed = re.sub(r"\bID$", scheduled, typed)
        done = subprocess.run(
            ["bash", "-c", typed], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (typed, done.stdout, done.stderr)
        if command.startswith("llm-ocr launch") and "--dry-run" not in command:
            job = done.stdout.split()[0]
        if command.startswith("python"):
            assert "num_rows: 3" in done.stdout
        if command.startswith("hf jobs scheduled run"):
            (scheduled,) = cloud.hub.scheduled
        if command.startswith("for"):
            # What follows is typed when they are done.
            soon(lambda: all(one.stage in OVER for one in cloud.hub.jobs.values()))
    soon(lambda: all(one.stage in OVER for one in cloud.hub.jobs.values()))
    failed = [one.lines()[-20:] for one in cloud.hub.jobs.values() if one.stage == "ERROR"]
    assert failed == []
    asked = [(one.asked["flavor"], one.stage) for one in cloud.hub.jobs.values()]
    stages = [("l4x1", "COMPLETED"), ("l4x1", "COMPLETED"), ("cpu-upgrade", "COMPLETED")]
    launched, plain = [("a100-large", "COMPLETED")] * 3, [("a100-large", "COMPLETED")] * 4
    nightly = [("a100-large", "COMPLETED")]
    assert asked == launched + plain + nightly + stages
    for run in ("plain", "shared", "daily"):
        assert len(list(load_pages(f"hf://datasets/user/{run}"))) == 6
    assert "user/read-run" not in cloud.hub.buckets
    assert ("dataset", "user/scans") not in cloud.hub.repositories


def test_typed_commands_are_short() -> None:
    """A job is three lines of a terminal, where `launch --dry-run` fills a screen."""
    (line,) = commands(README, "hf jobs run")
    assert len(line) < 250


def test_nightly_schedule_reads_new_documents(tmp_path: Path, cloud: Cloud, wheel: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / WHEEL).symlink_to(wheel)
    put_documents(tmp_path / "in", 2)
    (line,) = commands(README, "hf jobs scheduled run")
    bins = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", line.replace("ORG", "user")],
        cwd=tmp_path,
        env={**os.environ, "PATH": bins},
        check=True,
        capture_output=True,
    )
    (scheduled,) = cloud.hub.scheduled.values()
    assert scheduled.asked["schedule"] == "@daily"
    for documents_there in (2, 3):
        if documents_there == 3:
            open_store(SCANS).put_many({"new.pdf": documents.pdf(tmp_path / "new.pdf")}, "One more")
        started = HfApi(os.environ["HF_ENDPOINT"]).trigger_scheduled_job(
            scheduled_job_id=scheduled.id
        )
        soon(lambda job=started: cloud.hub.jobs[job.id].stage in OVER)  # type: ignore[misc]
        assert cloud.hub.jobs[started.id].stage == "COMPLETED", cloud.hub.jobs[started.id].lines()
        assert len(list(load_documents("hf://datasets/user/daily"))) == documents_there
