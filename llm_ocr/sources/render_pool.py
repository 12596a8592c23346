"""A pool of rendering processes: a page that crashes or hangs affects no other page."""

import asyncio
import multiprocessing.connection
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from llm_ocr import logs
from llm_ocr.documents import Document
from llm_ocr.records import Box, ErrorCode, ImagePolicy, Page, PageError, PageImage
from llm_ocr.sources import render_protocol
from llm_ocr.sources.names import DATASET_KINDS
from llm_ocr.sources.raster import Crop, RenderLimits
from llm_ocr.sources.remote import LocalCache
from llm_ocr.sources.renderer import DocumentInfo
from llm_ocr.sources.row_reader import read_all_rows

if TYPE_CHECKING:
    from llm_ocr.sources.web import UrlPolicy

__all__ = ["Crop", "DocumentInfo", "RenderLimits", "RenderPool"]

# Workers are replaced after this many requests, or at this size: libraries leak memory.
REQUESTS_PER_WORKER = 2000
BYTES_PER_WORKER = 400 << 20
# Without these thresholds glibc returns the bitmaps to the kernel after each page and gets zeroed
# memory for the next one, which takes a third of the rendering time. A worker keeps this much.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
# The variables that workers inherit: where programs, libraries, fonts and temporary files are. A
# process that reads hostile files must not see others, such as API keys.
ENVIRONMENT = (
    *("PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHOME", "PYTHONUTF8"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE"),
    *("PYTHONDONTWRITEBYTECODE", logs.VARIABLE),
)
# A worker that crashes above this share of its memory limit is taken to be out of memory.
OUT_OF_MEMORY_SHARE = 0.7
ABORTED = frozenset({-signal.SIGABRT, -signal.SIGILL, -signal.SIGTRAP})


class _CrashedError(Exception):
    """The worker ended during a request; the message says how."""

    def __init__(self, how: str, *, out_of_memory: bool = False, is_late: bool = False) -> None:
        super().__init__(how)
        self.out_of_memory, self.is_late = out_of_memory, is_late


class _TimeoutError(Exception):
    """The worker did not answer in time."""


class _Worker:
    """One process and the pipe to it. `ask` blocks: it is called from a thread."""

    def __init__(self, password: str | None, limits: RenderLimits) -> None:
        ours, theirs = socket.socketpair()
        self.requests = 0
        self.is_late = False
        # It imports the same modules as this process (-P: and none from the current folder).
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "llm_ocr.sources.render_worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**_environment(), **ALLOCATOR, "PYTHONPATH": path},
        )
        # A new process inherits the peak memory of this one; only a higher peak is its own.
        self._inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        theirs.close()
        self._pipe = multiprocessing.connection.Connection(ours.detach())
        self._setup = render_protocol.encode_setup(password, limits)
        self._memory = limits.memory
        self._ending = threading.Lock()
        self._code: int | None = None
        self._peak = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def should_recycle(self) -> bool:
        """Whether it should be replaced: after many requests, or when it has grown large."""
        return self.requests >= REQUESTS_PER_WORKER or _memory(self.pid) > BYTES_PER_WORKER

    def ask(self, name: str, arguments: tuple[Any, ...]) -> object:
        try:
            if self.requests == 0:
                render_protocol.send(self._pipe, self._setup)
            self.requests += 1
            render_protocol.send(self._pipe, render_protocol.encode_request(name, arguments))
            return render_protocol.decode_response(name, render_protocol.receive(self._pipe))
        except render_protocol.ProtocolError as error:
            self.end()
            raise _CrashedError(f"its response can't be parsed: {error}") from error
        except (EOFError, OSError) as error:
            how = self.end()
            # Allocation failures abort; an inherited peak says nothing about this worker.
            is_own = self._code in ABORTED or self._peak > self._inherited
            out_of_memory = is_own and self._peak > OUT_OF_MEMORY_SHARE * self._memory
            late = self._code == -signal.SIGXCPU
            raise _CrashedError(how, out_of_memory=out_of_memory, is_late=late) from error

    def expire(self) -> None:
        self.is_late = True
        self.kill()

    def kill(self) -> None:
        """Kill the process with what it started; a thread in `ask` sees the pipe end."""
        with self._ending:
            if self._code is None:  # the id can't be reused before the process is waited for
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> str:
        """Kill the process and wait for it; returns how it ended. It has no state to lose."""
        self.kill()
        with self._ending:
            if self._code is None:
                _, status, usage = os.wait4(self.pid, 0)
                self._code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self._peak = usage.ru_maxrss << 10
        self._pipe.close()
        if self._code == -signal.SIGKILL:
            return "it was killed, probably out of memory"
        return signal.Signals(-self._code).name if self._code < 0 else f"exit status {self._code}"


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def _memory(pid: int) -> int:
    """Resident bytes of a process; 0 where there is no /proc."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class RenderPool:
    """A pool of rendering processes: `async with RenderPool(workers) as pool: await
    pool.render(page, policy)`.

    Every method raises PageError, whose message names the file and says what is wrong and what to
    do. Workers start on demand; closing kills them, even during a request.
    """

    def __init__(
        self, workers: int, *, password: str | None = None, limits: RenderLimits | None = None
    ) -> None:
        self._password, self._limits = password, limits or RenderLimits()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="render")
        self._slots = asyncio.Semaphore(workers)
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._is_closed = False
        self._cache = LocalCache()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Kill all processes. Awaits nothing, so that it can't be cancelled halfway."""
        self._is_closed = True
        for worker in self._all:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.end()
        self._all.clear()
        self._cache.close()

    async def rows(
        self, planned: Document, only: Collection[str] | None = None
    ) -> AsyncIterator[tuple[Document, PageError | None]]:
        """The documents in the rows of a planned one (or the document itself), each cached for
        reading or with its error; with `only`, just these doc_ids.

        Call `release` for each when it is no longer needed.
        """
        if planned.kind not in DATASET_KINDS.values():
            if only is None or planned.doc_id in only:
                yield planned, None
            return
        wanted = planned if only is None else planned.select_rows(only)
        rows = read_all_rows(wanted) if wanted.row_count != 0 else iter(())
        while (row := await asyncio.to_thread(next, rows, None)) is not None:
            if only is not None and row.document.doc_id not in only:
                continue
            error: PageError | None = None
            try:
                await self._cache.add(row)
            except PageError as raised:
                error = raised
            yield row.document, error

    def add_source(self, document: Document, fetch: Callable[[Path], None]) -> None:
        """Let `fetch` write the document at a path when it is first read: as a file, or (of the
        kind `pages`) as a folder with an image for each page. It can be read until `release`."""
        self._cache.add_source(document, fetch)

    async def add_url(self, url: str, policy: "UrlPolicy | None" = None) -> Document:
        """Download the document at a URL, so that it can be read until `release`.

        Raises PageError.
        """
        return await self._cache.add_url(url, policy)

    async def add_bytes(self, data: bytes) -> Document:
        """Take in the bytes of a PDF or image, so that it can be read until `release`.

        Raises PageError.
        """
        return await self._cache.add_bytes(data)

    def release(self, document: Document) -> None:
        """Delete the cached copy of a document that is no longer needed."""
        self._cache.discard(document)

    def open_file(self, document: Document) -> AbstractAsyncContextManager[Document]:
        """The document as a local file, until the block ends. Raises PageError."""
        return self._cache.open(document)

    async def count_pages(self, document: Document) -> int:
        return cast(int, await self._ask("count_pages", document))

    async def inspect(self, document: Document) -> DocumentInfo:
        return cast(DocumentInfo, await self._ask("inspect", document))

    async def expected_tokens(self, document: Document, numbers: Sequence[int]) -> list[int]:
        """About how many tokens the text of each of these pages has, judged without rendering
        them: by a PDF's own text, or the size of what is stored. 0 where it can't be judged."""
        return cast(list[int], await self._ask("expected_tokens", document, list(numbers)))

    async def render(self, page: Page, policy: ImagePolicy) -> PageImage:
        """The page as an image in accordance with `policy`."""
        return cast(PageImage, await self._ask("render", page.document, page.number, policy))

    async def crop(
        self,
        page: Page,
        width: int,
        height: int,
        boxes: Sequence[Box],
        dpi: int = 200,
        rotation: int | None = None,
    ) -> list[Crop]:
        """Boxes on a page of `width` x `height` pixels, cut from the source at `dpi`.

        `rotation` is that of the page image if it differs from the one the page is rendered with.
        """
        size = (width, height)
        answer = await self._ask(
            "crop", page.document, page.number, size, list(boxes), dpi, rotation
        )
        return cast(list[Crop], answer)

    async def _ask(self, name: str, document: Document, *rest: Any) -> object:  # noqa: ANN401
        async with self._cache.open(document) as local:
            try:
                return await self._ask_with_retry(name, local, document.display_name, *rest)
            except PageError as error:
                # Name the source, not the cached copy.
                message = error.message.replace(local.source_uri, document.display_name)
                raise PageError(error.code, message, error.attempts) from error

    async def _ask_with_retry(self, name: str, document: Document, uri: str, *rest: Any) -> object:  # noqa: ANN401
        is_of_one = bool(rest) and isinstance(rest[0], int)
        where = f"{uri}, page {rest[0]}" if is_of_one else uri
        async with self._slots:
            for last_try in (False, True):
                try:
                    answer = await self._run(name, (document, *rest))
                except _CrashedError as error:
                    if error.out_of_memory:
                        problem = (
                            "rendering needs more than "
                            f"{self._limits.memory >> 20:,} MB of memory, a limit that grows with "
                            "`max_pixels`"
                        )
                        raise PageError(ErrorCode.TOO_LARGE, f"{where}: {problem}") from error
                    # Retried in a new process: an earlier page may have caused the crash.
                    if last_try:
                        problem = f"rendering crashed ({error}); convert the file or exclude it"
                        raise PageError(ErrorCode.RENDER_CRASHED, f"{where}: {problem}") from error
                except _TimeoutError as error:
                    limit = f"{self._limits.timeout:g} s"
                    problem = f"rendering took longer than {limit} (`render_timeout`)"
                    raise PageError(ErrorCode.RENDER_TIMEOUT, f"{where}: {problem}") from error
                else:
                    if isinstance(answer, PageError):
                        raise answer
                    return answer
        raise AssertionError("unreachable: the last try returns or raises")

    async def _run(self, name: str, arguments: tuple[Any, ...]) -> object:
        worker = self._idle.pop() if self._idle else self._new()
        late = asyncio.get_running_loop().call_later(self._limits.timeout, worker.expire)
        future = self._threads.submit(worker.ask, name, arguments)
        try:
            answer = await asyncio.wrap_future(future)
        except BaseException as error:
            self._all.discard(worker)
            worker.kill()
            # Only when the thread no longer uses the pipe: its descriptor could be reused.
            future.add_done_callback(lambda _: worker.end())
            if isinstance(error, _CrashedError) and (worker.is_late or error.is_late):
                raise _TimeoutError from error
            raise
        finally:
            late.cancel()
        if worker.should_recycle:
            self._all.discard(worker)
            worker.end()
        else:
            self._idle.append(worker)
        return answer

    def _new(self) -> _Worker:
        if self._is_closed:
            raise RuntimeError("the pool is closed")
        worker = _Worker(self._password, self._limits)
        self._all.add(worker)
        return worker
