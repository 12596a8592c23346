"""Throughput and latency of a whole service against its workers, on 1, 2 and 4 simulated GPUs.

    python -m benchmarks.scaling [--gpus 1 2 4] [--speed-up 4] [--window 16] [--out FILE]
    python -m benchmarks.scaling --draw FILE [--images docs/images]

A gateway, workers, the inference tier, PostgreSQL and S3 (SeaweedFS) run as processes on this
machine; only the GPUs are simulated (`benchmarks.simserver`). All of them share this machine's
cores, so the GPUs must be slow enough: the tables say how busy the machine was. Seconds are those
of the simulated GPU, of which `--speed-up` pass in a second; throughput is in pages per minute of
its clock.

- A client alone keeps `--window` requests in progress at each GPU: what the GPUs can do.
- With a backlog, workers are added step by step: pages per minute, and seconds from a document's
  start to its end.
- Without a backlog, documents arrive at equal intervals, as many as are a share of what the GPUs
  can do: seconds from submission to the end.
- The same without a service, in virtual time (`benchmarks.scaling_ideal`): what batching on the GPU
  itself costs in latency.

`--draw` prints the tables of an earlier run and draws its figures.
"""

import argparse
import json
import shlex
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.scaling_ideal import (
    arrival_times,
    ideal_latencies,
    quantile,
    saturated_pages_per_second,
)
from benchmarks.scaling_runs import (
    Load,
    LoadPoint,
    SteadyPoint,
    StoredSizes,
    measure_directly,
    serving_stack,
)
from benchmarks.simulation import GPUS

# Workers at each step, by the number of GPUs.
WORKERS: dict[int, tuple[int, ...]] = {1: (1, 2, 3, 4), 2: (1, 2, 4, 6), 4: (2, 4, 8, 10)}
LOADS = (0.3, 0.6, 0.8, 0.95)
IDEAL_LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
WINDOWS = (8, 16, 24, 32, 64, 105)
# Seconds until documents that start together are spread over their pages.
SETTLE_SECONDS = 60.0
# Documents of the virtual runs, and those at their beginning that don't count.
IDEAL_DOCUMENTS, IDEAL_WARM_UP = 600, 50


@dataclass(frozen=True)
class IdealPoint:
    """Simulated GPUs alone: seconds of documents at a load, that arrive at equal or at random
    intervals."""

    gpus: int
    window: int
    load: float
    is_random: bool
    p50: float
    p95: float


@dataclass(frozen=True)
class Results:
    """All of a run; `direct` is the pages per minute of one GPU that a client alone asks, `stored`
    is None if it wasn't measured."""

    command: str
    date: str
    load: Load
    direct: float
    steady: tuple[SteadyPoint, ...]
    arrivals: tuple[LoadPoint, ...]
    ideal: tuple[IdealPoint, ...]
    # Pages per minute of one GPU by its window.
    windows: dict[int, float]
    stored: StoredSizes | None


@dataclass(frozen=True)
class Extent:
    """How much is measured: workers at each step by the number of GPUs, seconds of a step, and
    documents at each load."""

    workers: dict[int, tuple[int, ...]]
    seconds: float
    settle: float
    loads: tuple[float, ...]
    documents: int
    ideal_documents: int = IDEAL_DOCUMENTS


def measure(folder: Path, load: Load, extent: Extent, command: str) -> Results:
    """All measurements, which `command` asked for. Series that need few of this machine's cores run
    side by side."""
    most = max(extent.workers)
    direct = measure_directly(load, most, extent.seconds, extent.settle) / most
    report(f"{direct:.1f} pages/min of each GPU, asked directly")
    small = [gpus for gpus in extent.workers if gpus < most]
    with ThreadPoolExecutor(max(1, len(small))) as threads:
        series = list(threads.map(lambda gpus: _measure_steps(folder, load, extent, gpus), small))
    series.append(_measure_steps(folder, load, extent, most))
    arrivals, stored = _measure_loads(folder, load, extent, most, direct)
    return Results(
        command,
        datetime.now(UTC).date().isoformat(),
        load,
        direct,
        tuple(point for points in series for point in points),
        tuple(arrivals),
        tuple(_simulate(load, extent, most)),
        {
            window: 60 * saturated_pages_per_second(GPUS[load.gpu], window)
            for window in dict.fromkeys((load.window, *WINDOWS))
        },
        stored,
    )


