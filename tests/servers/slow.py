"""An engine that answers its first pages at once and lets those behind them wait for ever.

    python -m tests.servers.slow --asked FILE --answers N --port P

Each page that it is asked about is a line in FILE. It takes no notice of SIGTERM, as vLLM may where
requests are in flight.
"""

import argparse
import asyncio
import hashlib
import signal
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.chat import PROBE_TOKENS, Reply, at_once, image_of, serving


def slow(asked: Path, answers: int) -> Reply:
    """Notes pages in `asked`, and answers the first ones."""
    count = 0

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        nonlocal count
        if body["max_tokens"] > PROBE_TOKENS:
            count += 1
            with asked.open("a") as noted:
                noted.write(hashlib.sha256(image_of(body)).hexdigest() + "\n")
            if count > answers:
                await asyncio.Event().wait()
        return at_once(body)

    return reply


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--asked", type=Path, required=True)
    parser.add_argument("--answers", type=int, required=True)
    arguments, _ = parser.parse_known_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    async with serving(slow(arguments.asked, arguments.answers), port=arguments.port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
