"""Answer requests in a pool of threads that share the models, as many at once as cores."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_ocr.engines.embedded.answer import extension, free_ocr, to_grounding_markup
from llm_ocr.engines.embedded.figure_tasks.answers import caption, classify, data
from llm_ocr.engines.embedded.figure_tasks.description import description
from llm_ocr.engines.embedded.key_value.answer import guided_by_lines, guided_by_text
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.reader import Reader
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.text_layer_input import TextLayerInput
from llm_ocr.models.profile import Task

MAX_PIXELS = 178_956_970


class BadImageError(ValueError):
    """The request's image can't be read."""


@dataclass(frozen=True)
class EngineRequest:
    """A request: the task, its prompt, an encoded image, the JSON Schema of the answer or the
    choices that it is one of, the page's text layer, and whether log-probabilities are wanted.

    Without an image there is a schema, and the page's text is in the prompt.
    """

    task: Task
    prompt: str
    image: bytes | None
    schema: Mapping[str, Any] | None = None
    choices: Sequence[str] = ()
    text_layer: TextLayerInput | None = None
    logprobs: bool = False


@dataclass(frozen=True)
class EngineResponse:
    """The answer's text, and an extension that says how a page was read.

    `tokens` are the text in pieces with their probabilities (0..1), where these are known.
    """

    text: str
    extension: Mapping[str, Any] | None = None
    tokens: Sequence[tuple[str, float]] = ()


class ReaderPool:
    """Loads the models. `threads` requests are answered at once; others wait in `answer`."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._reader = Reader()
        self._places = asyncio.Semaphore(threads)
        self.running = self.waiting = 0

    async def answer(self, request: EngineRequest) -> EngineResponse:
        """Raises BadImageError."""
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._threads, self._answer, request)
            # A client that left gives its place up only when its page is done: the thread is busy.
            work.add_done_callback(lambda _: self._done())
        except BaseException:
            self._done()
            raise
        return await asyncio.shield(work)

    def _done(self) -> None:
        self.running -= 1
        self._places.release()

    def _answer(self, request: EngineRequest) -> EngineResponse:
        if request.image is None:
            answer = guided_by_text(request.schema or {}, request.prompt)
            return EngineResponse(answer.text, tokens=answer.tokens)
        image = decode_image(request.image)
        page = self._reader.read(image, request.text_layer)
        if request.schema is None and not request.choices and request.task is Task.DOCUMENT:
            return EngineResponse(to_grounding_markup(page), extension(page))
        if request.schema is not None and not request.choices and request.task is not Task.DATA:
            answer = guided_by_lines(request.schema, page.lines)
            return EngineResponse(answer.text, tokens=answer.tokens)
        return EngineResponse(self._about(request, page.image, page))

    @staticmethod
    def _about(request: EngineRequest, image: Image, page: OcrPage) -> str:
        if request.choices:
            return classify(image, page, request.choices)
        if request.task is Task.DATA:
            return data(image, page)
        if request.task is Task.FREE_OCR:
            return free_ocr(page)
        if request.task is Task.FIGURE:
            return data(image, page) or description(image, page)
        if request.task is Task.CAPTION:
            return caption(image, page)
        return description(image, page)


def decode_image(data: bytes) -> Image:
    """An encoded image as pixels (height x width x 3, BGR)."""
    import io

    from PIL import Image as Pillow

    try:
        # The header alone tells the size; pixels are decoded only if they are bounded.
        with Pillow.open(io.BytesIO(data)) as header:
            width, height = header.size
            if width * height > MAX_PIXELS:
                raise ValueError(f"{width} x {height} pixels are over {MAX_PIXELS}")
            if header.has_transparency_data:
                # As vLLM does: what is transparent is mostly stored as black, but seen on white.
                seen = header.convert("RGBA")
                paper = Pillow.new("RGBA", seen.size, "white")
                pixels = np.asarray(Pillow.alpha_composite(paper, seen).convert("RGB"))
            else:
                pixels = np.asarray(header.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Pillow.DecompressionBombError) as error:
        raise BadImageError(f"cannot identify or decode the image: {error}") from error
    return np.ascontiguousarray(pixels[:, :, ::-1])
