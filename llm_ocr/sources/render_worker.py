"""A rendering process: handles one request at a time over a pipe, until the pipe closes.

    python -m llm_ocr.sources.render_worker FD

A separate process because pdfium is not thread safe, may crash, and may never return. It leads
its own session, and ends with its parent, even if that is killed.
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

from llm_ocr import logs
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources import render_protocol
from llm_ocr.sources.renderer import DocumentRenderer

_log = logging.getLogger(__name__)


def handle_request(renderer: DocumentRenderer, request: tuple[str, tuple[Any, ...]]) -> object:
    """The result of a request, or the PageError that explains its failure."""
    name, arguments = request
    path = arguments[0].source_uri
    try:
        return getattr(renderer, name)(*arguments)
    except PageError as error:
        return error
    except MemoryError:
        problem = "not enough memory to render it, within a limit that grows with `max_pixels`"
        return PageError(ErrorCode.TOO_LARGE, f"{path}: {problem}")
    except FileNotFoundError:
        problem = "the file does not exist (any more); restore it"
        return PageError(ErrorCode.NOT_FOUND, f"{path}: {problem}")
    except OSError as error:
        problem = (
            f"the file can't be read ({error.strerror or error}); check its permissions and disk"
        )
        return PageError(ErrorCode.READ_ERROR, f"{path}: {problem}")
    except Exception as error:  # noqa: BLE001 - the one place where a fault becomes a status
        _log.warning("%s: %s failed", path, name, exc_info=True)
        problem = f"{type(error).__name__}: {error}; this is a bug in llm_ocr; please report it"
        return PageError(ErrorCode.INTERNAL_ERROR, f"{path}: it can't be rendered ({problem})")


def end_with_parent(pipe: Connection) -> None:
    """End this process group (poppler may be in it) when the pipe's other end is closed.

    In a thread: while a page is being rendered the pipe is not read.
    """
    hang_up = select.poll()
    hang_up.register(pipe.fileno(), 0)  # hang-ups and errors only
    hang_up.poll()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    # The parent decides when this ends: Ctrl-C at the terminal is meant for it alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logs.inherit_format()
    pipe = Connection(int(sys.argv[1]))
    threading.Thread(target=end_with_parent, args=(pipe,), daemon=True).start()
    # Pages are bounded by `RenderLimits.max_pixels`, which is checked before any is decoded.
    Image.MAX_IMAGE_PIXELS = None
    try:
        password, limits = render_protocol.decode_setup(render_protocol.receive(pipe)[0])
        _limit(resource.RLIMIT_AS, limits.memory)
        renderer = DocumentRenderer(password, limits)
        while True:
            request = render_protocol.decode_request(render_protocol.receive(pipe)[0])
            # The parent ends what takes too long by the clock; this holds where it can't.
            spent = resource.getrusage(resource.RUSAGE_SELF)
            _limit(resource.RLIMIT_CPU, int(spent.ru_utime + spent.ru_stime + limits.timeout) + 5)
            render_protocol.send(pipe, *_encode(handle_request(renderer, request), request))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _encode(response: object, request: tuple[str, tuple[Any, ...]]) -> tuple[object, list[bytes]]:
    try:
        return render_protocol.encode_response(response)
    except PageError as error:
        path = request[1][0].source_uri
        return render_protocol.encode_response(PageError(error.code, f"{path}: {error.message}"))


def _limit(what: int, value: int) -> None:
    """Lower a limit of this process, where the system has it and nobody set a lower one."""
    _, hard = resource.getrlimit(what)
    with suppress(ValueError, OSError):
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (lowest, hard))


if __name__ == "__main__":
    main()
