"""Read the originals of documents again: files, page images, and the text layers of PDFs."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from llm_ocr.documents import Document
from llm_ocr.records import (
    Box,
    ErrorCode,
    ImagePolicy,
    Page,
    PageError,
    PageImage,
    PageResult,
    TextLine,
)
from llm_ocr.sources.inputs import absolute_input, list_documents
from llm_ocr.sources.names import CHANGED, file_version, missing_file_message
from llm_ocr.sources.raster import RenderLimits
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.sources.web import UrlPolicy, is_url

# The longest side in pixels that an image file is read at, which few exceed.
FULL_SIZE = 1 << 14
T = TypeVar("T")


class SourceReader:
    """Opens the originals of documents; end it with `close`, or use it in a `with` block.

    Files are rendered in a process of their own, which starts when it is first needed.
    """

    def __init__(self, password: str | None = None, limits: RenderLimits | None = None) -> None:
        self._password, self._limits = password, limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: RenderPool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and delete local copies."""
        if self._loop is not None and self._pool is not None:
            self._wait(self._pool.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = self._pool = None

    def source(self, document: Document) -> "DocumentSource":
        """The original of a document."""
        return DocumentSource(document, self)

    def open(self, address: str, policy: UrlPolicy) -> "DocumentSource":
        """The document at a path or URI, or at a URL, which is downloaded.

        Raises NoInputError and PageError.
        """
        if is_url(address):
            return self.source(self._wait(self._open_pool().add_url(address, policy)))
        return self.source(list_documents([absolute_input(address)])[0])

    def render(self, page: Page, policy: ImagePolicy) -> PageImage:
        """A page of an original as an image. Raises PageError."""
        return self._wait(self._open_pool().render(page, policy))

    @contextmanager
    def file(self, document: Document) -> Iterator[Path]:
        """The original as a local file, until the block ends. Raises PageError."""
        opened = self._open_pool().open_file(document)
        local = self._wait(opened.__aenter__())
        try:
            _check_unchanged(local)
            yield Path(local.source_uri)
        finally:
            self._wait(opened.__aexit__(None, None, None))

    def _open_pool(self) -> RenderPool:
        if self._pool is None:
            loop = self._loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="llm-ocr-export", daemon=True).start()
            self._pool = self._wait(self._start())
        return self._pool

    async def _start(self) -> RenderPool:
        return RenderPool(1, password=self._password, limits=self._limits)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the loop runs while there is work"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@dataclass(frozen=True)
class DocumentSource:
    """The original of one document. Every method raises PageError where it can't be read."""

    document: Document
    reader: SourceReader

    @property
    def is_pdf(self) -> bool:
        return self.document.kind == "pdf"

    def file(self) -> Any:  # noqa: ANN401
        """A context manager with the path of a local file."""
        return self.reader.file(self.document)

    def image(self, page: PageResult) -> PageImage:
        """A page's image: that of an image file in its full size, that of a PDF in the size of the
        stored one. It is upright as the file says, which the engine may have found to be wrong."""
        stored = max(page.width or 1, page.height or 1)
        policy = ImagePolicy(stored if self.is_pdf else FULL_SIZE)
        return self.reader.render(Page(self.document, page.page_number), policy)

    def text_lines(self, page: PageResult) -> Sequence[TextLine]:
        """The lines of a page's text layer, in pixels of its stored image."""
        width, height = page.width or 1, page.height or 1
        policy = ImagePolicy(max(width, height), with_lines=True)
        rendered = self.reader.render(Page(self.document, page.page_number), policy)
        if rendered.text_layer is None or rendered.rotation != page.rotation:
            return ()
        across, down = width / rendered.width, height / rendered.height
        return [_scale_line(line, across, down) for line in rendered.text_layer.lines]


def _scale_line(line: TextLine, across: float, down: float) -> TextLine:
    words = tuple(
        replace(
            word,
            box=Box(
                word.box.x1 * across, word.box.y1 * down, word.box.x2 * across, word.box.y2 * down
            ),
        )
        for word in line.words
    )
    return replace(line, words=words)


def _check_unchanged(document: Document) -> None:
    path = document.source_uri
    try:
        version, _ = file_version(Path(path))
    except OSError as error:
        raise PageError(ErrorCode.NOT_FOUND, f"{path}: {missing_file_message(path)}") from error
    if version != document.version:
        raise PageError(ErrorCode.SOURCE_CHANGED, f"{path}: {CHANGED}")
