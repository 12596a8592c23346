"""Performance of the service: throughput compared with a run, gateway, latency and memory.

    python -m benchmarks.service [throughput] [gateway] [latency] [memory]

All on this machine, on a real PostgreSQL and a local folder.

- throughput: the same pages through `llm-ocr run` and through the service, each on a fresh
  simulated GPU (`benchmarks.simserver`); pages per minute of simulated time, as in
  `benchmarks.saturation`.
- gateway: submissions per second of one gateway without workers, and the memory of its processes
  during 200 concurrent uploads of 20 MB.
- latency: from queued to started, with an idle worker.
- memory: of one worker with its renderers over 2,000 documents, without its engine.
"""

import argparse
import asyncio
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from sqlalchemy import func, select

from benchmarks.material import ROOT, UNREAD
from benchmarks.saturation import simulated, simulated_seconds
from benchmarks.service_processes import Service, ServiceProcess, serving_service
from llm_ocr.service.schema import FINISHED_STATES, documents
from tests.documents import pdf_of
from tests.servers.chat import serving_beside
from tests.servers.known_pages import KnownPages, known_pdf
from tests.servers.postgresql import serving_postgresql

MEGABYTE = 1 << 20
PARTS = ("throughput", "gateway", "latency", "memory")


@contextmanager
def service_in(folder: Path) -> Iterator[Service]:
    """A service without processes at first, with its own PostgreSQL server."""
    with serving_postgresql() as postgresql:
        url = postgresql.create("service")
        with serving_service(folder / "logs", url, str(folder / "storage"), {}) as service:
            yield service


def print_row(name: str, value: str) -> None:
    print(f"  {name:58}{value}", flush=True)


def percentiles(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=20)
    return f"P50 {1000 * cuts[9]:.0f} ms, P95 {1000 * cuts[18]:.0f} ms"


# Submitting ------------------------------------------------------------------------------------


async def submit_files(
    service: Service, url: str, pdfs: list[bytes], *, clients: int, pause: float = 0.0
) -> list[float]:
    """Submit documents, `clients` at the same time. Returns the seconds of each request."""
    durations: list[float] = []
    slots = asyncio.Semaphore(clients)
    headers = {"Authorization": f"Bearer {service.key}"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def submit(number: int, pdf: bytes) -> None:
            async with slots:
                form = aiohttp.FormData()
                form.add_field("files", pdf, filename=f"{number}.pdf")
                started_at = time.monotonic()
                address = f"{url}/v1/documents:upload"
                async with session.post(address, data=form) as response:
                    assert response.status == 202, f"{response.status} {await response.text()}"
                durations.append(time.monotonic() - started_at)
                await asyncio.sleep(pause)

        await asyncio.gather(*(submit(number, pdf) for number, pdf in enumerate(pdfs)))
    return durations


def wait_until_finished(service: Service, count: int) -> None:
    """Wait until `count` documents are finished. Raises AssertionError if any didn't succeed."""
    finished = select(func.count()).where(documents.c.state.in_(FINISHED_STATES))
    while True:
        with service.database.read() as connection:
            if connection.execute(finished).scalar_one() >= count:
                break
        time.sleep(0.1)
    good = select(func.count()).where(documents.c.state == "succeeded")
    with service.database.read() as connection:
        assert connection.execute(good).scalar_one() == count, "some have failed"


# Throughput ------------------------------------------------------------------------------------


def measure_throughput(folder: Path, *, count: int, pages: int, gpu: str, speed_up: float) -> None:
    pdfs = [known_pdf(number + 1, pages) for number in range(count)]
    inputs = folder / "inputs"
    inputs.mkdir()
    for number, pdf in enumerate(pdfs):
        (inputs / f"{number}.pdf").write_bytes(pdf)
    print(f"\nthroughput: {count} documents of {pages} pages, {gpu}, {speed_up:g} times as fast")
    speeds: dict[str, float] = {}
    for name in ("llm-ocr run", "service, 1 gateway and 2 workers"):
        with simulated(gpu, speed_up) as (base_url, _):
            if name == "llm-ocr run":
                run_batch(inputs, folder / "out", base_url)
            else:
                run_service(folder, pdfs, base_url)
            seconds = simulated_seconds(base_url)
        speeds[name] = 60 * count * pages / seconds
        per_hour = 3600 * count / seconds
        print_row(
            name,
            f"{speeds[name]:8.1f} pages/min  {speeds[name] / 60:6.2f} pages/s  "
            f"{per_hour:8.0f} documents/h (of the simulated GPU)",
        )
    run, service = speeds.values()
    print_row("the service's share of the run", f"{service / run:.3f}")


def run_batch(inputs: Path, out: Path, base_url: str) -> None:
    command = [sys.executable, "-m", "llm_ocr", "run", str(inputs), "--out", str(out)]
    command += ["--base-url", base_url, *UNREAD]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def run_service(folder: Path, pdfs: list[bytes], base_url: str) -> None:
    with service_in(folder / "service") as service:
        url = service.start_gateway()
        for _ in range(2):
            service.start_worker(base_url, tasks=40)
        asyncio.run(submit_files(service, url, pdfs, clients=8))
        wait_until_finished(service, len(pdfs))


# The gateway -----------------------------------------------------------------------------------


class MemoryWatch:
    """The memory of a process and its children in MB, sampled ten times a second."""

    def __init__(self, process: ServiceProcess) -> None:
        self._process = psutil.Process(process.pid)
        self._ended = threading.Event()
        self.most = self.now()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def now(self) -> float:
        total = 0
        for process in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total / MEGABYTE

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(0.1):
            self.most = max(self.most, self.now())


def measure_gateway(folder: Path, *, submissions: int, uploads: int, megabytes: int) -> None:
    print(f"\ngateway alone: {submissions} submissions of a page by 8 clients")
    with service_in(folder) as service:
        url = service.start_gateway()
        (gateway,) = service.gateways.values()
        pdfs = [known_pdf(number + 1, 1) for number in range(submissions)]
        asyncio.run(submit_files(service, url, pdfs[:50], clients=8))
        started_at = time.monotonic()
        durations = asyncio.run(submit_files(service, url, pdfs, clients=8))
        print_row("submissions/s", f"{submissions / (time.monotonic() - started_at):.0f}")
        print_row("seconds of a submission", percentiles(durations))

        file = large_pdf(folder / "large.pdf", megabytes)
        size = file.stat().st_size
        watch = MemoryWatch(gateway)
        before = watch.now()
        started_at = time.monotonic()
        asyncio.run(upload_all(service, url, file, uploads))
        seconds = time.monotonic() - started_at
        watch.close()
        print_row(f"{uploads} uploads of {size / 1e6:.0f} MB at once", f"{seconds:.1f} s")
        memory = f"{before:.0f} MB before, {watch.most:.0f} MB at most"
        print_row("memory of the gateway with its processes", memory)


def large_pdf(path: Path, megabytes: int) -> Path:
    """A PDF with one page, and an unused stream of this size."""
    content = b"1 0 0 rg 50 50 100 100 re f"
    unused = bytes(megabytes * 1_000_000)
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(unused), unused),
    )


