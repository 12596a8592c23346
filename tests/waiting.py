"""Polling for conditions in tests, with a time limit that only a defect exceeds."""

import asyncio
import time
from collections.abc import Callable
from typing import Any


def wait_until(
    condition: Callable[[], Any],
    seconds: float = 90,
    describe: Callable[[], str] = lambda: "",
) -> Any:  # noqa: ANN401
    """Wait until `condition` returns a true value, and return it. `describe` explains a failure."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.03)
    raise AssertionError(f"not within {seconds:g} s: {condition} {describe()}")


async def wait_until_async(condition: Callable[[], bool], seconds: float = 60) -> None:
    """`wait_until` for tests on an event loop."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)
