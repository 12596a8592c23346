"""Fault injection: does every document finish once, with the right result, despite faults?

    python -m benchmarks.chaos [--documents 1000] [--faults 60] [--seed 1]
        [--replicas 3] [--on postgresql sqlite] [--keep FOLDER]

Documents of 1 to 8 pages go through two gateways and four workers, on PostgreSQL and S3
(SeaweedFS), and on SQLite with a folder. Their pages contain numbers that a stub engine reads
(`tests.servers.known_pages`), so the right result of each is known. Meanwhile random faults with a
fixed seed occur: processes are killed, frozen and thawed; the database, the storage and the engine
become unavailable. With `--replicas`, an inference tier is between the workers and that many
replicas of the engine, which are killed and frozen, too; and during the last quarter of the
documents all processes are replaced, one after another, as a rolling update does it. Clients
repeat each submission, with its Idempotency-Key, until they get a response. At the end everything
is compared with the ledger of submissions; each difference is printed, and the exit code is 1 if
there is one.

A document whose workers died three times has failed: the service can't know that the faults are
random. So no worker is killed or frozen while a document is in progress that has lost two workers.
"""

import argparse
import asyncio
import json
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import func, select

from benchmarks.service_processes import (
    Service,
    ServiceProcess,
    serving_service,
)
from llm_ocr.service.database import DatabaseError
from llm_ocr.service.schema import FINISHED_STATES, DocumentState, documents, events
from llm_ocr.service.work_queue import MAX_WORKER_DEATHS
from tests.servers.chat import serving_beside
from tests.servers.known_pages import (
    KnownPages,
    Shown,
    expected_paragraphs,
    known_pdf,
    paragraphs_of,
)
from tests.servers.postgresql import PostgresqlServer, serving_postgresql
from tests.servers.s3 import BUCKET, S3Server, serving_s3

GATEWAYS, WORKERS, TASKS, MOST_PAGES = 2, 4, 5, 8
RENDERERS = 2
# A worker's requests in progress, and the results that it is saving: see `ItemSlots`.
MAX_UNSAVED = TASKS + 2 * RENDERERS
LEASE_SECONDS = 10.0
# Requests that a replica gets at a time, and seconds until one has failed.
REPLICA_REQUESTS, REQUEST_SECONDS = 8, 5.0
# Seconds until the engine answers during a rolling update: documents shall be in progress.
UPDATE_SECONDS = 1.5
# The faults by which requests are sent again although no worker is interrupted.
REPLICA_FAULTS = ("replica killed", "replica frozen", "inference tier killed", "rolling update")
# Concurrent submissions.
CLIENTS = 12
# If no document finishes for this long, some were lost.
STALL_SECONDS = 300.0


@dataclass(frozen=True)
class Submission:
    """A document that a client has submitted, and the id that it got."""

    number: int
    pages: int
    document_id: str


@dataclass(frozen=True)
class Replacement:
    """A process that was replaced in a rolling update: its exit code, and the number of documents
    that were in progress."""

    name: str
    code: int
    in_progress: int


@dataclass
class Ledger:
    """The submissions, the number of requests for them, and the number of faults by kind."""

    submissions: list[Submission] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    replaced: list[Replacement] = field(default_factory=list)


def pages_of(number: int, seed: int) -> int:
    return random.Random(f"{seed}/{number}").randint(1, MOST_PAGES)


