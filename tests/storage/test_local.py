import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_ocr.storage.store import RunInUseError, StorageError, open_snapshot, open_store

HOLD = """
import sys
from llm_ocr.storage.store import open_store
with open_store(sys.argv[1]).exclusive_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_is_exclusive_and_released_by_a_kill(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    store = open_store(str(tmp_path))
    with pytest.raises(RunInUseError, match=rf"{tmp_path}: another run \(process {holder.pid}\)"):
        store.exclusive_lock().__enter__()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with store.exclusive_lock():
        assert store.exists(".lock")


DIE = """
import os, pathlib, signal, sys
from llm_ocr.storage.store import open_store
os.replace = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
open_store(sys.argv[1]).put("data/pages/000000-0.parquet", pathlib.Path(sys.argv[2]))
"""


def test_temporary_files_of_a_killed_writer_are_hidden_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"rows")
    command = [sys.executable, "-c", DIE, str(tmp_path / "run"), str(tmp_path / "rows")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    store = open_store(str(tmp_path / "run"))
    pages = tmp_path / "run" / "data" / "pages"
    assert len(list(pages.iterdir())) == 1
    assert list(store.list("data")) == []
    with store.exclusive_lock():
        store.put("data/pages/000001-0.parquet", b"others")
    assert [path.name for path in pages.iterdir()] == ["000001-0.parquet"]


@pytest.mark.parametrize("name", ["missing", "file", "file/below"])
def test_reading_creates_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    store = open_snapshot(str(tmp_path / name))
    assert list(store.list("")) == []
    assert not store.exists("plan.json")
    for read in (store.get, store.open, store.stat):
        with pytest.raises(FileNotFoundError):
            read("plan.json")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_unwritable_folders_raise_errors_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for uri in (str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        with pytest.raises(StorageError, match="a file is in the way of a folder"):
            open_store(uri)
        with pytest.raises(StorageError, match="a file is in the way of a folder"):
            open_snapshot(uri).put("data", b"")
    with pytest.raises(StorageError, match="az:// is not supported"):
        open_store("az://bucket/run")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    arguments = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if mount is None or subprocess.run([mount, *arguments], check=False).returncode:
        pytest.skip("needs root to mount a small file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_reported_and_leaves_no_partial_file(small_disk: Path) -> None:
    store = open_store(str(small_disk))
    with pytest.raises(StorageError, match="the disk is full; free some space"):
        store.put("large", b"x" * 1_000_000)
    with pytest.raises(StorageError, match="the disk is full"):
        store.create("large", b"x" * 1_000_000)
    assert list(store.list("")) == []
