"""The embedded engine as a process, for the tests of a module."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from llm_ocr.engines.embedded.serving.command import embedded_command
from llm_ocr.engines.launch import Engine


def running_engine(log_path: Path) -> Iterator[str]:
    """Its base URL, while it runs."""
    loop = asyncio.new_event_loop()
    running = loop.run_until_complete(Engine(embedded_command(2), log_path).__aenter__())
    yield running.base_url
    loop.run_until_complete(running.stop())
    loop.close()
