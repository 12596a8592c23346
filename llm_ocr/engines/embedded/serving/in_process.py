"""Answer requests in this process, as the embedded engine's server does in its own.

For pages whose text is known, of which only the layout is to be found: no server has to start.
"""

import asyncio
import base64
import math
import time

from llm_ocr.engines.embedded.serving.command import check_installed
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import EXTENSION, Answer


class InProcessEngine:
    """Loads the models at the first request, and keeps them as long as it lives."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or available_cores()
        self._loading = asyncio.Lock()
        self._readers: object | None = None

    async def ask(self, request: ChatRequest) -> Answer:
        """The answer, without the server's token counts. Raises EngineNotInstalledError."""
        check_installed()
        # They import OpenCV and onnxruntime.
        from llm_ocr.engines.embedded.serving.reader_pool import ReaderPool
        from llm_ocr.engines.embedded.serving.requests import parse_request

        async with self._loading:
            if not isinstance(self._readers, ReaderPool):
                self._readers = await asyncio.to_thread(ReaderPool, self._threads)
            readers = self._readers
        started = time.monotonic()
        answered = await readers.answer(parse_request(_body(request)))
        seconds = time.monotonic() - started
        extension = answered.extension or {}
        likely = tuple((token, math.log(chance)) for token, chance in answered.tokens)
        return Answer(answered.text, "stop", 0, 0, seconds, 1, likely, extension=extension)


def _body(request: ChatRequest) -> dict[str, object]:
    """The request as it would be sent to a server."""
    content: list[dict[str, object]] = [{"type": "text", "text": request.prompt}]
    if request.jpeg is not None:
        url = f"data:image/jpeg;base64,{base64.b64encode(request.jpeg).decode()}"
        content.append({"type": "image_url", "image_url": {"url": url}})
    messages = [{"role": "user", "content": content}]
    return {"messages": messages, **request.body_fields, EXTENSION: request.extension}
