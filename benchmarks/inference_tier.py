"""What the inference tier costs: throughput and CPU time of requests through it, and without it.

    python -m benchmarks.inference_tier [--pages 400] [--rounds 3] [--gpu a100] [--speed-up 10]

Both measurements are on a simulated GPU (`benchmarks.simserver`), in turn, with the same pages (100
to 300 KB each) and the same client. Throughput is in pages per simulated minute. CPU is that of the
router's process per request, with its probes; the server's and the client's don't count. The
targets are at least 0.98 of the throughput without the tier, and less than 2 ms of CPU.
"""

import argparse
import asyncio
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from benchmarks.material import ROOT
from benchmarks.saturation import MODEL, Pages, cpu_seconds, fixed, simulated, simulated_seconds
from benchmarks.simulation import GPUS
from llm_ocr.inference.server_status import is_serving

CONFIG = """\
models:
  {model}:
    queue_size: {queue_size}
    replicas:
"""
REPLICA = '      - {{base_url: "{base_url}", max_concurrency: {window}}}\n'


@dataclass(frozen=True)
class TierCost:
    """Pages per simulated minute without and with the tier, and its CPU seconds per request."""

    direct: float
    routed: float
    cpu: float


def measure_round(gpu: str, speed_up: float, pages: Pages, window: int) -> TierCost:
    """One measurement without and one with the tier, each on a fresh server."""
    with simulated(gpu, speed_up) as (base_url, _):
        direct = _measure_speed(base_url, base_url, pages, window)
    with (
        simulated(gpu, speed_up) as (base_url, _),
        serving_tier([base_url], window, queue_size=window) as (url, process),
    ):
        before = cpu_seconds(process)
        routed = _measure_speed(url, base_url, pages, window)
        return TierCost(direct, routed, (cpu_seconds(process) - before) / len(pages))


def _measure_speed(url: str, server_url: str, pages: Pages, window: int) -> float:
    before = simulated_seconds(server_url)
    asyncio.run(partial(fixed, window)(url, pages))
    return 60 * len(pages) / (simulated_seconds(server_url) - before)


@contextmanager
def serving_tier(
    base_urls: Sequence[str], window: int, *, queue_size: int
) -> Iterator[tuple[str, psutil.Process]]:
    """The address and the process of a router in front of servers, each of which gets at most
    `window` requests at a time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inference.yaml"
        replicas = (REPLICA.format(base_url=base_url, window=window) for base_url in base_urls)
        path.write_text(CONFIG.format(model=MODEL, queue_size=queue_size) + "".join(replicas))
        command = [sys.executable, "-m", "llm_ocr", "serve", "inference"]
        command += ["--config", str(path), "--port", "0"]
        router = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert router.stdout is not None
            assert router.stderr is not None
            found = re.search(r"http://\S+", router.stdout.readline())
            assert found is not None, router.stderr.read()
            # Its lines about the replicas.
            for _ in base_urls:
                router.stderr.readline()
            assert asyncio.run(is_serving(found[0], {}))
            yield found[0], psutil.Process(router.pid)
        finally:
            router.terminate()
            router.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpu", choices=list(GPUS), default="a100")
    parser.add_argument("--speed-up", type=float, default=10.0)
    parser.add_argument("--window", type=int, default=32, help="requests in progress")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pages = Pages(arguments.pages)
    print(f"{'round':>5}{'direct':>10}{'routed':>10}{'ratio':>8}{'CPU ms/request':>16}")
    costs = []
    for number in range(1, arguments.rounds + 1):
        cost = measure_round(arguments.gpu, arguments.speed_up, pages, arguments.window)
        costs.append(cost)
        ratio = cost.routed / cost.direct
        row = f"{number:5}{cost.direct:10.1f}{cost.routed:10.1f}{ratio:8.3f}{1000 * cost.cpu:16.2f}"
        print(row, flush=True)
    ratio = statistics.median(cost.routed / cost.direct for cost in costs)
    cpu = statistics.median(1000 * cost.cpu for cost in costs)
    print(f"median ratio {ratio:.3f} (target 0.98), median CPU {cpu:.2f} ms (target 2)")


if __name__ == "__main__":
    main()
