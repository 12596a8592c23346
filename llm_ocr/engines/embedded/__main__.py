"""`python -m llm_ocr.engines.embedded --port P`: the embedded engine as a process."""

import argparse
import asyncio
import os
import signal
import sys
from importlib.util import find_spec

from llm_ocr.engines.embedded.serving.command import MODEL_NAME, NOT_INSTALLED, missing
from llm_ocr.engines.resource_limits import available_cores

# pip can't be told, as uv is in pyproject.toml, that rapid-layout's opencv-python isn't wanted.
NO_OPENCV = (
    "OpenCV can't be loaded ({error}).\n"
    "pip installs opencv-python, which needs libGL. Replace it by the build that doesn't:\n"
    "{pip} uninstall {yes}opencv-python opencv-python-headless\n"
    "{pip} install --no-deps opencv-python-headless"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="llm_ocr.engines.embedded")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--model-name", default=MODEL_NAME)
    arguments = parser.parse_args()
    try:
        # rapidocr loads OpenCV only later.
        import cv2  # noqa: F401
        import rapidocr  # noqa: F401
    except ModuleNotFoundError as error:
        return _give_up(f"{missing()} ({error})")
    except ImportError as error:
        has_pip = find_spec("pip") is not None
        pip, yes = (f"{sys.executable} -m pip", "-y ") if has_pip else ("uv pip", "")
        return _give_up(NO_OPENCV.format(error=error, pip=pip, yes=yes))
    asyncio.run(_serve(arguments.host, arguments.port, arguments.threads, arguments.model_name))
    return 0


def _give_up(message: str) -> int:
    sys.stderr.write(message + "\n")
    return NOT_INSTALLED


async def _serve(host: str, port: int, threads: int, model: str) -> None:
    import cv2
    from aiohttp import web

    from llm_ocr.engines.embedded.serving.reader_pool import ReaderPool
    from llm_ocr.engines.embedded.serving.server import Server

    # Pages are read in threads that nothing can stop: the process ends around them.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, os._exit, 0)
    # The pool's threads are the parallelism: OpenCV's own would only compete with them.
    cv2.setNumThreads(1)
    readers = ReaderPool(threads)
    runner = web.AppRunner(Server(readers, model).application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
