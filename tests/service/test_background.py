"""Periodic background work continues after errors."""

import asyncio
import logging

import pytest

from llm_ocr.messages import CodedError
from llm_ocr.service.background import repeat


async def test_an_error_ends_one_poll_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    stop, looks = asyncio.Event(), iter(range(6))

    async def look() -> bool:
        number = next(looks)
        if number == 5:
            stop.set()
        if number in (1, 2):
            raise CodedError("the database is away")
        if number == 3:
            raise ValueError("a bug")
        return number == 0

    with caplog.at_level(logging.WARNING):
        await repeat("the watch", look, 0.01, stop)
    assert [record.getMessage() for record in caplog.records] == [
        "the watch: the database is away",
        "the watch failed",
    ]
    assert next(looks, None) is None


async def test_stopping_interrupts_the_wait() -> None:
    stop = asyncio.Event()

    async def look() -> bool:
        asyncio.get_running_loop().call_soon(stop.set)
        return False

    async with asyncio.timeout(10):
        await repeat("the watch", look, 3600, stop)
