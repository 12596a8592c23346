"""An MCP server over standard input and output: the tools convert, parse and status, for assistants
that read documents on this machine.

The engine starts at the first document and stays warm. Only files below one folder are read and
written. Needs the extra `mcp`.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from llm_ocr import __version__
from llm_ocr.document.converter import AsyncConverter
from llm_ocr.document.figure_tasks import UnknownTaskError
from llm_ocr.document.processor import OnItem
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import MissingExtraError, pluralize
from llm_ocr.parsing.loading import BUILT_IN
from llm_ocr.parsing.schema import SchemaError
from llm_ocr.records import DocumentResult, PageStatus, Record
from llm_ocr.report.status import NoRunError, read_status
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.storage.store import StorageError

# Characters of a result: about 6,000 tokens.
DEFAULT_MAX_CHARACTERS = 20_000
# Documents whose text is kept, so that the next part needs no second reading.
KEPT_DOCUMENTS = 8
# Names of files in the message about one that isn't there.
MAX_LISTED = 10
INSTRUCTIONS = (
    "Reads PDFs and page images on this machine: convert gives a document as Markdown, parse a "
    "record of a schema with the place of each value, status the state of the server or of a run. "
    "Paths are relative to the server's root folder."
)

PathArgument = Annotated[str, Field(description="A PDF or an image, relative to the root folder.")]
OutArgument = Annotated[
    str | None,
    Field(
        description="A new file for the whole result, relative to the root folder; the answer then "
        "only says where it is."
    ),
]


@dataclass(frozen=True)
class ReadDocument:
    """The text of a document that was read, and what is to be said about it."""

    markdown: str
    about: str


class DocumentTools:
    """The tools of one server: what they may read, and the converter that they share."""

    def __init__(self, settings: Settings, root: Path, max_characters: int) -> None:
        self._settings, self._root = settings, root.resolve()
        self._max_characters = max_characters
        self._stack = AsyncExitStack()
        self._entering = asyncio.Lock()
        self._converter: AsyncConverter | None = None
        self._read: OrderedDict[tuple[Path, int, int], ReadDocument] = OrderedDict()
        self._documents = 0

    async def close(self) -> None:
        """End the engine."""
        await self._stack.aclose()

    async def convert(
        self,
        path: PathArgument,
        context: Context[Any, Any],
        offset: Annotated[
            int, Field(ge=0, description="The character to begin with, for the parts of long text.")
        ] = 0,
        out: OutArgument = None,
    ) -> str:
        """The document as Markdown, or one part of it."""
        file = self._file(path)
        target = None if out is None else self._new_file(out)
        document = await self._document(file, path, context)
        if target is not None:
            self._write(target, f"{document.markdown.rstrip()}\n")
            return f"{document.about} All of it, {self._size(document.markdown)}, is in {out}."
        return self._part(document, offset)

    async def parse(
        self,
        path: PathArgument,
        schema: Annotated[
            str,
            Field(
                description="A built-in schema, such as invoice or receipt, or a JSON Schema file "
                "(.json) relative to the root folder."
            ),
        ],
        context: Context[Any, Any],
        out: OutArgument = None,
    ) -> str:
        """The fields of a schema, read from a document: JSON with the fields, what is wrong with
        them, and for each value the page, the box in pixels and the words where it was found."""
        file, source = self._file(path), self._schema(schema)
        target = None if out is None else self._new_file(out)
        async with self._reporting(context) as on_item:
            with _as_tool_errors():
                converter = await self._warm_converter()
                result = await converter.convert(file, schema=source, on_item=on_item)
        self._documents += 1
        _raise_if_failed(result, path)
        text = json.dumps(_record_content(result.records), ensure_ascii=False, indent=1)
        if target is not None:
            self._write(target, text)
            return f"The record, {self._size(text)}, is in {out}."
        if len(text) > self._max_characters:
            raise ToolError(
                f"{path}: the record has {self._size(text)}, more than {self._max_characters:,}: "
                "give `out`, a file to write it to"
            )
        return text

    async def status(
        self,
        run: Annotated[
            str | None,
            Field(description="The folder of a run, relative to the root folder; none: the server"),
        ] = None,
    ) -> str:
        """The state of this server, or of a run of `llm-ocr run`: JSON."""
        if run is None:
            return json.dumps(
                {
                    "version": __version__,
                    "root": str(self._root),
                    "model": self._settings.model,
                    "engine": "started" if self._documents else "starts at the first document",
                    "documents_read": self._documents,
                    "schemas": list(BUILT_IN),
                    "max_characters": self._max_characters,
                }
            )
        folder = self._inside(run)
        with _as_tool_errors():
            found = await asyncio.to_thread(read_status, str(folder))
        return json.dumps(asdict(found))

    async def _document(self, file: Path, path: str, context: Context[Any, Any]) -> ReadDocument:
        stat = file.stat()
        key = (file, stat.st_mtime_ns, stat.st_size)
        known = self._read.get(key)
        if known is not None:
            self._read.move_to_end(key)
            return known
        async with self._reporting(context) as on_item:
            with _as_tool_errors():
                converter = await self._warm_converter()
                result = await converter.convert(file, on_item=on_item)
        self._documents += 1
        _raise_if_failed(result, path)
        document = self._read[key] = ReadDocument(result.markdown, _about(result, path))
        while len(self._read) > KEPT_DOCUMENTS:
            self._read.popitem(last=False)
        return document

    async def _warm_converter(self) -> AsyncConverter:
        async with self._entering:
            if self._converter is None:
                converter = AsyncConverter(self._settings)
                self._converter = await self._stack.enter_async_context(converter)
            return self._converter

    def _part(self, document: ReadDocument, offset: int) -> str:
        text = document.markdown
        if offset and offset >= len(text):
            raise ToolError(f"offset {offset:,}: the text has {self._size(text)}")
        end = _end_of_part(text, offset, self._max_characters)
        about = document.about
        if offset or end < len(text):
            about += f" Characters {offset:,} to {end:,} of {len(text):,}."
        if end < len(text):
            about += f" For the next part, call convert with offset={end}."
        return f"{about}\n\n{text[offset:end]}"

    def _inside(self, path: str) -> Path:
        """The file or folder at a path below the root; raises ToolError for any other."""
        if "://" in path:
            raise ToolError(f"{path}: only files below {self._root} are read; download it there")
        with suppress(OSError, ValueError, RuntimeError):
            # Links are followed: what they lead to must be below the root, too.
            found = (self._root / Path(path).expanduser()).resolve()
            if found.is_relative_to(self._root):
                return found
        raise ToolError(
            f"{path}: not below the root folder, {self._root}; give a path within it, or restart "
            "the server with another `root`"
        )

    def _file(self, path: str) -> Path:
        found = self._inside(path)
        if found.is_file():
            return found
        folder = found if found.is_dir() else found.parent
        what = "is a folder; give one file in it" if found.is_dir() else "no such file"
        raise ToolError(f"{path}: {what}{self._listing(folder)}")

    def _listing(self, folder: Path) -> str:
        try:
            names = sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
        except OSError:
            return ""
        more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        place = folder.relative_to(self._root).as_posix()
        where = "the root folder" if place == "." else place
        return f"; in {where} there are: {', '.join(names[:MAX_LISTED]) or 'no files'}{more}"

    def _new_file(self, path: str) -> Path:
        found = self._inside(path)
        if found.exists():
            raise ToolError(f"{path}: exists already; give `out` another name")
        return found

    def _schema(self, schema: str) -> str:
        if schema in BUILT_IN:
            return schema
        # A Python schema would be executed.
        if not schema.endswith(".json"):
            names = ", ".join(BUILT_IN)
            raise ToolError(f"schema {schema}: give a .json file, or one of {names}")
        return str(self._file(schema))

    def _write(self, path: Path, text: str) -> None:
        try:
            with atomic_write(path) as target:
                target.write(text.encode("utf-8", "replace"))
        except OSError as error:
            raise ToolError(f"{path}: can't be written: {error.strerror or error}") from error

    @staticmethod
    def _size(text: str) -> str:
        return pluralize(len(text), "character")

    @asynccontextmanager
    async def _reporting(self, context: Context[Any, Any]) -> AsyncIterator[OnItem]:
        """Report each item that a step has processed as progress, in order."""
        messages: asyncio.Queue[str | None] = asyncio.Queue()

        async def report() -> None:
            count = 0
            while (message := await messages.get()) is not None:
                count += 1
                await context.report_progress(count, message=message)

        reporter = asyncio.create_task(report())
        try:
            yield lambda step, status: messages.put_nowait(f"{step}: {status}")
        finally:
            messages.put_nowait(None)
            await reporter


def _end_of_part(text: str, start: int, length: int) -> int:
    """The end of a part: of a paragraph if there is one in its second half."""
    end = start + length
    if end >= len(text):
        return len(text)
    paragraph = text.rfind("\n\n", start + length // 2, end)
    return end if paragraph < 0 else paragraph + 2


@contextmanager
def _as_tool_errors() -> Iterator[None]:
    """Expected errors as answers that the assistant reads; others are logged by the SDK."""
    try:
        yield
    except (
        *(EngineFailedError, MissingExtraError, NoInputError, NoRunError),
        *(SchemaError, StorageError, UnknownTaskError),
    ) as error:
        raise ToolError(str(error)) from error


def _raise_if_failed(result: DocumentResult, path: str) -> None:
    if result.status is PageStatus.FAILED:
        raise ToolError(f"{path}: nothing could be read: {result.error}")


def _about(result: DocumentResult, path: str) -> str:
    """One sentence about the document, and one about pages that failed."""
    pages = [page for page in result.pages if page.page_number]
    text = f"{path}: {result.status}, {pluralize(len(pages), 'page')}."
    failed = [page for page in pages if page.status is PageStatus.FAILED]
    if failed:
        numbers = ", ".join(str(page.page_number) for page in failed)
        text += f" Pages that could not be read: {numbers} ({failed[0].error})."
    return text


def _record_content(records: tuple[Record, ...]) -> object:
    """A record, or a list of records if there is one per page."""
    contents = [
        {
            "status": record.status,
            "error": record.error,
            "fields": record.fields,
            "errors": [asdict(error) for error in record.errors],
            "evidence": [asdict(found) for found in record.evidence],
        }
        for record in records
    ]
    return contents[0] if len(contents) == 1 else contents


def make_server(settings: Settings, root: Path, max_characters: int) -> MCPServer[None]:
    """A server with the tools for documents below `root`, whose answers have at most
    `max_characters`."""
    tools = DocumentTools(settings, root, max_characters)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await tools.close()

    server: MCPServer[None] = MCPServer(
        "llm-ocr",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        lifespan=lifespan,
    )
    # `out` creates new files, and replaces none.
    writes = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    server.add_tool(tools.convert, annotations=writes, structured_output=False)
    server.add_tool(tools.parse, annotations=writes, structured_output=False)
    server.add_tool(tools.status, annotations=reads, structured_output=False)
    return server
