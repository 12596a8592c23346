"""`python -m llm_ocr.engines.embedded --port P`: the embedded engine as a process."""

import argparse
import asyncio
import os
import signal
import sys

from llm_ocr.engines.embedded.command import MODEL_NAME, available_cores

MISSING = 'The embedded engine needs the cpu extra: pip install "llm_ocr[cpu]" ({error})'
NO_LIBGL = (
    "OpenCV can't be loaded ({error}). On a machine without a screen: "
    "pip uninstall opencv-python, then pip install --force-reinstall opencv-python-headless"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="llm_ocr.engines.embedded")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--model-name", default=MODEL_NAME)
    arguments = parser.parse_args()
    try:
        import rapidocr  # noqa: F401
    except ModuleNotFoundError as error:
        return _give_up(MISSING.format(error=error))
    except ImportError as error:
        return _give_up(NO_LIBGL.format(error=error))
    asyncio.run(_serve(arguments.host, arguments.port, arguments.threads, arguments.model_name))
    return 0


def _give_up(message: str) -> int:
    sys.stderr.write(message + "\n")
    return 2


async def _serve(host: str, port: int, threads: int, model: str) -> None:
    from aiohttp import web

    from llm_ocr.engines.embedded.readers import Readers
    from llm_ocr.engines.embedded.server import Server

    # Pages are read in threads that nothing can stop: the process ends around them.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, os._exit, 0)
    readers = Readers(threads)
    runner = web.AppRunner(Server(readers, model).application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
