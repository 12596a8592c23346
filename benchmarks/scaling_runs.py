"""A whole service on simulated GPUs: what it does per second, how long documents take, CPU by tier.

    with serving_stack(folder, load, gpus=2) as stack, stack.backlog():
        stack.add_workers(3)
        point = stack.measure_steady(seconds=120)

All seconds are those of the simulated GPU, of which `speed_up` pass in a second of this machine.
"""

import asyncio
import itertools
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from sqlalchemy import func, select, text

from benchmarks.inference_tier import serving_tier
from benchmarks.saturation import MODEL, Pages, simulated
from benchmarks.scaling_ideal import mean_tokens, quantile
from benchmarks.service_processes import Service, serving_service
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.service.schema import FINISHED_STATES, documents, steps
from tests.servers.known_pages import known_pdf
from tests.servers.postgresql import find_postgresql, serving_postgresql
from tests.servers.s3 import BUCKET, serving_s3

# Tiers in the order of a document's way; without PostgreSQL and S3 the last two are files.
TIERS = ("gateway", "worker", "inference", "database", "storage")
# Documents in the queue beyond those that all workers can process.
BACKLOG = 6
FEED_SECONDS = 0.5
# Fewer documents have no percentiles.
MIN_DOCUMENTS = 8
# Alembic has global state: two databases can't be migrated at the same time.
MIGRATING = threading.Lock()
SQLITE_SIZE = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"


@dataclass(frozen=True)
class Load:
    """What all measurements have in common: documents of `pages` pages, on GPUs of a kind with at
    most `window` requests in progress each, and workers with `tasks`."""

    gpu: str = "l4"
    speed_up: float = 4.0
    window: int = 16
    pages: int = 8
    tasks: int = 3
    has_servers: bool = True


@dataclass(frozen=True)
class Machine:
    """How busy this machine was during a measurement: the shares of its CPU time that it was busy
    and that a hypervisor took, and the load average at the end."""

    cores: int
    busy: float
    steal: float
    load: float


@dataclass(frozen=True)
class Usage:
    """What a part of a run took. CPU is seconds per document by tier."""

    seconds: float
    documents: int
    cpu: dict[str, float]
    # Simulated seconds of the GPUs' clocks per `speed_up` seconds: they stand still while requests
    # arrive.
    clock: float
    machine: Machine


@dataclass(frozen=True)
class SteadyPoint:
    """The service with a backlog: as many documents in progress as its workers have tasks.

    `pages_per_minute` is of all GPUs together, from the tokens that they generated and the mean
    length of a page; `in_flight` is the mean number of requests that a GPU was answering. `p50` and
    `p95` are the seconds from a document's start to its end, without the queue; None: too few.
    """

    gpus: int
    workers: int
    tasks: int
    pages_per_minute: float
    in_flight: float
    p50: float | None
    p95: float | None
    usage: Usage


@dataclass(frozen=True)
class LoadPoint:
    """The service with documents that arrive at equal intervals, `load` of what its GPUs can do:
    seconds from the submission to the end, and the mean seconds of each part of it."""

    gpus: int
    workers: int
    tasks: int
    load: float
    seconds: tuple[float, ...]
    parts: dict[str, float]
    usage: Usage

    @property
    def p50(self) -> float:
        return quantile(self.seconds, 0.5)

    @property
    def p95(self) -> float:
        return quantile(self.seconds, 0.95)


@dataclass(frozen=True)
class StoredSizes:
    """Bytes per document in the database and in the storage, and objects per document there."""

    database: float
    storage: float
    objects: float


@dataclass(frozen=True)
class _GpuCounts:
    tokens: float
    seconds: float
    running: float


@dataclass(frozen=True)
class _Snapshot:
    at: float
    date: datetime
    gpus: tuple[_GpuCounts, ...]
    cpu: dict[str, float]
    finished: int
    machine: tuple[float, float, float]


