"""What is evaluated: the pages of a run, or a folder of Markdown files that any tool wrote."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from llm_ocr.records import FURNITURE_LABELS, PageStatus
from llm_ocr.sources.names import safe_name
from llm_ocr.storage.store import Store, open_snapshot
from llm_ocr.tables.data_files import published_ranges
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row

_FILE = re.compile(r"(?P<name>.+)_pg(?P<page>\d+)(?:_repeat(?P<repeat>\d+))?")
_TEXT_COLUMNS = ["page_id", "name", "page_number", "markdown", "blocks", "status", "error"]


class NothingToEvaluateError(Exception):
    """There is no run and no Markdown where one was to be evaluated, or nothing to do it with."""


@dataclass(frozen=True)
class PageRead:
    """What was read of a page of a document, `document` being its name.

    `error` says why there is nothing, of a page that failed. Number 0 stands for a document that
    could not be opened. `page_id` is None, and `repeat` counts from 1, where files are read.
    """

    document: str
    number: int
    markdown: str
    error: str | None = None
    page_id: str | None = None
    repeat: int = 1
    jpeg: bytes | None = None


class Readings(Protocol):
    """Pages that were read, at a place."""

    @property
    def place(self) -> str:
        """Its URI."""
        ...

    def numbers(self) -> Iterator[tuple[str, int]]:
        """The document and the number of every page."""
        ...

    def pages(self, documents: Collection[str]) -> Iterator[PageRead]:
        """The pages of some documents."""
        ...

    def pictured(self, pages: Collection[tuple[str, int]]) -> Iterator[PageRead]:
        """Some pages, by document and number, with their images, where they have any."""
        ...


@dataclass(frozen=True)
class RunReadings:
    """The pages of a run, with or without their running headers, footers and page numbers."""

    store: Store
    include_headers_footers: bool = False

    @property
    def place(self) -> str:
        return self.store.uri

    def numbers(self) -> Iterator[tuple[str, int]]:
        for row in read_table(self.store, "pages", ["name", "page_number"]):
            yield row["name"], row["page_number"]

    def pages(self, documents: Collection[str]) -> Iterator[PageRead]:
        for row in read_table(self.store, "pages", _TEXT_COLUMNS, ("name", documents)):
            yield self._page(row)

    def pictured(self, pages: Collection[tuple[str, int]]) -> Iterator[PageRead]:
        wanted = frozenset(self.ids_of(pages))
        columns = [*_TEXT_COLUMNS, "image"]
        for row in read_table(self.store, "pages", columns, ("page_id", wanted)):
            yield self._page(row)

    def ids_of(self, pages: Collection[tuple[str, int]]) -> Iterator[str]:
        """The ids of pages, as far as they are there."""
        documents = {document for document, _ in pages}
        columns = ["page_id", "name", "page_number"]
        for row in read_table(self.store, "pages", columns, ("name", documents)):
            if (row["name"], row["page_number"]) in pages:
                yield row["page_id"]

    def _page(self, row: Row) -> PageRead:
        failed = row["status"] == PageStatus.FAILED
        text = (row["markdown"] or "") if self.include_headers_footers else body(row)
        error = (row["error"] or "the page failed") if failed else None
        jpeg = (row.get("image") or {}).get("bytes")
        place = row["name"], row["page_number"]
        return PageRead(*place, "" if failed else text, error, row["page_id"], jpeg=jpeg)


def body(row: Row) -> str:
    """A page's Markdown as a document has it: without running headers, footers and numbers, and
    without the names of its figures' files."""
    blocks = row.get("blocks") or ()
    if not blocks:
        return row["markdown"] or ""
    texts = (block["text"] for block in blocks if block["label"] not in FURNITURE_LABELS)
    return "\n\n".join(text.strip() for text in texts if text and text.strip())


