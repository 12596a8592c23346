"""Stop a run in order: the token that requests it, and the thread that a run's event loop has."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TypeVar

from llm_ocr.messages import CodedError, ProblemCode

Result = TypeVar("Result")
Main = Callable[["CancellationToken"], Awaitable[Result]]

# Seconds between two looks at whether the run has ended: a signal that the system delivered to
# another thread is handled then.
WAKE_SECONDS = 1.0


class StoppedError(CodedError):
    """The run was asked to stop. Finished items are staged; the same command resumes the run.

    `preempted` tells a platform that takes its machine back from a person who interrupts.
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

    code = ProblemCode.BUDGET_EXHAUSTED

    def __init__(self, message: str) -> None:
        super().__init__(False, message)


class CancellationToken:
    """Tells a run to stop as soon as it can (`request`), or to start nothing new (`drain`).

        stop = CancellationToken()
        threading.Timer(60, stop.request).start()
        llm_ocr.run("reports/", "out/", stop=stop)      # raises StoppedError after a minute

    Any thread may request a stop, and so may a signal handler. A token stays requested.
    """

    def __init__(self) -> None:
        self._is_requested = False
        self._is_preempted = False
        self._drain_reason: StoppedError | None = None
        self._listeners: list[Callable[[], object]] = []

    def request(self, *, preempted: bool = False) -> None:
        """Stop; `preempted` where a platform takes the machine back, as with its SIGTERM."""
        self._is_preempted = self._is_preempted or preempted
        # Before the listeners are read: one that comes in between looks at it.
        self._is_requested = True
        for listener in list(self._listeners):
            listener()

    def drain(self, reason: StoppedError) -> None:
        """Let nothing new start; what is in flight finishes, unless `request` follows."""
        self._drain_reason = reason

    @property
    def drain_reason(self) -> StoppedError | None:
        """Why nothing new may start, to be raised once what is in flight is done; or None."""
        return self._drain_reason

    def request_after(self, seconds: float | None) -> None:
        """Request a stop once `seconds` have passed, as a platform's SIGTERM does; None: never."""
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, partial(self.request, preempted=True))

    @contextmanager
    def forward_to(self, other: "CancellationToken") -> Iterator[None]:
        """Request a stop of the other token too, as long as the block lasts."""
        with self._listening(lambda: other.request(preempted=self._is_preempted)):
            yield

    async def guard(self, work: Coroutine[object, object, Result]) -> Result:
        """The result of `work`; raises StoppedError if a stop is requested before it ends."""
        running, requested = (
            asyncio.ensure_future(work),
            asyncio.ensure_future(self._until_requested()),
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
        await self._until_requested()
        raise self._error()

    def _error(self) -> StoppedError:
        return (
            StoppedError(True) if self._is_preempted else self._drain_reason or StoppedError(False)
        )

    async def _until_requested(self) -> None:
        loop, requested = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop ended meanwhile
                loop.call_soon_threadsafe(requested.set)

        with self._listening(wake):
            await requested.wait()

    @contextmanager
    def _listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call the listener when a stop is requested, or now if it was."""
        self._listeners.append(listener)
        try:
            if self._is_requested:
                listener()
            yield
        finally:
            self._listeners.remove(listener)


def run_until_stopped(main: "Main[Result]", stop: CancellationToken | None = None) -> Result:
    """Run `main` in a new event loop, in a thread of its own, and wait for it.

    So it works in any thread, also where a loop is running, as in a notebook, and installs no
    signal handler. `main` gets a token of its own: `stop` requests a stop through it, and so does
    the first KeyboardInterrupt; a second one is raised at once, while `main` is still ending.
    """
    own = CancellationToken()
    results: list[Result] = []
    errors: list[BaseException] = []
    # Not `join`: up to Python 3.12, an interrupted one takes a thread that still runs for ended.
    ended = threading.Event()

    async def run_main() -> None:
        results.append(await main(own))

    def body() -> None:
        try:
            asyncio.run(run_main())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(body,), name="llm-ocr-run"
    )
    with nullcontext() if stop is None else stop.forward_to(own):
        thread.start()
        is_interrupted = False
        while not ended.is_set():
            try:
                ended.wait(WAKE_SECONDS)
            except KeyboardInterrupt:
                if is_interrupted:
                    raise
                is_interrupted = True
                own.request()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
