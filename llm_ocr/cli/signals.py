"""Signals of a command: SIGTERM and Ctrl-C stop its run in order, and in time."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from llm_ocr.batch.interruption import CancellationToken
from llm_ocr.exit_codes import ExitCode
from llm_ocr.logs import format_message

# What a terminal needs whose progress bars nobody ends: they hide the cursor.
SHOW_CURSOR = b"\x1b[?25h"
EXIT_CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


RERUN = "Stopped: rerun the same command to resume the run"


@contextmanager
def stop_on_signals(stop_seconds: float, ended_message: str = RERUN) -> Iterator[CancellationToken]:
    """A token that SIGTERM and SIGINT request; a second signal of the kind ends the process at
    once, with `ended_message`.

    The process ends at most `stop_seconds` after SIGTERM, whatever it waits for: a store that
    doesn't respond would hold up its threads for longer than a platform waits. Signals are left
    alone where this is not the main thread, which alone may handle them.
    """
    stop, received = CancellationToken(), set[int]()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    deadline = threading.Timer(stop_seconds, _end_late, (stop_seconds,))
    deadline.daemon = True

    def handle(number: int, frame: FrameType | None) -> None:
        if number in received:
            _end_now(number, ended_message)
        received.add(number)
        if number == signal.SIGTERM:
            deadline.start()
        stop.request(preempted=number == signal.SIGTERM)

    before = {number: signal.signal(number, handle) for number in EXIT_CODES}
    try:
        yield stop
    finally:
        deadline.cancel()
        for number, handler in before.items():
            # None: whoever set it was not Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end_late(stop_seconds: float) -> None:
    message = (
        f"shutdown timed out {stop_seconds:g} s after SIGTERM; unsaved pages will be processed "
        "again on resume"
    )
    _end_now(signal.SIGTERM, message)


def _end_now(number: int, text: str) -> None:
    """Leave without waiting for any thread. Engines end with the process that started them.

    Writes past Python's buffers: the signal may have come while one was written to.
    """
    message = f"{format_message(text)}\n".encode()
    if sys.stderr.isatty() or sys.stdout.isatty():
        message = SHOW_CURSOR + message
    try:
        os.write(2, message)
    finally:
        os._exit(EXIT_CODES[signal.Signals(number)])
