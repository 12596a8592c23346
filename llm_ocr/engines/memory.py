"""Keep the memory that launched engines take of the machine below a ceiling.

A server of models may take more and more of it over days. Before the kernel ends it, or a process
beside it, the engine is restarted in a quiet moment: once the requests in flight are answered.
"""

import asyncio
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from llm_ocr.engines.launch import Engine
from llm_ocr.engines.resource_limits import memory_limit
from llm_ocr.inference.responses import EngineFailedError

log = logging.getLogger(__name__)

GIB = 1 << 30
# The default ceiling, as a share of the machine's memory, or of the container's. The rest is for
# the run itself: rendering, pages in progress, tables. A higher one leaves less time to finish the
# requests in flight; half of it would restart healthy servers on small machines.
CEILING_SHARE = 0.7
# Beyond this share of the way from the ceiling to all memory, requests in flight are not waited
# for, but repeated after the restart.
HURRY_SHARE = 0.5
# An engine that takes a larger share of the ceiling right after its start would soon be there
# again, and is never restarted for it.
START_SHARE = 0.9
# So many restarts in a row, each so many seconds after the start before, are the last.
QUICK_RESTARTS, QUICK_SECONDS = 3, 600.0
# Seconds between two looks at the memory, and at the requests in flight that are waited for.
LOOK_SECONDS, DRAIN_LOOK_SECONDS = 10.0, 0.1
# Seconds for which requests in flight are waited for. A page takes less than one minute.
DRAIN_SECONDS = 300.0


class Traffic(Protocol):
    """The requests to one engine, which can be held back."""

    @property
    def in_flight(self) -> int: ...

    def pause(self) -> None:
        """Hold back those that are not yet in flight."""

    def resume(self) -> None: ...

    def forgive(self) -> None:
        """The engine's end is nobody's doing: those in flight are repeated."""


@dataclass(eq=False)
class _Watched:
    """An engine: bytes that it takes now and took right after its start, at a `time.monotonic()`.

    `start` counts its starts, of which `quick` came in a row soon after the one before.
    """

    engine: Engine
    start: int = -1
    started_at: float = 0.0
    used: int = 0
    used_at_start: int = 0
    quick: int = 0
    is_given_up: bool = False


