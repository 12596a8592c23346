"""Read the predictions to evaluate: pages of a run, or Markdown files written by any tool."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from llm_ocr.messages import CodedError
from llm_ocr.records import FURNITURE_LABELS, PageStatus
from llm_ocr.sources.names import safe_name
from llm_ocr.storage.store import Store, open_snapshot
from llm_ocr.tables.data_files import published_ranges
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row

_FILE = re.compile(r"(?P<name>.+)_pg(?P<page>\d+)(?:_repeat(?P<repeat>\d+))?")
_TEXT_COLUMNS = ["page_id", "name", "page_number", "markdown", "blocks", "status", "error"]


class NothingToEvaluateError(CodedError):
    """There is no run or Markdown to evaluate, or no reference to evaluate it with."""


@dataclass(frozen=True)
class InputProblem:
    """A test or ground truth that can't be used: where it is, and what is wrong."""

    location: str
    message: str

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


@dataclass(frozen=True)
class PagePrediction:
    """The Markdown predicted for a page of the document named `document`.

    `error` says why a failed page has none. Number 0 is a document that could not be opened.
    `page_id` and `status` are None for files, where `repeat` counts from 1.
    """

    document: str
    number: int
    markdown: str
    error: str | None = None
    page_id: str | None = None
    repeat: int = 1
    jpeg: bytes | None = None
    status: str | None = None


class Predictions(Protocol):
    """Predicted pages at a URI."""

    @property
    def uri(self) -> str:
        """Where they are."""
        ...

    def page_numbers(self) -> Iterator[tuple[str, int]]:
        """The document and the number of every page."""
        ...

    def pages(self, documents: Collection[str]) -> Iterator[PagePrediction]:
        """The pages of some documents."""
        ...

    def pages_with_images(self, pages: Collection[tuple[str, int]]) -> Iterator[PagePrediction]:
        """Some pages, by document and number, with their images, where they have any."""
        ...


@dataclass(frozen=True)
class RunPredictions:
    """The pages of a run, with or without their running headers, footers and page numbers."""

    store: Store
    include_headers_footers: bool = False

    @property
    def uri(self) -> str:
        return self.store.uri

    def page_numbers(self) -> Iterator[tuple[str, int]]:
        for row in read_table(self.store, "pages", ["name", "page_number"]):
            yield row["name"], row["page_number"]

    def pages(self, documents: Collection[str]) -> Iterator[PagePrediction]:
        for row in read_table(self.store, "pages", _TEXT_COLUMNS, ("name", documents)):
            yield self._page(row)

    def pages_with_images(self, pages: Collection[tuple[str, int]]) -> Iterator[PagePrediction]:
        wanted = frozenset(self.page_ids_of(pages))
        columns = [*_TEXT_COLUMNS, "image"]
        for row in read_table(self.store, "pages", columns, ("page_id", wanted)):
            yield self._page(row)

    def page_ids_of(self, pages: Collection[tuple[str, int]]) -> Iterator[str]:
        """The ids of those pages that exist."""
        documents = {document for document, _ in pages}
        columns = ["page_id", "name", "page_number"]
        for row in read_table(self.store, "pages", columns, ("name", documents)):
            if (row["name"], row["page_number"]) in pages:
                yield row["page_id"]

    def _page(self, row: Row) -> PagePrediction:
        failed = row["status"] == PageStatus.FAILED
        text = (row["markdown"] or "") if self.include_headers_footers else body_markdown(row)
        error = (row["error"] or "the page failed") if failed else None
        jpeg = (row.get("image") or {}).get("bytes")
        key = row["name"], row["page_number"]
        shown = "" if failed else text
        return PagePrediction(*key, shown, error, row["page_id"], jpeg=jpeg, status=row["status"])


def body_markdown(row: Row) -> str:
    """A page's Markdown as in the document: without running headers, footers and page numbers, and
    without the names of figure files."""
    blocks = row.get("blocks") or ()
    if not blocks:
        return row["markdown"] or ""
    texts = (block["text"] for block in blocks if block["label"] not in FURNITURE_LABELS)
    return "\n\n".join(text.strip() for text in texts if text and text.strip())


