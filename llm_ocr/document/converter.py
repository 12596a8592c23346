"""Convert single documents in memory, with engines that stay warm between them."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, SecretStr

from llm_ocr.document.assemble import document_status
from llm_ocr.document.checkpoints import MemoryCheckpoints
from llm_ocr.document.configure import document_steps, render_pool, render_workers
from llm_ocr.document.processor import DocumentProcessor, ItemSlots, OnItem
from llm_ocr.documents import Document
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.session import Notify
from llm_ocr.parsing.loading import schema_from_model
from llm_ocr.records import DocumentResult, Outcome, PageError, PageResult, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError, absolute_input, list_documents
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.sources.web import is_url, redact_url

# Seconds after which an engine that could not be started is tried again.
RETRY_SECONDS = 30.0
Source = str | Path | bytes
# What `load_schema` takes, or a pydantic model.
SchemaSource = str | type[BaseModel]
T = TypeVar("T")


class AsyncConverter:
    """Converts documents, several at once if asked to.

        async with AsyncConverter(schema="invoice") as converter:
            result = await converter.convert("scan.jpg")

    Engines start when they are first needed and end with the converter. `schema` is that of a
    record to make of each document: a built-in's name, a pydantic model, or another form that
    `llm_ocr.parse` takes. `overrides` are fields of `Settings`. `notify` receives lines about
    engines, `on_item` the step and status of each page, figure or document that was processed.

    Entering it raises UnknownTaskError or SchemaError for settings that can't be used, and
    EngineFailedError where no engine can serve the model.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        schema: SchemaSource | None = None,
        notify: Notify | None = None,
        on_item: OnItem | None = None,
        **overrides: Any,  # noqa: ANN401
    ) -> None:
        self._settings, self._model = _settings_and_model(settings, schema, overrides)
        self._notify, self._on_item = notify or _discard, on_item
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        settings = self._settings
        schema = None if self._model is None else schema_from_model(self._model)
        async with AsyncExitStack() as stack:
            log_dir = settings.log_dir
            if log_dir is None:
                folder = tempfile.TemporaryDirectory(prefix="llm-ocr-convert-")
                log_dir = Path(stack.enter_context(folder))
            self._pool: RenderPool = await stack.enter_async_context(render_pool(settings))
            steps, targets = await asyncio.to_thread(document_steps, settings, self._pool, schema)
            self._engines = EnginePool(
                settings, log_dir, self._notify, _discard, retry_seconds=RETRY_SECONDS
            )
            await stack.enter_async_context(self._engines)
            self._slots = ItemSlots(2 * render_workers(settings))
            self._steps, self._targets = steps, targets
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def convert(
        self,
        source: Source,
        *,
        schema: str | None = None,
        on_item: OnItem | None = None,
    ) -> DocumentResult:
        """Read one document, a PDF or an image.

        `source` is a path, a place in a bucket (`s3://`, `gs://`, `hf://`), an `https://` URL, or
        the document's bytes. `schema` and `on_item` are for this document, in place of the
        converter's; the engines are the same. What can't be read is a `failed` result, not an
        exception. Raises NoInputError where there is not exactly one document, EngineFailedError
        where an engine can't be started or is lost, StorageError where a bucket can't be read, and
        SchemaError for a `schema` that can't be used.
        """
        steps, targets = self._steps, self._targets
        if schema is not None:
            changed = self._settings.model_copy(update={"record_schema": schema})
            steps, targets = await asyncio.to_thread(document_steps, changed, self._pool)
        processor = DocumentProcessor(
            steps, self._engines, targets, on_item=on_item or self._on_item, slots=self._slots
        )
        try:
            document = await self._open(source)
        except PageError as error:
            return _unread(source, error)
        try:
            return await processor.process(document, MemoryCheckpoints())
        finally:
            self._pool.release(document)

    async def _open(self, source: Source) -> Document:
        if isinstance(source, bytes):
            return await self._pool.add_bytes(source)
        if is_url(str(source)):
            return await self._pool.add_url(str(source), self._settings.url_policy)
        return await asyncio.to_thread(_only_document, str(source))