@dataclass
class MemoryGuard:
    """Watches the engines that a process launched, whose memory together has one `ceiling` and one
    `limit`, in bytes (a ceiling of 0: none). One engine is restarted at a time: that which takes
    the most. `notify` receives what is done, for people.

    An engine that is near the ceiling right after its start, or again and again soon after it, is
    not restarted: a warning says so once.
    """

    ceiling: int
    limit: int
    notify: Callable[[str], None]
    restarts: "Counter[Engine]" = field(default_factory=Counter)
    _watched: list[_Watched] = field(default_factory=list)
    _restarting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def watch(self, engine: Engine, traffic: Traffic) -> None:
        """Watch one engine until cancelled."""
        if not self.ceiling or not can_measure():
            return
        watched = _Watched(engine)
        self._watched.append(watched)
        try:
            while True:
                await self._look(watched)
                if self._is_due(watched):
                    async with self._restarting:
                        # Another engine's restart may have been enough.
                        await self._look(watched)
                        if self._is_due(watched) and self._may_restart(watched):
                            await self._restart(watched, traffic)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._watched.remove(watched)

    def memory_of(self, engine: Engine) -> int:
        """Bytes that the engine takes; 0 if that is not known."""
        return sum(one.used for one in self._watched if one.engine is engine)

    async def _look(self, watched: _Watched) -> None:
        engine = watched.engine
        if engine.pid is None or engine.is_down:
            return
        start = engine.restarts
        used = await asyncio.to_thread(process_tree_memory, engine.pid)
        if engine.is_down or engine.restarts != start:
            return
        watched.used = used
        if start != watched.start:
            watched.start, watched.started_at, watched.used_at_start = start, time.monotonic(), used

    @property
    def _total(self) -> int:
        return sum(one.used for one in self._watched)

    def _is_due(self, watched: _Watched) -> bool:
        most = max(self._watched, key=lambda one: (not one.is_given_up, one.used))
        return self._total > self.ceiling and watched is most and not watched.is_given_up

    def _may_restart(self, watched: _Watched) -> bool:
        """Whether a restart would help for long enough; warns where not."""
        name = watched.engine.command.name
        others = self._total - watched.used
        seconds = time.monotonic() - watched.started_at
        watched.quick = watched.quick + 1 if watched.start and seconds < QUICK_SECONDS else 0
        if others:
            name += " and the other engines"
        said = ""
        if watched.used_at_start + others > START_SHARE * self.ceiling:
            said = f"{name} took {_gib(watched.used_at_start + others)} of memory right after the"
            said += " start"
        elif watched.quick >= QUICK_RESTARTS:
            said = f"{name} took {_gib(self._total)} of memory {seconds:.0f} s after the start, as"
            said += " they did the last times" if others else " it did the last times"
        if said:
            watched.is_given_up = True
            self.notify(
                f"{said}, and the ceiling is {_gib(self.ceiling)} (`engine_memory`) of "
                f"{_gib(self.limit)}: {watched.engine.command.name} is not restarted for its "
                "memory any more; raise the ceiling, take a machine with more memory, or start "
                "fewer processes (`vllm_args`)"
            )
        return not said

    async def _restart(self, watched: _Watched, traffic: Traffic) -> None:
        engine, name = watched.engine, watched.engine.command.name
        self.notify(
            f"{name} takes {_gib(watched.used)} of memory, above the ceiling of "
            f"{_gib(self.ceiling)} (`engine_memory`): restarting it once the requests in flight "
            "are answered"
        )
        traffic.pause()
        try:
            await self._drain(watched, traffic)
            if engine.restarts != watched.start:
                # It died meanwhile, and is a new one.
                return
            if left := traffic.in_flight:
                self.notify(f"restarting {name} now; the {left} requests in flight are repeated")
            traffic.forgive()
            try:
                seconds = await engine.restart()
            except EngineFailedError as error:
                # Whoever asks next tries again, and gives up in the end.
                log.warning("%s", error)
                return
        finally:
            traffic.resume()
        self.restarts[engine] += 1
        await self._look(watched)
        self.notify(f"restarted {name} within {seconds:.0f} s; it takes {_gib(watched.used)} now")

    async def _drain(self, watched: _Watched, traffic: Traffic) -> None:
        """Wait for the requests in flight, for as long as there is time and memory."""
        hurry = self.ceiling + HURRY_SHARE * (self.limit - self.ceiling)
        end = time.monotonic() + DRAIN_SECONDS
        look = time.monotonic() + LOOK_SECONDS
        while traffic.in_flight and (now := time.monotonic()) < end and self._total < hurry:
            if now > look:
                await self._look(watched)
                look = now + LOOK_SECONDS
            await asyncio.sleep(DRAIN_LOOK_SECONDS)


def memory_guard(ceiling_gib: float | None, notify: Callable[[str], None]) -> MemoryGuard:
    """A guard with this ceiling; None: the default share of what the machine or container has."""
    limit = memory_limit()
    ceiling = CEILING_SHARE * limit if ceiling_gib is None else ceiling_gib * GIB
    return MemoryGuard(int(ceiling), limit, notify)


def can_measure() -> bool:
    """Whether this system reports the memory of other processes."""
    return sys.platform == "linux"


def process_tree_memory(pid: int) -> int:
    """The bytes of memory of a process and all its descendants that only their end would free.

    Files that are mapped, such as weights, don't count: the kernel drops them when it needs to.
    Memory that several of them share counts once.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(stat.parent.name))
    total, unseen = 0, [pid]
    while unseen:
        process = unseen.pop()
        unseen += children[process]
        total += _process_memory(Path("/proc") / str(process))
    return total


def _process_memory(folder: Path) -> int:
    for name, kinds in (
        ("smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")),
        # Where the former is missing or forbidden: what is shared counts for each process.
        ("status", ("RssAnon:", "RssShmem:")),
    ):
        try:
            lines = (folder / name).read_text().splitlines()
        except OSError:
            continue
        found = [int(line.split()[1]) << 10 for line in lines if line.startswith(kinds)]
        if found:
            return sum(found)
    return 0


def _gib(size: float) -> str:
    return f"{size / GIB:,.1f} GiB" if size >= 10 * GIB else f"{size / GIB:.2f} GiB"