@dataclass(frozen=True)
class FolderPredictions:
    """A folder of `NAME_pgN_repeatR.md` files, as in olmOCR-bench, or `NAME_pgN.md`; a file without
    a page number is the only page of its document."""

    folder: Path

    @property
    def uri(self) -> str:
        return str(self.folder)

    def page_numbers(self) -> Iterator[tuple[str, int]]:
        for name, number, _, _ in self._files():
            yield name, number

    def pages(self, documents: Collection[str]) -> Iterator[PagePrediction]:
        for name, number, repeat, path in self._files():
            if name in documents:
                text = path.read_text("utf-8", errors="replace")
                yield PagePrediction(name, number, text, repeat=repeat)

    def pages_with_images(self, pages: Collection[tuple[str, int]]) -> Iterator[PagePrediction]:
        candidates = self.pages({document for document, _ in pages})
        return (page for page in candidates if (page.document, page.number) in pages)

    def _files(self) -> Iterator[tuple[str, int, int, Path]]:
        for path in sorted(self.folder.rglob("*.md")):
            name, page, repeat = parse_file_name(path.relative_to(self.folder))
            yield name, page or 1, repeat, path


def parse_file_name(relative: Path) -> tuple[str, int | None, int]:
    """The document, page (None if the name has none) and repeat of a file."""
    stem = str(PurePosixPath(relative.with_suffix("")))
    match = _FILE.fullmatch(stem)
    if match is None:
        return safe_name(relative), None, 1
    name = safe_name(PurePosixPath(match["name"] + relative.suffix))
    return name, int(match["page"]), int(match["repeat"] or 1)


def open_predictions(uri: str, include_headers_footers: bool = False) -> Predictions:
    """The run at a URI, or the Markdown files in a folder. Raises NothingToEvaluateError."""
    store = open_snapshot(uri)
    if published_ranges(store, "pages"):
        return RunPredictions(store, include_headers_footers)
    folder = store.folder
    if folder is not None and next(folder.rglob("*.md"), None) is not None:
        return FolderPredictions(folder)
    raise NothingToEvaluateError(
        f"{uri} has neither a run with finished pages nor Markdown files (NAME_pgN.md); "
        "give the location of a run"
    )


@dataclass(frozen=True)
class DocumentMatches:
    """Documents by the path that a test or ground truth gives: the name of the document and its
    page numbers; and the candidates of paths that match several documents."""

    matched: Mapping[str, tuple[str, frozenset[int]]]
    ambiguous: Mapping[str, Sequence[str]]


def match_documents(paths: Iterable[str], numbers: Iterable[tuple[str, int]]) -> DocumentMatches:
    """Match paths, with their extensions, to documents of predictions.

    In order of preference, a path matches the document with its name and its extension after a
    hyphen (documents of the same name are named so); with its name without the extension; one whose
    name ends with the path, as the input was a parent folder; or one whose name is the end of the
    path. Memory is used for documents that match only.
    """
    keys = {path: _document_name(path) for path in paths}
    by_extension: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    by_suffix: dict[str, list[str]] = {}
    for path, key in keys.items():
        extension = PurePosixPath(path).suffix.lower().lstrip(".")
        by_extension.setdefault(f"{key}-{extension}", []).append(path)
        by_name.setdefault(key, []).append(path)
        for suffix in _suffixes(key):
            by_suffix.setdefault(suffix, []).append(path)
    pages: dict[str, set[int]] = {}
    candidates: dict[str, dict[str, int]] = {}
    for name, number in numbers:
        if name not in pages:
            ranks = dict.fromkeys(by_suffix.get(name, ()), 3)
            ranks |= {path: 2 for suffix in _suffixes(name) for path in by_name.get(suffix, ())}
            ranks |= dict.fromkeys(by_name.get(name, ()), 1)
            ranks |= dict.fromkeys(by_extension.get(name, ()), 0)
            if not ranks:
                continue
            for path, rank in ranks.items():
                candidates.setdefault(path, {})[name] = rank
            pages[name] = set()
        pages[name].add(number)
    matched: dict[str, tuple[str, frozenset[int]]] = {}
    ambiguous: dict[str, Sequence[str]] = {}
    for path, ranks in candidates.items():
        best = [name for name, rank in ranks.items() if rank == min(ranks.values())]
        if len(best) == 1:
            matched[path] = best[0], frozenset(pages[best[0]])
        else:
            ambiguous[path] = best
    return DocumentMatches(matched, ambiguous)


def _document_name(path: str) -> str:
    """The name that a run gives the document at a path."""
    return safe_name(PurePosixPath(path.replace("\\", "/")))


def _suffixes(name: str) -> Iterator[str]:
    """`a/b/c` -> `b/c`, `c`."""
    while "/" in name:
        name = name.partition("/")[2]
        yield name
