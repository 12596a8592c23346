"""A Hugging Face Hub on this machine: repositories, buckets, jobs, and a limit of commits.

What `huggingface_hub`, its file system and `datasets` ask of the Hub, by HTTP:
https://huggingface.co/docs/hub/api. Commits are atomic, heed `parentCommit` (412) and are limited
for each repository (429 with Retry-After). Left out: accounts, discussions, Xet for repositories
(clients need HF_HUB_DISABLE_XET) and reading buckets through Xet.

`python -m tests.servers.hub` serves one until Ctrl-C and prints its environment.
"""

import asyncio
import logging
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

from aiohttp import web

from tests.servers.hub_buckets import Buckets
from tests.servers.hub_jobs import Jobs
from tests.servers.hub_repositories import Repositories
from tests.servers.hub_state import OWNER, Hub, refuse

_log = logging.getLogger(__name__)


def application(hub: Hub, home: Path) -> tuple[web.Application, Repositories, Buckets, Jobs]:
    @web.middleware
    async def failing(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        hub.watch(request)
        if hub.bodies is not None:
            hub.bodies.append((f"{request.method} {request.path}", await request.read()))
        if hub.failures:
            return web.Response(status=hub.failures.pop(0), headers={"Retry-After": "0"})
        return await handler(request)

    app = web.Application(client_max_size=1 << 31, middlewares=[failing])
    repositories, buckets = Repositories(hub), Buckets(hub)
    jobs = Jobs(hub, buckets, home / "jobs")
    jobs.add_routes(app.router)
    buckets.add_routes(app.router)
    repositories.add_routes(app.router)
    app.router.add_route("*", "/{rest:.*}", _unknown)
    return app, repositories, buckets, jobs


async def _unknown(request: web.Request) -> web.Response:
    _log.info("the Hub of the tests has no %s %s", request.method, request.path_qs)
    refuse(404, "", f"{request.method} {request.path} is nothing here")


def environment(url: str, home: Path) -> dict[str, str]:
    """What clients need to find it, each process of them anew."""
    return {
        "HF_ENDPOINT": url,
        "HF_TOKEN": OWNER,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    }


@contextmanager
def serving_hub(home: Path, hub: Hub | None = None) -> Iterator[dict[str, str]]:
    """The environment of its clients; a thread serves `hub`."""
    ready: Queue[str] = Queue()
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    app, repositories, buckets, jobs = application(hub or Hub(), home)

    async def serve() -> None:
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        for part in (repositories, buckets):
            part.front, part.files = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
        url = f"http://127.0.0.1:{port}"
        # Jobs are told no token but those that they are given.
        jobs.base = {k: v for k, v in environment(url, home).items() if k != "HF_TOKEN"}
        ready.put(url)
        await ended.wait()
        await jobs.stop()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield environment(ready.get(timeout=10), home)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    with tempfile.TemporaryDirectory() as home, serving_hub(Path(home)) as found:
        print("\n".join(f"export {key}={value}" for key, value in found.items()), flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.exit(0)


if __name__ == "__main__":
    main()
