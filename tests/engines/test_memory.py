"""Engines are restarted for the memory of the machine that they take, in a quiet moment."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from llm_ocr.engines import memory
from llm_ocr.engines.memory import memory_guard, process_tree_memory
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.resource_limits import memory_limit
from tests.engines.test_pool import DEEPSEEK, OLMOCR, REQUEST, engine_options
from tests.servers.chat import vllm_shim
from tests.waiting import wait_until_async

MIB = 1 << 20
# A stub server takes some 60 MiB when it has started.
CEILING_GIB = 0.25


@pytest.fixture(autouse=True)
def watched_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(memory, "DRAIN_LOOK_SECONDS", 0.01)


@asynccontextmanager
async def pool_of(
    folder: Path, options: str, notes: list[str], ceiling: float = CEILING_GIB
) -> AsyncIterator[EnginePool]:
    """A pool whose engines are stub servers with these options."""
    settings = engine_options(
        vllm_shim(folder, options), engine_memory=ceiling, concurrency=4, ready_timeout=30
    )
    async with EnginePool(settings, folder / "logs", notes.append, lambda _: None) as pool:
        yield pool


async def test_engine_is_restarted_between_requests(tmp_path: Path) -> None:
    notes: list[str] = []
    async with (
        pool_of(tmp_path, "--grows 20", notes) as pool,
        pool.lease(DEEPSEEK) as session,
        asyncio.timeout(30),
    ):
        answers = await asyncio.gather(*(session.ask(REQUEST) for _ in range(8)))
        while not session.memory_restarts:
            answers.append(await session.ask(REQUEST))
        assert (session.restarts, session.memory_restarts) == (1, 1)
        await wait_until_async(lambda: 0 < session.memory_bytes < CEILING_GIB * 2**30)
        assert {answer.attempts for answer in answers} == {1}, "none was cut off"
    [due, done] = [note for note in notes if "memory" in note or "restarted" in note]
    assert "above the ceiling of 0.25 GiB (`engine_memory`)" in due
    assert done.startswith("restarted vLLM within")
    # What an engine was restarted for counts after its end, too.
    assert (session.restarts, session.memory_restarts, session.memory_bytes) == (1, 1, 0)


async def test_requests_that_take_too_long_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "DRAIN_SECONDS", 0.05)
    hung, notes = tmp_path / "hung", list[str]()
    async with (
        pool_of(tmp_path, f"--grows 100 --hangs-once {hung}", notes) as pool,
        pool.lease(DEEPSEEK) as session,
        asyncio.timeout(30),
    ):
        answers = await asyncio.gather(*(session.ask(REQUEST) for _ in range(3)))
    assert hung.exists()
    # Repeated, they may bring the engine above the ceiling once more.
    assert session.memory_restarts >= 1
    assert min(answer.attempts for answer in answers) >= 2
    assert "restarting vLLM now; the 3 requests in flight are repeated" in notes


async def test_engine_above_the_ceiling_from_its_start_is_left_alone(tmp_path: Path) -> None:
    notes: list[str] = []
    async with (
        pool_of(tmp_path, "", notes, ceiling=0.01) as pool,
        pool.lease(DEEPSEEK) as session,
        asyncio.timeout(30),
    ):
        await session.ask(REQUEST)
        await wait_until_async(lambda: any("ceiling" in note for note in notes))
        for _ in range(20):
            await session.ask(REQUEST)
        assert session.restarts == 0
    [warning] = [note for note in notes if "ceiling" in note]
    assert re.match(r"vLLM took 0\.0[2-9] GiB of memory right after the start, ", warning)
    assert "the ceiling is 0.01 GiB (`engine_memory`)" in warning
    assert "raise the ceiling" in warning


@pytest.mark.long
async def test_engine_that_is_soon_there_again_is_left_alone_in_the_end(tmp_path: Path) -> None:
    notes: list[str] = []
    async with (
        pool_of(tmp_path, "--grows 200", notes) as pool,
        pool.lease(DEEPSEEK) as session,
        asyncio.timeout(60),
    ):
        while not any("did the last times" in note for note in notes):
            await session.ask(REQUEST)
        await session.ask(REQUEST)
        assert session.memory_restarts == memory.QUICK_RESTARTS
    assert sum("raise the ceiling" in note for note in notes) == 1


@pytest.mark.long
async def test_of_two_engines_the_larger_one_is_restarted(tmp_path: Path) -> None:
    notes: list[str] = []
    async with (
        pool_of(tmp_path, "--grows 20", notes, ceiling=0.35) as pool,
        pool.lease(DEEPSEEK) as small,
        pool.lease(OLMOCR) as large,
        asyncio.timeout(30),
    ):
        await small.ask(REQUEST)
        while not large.memory_restarts:
            await large.ask(REQUEST)
        assert (await small.ask(REQUEST)).attempts == 1
        assert small.restarts == 0


async def test_no_ceiling_restarts_nothing(tmp_path: Path) -> None:
    async with (
        pool_of(tmp_path, "--grows 200", [], ceiling=0) as pool,
        pool.lease(DEEPSEEK) as session,
    ):
        for _ in range(3):
            await session.ask(REQUEST)
        assert (session.restarts, session.memory_bytes) == (0, 0)


# What is measured.

PARENT = """
import subprocess, sys
kept = bytearray(b"x") * (30 << 20)
child = "kept = bytearray(b'x') * (50 << 20); print('up', flush=True); input()"
subprocess.run([sys.executable, "-c", child])
"""


def test_memory_of_all_descendants_counts() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert 80 * MIB < process_tree_memory(process.pid) < 130 * MIB
        process.communicate(b"\n")
    assert process_tree_memory(process.pid) == 0


MAPPED = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    sum(weights[::4096])
    print("up", flush=True)
    input()
"""


def test_mapped_files_do_not_count(tmp_path: Path) -> None:
    """As weights, which the kernel drops when it needs their memory."""
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(64 * MIB))
    with subprocess.Popen(
        [sys.executable, "-c", MAPPED, weights], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert process_tree_memory(process.pid) < 64 * MIB
        process.communicate(b"\n")


def test_default_ceiling_is_a_share_of_the_limit() -> None:
    guard = memory_guard(None, lambda _: None)
    assert guard.ceiling == int(0.7 * memory_limit())
    assert memory_guard(12, lambda _: None).ceiling == 12 * 2**30
