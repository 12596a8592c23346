"""Threads that read, with the same models: as many requests at once as there are cores."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from llm_ocr.engines.embedded.answer import extension, free_ocr, grounded
from llm_ocr.engines.embedded.describe import description
from llm_ocr.engines.embedded.figures import caption, classify, data
from llm_ocr.engines.embedded.filling.answer import guided_by_lines, guided_by_text
from llm_ocr.engines.embedded.given import Given
from llm_ocr.engines.embedded.reading import Reader, Reading
from llm_ocr.engines.embedded.recognize import Image

MAX_PIXELS = 178_956_970


class BadImageError(ValueError):
    """The request's image can't be read."""


@dataclass(frozen=True)
class Asked:
    """A request: its text, an encoded image, and the JSON Schema of the answer, or the choices
    that it is one of; and the text layer that came with it.

    Without an image there is a schema, and the page's text is in the prompt.
    """

    prompt: str
    image: bytes | None
    schema: Mapping[str, Any] | None = None
    choices: Sequence[str] = ()
    given: Given | None = None


@dataclass(frozen=True)
class Answered:
    """The answer's text, and what is said beside it about how a page was read."""

    text: str
    extension: Mapping[str, Any] | None = None


class Readers:
    """Loads the models. `threads` requests are answered at once; others wait in `answer`."""

    def __init__(self, threads: int) -> None:
        # The threads are the parallelism: OpenCV's own would only compete with them.
        cv2.setNumThreads(1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._reader = Reader()
        self._places = asyncio.Semaphore(threads)
        self.running = self.waiting = 0

    async def answer(self, asked: Asked) -> Answered:
        """Raises BadImageError."""
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._threads, self._answer, asked)
            # A client that left gives its place up only when its page is done: the thread is busy.
            work.add_done_callback(lambda _: self._done())
        except BaseException:
            self._done()
            raise
        return await asyncio.shield(work)

    def _done(self) -> None:
        self.running -= 1
        self._places.release()

    def _answer(self, asked: Asked) -> Answered:
        if asked.image is None:
            return Answered(guided_by_text(asked.schema or {}, asked.prompt))
        image = decoded(asked.image)
        reading = self._reader.read(image, asked.given)
        prompt = asked.prompt.lower()
        if asked.schema is None and not asked.choices and "<|grounding|>" in prompt:
            return Answered(grounded(reading), extension(reading))
        return Answered(self._about(asked, prompt, reading.image, reading))

    @staticmethod
    def _about(asked: Asked, prompt: str, image: Image, reading: Reading) -> str:
        if asked.choices:
            return classify(image, reading, asked.choices)
        if "data in this figure" in prompt:
            return data(image, reading)
        if asked.schema is not None:
            return guided_by_lines(asked.schema, reading.lines)
        if "free ocr" in prompt:
            return free_ocr(reading)
        if "parse the figure" in prompt:
            return data(image, reading) or description(image, reading)
        if "alternative text" in prompt:
            return caption(image, reading)
        return description(image, reading)


def decoded(data: bytes) -> Image:
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