class Clients:
    """Submit each document once, to any gateway that responds."""

    def __init__(self, service: Service, ledger: Ledger, seed: int) -> None:
        self._service, self._ledger, self._seed = service, ledger, seed
        self._slots = asyncio.Semaphore(CLIENTS)

    async def submit(self, session: aiohttp.ClientSession, number: int) -> None:
        pages = pages_of(number, self._seed)
        pdf = await asyncio.to_thread(known_pdf, number, pages)
        async with self._slots:
            attempt = number
            while True:
                attempt += 1
                urls = list(self._service.gateways)
                url = urls[attempt % len(urls)]
                with suppress(aiohttp.ClientError, TimeoutError, ValueError):
                    document_id = await self._send(session, url, number, pdf)
                    if document_id is not None:
                        submission = Submission(number, pages, document_id)
                        self._ledger.submissions.append(submission)
                        return
                await asyncio.sleep(min(2.0, 0.2 * (attempt - number)))

    async def _send(
        self, session: aiohttp.ClientSession, url: str, number: int, pdf: bytes
    ) -> str | None:
        """The id of the document; None if the request must be repeated."""
        form = aiohttp.FormData()
        form.add_field("files", pdf, filename=f"{number}.pdf", content_type="application/pdf")
        form.add_field("metadata", json.dumps({"number": number}))
        headers = {"Idempotency-Key": f"submission-{number}"}
        self._ledger.requests += 1
        async with session.post(
            f"{url}/v1/documents:upload", data=form, headers=headers
        ) as response:
            if response.status in (409, 429) or response.status >= 500:
                return None
            content = await response.json()
            if response.status != 202:
                raise AssertionError(
                    f"submission {number} was refused: {response.status} {content}"
                )
            return str(content["id"])


@dataclass(frozen=True)
class Fault:
    """A temporary failure of a part of the service."""

    name: str
    inject: Callable[[], Awaitable[None]]
    hits_worker: bool = False


