"""Periodic background work of a gateway: poll, log errors, wait, until it is stopped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from llm_ocr.messages import CodedError

_log = logging.getLogger(__name__)


async def repeat(
    name: str, poll: Callable[[], Awaitable[bool]], seconds: float, stop: asyncio.Event
) -> None:
    """Call `poll` until `stop` is set: again at once if it returns that there is more to do, else
    after `seconds`. Errors are logged with `name` and don't end the loop; one that repeats is
    logged once."""
    last = ""
    while not stop.is_set():
        has_more = False
        try:
            has_more = await poll()
            last = ""
        except CodedError as error:
            if str(error) != last:
                _log.warning("%s: %s", name, error)
            last = str(error)
        except Exception:  # noqa: BLE001
            # Otherwise a gateway could stop sending webhooks, and nobody would notice.
            _log.exception("%s failed", name)
        if not has_more:
            await wait(stop, seconds)


async def wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait `seconds`, or until `stop` is set if that is earlier."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