@dataclass(frozen=True)
class FolderReadings:
    """A folder of `NAME_pgN_repeatR.md`, as olmOCR-bench's candidates are, or `NAME_pgN.md`; a file
    without a number holds its document's only page."""

    folder: Path

    @property
    def place(self) -> str:
        return str(self.folder)

    def numbers(self) -> Iterator[tuple[str, int]]:
        for name, number, _, _ in self._files():
            yield name, number

    def pages(self, documents: Collection[str]) -> Iterator[PageRead]:
        for name, number, repeat, path in self._files():
            if name in documents:
                text = path.read_text("utf-8", errors="replace")
                yield PageRead(name, number, text, repeat=repeat)

    def pictured(self, pages: Collection[tuple[str, int]]) -> Iterator[PageRead]:
        found = self.pages({document for document, _ in pages})
        return (page for page in found if (page.document, page.number) in pages)

    def _files(self) -> Iterator[tuple[str, int, int, Path]]:
        for path in sorted(self.folder.rglob("*.md")):
            name, page, repeat = page_file(path.relative_to(self.folder))
            yield name, page or 1, repeat, path


def page_file(relative: Path) -> tuple[str, int | None, int]:
    """A file's document, page (None where its name has none) and repeat."""
    stem = str(PurePosixPath(relative.with_suffix("")))
    match = _FILE.fullmatch(stem)
    if match is None:
        return safe_name(relative), None, 1
    name = safe_name(PurePosixPath(match["name"] + relative.suffix))
    return name, int(match["page"]), int(match["repeat"] or 1)


def open_readings(place: str, include_headers_footers: bool = False) -> Readings:
    """The run at a URI, or the Markdown files in a folder. Raises NothingToEvaluateError."""
    store = open_snapshot(place)
    if published_ranges(store, "pages"):
        return RunReadings(store, include_headers_footers)
    folder = store.folder
    if folder is not None and next(folder.rglob("*.md"), None) is not None:
        return FolderReadings(folder)
    raise NothingToEvaluateError(
        f"{place} holds neither a run with finished pages nor Markdown files (NAME_pgN.md); "
        "give the --out of a run"
    )


@dataclass(frozen=True)
class Documents:
    """Which documents are meant: for a test's or truth's name, the document and its pages; and
    names that several documents could be meant by."""

    found: Mapping[str, tuple[str, frozenset[int]]]
    ambiguous: Mapping[str, Sequence[str]]


def find_documents(wanted: Iterable[str], numbers: Iterable[tuple[str, int]]) -> Documents:
    """The documents that are meant by paths with their endings.

    A path means the document of that name without the ending, or with it behind a hyphen, as one
    of several of a name is called; or else the one whose name ends with it, which was below another
    folder of the input; or else the one that its own end names. Only of what may be meant anything
    is kept.
    """
    keys = {path: _named(path) for path in wanted}
    by_ending: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    by_end: dict[str, list[str]] = {}
    for path, key in keys.items():
        ending = PurePosixPath(path).suffix.lower().lstrip(".")
        by_ending.setdefault(f"{key}-{ending}", []).append(path)
        by_name.setdefault(key, []).append(path)
        for end in _ends(key):
            by_end.setdefault(end, []).append(path)
    pages: dict[str, set[int]] = {}
    meant: dict[str, dict[str, int]] = {}
    for name, number in numbers:
        if name not in pages:
            ranks = dict.fromkeys(by_end.get(name, ()), 3)
            ranks |= {path: 2 for end in _ends(name) for path in by_name.get(end, ())}
            ranks |= dict.fromkeys(by_name.get(name, ()), 1)
            ranks |= dict.fromkeys(by_ending.get(name, ()), 0)
            if not ranks:
                continue
            for path, rank in ranks.items():
                meant.setdefault(path, {})[name] = rank
            pages[name] = set()
        pages[name].add(number)
    found: dict[str, tuple[str, frozenset[int]]] = {}
    ambiguous: dict[str, Sequence[str]] = {}
    for path, ranks in meant.items():
        best = [name for name, rank in ranks.items() if rank == min(ranks.values())]
        if len(best) == 1:
            found[path] = best[0], frozenset(pages[best[0]])
        else:
            ambiguous[path] = best
    return Documents(found, ambiguous)


def _named(path: str) -> str:
    """A path as a run names the document there."""
    return safe_name(PurePosixPath(path.replace("\\", "/")))


def _ends(name: str) -> Iterator[str]:
    """`a/b/c` -> `b/c`, `c`."""
    while "/" in name:
        name = name.partition("/")[2]
        yield name