class ChaosMonkey:
    """Injects random faults, one after another, from a seed."""

    def __init__(
        self,
        service: Service,
        ledger: Ledger,
        engine: KnownPages,
        postgresql: PostgresqlServer | None,
        s3: S3Server | None,
        seed: int,
    ) -> None:
        self._service, self._ledger, self._engine = service, ledger, engine
        self._postgresql, self._s3 = postgresql, s3
        self._random = random.Random(seed)
        self._thawing: set[asyncio.Task[None]] = set()

    async def inject_fault(self) -> None:
        """Inject one fault. Frozen processes thaw later."""
        await asyncio.sleep(self._random.uniform(0.2, 1.5))
        kinds = self._kinds()
        fault = self._random.choices(kinds, weights=[self._weight(fault) for fault in kinds])[0]
        while fault.hits_worker and await asyncio.to_thread(self._has_last_chance):
            fault = self._random.choice([fault for fault in kinds if not fault.hits_worker])
        await fault.inject()
        self._ledger.faults[fault.name] += 1

    async def update(self, submit: Callable[[int, int], None]) -> None:
        """A rolling update: a new gateway takes the place of an old one when it is ready; the other
        processes drain, and start again at their addresses. `submit` gets the numbers of processes
        that were replaced and that will be; documents are in progress whenever one is replaced."""
        self._engine.seconds = UPDATE_SECONDS
        service = self._service
        tier = [] if service.inference is None else [service.inference]
        replacements: list[tuple[str, Callable[[], int]]] = [
            *(
                (gateway.name, partial(service.replace_gateway, url))
                for url, gateway in service.gateways.items()
            ),
            *((process.name, process.restart) for process in (*service.workers, *tier)),
        ]
        for number, (name, replace) in enumerate(replacements, 1):
            submit(number, len(replacements))
            in_progress = await _wait_until_in_progress(service)
            code = await asyncio.to_thread(replace)
            self._ledger.replaced.append(Replacement(name, code, in_progress))
        self._ledger.faults["rolling update"] += 1

    async def finish(self) -> None:
        """Wait until all frozen processes have thawed."""
        await asyncio.gather(*self._thawing)

    def _kinds(self) -> list[Fault]:
        workers = [worker for worker in self._service.workers if not worker.is_frozen]
        worker = self._random.choice(workers or self._service.workers)
        gateways = [gateway for gateway in self._service.gateways.values() if not gateway.is_frozen]
        gateway = self._random.choice(gateways or list(self._service.gateways.values()))
        long = self._random.uniform(1.5, 2.5) * LEASE_SECONDS
        short = self._random.uniform(0.1, 0.4) * LEASE_SECONDS
        downtime = self._random.uniform(0.1, 3.0)
        kinds = [
            Fault("worker killed", lambda: self._kill(worker), True),
            Fault("worker stopped", lambda: self._stop(worker)),
            Fault("worker frozen, loses its lease", self._freezing(worker, long), True),
            Fault("worker frozen, keeps its lease", self._freezing(worker, short)),
            Fault("gateway killed", lambda: self._kill(gateway)),
            Fault("gateway frozen", self._freezing(gateway, long)),
            Fault("engine stopped", lambda: self._stop_engine(downtime)),
        ]
        if self._postgresql is not None:
            kinds += [
                Fault(
                    "database restarted", self._restarting_database(crash=False, downtime=downtime)
                ),
                Fault("database crashed", self._restarting_database(crash=True, downtime=downtime)),
            ]
        if self._s3 is not None:
            kinds.append(Fault("storage restarted", self._restart_storage))
        if (tier := self._service.inference) is not None:
            replica = self._random.choice(self._service.replicas)
            kinds += [
                Fault("replica killed", lambda: self._kill(replica)),
                Fault("replica frozen", self._freezing(replica, long)),
                Fault("inference tier killed", lambda: self._kill(tier)),
            ]
        return kinds

    def _weight(self, fault: Fault) -> float:
        often = fault.hits_worker or fault.name in ("gateway killed", "replica killed")
        return 3.0 if often else 1.0

    def _has_last_chance(self) -> bool:
        """Whether a document would fail if it lost another worker."""
        query = select(func.count()).where(
            documents.c.worker_deaths >= MAX_WORKER_DEATHS - 1,
            documents.c.state.not_in(FINISHED_STATES),
        )
        with suppress(DatabaseError), self._service.database.read() as connection:
            return bool(connection.execute(query).scalar_one())
        return True

    async def _kill(self, process: ServiceProcess) -> None:
        await asyncio.to_thread(process.kill)
        await asyncio.sleep(self._random.uniform(0.0, 1.0))
        process.start()

    async def _stop(self, process: ServiceProcess) -> None:
        await asyncio.to_thread(process.stop, 60.0)
        process.start()

    def _freezing(self, process: ServiceProcess, seconds: float) -> Callable[[], Awaitable[None]]:
        async def thaw() -> None:
            await asyncio.sleep(seconds)
            process.thaw()

        async def freeze() -> None:
            if process.is_frozen:
                return
            process.freeze()
            task = asyncio.create_task(thaw())
            self._thawing.add(task)
            task.add_done_callback(self._thawing.discard)

        return freeze

    async def _stop_engine(self, seconds: float) -> None:
        self._engine.down = True
        await asyncio.sleep(seconds)
        self._engine.down = False

    def _restarting_database(
        self, *, crash: bool, downtime: float
    ) -> Callable[[], Awaitable[None]]:
        server = self._postgresql
        assert server is not None, "this kind of fault needs it"

        async def restart() -> None:
            await asyncio.to_thread(server.kill if crash else server.stop)
            await asyncio.sleep(downtime)
            await asyncio.to_thread(server.start)

        return restart

    async def _restart_storage(self) -> None:
        assert self._s3 is not None, "this kind of fault needs it"
        await asyncio.to_thread(self._s3.restart)


