"""A run on two Ray nodes, in which an engine's process and then a whole node are killed.

    python -m benchmarks.ray_kills [--pages 120]

The nodes are raylets on this machine, the engines ask a server that takes a second for any page.
Compared with the same run without Ray; pages asked about twice are what the kills cost.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from llm_ocr import load_documents, load_pages, run
from tests.documents import pdf
from tests.servers.chat import at_once, image_of, prompt_of, serving_beside
from tests.servers.cluster import CPUS, RayCluster, serving_ray

ANSWER_SECONDS = 1.0
PAGES_A_DOCUMENT = 4
SETTINGS: dict[str, Any] = {"shard_pages": 4, "concurrency": 4, "flush_seconds": 1.0}
# The server's answers have nothing to do with what stands on the pages.
UNREAD: dict[str, Any] = {"skip_model_check": True, "min_agreement": 0.0}


class Server:
    """Answers pages, counts how often each was asked about, and kills what is at work."""

    def __init__(self, cluster: RayCluster, pages: int) -> None:
        self.asked: Counter[bytes] = Counter()
        self._cluster, self._in_flight = cluster, 0
        self._kills = [(pages // 4, self._kill_engine), (pages // 2, self._kill_node)]

    async def reply(self, body: dict[str, Any]) -> web.Response:
        if "<|grounding|>" not in prompt_of(body):
            return at_once(body)
        self.asked[image_of(body)] += 1
        self._in_flight += 1
        both_ask = self._in_flight > SETTINGS["concurrency"]
        if self._kills and self.asked.total() >= self._kills[0][0] and both_ask:
            self._kills.pop(0)[1]()
        await asyncio.sleep(ANSWER_SECONDS)
        self._in_flight -= 1
        return at_once(body)

    def _kill_engine(self) -> None:
        self._cluster.kill_an_engine()
        self._say("kill -9 to the process of the engine on the second node")

    def _kill_node(self) -> None:
        self._cluster.kill_node()
        self._say("kill -9 to all processes of the second node")

    def _say(self, what: str) -> None:
        print(f"--- at page {self.asked.total()}: {what}", flush=True)


def options(settings: dict[str, Any]) -> list[str]:
    return [
        part
        for name, value in settings.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def on_ray(source: Path, out: Path, base_url: str, cluster: RayCluster) -> int:
    """The exit code of the run."""
    command = ["llm_ocr", "run", str(source), "--out", str(out), "--executor", "ray"]
    more = [
        "--base-url",
        base_url,
        "--skip-model-check",
        "--min-agreement",
        "0",
        *options(SETTINGS),
    ]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    return subprocess.run([sys.executable, "-m", *command, *more], env=environment).returncode


def rows(out: Path) -> list[list[dict[str, Any]]]:
    return [[{**row, "seconds": 0} for row in load(out)] for load in (load_pages, load_documents)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=120)
    pages: int = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as name, serving_ray() as cluster:
        folder = Path(name)
        for k in range(pages // PAGES_A_DOCUMENT):
            pdf(folder / "in" / f"{k:03d}.pdf", PAGES_A_DOCUMENT)
        server = Server(cluster, pages)
        print(f"two nodes with {CPUS} CPUs each, {pages} pages in shards of {PAGES_A_DOCUMENT}")
        with serving_beside(server.reply) as chat:
            code = on_ray(folder / "in", folder / "out", chat.base_url, cluster)
            asked = server.asked.copy()
            run(folder / "in", folder / "alone", base_url=chat.base_url, **SETTINGS, **UNREAD)
        found, wanted = rows(folder / "out"), rows(folder / "alone")
    again = asked.total() - len(asked)
    print(f"\nexit code {code}; {len(found[0])} pages, the same rows as without Ray: ", end="")
    print(f"{found == wanted}; pages asked about twice: {again}")


if __name__ == "__main__":
    main()