async def upload_all(service: Service, url: str, file: Path, count: int) -> None:
    """Create all documents, upload all files at the same time, then complete all documents."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    size = file.stat().st_size
    entry = {"name": "large.pdf", "size": size, "sha256": digest}
    entry["content_type"] = "application/pdf"
    headers = {"Authorization": f"Bearer {service.key}"}
    timeout = aiohttp.ClientTimeout(total=None)
    # The gateway closes idle connections after 5 s: none is used again that it may be closing.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

        async def post(path: str, body: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
            async with session.post(f"{url}{path}", json=body, headers=headers) as response:
                assert response.status < 300, f"{response.status} {await response.text()}"
                return await response.json()

        created = [await post("/v1/documents", {"files": [entry]}) for _ in range(count)]

        async def send(document: Mapping[str, Any]) -> None:
            upload = document["files"][0]["upload"]
            with file.open("rb") as content:
                async with session.request(
                    upload["method"], upload["url"], data=content, headers=upload["headers"]
                ) as response:
                    assert response.status < 300, f"{response.status} {await response.text()}"

        await asyncio.gather(*map(send, created))
        for document in created:
            await post(f"/v1/documents/{document['id']}:complete")


# Waits and memory ------------------------------------------------------------------------------


def measure_latency(folder: Path, *, count: int) -> None:
    print(f"\nfrom queued to started: {count} documents, one after the other, an idle worker")
    with service_in(folder) as service, serving_beside(KnownPages().reply) as chat:
        url = service.start_gateway()
        service.start_worker(chat.base_url)
        pdfs = [known_pdf(number, 1) for number in range(count + 1)]
        # The first document waits until the worker's processes have started.
        asyncio.run(submit_files(service, url, pdfs[:1], clients=1))
        wait_until_finished(service, 1)
        asyncio.run(submit_files(service, url, pdfs[1:], clients=1, pause=0.37))
        wait_until_finished(service, count + 1)
        times = select(documents.c.queued_at, documents.c.started_at).order_by(documents.c.id)
        with service.database.read() as connection:
            rows = list(connection.execute(times))[1:]
            waits = [(row.started_at - row.queued_at).total_seconds() for row in rows]
    print_row("queued to started", percentiles(waits))


def measure_memory(folder: Path, *, count: int) -> None:
    print(f"\nmemory of a worker over {count:,} documents of 1 to 3 pages")
    with service_in(folder) as service, serving_beside(KnownPages().reply) as chat:
        url = service.start_gateway()
        worker = service.start_worker(chat.base_url)
        watch = MemoryWatch(worker)
        for begun in range(0, count, count // 4):
            numbers = range(begun + 1, begun + count // 4 + 1)
            with ThreadPoolExecutor(1) as threads:
                pdfs = list(threads.map(lambda number: known_pdf(number, 1 + number % 3), numbers))
            asyncio.run(submit_files(service, url, pdfs, clients=4))
            wait_until_finished(service, begun + count // 4)
            now = f"{watch.now():.0f} MB, {watch.most:.0f} MB at most so far"
            print_row(f"after {begun + count // 4:,} documents", now)
        watch.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=PARTS)
    parser.add_argument("--documents", type=int, help="of throughput, latency and memory")
    parser.add_argument("--gpu", default="l4")
    parser.add_argument("--speed-up", type=float, default=2.0)
    arguments = parser.parse_args()
    print(json.dumps({"cores": psutil.cpu_count(), "load": psutil.getloadavg()}))
    with tempfile.TemporaryDirectory(prefix="service-") as name:
        folder = Path(name)
        if "throughput" in arguments.parts:
            measure_throughput(
                folder,
                count=arguments.documents or 120,
                pages=5,
                gpu=arguments.gpu,
                speed_up=arguments.speed_up,
            )
        if "gateway" in arguments.parts:
            measure_gateway(folder / "gateway", submissions=500, uploads=200, megabytes=20)
        if "latency" in arguments.parts:
            measure_latency(folder / "latency", count=arguments.documents or 100)
        if "memory" in arguments.parts:
            measure_memory(folder / "memory", count=arguments.documents or 2000)


if __name__ == "__main__":
    main()