class Stack:
    """A gateway, workers, the inference tier, the database and the storage, each of processes."""

    def __init__(
        self,
        load: Load,
        service: Service,
        tier_url: str,
        gpu_urls: Sequence[str],
        processes: dict[str, list[psutil.Process]],
        list_sizes: Callable[[], list[int]],
    ) -> None:
        self.load, self.service = load, service
        self._tier_url, self._gpu_urls, self._processes = tier_url, gpu_urls, processes
        self.gateway_url = service.start_gateway()
        (gateway,) = service.gateways.values()
        processes["gateway"] = [psutil.Process(gateway.pid)]
        processes["worker"] = []
        self._number = 0
        self._list_sizes = list_sizes
        self._empty_size = self._database_size()

    @property
    def gpus(self) -> int:
        return len(self._gpu_urls)

    @property
    def slots(self) -> int:
        """The documents that all workers can process at the same time."""
        return len(self.service.workers) * self.load.tasks

    def add_workers(self, count: int) -> None:
        started = self.service.start_workers(
            count, self._tier_url, "--render-workers", "1", tasks=self.load.tasks
        )
        self._processes["worker"] += (psutil.Process(worker.pid) for worker in started)

    def measure_stored(self) -> StoredSizes:
        """What all documents so far take, each in the mean."""
        finished = select(func.count()).where(documents.c.state.in_(FINISHED_STATES))
        with self.service.database.read() as connection:
            count = connection.execute(finished).scalar_one()
        sizes = self._list_sizes()
        database = self._database_size() - self._empty_size
        return StoredSizes(database / count, sum(sizes) / count, len(sizes) / count)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds / self.load.speed_up)

    def measure_steady(self, seconds: float) -> SteadyPoint:
        """What happens within so many seconds."""
        before = self._snapshot()
        in_flight: list[float] = []
        until = time.monotonic() + seconds / self.load.speed_up
        while time.monotonic() < until:
            time.sleep(0.5)
            in_flight += (_counts(url).running for url in self._gpu_urls)
        after = self._snapshot()
        durations = self._durations(before.date, after.date)
        return SteadyPoint(
            self.gpus,
            len(self.service.workers),
            self.load.tasks,
            60 * _tokens_per_second(before.gpus, after.gpus) / mean_tokens(),
            statistics.mean(in_flight),
            quantile(durations, 0.5) if len(durations) >= MIN_DOCUMENTS else None,
            quantile(durations, 0.95) if len(durations) >= MIN_DOCUMENTS else None,
            self._usage(before, after),
        )

    def warm_up(self) -> None:
        """Process as many documents as all workers can, so that each has loaded what it needs."""
        self._wait_for(asyncio.run(self._submit_evenly(self.slots, 0.0)))

    def measure_arrivals(self, share: float, pages_per_minute: float, count: int) -> LoadPoint:
        """Submit `count` documents at equal intervals, at this share of what the GPUs can do, and
        wait until all are finished."""
        before = self._snapshot()
        spacing = 60 * self.load.pages / (share * pages_per_minute) / self.load.speed_up
        ids = asyncio.run(self._submit_evenly(count, spacing))
        rows = self._wait_for(ids)
        after = self._snapshot()
        seconds = [
            (row.finished_at - row.created_at).total_seconds() * self.load.speed_up for row in rows
        ]
        return LoadPoint(
            self.gpus,
            len(self.service.workers),
            self.load.tasks,
            share,
            tuple(seconds),
            self._parts(ids),
            self._usage(before, after),
        )

    @contextmanager
    def backlog(self) -> Iterator[None]:
        """Keep documents in the queue, whatever the number of workers."""
        done = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._feed(done)), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    async def _feed(self, done: threading.Event) -> None:
        queued = select(func.count()).where(documents.c.state == "queued")
        async with self._session() as session:
            while not done.is_set():
                with self.service.database.read() as connection:
                    waiting = connection.execute(queued).scalar_one()
                for _ in range(self.load.tasks + BACKLOG - waiting):
                    await self._submit(session)
                await asyncio.sleep(FEED_SECONDS)

    async def _submit_evenly(self, count: int, spacing: float) -> list[str]:
        async with self._session() as session, asyncio.TaskGroup() as group:
            started_at, tasks = time.monotonic(), []
            for number in range(count):
                await asyncio.sleep(max(0.0, started_at + number * spacing - time.monotonic()))
                # The same documents at each load.
                tasks.append(group.create_task(self._submit(session, number + 1)))
        return [task.result() for task in tasks]

    def _session(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self.service.key}"}
        # The gateway closes idle connections after 5 s: none is used again that it may be closing.
        connector = aiohttp.TCPConnector(keepalive_timeout=2)
        return aiohttp.ClientSession(headers=headers, connector=connector)

    async def _submit(self, session: aiohttp.ClientSession, number: int | None = None) -> str:
        if number is None:
            self._number += 1
            number = 1000 + self._number
        pdf = await asyncio.to_thread(known_pdf, number, self.load.pages)
        form = aiohttp.FormData()
        form.add_field("files", pdf, filename=f"{number}.pdf")
        async with session.post(f"{self.gateway_url}/v1/documents:upload", data=form) as response:
            assert response.status == 202, f"{response.status} {await response.text()}"
            return str((await response.json())["id"])

    def _wait_for(self, ids: Sequence[str]) -> list[Any]:
        """The rows of the documents, once all are finished. Raises AssertionError if one failed."""
        query = select(documents).where(documents.c.id.in_(ids)).order_by(documents.c.created_at)
        while True:
            with self.service.database.read() as connection:
                rows = list(connection.execute(query))
            if all(row.state in FINISHED_STATES for row in rows):
                bad = [
                    f"{row.id}: {row.state} {row.error}" for row in rows if row.state != "succeeded"
                ]
                assert not bad, bad
                return rows
            time.sleep(0.5)

    def _durations(self, since: datetime, until: datetime) -> list[float]:
        """Seconds of the documents that finished in between."""
        query = select(documents).where(
            documents.c.finished_at > since, documents.c.finished_at <= until
        )
        with self.service.database.read() as connection:
            rows = list(connection.execute(query))
        bad = [f"{row.id}: {row.state} {row.error}" for row in rows if row.state != "succeeded"]
        assert not bad, bad
        return [
            (row.finished_at - row.started_at).total_seconds() * self.load.speed_up for row in rows
        ]

    def _parts(self, ids: Sequence[str]) -> dict[str, float]:
        """The mean seconds of documents in the queue, in each step, and in between."""
        query = select(documents).where(documents.c.id.in_(ids))
        of_steps = select(steps).where(steps.c.document_id.in_(ids))
        with self.service.database.read() as connection:
            rows = list(connection.execute(query))
            step_rows = list(connection.execute(of_steps))
        parts = {"queue": 0.0}
        for step in sorted(step_rows, key=lambda row: row.position):
            parts.setdefault(step.name, 0.0)
            parts[step.name] += (step.finished_at - step.started_at).total_seconds()
        total = 0.0
        for row in rows:
            parts["queue"] += (row.started_at - row.created_at).total_seconds()
            total += (row.finished_at - row.created_at).total_seconds()
        parts["other"] = total - sum(parts.values())
        return {name: self.load.speed_up * part / len(ids) for name, part in parts.items()}

    def _database_size(self) -> int:
        is_sqlite = self.service.database.is_sqlite
        size = func.pg_database_size(func.current_database())
        query = text(SQLITE_SIZE) if is_sqlite else select(size)
        with self.service.database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def _snapshot(self) -> _Snapshot:
        finished = select(func.count()).where(documents.c.state.in_(FINISHED_STATES))
        with self.service.database.read() as connection:
            count = connection.execute(finished).scalar_one()
        return _Snapshot(
            time.monotonic(),
            datetime.now(UTC),
            tuple(map(_counts, self._gpu_urls)),
            {tier: sum(map(_tree_cpu, self._processes.get(tier, []))) for tier in TIERS},
            count,
            _machine_times(),
        )

    def _usage(self, before: _Snapshot, after: _Snapshot) -> Usage:
        real = after.at - before.at
        finished = after.finished - before.finished
        clocks = [
            (now.seconds - then.seconds) / (real * self.load.speed_up)
            for then, now in zip(before.gpus, after.gpus, strict=True)
        ]
        cpu = {tier: (after.cpu[tier] - before.cpu[tier]) / max(1, finished) for tier in TIERS}
        total, busy, steal = (
            now - then for then, now in zip(before.machine, after.machine, strict=True)
        )
        machine = Machine(
            psutil.cpu_count() or 1, busy / total, steal / total, psutil.getloadavg()[0]
        )
        return Usage(real * self.load.speed_up, finished, cpu, statistics.mean(clocks), machine)