def _measure_steps(folder: Path, load: Load, extent: Extent, gpus: int) -> list[SteadyPoint]:
    points: list[SteadyPoint] = []
    with serving_stack(folder / f"{gpus}-gpus", load, gpus) as stack, stack.backlog():
        for workers in extent.workers[gpus]:
            stack.add_workers(workers - len(stack.service.workers))
            stack.wait(extent.settle)
            points.append(stack.measure_steady(extent.seconds))
            report(
                f"{gpus} GPUs, {workers} x {load.tasks}: {points[-1].pages_per_minute:.1f} "
                f"pages/min, load {points[-1].usage.machine.load:.1f}"
            )
    return points


def _measure_loads(
    folder: Path, load: Load, extent: Extent, gpus: int, direct: float
) -> tuple[list[LoadPoint], StoredSizes]:
    points: list[LoadPoint] = []
    with serving_stack(folder / "loads", load, gpus) as stack:
        stack.add_workers(extent.workers[gpus][-1])
        stack.warm_up()
        for share in extent.loads:
            points.append(stack.measure_arrivals(share, gpus * direct, extent.documents))
            report(
                f"{share:.0%} load: P50 {points[-1].p50:.0f} s, P95 {points[-1].p95:.0f} s, "
                f"load {points[-1].usage.machine.load:.1f}"
            )
        return points, stack.measure_stored()


def _simulate(load: Load, extent: Extent, gpus: int) -> list[IdealPoint]:
    points: list[IdealPoint] = []
    gpu = GPUS[load.gpu]
    for window in dict.fromkeys((load.window, *WINDOWS)):
        rate = gpus * saturated_pages_per_second(gpu, window) / load.pages
        for share in IDEAL_LOADS if window == load.window else (0.1, 0.8):
            for is_random in (False, True):
                count = extent.ideal_documents + IDEAL_WARM_UP
                times = arrival_times(count, share * rate, is_random=is_random)
                seconds = ideal_latencies(gpu, gpus, window, times, load.pages)[IDEAL_WARM_UP:]
                p50, p95 = quantile(seconds, 0.5), quantile(seconds, 0.95)
                points.append(IdealPoint(gpus, window, share, is_random, p50, p95))
    return points


def report(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {line}", file=sys.stderr, flush=True)


def save(results: Results, path: Path) -> None:
    path.write_text(json.dumps(asdict(results), indent=1) + "\n")


def load_results(path: Path) -> Results:
    return TypeAdapter(Results).validate_json(path.read_bytes())


def _command(arguments: argparse.Namespace) -> str:
    """The command without where its output goes."""
    given = sys.argv[1:]
    for name in ("out", "images"):
        if (path := getattr(arguments, name)) is not None and f"--{name}" in given:
            given = [word for word in given if word not in (f"--{name}", str(path))]
    return shlex.join(["python", "-m", "benchmarks.scaling", *given])


def main() -> None:
    from benchmarks.scaling_figures import draw, tables

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Load()
    parser.add_argument("--gpus", type=int, nargs="+", choices=list(WORKERS), default=list(WORKERS))
    parser.add_argument("--gpu", choices=list(GPUS), default=default.gpu)
    parser.add_argument("--speed-up", type=float, default=default.speed_up)
    parser.add_argument("--window", type=int, default=default.window, help="requests of a GPU")
    parser.add_argument("--pages", type=int, default=default.pages)
    parser.add_argument("--tasks", type=int, default=default.tasks)
    parser.add_argument("--seconds", type=float, default=120.0, help="of a step")
    parser.add_argument("--documents", type=int, default=50, help="at each load")
    parser.add_argument("--out", type=Path, help="write the results to this file")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="the results of an earlier run")
    parser.add_argument("--images", type=Path, help="draw the figures into this folder")
    arguments = parser.parse_args()
    if arguments.draw is not None:
        results = load_results(arguments.draw)
    else:
        load = Load(
            arguments.gpu,
            arguments.speed_up,
            arguments.window,
            arguments.pages,
            arguments.tasks,
        )
        workers = {gpus: WORKERS[gpus] for gpus in sorted(arguments.gpus)}
        extent = Extent(workers, arguments.seconds, SETTLE_SECONDS, LOADS, arguments.documents)
        with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
            results = measure(Path(folder), load, extent, _command(arguments))
        if arguments.out is not None:
            save(results, arguments.out)
    print(tables(results))
    if arguments.images is not None:
        draw(results, arguments.images)


if __name__ == "__main__":
    main()
