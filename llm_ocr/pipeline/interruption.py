"""Stopping a run in order: Ctrl-C and SIGTERM, on the command line and in a notebook."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

log = logging.getLogger(__name__)

PREEMPTED = 128 + signal.SIGTERM
Result = TypeVar("Result")
Main = Callable[["Stop"], Awaitable[Result]]


class StoppedError(Exception):
    """The run was asked to stop; what was finished is staged, and the same command goes on.

    `preempted` tells a platform's SIGTERM from a person's Ctrl-C.
    """

    def __init__(
        self, preempted: bool, said: str = "the run was stopped; the same command goes on with it"
    ) -> None:
        super().__init__(said)
        self.preempted = preempted


class BudgetSpentError(StoppedError):
    """What the run may cost is spent; what was finished is staged, and it can be gone on with."""

    def __init__(self, said: str) -> None:
        super().__init__(False, said)


class Stop:
    """A request to stop, which can be waited for; or, milder, to begin nothing more."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._preempted = False
        self._closed: StoppedError | None = None

    def ask(self, *, preempted: bool) -> None:
        self._preempted = self._preempted or preempted
        self._asked.set()

    def close(self, why: StoppedError) -> None:
        """Let nothing more begin; what has begun goes on to its end, unless `ask` follows."""
        self._closed = why

    @property
    def closed(self) -> StoppedError | None:
        """Why nothing more begins, to be raised once what has begun is done; None: it may."""
        return self._closed

    def _error(self) -> StoppedError:
        return StoppedError(True) if self._preempted else self._closed or StoppedError(False)

    def ask_after(self, seconds: float | None) -> None:
        """Ask to stop once `seconds` have passed, as a platform's SIGTERM does; None: never."""
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, partial(self.ask, preempted=True))

    async def before(self, work: Coroutine[object, object, Result]) -> Result:
        """What `work` gives, or StoppedError if the run is asked to stop before it ends."""
        working, asked = asyncio.ensure_future(work), asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
            raise self._error()
        return working.result()

    async def wait(self) -> None:
        """Return never, or raise StoppedError once the run was asked to stop."""
        await self._asked.wait()
        raise self._error()


def run_until_stopped(main: "Main[Result]", stop_seconds: float) -> Result:
    """Run `main` to its end in an event loop of its own; signals ask its `Stop` to stop.

    The process ends at the latest `stop_seconds` after SIGTERM, whatever `main` waits for then: a
    store that doesn't answer holds up its threads for longer than a platform waits. Where a loop
    runs already, as in a notebook, the new one runs in a thread beside it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        last_moment = threading.Timer(stop_seconds, _end_now, (stop_seconds,))
        last_moment.daemon = True
        try:
            return asyncio.run(_with_signals(main, last_moment))
        finally:
            last_moment.cancel()
    return _in_thread(main)


def _end_now(after: float) -> None:
    log.warning(
        "still not done %g s after SIGTERM: what is not staged by now is done again next time",
        after,
    )
    os._exit(PREEMPTED)


async def _with_signals(main: "Main[Result]", last_moment: threading.Timer) -> Result:
    stop, loop = Stop(), asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return await main(stop)

    def asked(number: signal.Signals) -> None:
        # A second signal of the kind ends the process at once: nothing would be lost by it.
        loop.remove_signal_handler(number)
        if number == signal.SIGTERM:
            last_moment.start()
        stop.ask(preempted=number == signal.SIGTERM)

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, asked, number)
    try:
        return await main(stop)
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _in_thread(main: "Main[Result]") -> Result:
    results: list[Result] = []
    errors: list[BaseException] = []
    stops: list[Callable[[], object]] = []

    async def beside() -> None:
        stop, loop = Stop(), asyncio.get_running_loop()
        stops.append(partial(loop.call_soon_threadsafe, partial(stop.ask, preempted=False)))
        results.append(await main(stop))

    def body() -> None:
        try:
            asyncio.run(beside())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=body, name="llm-ocr")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        for ask_to_stop in stops:
            ask_to_stop()
        thread.join()
    if errors:
        raise errors[0]
    return results[0]
