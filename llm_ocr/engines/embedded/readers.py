"""Threads that read, each with models of its own: as many requests at once as there are cores."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np

from llm_ocr.engines.embedded.answer import free_ocr, grounded
from llm_ocr.engines.embedded.describe import description
from llm_ocr.engines.embedded.figures import caption, classify, data
from llm_ocr.engines.embedded.reading import Reader
from llm_ocr.engines.embedded.recognise import Image

MAX_PIXELS = 178_956_970


class BadImageError(ValueError):
    """The request's image can't be read."""


class Readers:
    """`threads` readers; `answer` waits for a free one."""

    def __init__(self, threads: int) -> None:
        # The threads are the parallelism: OpenCV's own would only compete with them.
        cv2.setNumThreads(1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._mine = threading.local()
        self._places = asyncio.Semaphore(threads)
        self.running = self.waiting = 0

    def warm_up(self, threads: int) -> None:
        """Load the models of every thread."""
        together = threading.Barrier(threads)

        def load() -> None:
            together.wait()
            self._reader()

        for future in [self._threads.submit(load) for _ in range(threads)]:
            future.result()

    async def answer(self, encoded: bytes, prompt: str, choices: Sequence[str] = ()) -> str:
        """The answer about an encoded image, one of `choices` if there are any; raises
        BadImageError."""
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._threads, self._answer, encoded, prompt, choices)
            # A client that left gives its place up only when its page is done: the thread is busy.
            work.add_done_callback(lambda _: self._done())
        except BaseException:
            self._done()
            raise
        return await asyncio.shield(work)

    def _done(self) -> None:
        self.running -= 1
        self._places.release()

    def _reader(self) -> Reader:
        reader = getattr(self._mine, "reader", None)
        if not isinstance(reader, Reader):
            reader = self._mine.reader = Reader()
        return reader

    def _answer(self, encoded: bytes, prompt: str, choices: Sequence[str]) -> str:
        image, asked = decoded(encoded), prompt.lower()
        reading = self._reader().read(image)
        if choices:
            return classify(image, reading, choices)
        if "<|grounding|>" in prompt:
            return grounded(reading)
        if "free ocr" in asked:
            return free_ocr(reading)
        if "data in this figure" in asked:
            return data(image, reading)
        if "parse the figure" in asked:
            return data(image, reading) or description(image, reading)
        if "alternative text" in asked:
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
