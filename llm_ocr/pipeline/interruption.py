"""Stopping a run in order: Ctrl-C and SIGTERM, on the command line and in a notebook."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")
Main = Callable[["Stop"], Awaitable[Result]]


class StoppedError(Exception):
    """The run was asked to stop; what was finished is staged, and the same command goes on.

    `preempted` tells a platform's SIGTERM from a person's Ctrl-C.
    """

    def __init__(self, preempted: bool) -> None:
        super().__init__("the run was stopped; the same command goes on with it")
        self.preempted = preempted


class Stop:
    """A request to stop, which can be waited for."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._preempted = False

    def ask(self, *, preempted: bool) -> None:
        self._preempted = self._preempted or preempted
        self._asked.set()

    async def before(self, work: Coroutine[object, object, Result]) -> Result:
        """What `work` gives, or StoppedError if the run is asked to stop before it ends."""
        working, asked = asyncio.ensure_future(work), asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
            raise StoppedError(self._preempted)
        return working.result()

    async def wait(self) -> None:
        """Return never, or raise StoppedError once the run was asked to stop."""
        await self._asked.wait()
        raise StoppedError(self._preempted)


def run_until_stopped(main: "Main[Result]") -> Result:
    """Run `main` to its end in an event loop of its own; signals ask its `Stop` to stop.

    Where a loop runs already, as in a notebook, the new one runs in a thread beside it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_with_signals(main))
    return _in_thread(main)


async def _with_signals(main: "Main[Result]") -> Result:
    stop, loop = Stop(), asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return await main(stop)

    def asked(number: signal.Signals) -> None:
        # A second signal of the kind ends the process at once: nothing would be lost by it.
        loop.remove_signal_handler(number)
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
