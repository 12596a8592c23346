"""Worker processes at their end: none stays, whatever they or their parent were doing."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, ImagePolicy, Page, PageError
from llm_ocr.sources import render_pool as pool_module
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import RenderLimits, RenderPool
from llm_ocr.sources.render_worker import handle_request
from llm_ocr.sources.renderer import DocumentRenderer
from tests import documents

SMALL = ImagePolicy(longest_side=100)
SLEEPING_POPPLER = "#!/bin/sh\nexec sleep 600\n"


def document(path: Path) -> Document:
    return list_documents([str(path)])[0]


# Processes that earlier tests of this process have left running, such as servers.
_others: set[int] = set()


@pytest.fixture(autouse=True)
def others() -> None:
    _others.clear()
    _others.update(child.pid for child in psutil.Process().children(recursive=True))


def workers() -> list[psutil.Process]:
    """The processes that the test has started."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.pid not in _others]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def poppler_that_hangs(folder: Path) -> str:
    """A PATH on which poppler's programs never end, as they do on a page that is bad enough."""
    folder.mkdir()
    for name in ("pdftoppm", "pdfinfo"):
        (folder / name).write_text(SLEEPING_POPPLER)
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def commands(processes: list[psutil.Process]) -> list[str]:
    return [" ".join(one.cmdline()) for one in processes if is_alive(one.pid)]


async def test_cancelled_page_ends_its_worker_and_no_other_page(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf", pages=2)
    async with RenderPool(1) as pool:
        await pool.render(Page(document(path), 1), SMALL)
        (stuck,) = workers()
        stuck.suspend()
        task = asyncio.ensure_future(pool.render(Page(document(path), 1), SMALL))
        await until(lambda: not pool._idle)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await pool.render(Page(document(path), 2), SMALL)).height == 100
        await until(lambda: not is_alive(stuck.pid))