async def submit_with_faults(
    service: Service,
    ledger: Ledger,
    monkey: ChaosMonkey,
    *,
    count: int,
    faults: int,
    seed: int,
) -> None:
    """Submit documents in as many batches as there are faults, and inject a fault after each batch.
    If there is an inference tier, submit the last quarter during a rolling update. Then wait until
    all documents are finished."""
    clients = Clients(service, ledger, seed)
    timeout = aiohttp.ClientTimeout(total=30)
    headers = {"Authorization": f"Bearer {service.key}"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        supervising = asyncio.create_task(_supervise(service))
        async with asyncio.TaskGroup() as group:
            has_update = service.inference is not None
            submitted, with_faults = 0, count * 3 // 4 if has_update else count
            for fault in range(faults):
                end = with_faults * (fault + 1) // faults
                for number in range(submitted, end):
                    group.create_task(clients.submit(session, number + 1))
                submitted = end
                # Not faster than documents are processed: later faults would have no effect.
                await _wait_until_finished(service, end - 2 * WORKERS * TASKS)
                await monkey.inject_fault()
            await monkey.finish()

            def submit_share(number: int, shares: int) -> None:
                first, last = (with_faults + left * k // shares for k in (number - 1, number))
                for document in range(first, last):
                    group.create_task(clients.submit(session, document + 1))

            left = count - with_faults
            if has_update:
                await monkey.update(submit_share)
        await _wait_until_finished(service, count)
        supervising.cancel()


async def _supervise(service: Service) -> None:
    """Restart processes that exit by themselves, as systemd and Kubernetes do: those that are
    started while the database is unavailable."""
    while True:
        await asyncio.sleep(1.0)
        for process in service.processes:
            if process.should_run and not process.is_running:
                process.start()


async def _wait_until_finished(service: Service, count: int) -> None:
    """Wait until `count` documents are finished. Raises TimeoutError if no more finish."""
    most, since = -1, time.monotonic()
    while (finished := await asyncio.to_thread(_count, service, FINISHED_STATES)) < count:
        if finished != most:
            most, since = finished, time.monotonic()
        if time.monotonic() - since > STALL_SECONDS:
            raise TimeoutError(f"{finished} of {count} documents are finished, and no more finish")
        await asyncio.sleep(0.2)


async def _wait_until_in_progress(service: Service) -> int:
    """Wait until documents are processed; returns how many. Raises TimeoutError."""
    deadline = time.monotonic() + STALL_SECONDS
    while not (found := await asyncio.to_thread(_count, service, (DocumentState.PROCESSING,))):
        if time.monotonic() > deadline:
            raise TimeoutError("no document is processed")
        await asyncio.sleep(0.1)
    return found


def _count(service: Service, states: Collection[DocumentState]) -> int:
    query = select(func.count()).where(documents.c.state.in_(states))
    while True:
        with suppress(DatabaseError), service.database.read() as connection:
            return int(connection.execute(query).scalar_one())
        time.sleep(0.2)


@dataclass
class Verdict:
    """The outcome: rows to print, and in `errors` a line for each difference."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def expect(self, name: str, found: object, expected: object) -> None:
        self.rows.append((name, f"{found}"))
        if found != expected:
            self.errors.append(f"{name}: {found}, expected {expected}")


async def check_outcome(
    service: Service, ledger: Ledger, engine: KnownPages, count: int
) -> Verdict:
    verdict = Verdict()
    with service.database.read() as connection:
        rows = {row.id: row._asdict() for row in connection.execute(select(documents))}
        histories: dict[str, list[Mapping[str, Any]]] = {document_id: [] for document_id in rows}
        query = select(events.c.document_id, events.c.data).order_by(events.c.id)
        for document_id, data in connection.execute(query):
            histories[document_id].append(data)
    submitted = {submission.document_id: submission for submission in ledger.submissions}
    verdict.rows.append(("submissions, and requests for them", f"{count}, {ledger.requests}"))
    verdict.expect("accepted submissions", len(ledger.submissions), count)
    verdict.expect("documents created", len(rows), count)
    verdict.expect("documents without a submission", len(rows.keys() - submitted.keys()), 0)
    states = Counter(row["state"] for row in rows.values())
    verdict.expect("states", dict(states), {"succeeded": count})
    for document_id, row in rows.items():
        if row["state"] != "succeeded":
            verdict.errors.append(f"{document_id}: {row['state']}: {row['error']}")
    ends = Counter(
        sum(data["state"] in FINISHED_STATES for data in history) for history in histories.values()
    )
    verdict.expect("final events per document", dict(ends), {1: count})
    claims = _check_histories(verdict, rows, histories)
    wrong = await _wrong_results(service, ledger.submissions)
    verdict.expect("wrong results", len(wrong), 0)
    verdict.errors += wrong
    check_requests(verdict, ledger, engine, claims)
    if ledger.replaced:
        verdict.rows.append(("replaced processes", str(len(ledger.replaced))))
        in_progress = ", ".join(str(one.in_progress) for one in ledger.replaced)
        verdict.rows.append(("documents in progress at each", in_progress))
        failed = [f"{one.name}: exit code {one.code}" for one in ledger.replaced if one.code]
        verdict.expect("replaced processes that failed", failed, [])
    return verdict


def _check_histories(
    verdict: Verdict,
    rows: Mapping[str, Mapping[str, Any]],
    histories: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Mapping[str, int]:
    """Check that the history of each document is possible and agrees with its counters. Returns how
    often each document was claimed: once more than its processing was interrupted."""
    claims = started = requeued = attempts = worker_deaths = 0
    for document_id, row in rows.items():
        states = [data["state"] for data in histories[document_id]]
        claims += row["fencing_token"]
        attempts += row["attempts"]
        worker_deaths += row["worker_deaths"]
        started += states.count("processing")
        if states[:2] != ["awaiting_upload", "queued"] or not _alternates(states[1:]):
            verdict.errors.append(f"{document_id}: its history is {', '.join(states)}")
        requeued += sum(
            later["attempts"] < earlier["attempts"]
            for earlier, later in pairwise(histories[document_id])
        )
    verdict.expect("claims without an event", claims - started, 0)
    verdict.expect(
        "attempts minus claims that were not requeued", attempts - (claims - requeued), 0
    )
    balance = f"{claims} claims, {requeued} requeued, {worker_deaths} worker deaths"
    verdict.rows.append(("claims", balance))
    return {document_id: row["fencing_token"] for document_id, row in rows.items()}


def _alternates(states: Sequence[str]) -> bool:
    """Whether states are queued and processing in turn, then one final state."""
    *middle, last = states
    turns = ["queued", "processing"] * (len(middle) // 2)
    return middle == turns and last in FINISHED_STATES


async def _wrong_results(service: Service, submissions: Sequence[Submission]) -> list[str]:
    """The results that differ from the content of the pages."""
    url = next(iter(service.gateways))
    wrong: list[str] = []
    headers = {"Authorization": f"Bearer {service.key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for submission in submissions:
            address = f"{url}/v1/documents/{submission.document_id}/result?format=markdown"
            async with session.get(address) as response:
                text = await response.text()
                expected = expected_paragraphs(submission.number, submission.pages)
                if response.status != 200 or paragraphs_of(text) != expected:
                    wrong.append(
                        f"{submission.document_id}, number {submission.number}: "
                        f"{response.status} {text[:200]!r}"
                    )
    return wrong


def check_requests(
    verdict: Verdict, ledger: Ledger, engine: KnownPages, claims: Mapping[str, int]
) -> None:
    """Check that no checkpointed page or figure was sent again. An interruption of a document's
    processing repeats at most the requests whose results weren't saved yet, and all together they
    are at most one per fault and task; a fault of a replica repeats at most its requests."""
    images = {
        shown
        for submission in ledger.submissions
        for shown in _images(submission.number, submission.pages)
    }
    verdict.expect("images never sent to the engine", len(images - engine.asked.keys()), 0)
    verdict.expect("unknown images", len(engine.asked.keys() - images), 0)
    # Sent again by the inference tier, or by workers whose requests it had lost.
    resent = REPLICA_REQUESTS * sum(ledger.faults[name] for name in REPLICA_FAULTS)
    repeated: Counter[int] = Counter()
    for shown, requests in engine.asked.items():
        repeated[shown.document] += requests - 1
    interruptions = sum(claims.values()) - len(claims)
    counts = f"{repeated.total()} of {engine.asked.total()}; {interruptions} interruptions"
    verdict.rows.append(("repeated requests", counts))
    for submission in ledger.submissions:
        interrupted = claims[submission.document_id] - 1
        if repeated[submission.number] > interrupted * MAX_UNSAVED + resent:
            verdict.errors.append(
                f"{submission.document_id}: {repeated[submission.number]} requests were repeated, "
                f"interruptions: {interrupted}"
            )
    if repeated.total() > ledger.faults.total() * TASKS + resent:
        verdict.errors.append(
            f"{repeated.total()} requests were repeated, faults: {ledger.faults.total()}"
        )


def _images(number: int, pages: int) -> Iterator[Shown]:
    for page in range(1, pages + 1):
        shown = Shown(number, page)
        yield shown
        if shown.has_figure:
            yield Shown(number, page, is_figure=True)


@contextmanager
def create_service(kind: str, folder: Path) -> "Iterator[tuple[Service, Any, Any]]":
    """A service without processes, with its PostgreSQL and S3 servers (None on SQLite)."""
    with ExitStack() as stack:
        if kind == "sqlite":
            url, storage = f"sqlite:///{folder / 'service.sqlite'}", str(folder / "storage")
            environment: dict[str, str] = {}
            postgresql = s3 = None
        else:
            postgresql = stack.enter_context(serving_postgresql())
            s3 = stack.enter_context(serving_s3(folder / "s3"))
            url, storage = postgresql.create("service"), f"s3://{BUCKET}/service"
            environment = s3.environment
        service = stack.enter_context(serving_service(folder / "logs", url, storage, environment))
        yield service, postgresql, s3


def run_chaos(
    kind: str, folder: Path, *, count: int, faults: int, seed: int, replicas: int = 0
) -> Verdict:
    """Run everything on one kind of database, with an inference tier if there are `replicas`.
    Raises TimeoutError if documents never finish."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger, engine = Ledger(), KnownPages(seconds=0.05)
    with (
        create_service(kind, folder) as (service, postgresql, s3),
        serving_beside(engine.reply) as chat,
    ):
        options = ["--lease-seconds", str(LEASE_SECONDS), "--concurrency", str(TASKS)]
        options += ["--render-workers", str(RENDERERS)]
        for _ in range(GATEWAYS):
            service.start_gateway()
        url = chat.base_url
        if replicas:
            url = service.start_inference(
                chat.base_url,
                replicas,
                max_concurrency=REPLICA_REQUESTS,
                request_timeout=REQUEST_SECONDS,
                probe_seconds=1.0,
            )
        for _ in range(WORKERS):
            service.start_worker(url, *options, tasks=TASKS)
        monkey = ChaosMonkey(service, ledger, engine, postgresql, s3, seed)
        started_at = time.monotonic()
        asyncio.run(
            submit_with_faults(service, ledger, monkey, count=count, faults=faults, seed=seed)
        )
        seconds = time.monotonic() - started_at
        verdict = asyncio.run(check_outcome(service, ledger, engine, count))
    verdict.rows.insert(0, ("seconds", f"{seconds:.0f}"))
    for name, number in sorted(ledger.faults.items()):
        verdict.rows.append((name, str(number)))
    verdict.rows.append(("faults", str(ledger.faults.total())))
    return verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=0, help="of an inference tier")
    kinds = ("postgresql", "sqlite")
    parser.add_argument("--on", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--keep", type=Path, help="keep logs and data in this folder")
    arguments = parser.parse_args()
    # Turn signals into exceptions, so that the started processes are stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    has_errors = False
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        for kind in arguments.on:
            run_folder = (arguments.keep or Path(folder)) / kind
            print(f"\n{kind}, seed {arguments.seed}", flush=True)
            verdict = run_chaos(
                kind,
                run_folder,
                count=arguments.documents,
                faults=arguments.faults,
                seed=arguments.seed,
                replicas=arguments.replicas,
            )
            for name, value in verdict.rows:
                print(f"  {name:46}{value}")
            for line in verdict.errors:
                print(f"  ERROR: {line}")
            has_errors |= bool(verdict.errors)
    raise SystemExit(int(has_errors))


if __name__ == "__main__":
    main()
