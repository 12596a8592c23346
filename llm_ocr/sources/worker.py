"""A process that draws pages: one request at a time over a pipe, until the pipe ends.

    python -m llm_ocr.sources.worker FD

A process of its own because pdfium is not thread safe, may crash, and may take for ever. It leads
a session of its own, and ends with its parent, however that ends.
"""

import logging
import os
import resource
import select
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from PIL import Image

from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources import wire
from llm_ocr.sources.drawing import Draughtsman

_log = logging.getLogger(__name__)


def answer(draughtsman: Draughtsman, request: tuple[str, tuple[Any, ...]]) -> object:
    """What the request gives, or the PageError that says why it can't be had."""
    name, arguments = request
    path = arguments[0].source_uri
    try:
        return getattr(draughtsman, name)(*arguments)
    except PageError as error:
        return error
    except MemoryError:
        said = "not enough memory to draw it; raise --max-pixels, which it grows with, or leave it"
        return PageError(ErrorCode.TOO_LARGE, f"{path}: {said}")
    except FileNotFoundError:
        said = "the file is not there (any more); put it back"
        return PageError(ErrorCode.NOT_FOUND, f"{path}: {said}")
    except OSError as error:
        said = f"the file can't be read ({error.strerror or error}); check its permissions and disk"
        return PageError(ErrorCode.READ_ERROR, f"{path}: {said}")
    except Exception as error:  # noqa: BLE001 - the one place where a fault becomes a status
        _log.warning("%s: %s failed", path, name, exc_info=True)
        said = f"{type(error).__name__}: {error}; this is a fault of llm_ocr, please report it"
        return PageError(ErrorCode.INTERNAL_ERROR, f"{path}: it can't be drawn ({said})")


def end_with_parent(pipe: Connection) -> None:
    """End this process group (poppler may be in it) when the pipe's other end is closed.

    In a thread: in the middle of a page that takes for ever nobody reads the pipe.
    """
    hang_up = select.poll()
    hang_up.register(pipe.fileno(), 0)  # told of hang-ups and errors only
    hang_up.poll()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    # The parent decides when this ends: Ctrl-C at the terminal is meant for it alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(int(sys.argv[1]))
    threading.Thread(target=end_with_parent, args=(pipe,), daemon=True).start()
    # Pages are bounded by `RenderLimits.max_pixels`, which is checked before any is decoded.
    Image.MAX_IMAGE_PIXELS = None
    try:
        password, limits = wire.first_of(wire.receive(pipe)[0])
        _limit(resource.RLIMIT_AS, limits.memory)
        draughtsman = Draughtsman(password, limits)
        while True:
            request = wire.request_of(wire.receive(pipe)[0])
            # The parent ends what takes too long by the clock; this holds where it can't.
            spent = resource.getrusage(resource.RUSAGE_SELF)
            _limit(resource.RLIMIT_CPU, int(spent.ru_utime + spent.ru_stime + limits.timeout) + 5)
            wire.send(pipe, *_message(answer(draughtsman, request), request))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _message(said: object, request: tuple[str, tuple[Any, ...]]) -> tuple[object, list[bytes]]:
    try:
        return wire.answer_message(said)
    except PageError as error:
        path = request[1][0].source_uri
        return wire.answer_message(PageError(error.code, f"{path}: {error.message}"))


def _limit(what: int, value: int) -> None:
    """Lower a limit of this process, where the system has it and nobody set a lower one."""
    _, hard = resource.getrlimit(what)
    with suppress(ValueError, OSError):
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (lowest, hard))


if __name__ == "__main__":
    main()
