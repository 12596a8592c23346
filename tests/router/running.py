"""A router as a process of its own, and requests to it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.servers.service import ServiceProcess


class RunningRouter:
    """A running `llm-ocr serve inference`."""

    def __init__(self, process: ServiceProcess, session: aiohttp.ClientSession, url: str) -> None:
        self.process, self.session, self.url = process, session, url
        self.root = url.removesuffix("/v1")

    def post(
        self,
        model: str,
        path: str = "/chat/completions",
        **options: Any,  # noqa: ANN401
    ) -> "aiohttp.client._RequestContextManager":
        return self.session.post(f"{self.url}{path}", data=page_body(model), **options)

    async def ask(
        self, model: str, **headers: str
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """The status, the body and the headers of the response to a page."""
        async with self.post(model, headers=headers) as response:
            return response.status, await response.json(), response.headers

    async def ready(self) -> tuple[int, dict[str, Any]]:
        async with self.session.get(f"{self.root}/readyz") as response:
            return response.status, await response.json()

    async def wait_until_ready(self, **models: int) -> None:
        """Wait until so many replicas of each model are ready."""
        await self._poll(lambda status, body: body["ready_replicas"] == models, self.ready)

    async def metrics(self) -> str:
        async with self.session.get(f"{self.root}/metrics") as response:
            return await response.text()

    async def wait_for_metric(self, sample: str) -> None:
        """Wait until the metrics have this line."""

        async def lines() -> tuple[int, Any]:
            return 200, (await self.metrics()).splitlines()

        await self._poll(lambda status, body: sample in body, lines)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        return await asyncio.to_thread(self.process.stop, number)

    async def _poll(self, condition: Any, read: Any) -> None:  # noqa: ANN401
        found: Any = None
        try:
            async with asyncio.timeout(60):
                while not condition(*(found := await read())):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{found}\n{self.process.output}") from None


def page_body(model: str, **fields: object) -> bytes:
    """A request about a page, which no other JSON writer would format alike."""
    url = "data:image/jpeg;base64,/9j/AAAA"
    image = {"type": "image_url", "image_url": {"url": url}}
    content = [image, {"type": "text", "text": "<|grounding|>Convert the document to markdown."}]
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 100, **fields}
    rest = json.dumps(body, indent=1).encode()[1:]
    return b'{"model" :  ' + json.dumps(model).encode() + b"," + rest


@asynccontextmanager
async def routing(
    folder: Path, config: Mapping[str, Any], env: Mapping[str, str] | None = None
) -> AsyncIterator[RunningRouter]:
    """Run a router with this configuration; it is killed at the end if it still runs."""
    path = folder / "inference.yaml"
    path.write_text(yaml.safe_dump(dict(config), sort_keys=False))
    process = ServiceProcess("inference", "--config", path, "--port", 0, env=env)
    try:
        url = await asyncio.to_thread(lambda: process.url)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield RunningRouter(process, session, url)
    finally:
        if process.is_running:
            await asyncio.to_thread(process.stop, signal.SIGKILL)
