"""A process that draws pages: one request at a time over a pipe, until the pipe ends.

    python -m llm_ocr.sources.worker FD

A process of its own because pdfium is not thread safe, may crash, and may take for ever.
"""

import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.drawing import Draughtsman


def answer(draughtsman: Draughtsman, request: tuple[str, tuple[Any, ...]]) -> object:
    """What the request gives, or the PageError that says why it can't be had."""
    name, arguments = request
    try:
        return getattr(draughtsman, name)(*arguments)
    except PageError as error:
        return error
    except MemoryError:
        path = arguments[0].source_uri
        return PageError(ErrorCode.TOO_LARGE, f"{path}: not enough memory to draw it")
    except Exception as error:  # noqa: BLE001 - the one place where a fault becomes a status
        path = arguments[0].source_uri
        said = f"{type(error).__name__}: {error}"
        return PageError(ErrorCode.CORRUPT_PAGE, f"{path}: it can't be drawn ({said})")


def main() -> None:
    # The parent decides when this ends: Ctrl-C at the terminal is meant for it alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(int(sys.argv[1]))
    try:
        draughtsman = Draughtsman(*pipe.recv())
        while True:
            pipe.send(answer(draughtsman, pipe.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    main()