@contextmanager
def serving_stack(folder: Path, load: Load, gpus: int) -> Iterator[Stack]:
    """A service without workers on fresh GPUs, a fresh database and a fresh storage."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        processes: dict[str, list[psutil.Process]] = {}
        environment: dict[str, str] = {}
        if load.has_servers and find_postgresql() is not None:
            postgresql = stack.enter_context(serving_postgresql())
            s3 = stack.enter_context(serving_s3(folder / "s3"))
            database, storage = postgresql.create("service"), f"s3://{BUCKET}/service"
            environment = s3.environment
            processes["database"] = [psutil.Process(postgresql.pid)]
            processes["storage"] = [psutil.Process(s3.pid)]
            list_sizes = s3.list_sizes
        else:
            database, storage = f"sqlite:///{folder / 'service.sqlite'}", str(folder / "storage")

            def list_sizes() -> list[int]:
                files = Path(storage).rglob("*")
                return [path.stat().st_size for path in files if path.is_file()]

        servers = [stack.enter_context(simulated(load.gpu, load.speed_up)) for _ in range(gpus)]
        urls = [url for url, _ in servers]
        tier_url, router = stack.enter_context(serving_tier(urls, load.window, queue_size=256))
        processes["inference"] = [router]
        with MIGRATING:
            service = stack.enter_context(
                serving_service(folder / "logs", database, storage, environment)
            )
        yield Stack(load, service, tier_url, urls, processes, list_sizes)


def measure_directly(load: Load, gpus: int, seconds: float, settle: float) -> float:
    """Pages per minute of so many GPUs if a client keeps `window` requests in progress at each."""
    with ExitStack() as stack:
        servers = [stack.enter_context(simulated(load.gpu, load.speed_up)) for _ in range(gpus)]
        urls = [url for url, _ in servers]
        return asyncio.run(_ask_all(load, urls, seconds, settle))


async def _ask_all(load: Load, urls: Sequence[str], seconds: float, settle: float) -> float:
    pages = Pages(1 << 30)
    numbers = itertools.count()

    async def ask(client: ChatClient) -> None:
        while True:
            await client.ask(pages[next(numbers)])

    async with AsyncExitStack() as stack:
        asking = []
        for url in urls:
            client = ChatClient(url, MODEL, limiter=ConcurrencyLimiter(load.window))
            await stack.enter_async_context(client)
            asking += [asyncio.create_task(ask(client)) for _ in range(load.window)]
        await asyncio.sleep(settle / load.speed_up)
        before = [await asyncio.to_thread(_counts, url) for url in urls]
        await asyncio.sleep(seconds / load.speed_up)
        after = [await asyncio.to_thread(_counts, url) for url in urls]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return 60 * _tokens_per_second(before, after) / mean_tokens()


def _tokens_per_second(before: Sequence[_GpuCounts], after: Sequence[_GpuCounts]) -> float:
    return sum(
        (now.tokens - then.tokens) / (now.seconds - then.seconds)
        for then, now in zip(before, after, strict=True)
    )


def _counts(base_url: str) -> _GpuCounts:
    with urllib.request.urlopen(base_url.removesuffix("v1") + "metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    values = {
        line.split("{")[0].split(" ")[0]: float(line.rpartition(" ")[2])
        for line in lines
        if not line.startswith("#")
    }
    return _GpuCounts(
        values["vllm:generation_tokens_total"],
        values["simulated_seconds"],
        values["vllm:num_requests_running"],
    )


def _tree_cpu(process: psutil.Process) -> float:
    """CPU seconds of a process and of all below it, those that have ended included."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _machine_times() -> tuple[float, float, float]:
    """CPU seconds of this machine since it started: all, those that it was busy, and those that a
    hypervisor took."""
    times = psutil.cpu_times()
    idle = times.idle + times.iowait
    total = idle + times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return total, total - idle, times.steal