async def test_closing_in_the_middle_of_a_page_leaves_no_process(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    pool = RenderPool(1)
    await pool.render(Page(document(path), 1), SMALL)
    workers()[0].suspend()
    task = asyncio.ensure_future(pool.render(Page(document(path), 1), SMALL))
    await until(lambda: not pool._idle)
    await pool.close()
    assert workers() == []
    with pytest.raises(RuntimeError, match="the pool is closed"):
        await task
    assert workers() == []


async def test_a_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")

    async def run() -> None:
        async with RenderPool(2) as pool:
            while True:
                await asyncio.gather(*[pool.render(Page(document(path), 1), SMALL)] * 1)

    task = asyncio.ensure_future(run())
    await until(lambda: bool(workers()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert workers() == []


async def test_timed_out_page_kills_poppler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", poppler_that_hangs(tmp_path / "bin"))
    path = documents.corrupt_page_pdf(tmp_path / "torn.pdf")
    async with RenderPool(1, limits=RenderLimits(timeout=3)) as pool:
        task = asyncio.ensure_future(pool.render(Page(document(path), 2), SMALL))
        await until(lambda: "sleep 600" in commands(workers()))
        family = workers()
        with pytest.raises(PageError, match="longer than 3 s") as caught:
            await task
        assert caught.value.code is ErrorCode.RENDER_TIMEOUT
        await until(lambda: not any(is_alive(one.pid) for one in family))


HANGING_PARENT = """
import asyncio, sys
from llm_ocr.records import ImagePolicy, Page
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import RenderPool

async def main():
    async with RenderPool(1) as pool:
        await pool.render(Page(list_documents(sys.argv[1:])[0], 2), ImagePolicy(100))

asyncio.run(main())
"""


async def test_killed_parent_ends_a_busy_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs in the middle of a page, so that it would never read that its pipe has ended."""
    monkeypatch.setenv("PATH", poppler_that_hangs(tmp_path / "bin"))
    path = documents.corrupt_page_pdf(tmp_path / "torn.pdf")
    parent = subprocess.Popen([sys.executable, "-c", HANGING_PARENT, str(path)])
    try:
        family = psutil.Process(parent.pid)
        await until(lambda: "sleep 600" in commands(family.children(recursive=True)))
        orphans = family.children(recursive=True)
        assert len(orphans) == 2
    finally:
        parent.kill()
        parent.wait()
    await until(lambda: not any(is_alive(one.pid) for one in orphans))


async def test_workers_ignore_ctrl_c(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    async with RenderPool(1) as pool:
        await pool.count_pages(document(path))
        (worker,) = workers()
        assert os.getsid(worker.pid) == worker.pid != os.getsid(0)
        worker.send_signal(signal.SIGINT)
        await pool.render(Page(document(path), 1), SMALL)
        assert workers() == [worker]


@pytest.mark.parametrize(("limit", "value"), [("REQUESTS_PER_WORKER", 3), ("BYTES_PER_WORKER", 1)])
async def test_worker_is_replaced_after_its_maximum_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    monkeypatch.setattr(pool_module, limit, value)
    async with RenderPool(1) as pool:
        seen: set[int] = set()
        for _ in range(6):
            task = asyncio.ensure_future(pool.count_pages(document(path)))
            await until(lambda: bool(workers()))
            seen |= {worker.pid for worker in workers()}
            await task
        assert workers() == []
        assert len(seen) == (2 if limit == "REQUESTS_PER_WORKER" else 6)


async def test_files_in_the_current_folder_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    (tmp_path / "socket.py").write_text("raise SystemExit('not mine')")
    (tmp_path / "llm_ocr.py").write_text("raise SystemExit('nor this')")
    monkeypatch.chdir(tmp_path)
    async with RenderPool(1) as pool:
        assert await pool.count_pages(document(path)) == 1


@pytest.mark.parametrize("megabytes", [1, 700])
async def test_exit_of_a_worker_is_reported(tmp_path: Path, megabytes: int) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    # As much as this process once held is no sign that the worker ran out of memory.
    assert len(b"x" * (megabytes << 20)) == megabytes << 20
    async with RenderPool(1, limits=RenderLimits(max_pixels=2_000_000)) as pool:
        await pool.count_pages(document(path))
        task = asyncio.ensure_future(pool.render(Page(document(path), 1), SMALL))
        killed: set[int] = set()
        while not task.done():
            for worker in workers():
                if worker.pid not in killed:
                    killed.add(worker.pid)
                    worker.suspend()
                    worker.send_signal(signal.SIGSEGV)
                    worker.resume()
            await asyncio.sleep(0)
        with pytest.raises(
            PageError, match=r"a\.pdf, page 1: .*rendering crashed \(SIGSEGV\); convert"
        ):
            await task


def test_idle_worker_imports_little() -> None:
    """Neither pdfium, nor the image plugins, nor anything of the rest of the program."""
    code = """
import json, sys
import llm_ocr.sources.render_worker
print(json.dumps(sorted(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = set(json.loads(run.stdout))
    heavy = {"pypdfium2", "pdf2image", "numpy", "pyarrow", "aiohttp", "PIL.TiffImagePlugin"}
    assert not loaded & heavy
    ours = {name for name in loaded if name.startswith("llm_ocr.")}
    # What logs are made with imports nothing else either.
    light = {"llm_ocr.logs", "llm_ocr.tracing"}
    few = ("llm_ocr.sources", "llm_ocr.records", "llm_ocr.documents")
    assert all(name.startswith(few) for name in ours - light)


class _Broken(DocumentRenderer):
    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    def count_pages(self, document: Document) -> int:
        raise self.fault


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (MemoryError(), ErrorCode.TOO_LARGE, "not enough memory"),
        (FileNotFoundError(2, "gone"), ErrorCode.NOT_FOUND, "does not exist"),
        (OSError(5, "Input/output error"), ErrorCode.READ_ERROR, r"\(Input/output error\)"),
        (ZeroDivisionError("oh"), ErrorCode.INTERNAL_ERROR, "ZeroDivisionError: oh"),
    ],
)
def test_every_fault_becomes_a_page_error(
    tmp_path: Path, fault: Exception, code: ErrorCode, words: str
) -> None:
    (tmp_path / "a.pdf").write_text("body")
    error = handle_request(_Broken(fault), ("count_pages", (document(tmp_path / "a.pdf"),)))
    assert isinstance(error, PageError)
    assert error.code is code
    with pytest.raises(PageError, match=rf"a\.pdf: .*{words}"):
        raise error


async def test_a_worker_sees_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLM_OCR_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "opensesame")
    path = documents.pdf(tmp_path / "a.pdf")
    async with RenderPool(1) as pool:
        await pool.count_pages(document(path))
        (worker,) = workers()
        seen = worker.environ()
    assert "opensesame" not in seen.values()
    assert seen["PATH"] == os.environ["PATH"]


# Takes the place of a worker that a hostile file has taken over.
TAKEN_OVER = """
import json, os, pickle, sys
from multiprocessing.connection import Connection

class Payload:
    def __reduce__(self):
        return (open, (os.environ["HOME"] + "/taken", "w"))

pipe = Connection(int(sys.argv[1]))
answers = [pickle.dumps(Payload()), b"[" * 100_000, b"[5, [-1]]", b'[["count", "x"], []]',
           b'[["image", {}, null], []]', b'[["error", "no_such_code", "", 0], []]']
pipe.recv_bytes()
while True:
    pipe.recv_bytes()
    pipe.send_bytes(answers[int(open(os.environ["HOME"] + "/which").read())])
"""


@pytest.mark.parametrize("which", range(6))
async def test_worker_output_is_never_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    """As a worker that was taken over would: no pickle of it is read, and what is none of the
    answers that were asked for is a crash."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "which").write_text(str(which))
    script = tmp_path / "python"
    (tmp_path / "evil.py").write_text(TAKEN_OVER)
    script.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} {tmp_path}/evil.py "$@"\n')
    script.chmod(0o755)
    path = documents.pdf(tmp_path / "a.pdf")
    monkeypatch.setattr(sys, "executable", str(script))
    async with RenderPool(1) as pool:
        with pytest.raises(PageError, match=r"a\.pdf: .*can't be parsed") as caught:
            await pool.count_pages(document(path))
    assert caught.value.code is ErrorCode.RENDER_CRASHED
    assert not (tmp_path / "taken").exists()


async def test_a_page_that_fills_the_memory_fails_alone(tmp_path: Path) -> None:
    """Half a gigabyte of drawing, compressed twice to two thousand bytes."""
    small = RenderLimits(max_pixels=10_000_000)
    path = documents.memory_bomb_pdf(tmp_path / "bomb.pdf")
    good = documents.pdf(tmp_path / "good.pdf")
    assert path.stat().st_size < 5_000
    async with RenderPool(1, limits=small) as pool:
        with pytest.raises(PageError, match=r"bomb\.pdf, page 1: .*of memory") as caught:
            await pool.render(Page(document(path), 1), SMALL)
        assert caught.value.code is ErrorCode.TOO_LARGE
        assert (await pool.render(Page(document(good), 1), SMALL)).height == 100
