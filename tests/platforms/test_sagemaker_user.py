"""Whose the processes of a SageMaker container are: root's is the first, and no other."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import documents
from tests.platforms.aws_module import ROOT
from tests.servers.chat import serving_beside

UID = 10001
# A machine as a container sees it, with its user: this interpreter and this checkout stay where
# they are, but nobody is kept from the folders above them.
CONTAINER = r"""
set -e
mount --bind "$BASE/passwd" /etc/passwd
number=0
for folder in $FOLDERS; do
    number=$((number + 1))
    mkdir "$BASE/$number"
    mount --rbind "$folder" "$BASE/$number"
done
mount -t tmpfs -o mode=755 none /root
number=0
for folder in $FOLDERS; do
    number=$((number + 1))
    mkdir -p "$folder"
    mount --rbind "$BASE/$number" "$folder"
done
exec "$@"
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None or shutil.which("unshare") is None,
    reason="only root can become another user",
)


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that every user reaches."""
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        known = Path("/etc/passwd").read_text()
        (folder / "passwd").write_text(f"{known}llm-ocr:x:{UID}:0::{folder}/home:/bin/sh\n")
        for own in ("home", "out"):
            (folder / own).mkdir()
            os.chown(folder / own, UID, 0)
        # As SageMaker makes them.
        (folder / "ml" / "config").mkdir(parents=True)
        (folder / "ml" / "config").chmod(0o700)
        yield folder


def task(base: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    needed = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
    below = [str(one) for one in sorted(needed) if one.is_relative_to("/root")]
    known = {"BASE": str(base), "FOLDERS": " ".join(below), "SAGEMAKER_BASE_DIR": str(base / "ml")}
    command = [sys.executable, "-m", "llm_ocr.platforms.sagemaker_task", "--", *arguments]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", CONTAINER, "sh", *command],
        env={**os.environ, **known, "HOME": "/root"},
        cwd=base / "home",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_worker_does_not_run_as_root(base: Path) -> None:
    source = documents.pdf(base / "in" / "a.pdf")
    with serving_beside() as engine:
        done = task(
            base, "run", str(source), "--out", f"{base}/out/run", "--base-url", engine.base_url
        )
    assert done.returncode == 0, done.stderr
    written = [*(base / "out" / "run").rglob("*")]
    assert written
    assert {path.stat().st_uid for path in written} == {UID}


def test_failure_message_is_written_as_root(base: Path) -> None:
    done = task(base, "run", f"{base}/none.pdf", "--out", f"{base}/out/run")
    assert done.returncode == 2, done.stderr
    message = base / "ml" / "output" / "message"
    assert "task 0: Exit code 2" in message.read_text()
    assert message.stat().st_uid == 0