class Converter:
    """An `AsyncConverter` for code that isn't async: it works in a thread of its own.

        with Converter(text_layer="off") as converter:
            results = [converter.convert(path) for path in paths]

    It starts at the first document, and can be used from several threads. Engines stay warm until
    `close`, the end of the `with` block, or the end of the process.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        schema: SchemaSource | None = None,
        notify: Notify | None = None,
        on_item: OnItem | None = None,
        **overrides: Any,  # noqa: ANN401
    ) -> None:
        self._converter = AsyncConverter(
            settings, schema=schema, notify=notify, on_item=on_item, **overrides
        )
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def convert(self, source: Source) -> DocumentResult:
        """As `AsyncConverter.convert`, and raises what entering that raises."""
        with self._lock:
            if self._loop is None:
                self._start()
        return self._await(self._converter.convert(source))

    def close(self) -> None:
        """End the engines. A later `convert` starts them again."""
        with self._lock:
            if self._loop is not None:
                self._await(self._converter.__aexit__(None, None, None))
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    def _start(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        threading.Thread(
            target=_run_loop, args=(loop,), name="llm-ocr-convert", daemon=True
        ).start()
        try:
            self._await(self._converter.__aenter__())
        except BaseException:
            loop.call_soon_threadsafe(loop.stop)
            self._loop = None
            raise

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the loop runs while there is work"
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # As Ctrl-C in the thread that waits.
            future.cancel()
            raise


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class _WarmConverter:
    """The converter of the last call of `convert`, and what it was made for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[int, type[BaseModel] | None, dict[str, object]] | None = None
        self._converter: Converter | None = None

    def get(self, settings: Settings, model: type[BaseModel] | None) -> Converter:
        values = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in settings
        }
        # A process that was forked has no thread of its parent.
        key = (os.getpid(), model, values)
        with self._lock:
            if self._converter is None or self._key is None or self._key != key:
                if self._converter is not None and self._key and self._key[0] == key[0]:
                    self._converter.close()
                self._key, self._converter = key, Converter(settings, schema=model)
            return self._converter


_warm = _WarmConverter()


def convert(
    source: Source,
    settings: Settings | None = None,
    *,
    schema: SchemaSource | None = None,
    **overrides: Any,  # noqa: ANN401
) -> DocumentResult:
    """Read one document, a PDF or an image: its Markdown, pages, figures and, with `schema`, its
    record.

    As `Converter(settings, schema=schema, **overrides).convert(source)`; the engine stays warm for
    the next call with the same arguments, until another call or the end of the process. For
    documents with different settings at once use a `Converter` for each; for many documents, or
    long ones, `llm_ocr.run`, which can be resumed.
    """
    return _warm.get(*_settings_and_model(settings, schema, overrides)).convert(source)


def _settings_and_model(
    settings: Settings | None, schema: SchemaSource | None, overrides: dict[str, Any]
) -> tuple[Settings, type[BaseModel] | None]:
    """The settings with the overrides, and the schema where it is a model."""
    given = {} if settings is None else settings.model_dump()
    if isinstance(schema, str):
        given["record_schema"] = schema
    return Settings(**{**given, **overrides}), None if isinstance(schema, str) else schema


def _only_document(source: str) -> Document:
    found = list_documents([absolute_input(source)])
    if len(found) != 1 or found[0].row_count != 1:
        more = f"{len(found):,} documents" if len(found) > 1 else "a dataset of many documents"
        raise NoInputError(f"{source}: {more}; convert takes one, llm_ocr.run takes many")
    return found[0]


def _unread(source: Source, error: PageError) -> DocumentResult:
    """The result for a document that isn't there to be read."""
    uri = "" if isinstance(source, bytes) else redact_url(str(source))
    outcome = Outcome(PageStatus.FAILED, error.code, error.message)
    page = PageResult(outcome, page_id="/0", doc_id="", source_uri=uri, name=uri, page_number=0)
    status, error_of_all = document_status([page])
    assert error_of_all is not None, "its only page failed"
    return DocumentResult(
        doc_id="",
        source_uri=uri,
        name=uri,
        status=status,
        markdown="",
        pages=(page,),
        error_code=error_of_all.code,
        error=error_of_all.message,
    )


def _discard(_: object) -> None:
    """A listener that discards what it is told."""
