"""The commands of hf-jobs/README.md, given in their order by someone who has documents."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import documents
from tests.platforms.hf import Cloud
from tests.platforms.readme import commands

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
README = ROOT / "hf-jobs" / "README.md"
WHEEL = "dist/llm_ocr-0.1.0-py3-none-any.whl"


# Not what is done once before, nor what needs more than a Hub.
GIVEN = ("hf upload", "hf buckets", "hf repos", "llm-ocr", "python")


def test_its_commands_do_what_it_says(tmp_path: Path, cloud: Cloud, wheel: Path) -> None:
    for number in range(3):
        documents.pdf(tmp_path / "scans" / f"{number}.pdf", pages=2)
    (tmp_path / "dist").mkdir()
    (tmp_path / WHEEL).symlink_to(wheel)
    bins = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": bins}
    job = ""
    for command in commands(README, *GIVEN):
        typed = command.replace("JOB", job).replace("ORG", "user")
        done = subprocess.run(
            ["bash", "-c", typed], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (typed, done.stdout, done.stderr)
        if command.startswith("llm-ocr launch") and "--dry-run" not in command:
            job = done.stdout.split()[0]
        if command.startswith("python"):
            assert "num_rows: 3" in done.stdout
    asked = [(one.asked["flavor"], one.stage) for one in cloud.hub.jobs.values()]
    stages = [("l4x1", "COMPLETED"), ("l4x1", "COMPLETED"), ("cpu-upgrade", "COMPLETED")]
    assert asked == [("a100-large", "COMPLETED")] * 3 + stages
    assert set(cloud.hub.buckets) == {"user/jobs-artifacts"}
    assert {name for _, name in cloud.hub.repositories} == {"user/read"}
