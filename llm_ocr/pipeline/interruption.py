"""Graceful shutdown of a run on Ctrl-C and SIGTERM, on the command line and in a notebook."""

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
Main = Callable[["CancellationToken"], Awaitable[Result]]


class StoppedError(Exception):
    """The run was asked to stop. Finished items are staged; the same command resumes the run.

    `preempted` tells a platform's SIGTERM from a person's Ctrl-C.
    """

    def __init__(
        self,
        preempted: bool,
        message: str = "the run was interrupted; rerun the same command to resume it",
    ) -> None:
        super().__init__(message)
        self.preempted = preempted


class BudgetExceededError(StoppedError):
    """The run's budget is exhausted. Finished items are staged; the run can be resumed."""

    def __init__(self, message: str) -> None:
        super().__init__(False, message)


class CancellationToken:
    """Tells a run to stop as soon as it can (`request`), or to start nothing new (`drain`)."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._preempted = False
        self._drain_reason: StoppedError | None = None

    def request(self, *, preempted: bool) -> None:
        self._preempted = self._preempted or preempted
        self._requested.set()

    def drain(self, reason: StoppedError) -> None:
        """Let nothing new start; what is in flight finishes, unless `request` follows."""
        self._drain_reason = reason

    @property
    def drain_reason(self) -> StoppedError | None:
        """Why nothing new may start, to be raised once what is in flight is done; or None."""
        return self._drain_reason

    def _error(self) -> StoppedError:
        return StoppedError(True) if self._preempted else self._drain_reason or StoppedError(False)

    def request_after(self, seconds: float | None) -> None:
        """Request a stop once `seconds` have passed, as a platform's SIGTERM does; None: never."""
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, partial(self.request, preempted=True))

    async def guard(self, work: Coroutine[object, object, Result]) -> Result:
        """The result of `work`; raises StoppedError if a stop is requested before it ends."""
        running, requested = (
            asyncio.ensure_future(work),
            asyncio.ensure_future(self._requested.wait()),
        )
        await asyncio.wait({running, requested}, return_when=asyncio.FIRST_COMPLETED)
        requested.cancel()
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
            raise self._error()
        return running.result()

    async def wait(self) -> None:
        """Raise StoppedError once a stop was requested; never returns."""
        await self._requested.wait()
        raise self._error()


def run_until_stopped(main: "Main[Result]", stop_seconds: float) -> Result:
    """Run `main` in a new event loop; signals request a stop through its `CancellationToken`.

    The process ends at most `stop_seconds` after SIGTERM, whatever `main` waits for: a store that
    doesn't respond would hold up its threads for longer than a platform waits. Where a loop is
    running already, as in a notebook, the new one runs in a thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        deadline = threading.Timer(stop_seconds, _end_now, (stop_seconds,))
        deadline.daemon = True
        try:
            return asyncio.run(_with_signals(main, deadline))
        finally:
            deadline.cancel()
    return _in_thread(main)


def _end_now(after: float) -> None:
    log.warning(
        "shutdown timed out %g s after SIGTERM; unsaved pages will be processed again on resume",
        after,
    )
    os._exit(PREEMPTED)


async def _with_signals(main: "Main[Result]", deadline: threading.Timer) -> Result:
    stop, loop = CancellationToken(), asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return await main(stop)

    def handle(number: signal.Signals) -> None:
        # A second signal of the kind ends the process at once: nothing would be lost by it.
        loop.remove_signal_handler(number)
        if number == signal.SIGTERM:
            deadline.start()
        stop.request(preempted=number == signal.SIGTERM)

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        return await main(stop)
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _in_thread(main: "Main[Result]") -> Result:
    results: list[Result] = []
    errors: list[BaseException] = []
    requests: list[Callable[[], object]] = []

    async def run_main() -> None:
        stop, loop = CancellationToken(), asyncio.get_running_loop()
        requests.append(partial(loop.call_soon_threadsafe, partial(stop.request, preempted=False)))
        results.append(await main(stop))

    def body() -> None:
        try:
            asyncio.run(run_main())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=body, name="llm-ocr")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        for request_stop in requests:
            request_stop()
        thread.join()
    if errors:
        raise errors[0]
    return results[0]
