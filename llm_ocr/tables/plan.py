"""The plan of a run: its documents split into shards, and the settings it was made with.

Written once, by put-if-absent, as `plans/000.parquet`: a second worker that starts reads it.
`run --update` appends `plans/001.parquet` and so on, with shard numbers that continue.
"""

import io
import itertools
import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.documents import ROW_FRAGMENT, Document
from llm_ocr.messages import CodedError, ProblemCode
from llm_ocr.storage.store import Store

PLAN_FOLDER = "plans"
PLAN_PATH = f"{PLAN_FOLDER}/000.parquet"
# Pages of the last shards of a plan for several workers. An answer takes about as long as an engine
# needs for so many pages, and each shard has a commit and files of its own.
SMALLEST_SHARD = 32

_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("doc_id", pa.string()),
        ("source_uri", pa.string()),
        ("version", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("size", pa.int64()),
        ("pages", pa.int32()),
        ("rows", pa.string()),
        ("column", pa.string()),
        ("same_as", pa.string()),
    ]
)


class SettingsMismatchError(CodedError):
    """The output holds a run that was planned with different settings."""


@dataclass(frozen=True)
class PlannedDocument:
    """A document and the page count expected at planning (None: unknown).

    `same_as` is the doc_id of an earlier document in the plan that seems to have the same bytes.
    `smallest_part`: of rows of a dataset, the pages of a part that is worth being read by itself;
    a plan does not store it.
    """

    document: Document
    pages: int | None
    same_as: str | None = None
    smallest_part: int = field(default=1, compare=False)

    def split(self, most: int) -> "list[PlannedDocument]":
        """Itself; or, if it is several rows with more than `most` pages, the first of as many equal
        parts as are needed, and the rest."""
        pages, rows = self.pages or 1, self.document.row_count or 1
        if pages <= most or rows == 1:
            return [self]
        count = max(1, rows // math.ceil(pages / most))
        first_pages = max(1, round(pages * count / rows))
        first, rest = self.document.split_rows(count)
        return [
            replace(self, document=first, pages=first_pages),
            replace(self, document=rest, pages=max(1, pages - first_pages)),
        ]


@dataclass(frozen=True)
class Shard:
    """The unit of work, commit and resume: several whole documents."""

    number: int
    documents: tuple[PlannedDocument, ...]

    @property
    def name(self) -> str:
        return f"{self.number:06d}"

    @property
    def expected_pages(self) -> int:
        return sum(planned.pages or 1 for planned in self.documents)

    def document(self, doc_id: str, source_uri: str) -> Document:
        """The document of the shard, or one of its rows, with this ID."""
        file_uri, _, number = source_uri.rpartition(ROW_FRAGMENT)
        for planned in self.documents:
            if planned.document.doc_id == doc_id:
                return planned.document
            if planned.document.rows is not None and planned.document.file_uri == file_uri:
                return planned.document.row(int(number))
        raise KeyError(doc_id)

    @property
    def document_count(self) -> int | None:
        """The number of documents, each row counting as one; None if rows were not counted."""
        counts = [planned.document.row_count for planned in self.documents]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def document_order(self) -> "DocumentOrder":
        """`doc_id` -> its position in the shard."""
        return DocumentOrder([planned.document for planned in self.documents])


# Positions between two planned documents, for the rows of the first: no file holds as many.
MAX_ROWS = 1 << 40
# A file in a tar takes a block of 512 bytes at least.
MIN_SAMPLE_BYTES = 512


class DocumentOrder(dict[str, int]):
    """`doc_id` -> a number that increases in the order of the shard's documents.

    It includes the rows of documents that stand for many. Where these were not counted at planning,
    they are numbered on demand, until the requested one is found.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        super().__init__()
        self._uncounted: list[Iterator[tuple[str, int]]] = []
        for k, document in enumerate(documents):
            position = k * MAX_ROWS
            self[document.doc_id] = position
            if document.row_count is None:
                self._uncounted.append(_row_positions(document, position))
            else:
                self.update(_row_positions(document, position))

    def __missing__(self, doc_id: str) -> int:
        while self._uncounted:
            for rows in list(self._uncounted):
                following = dict(itertools.islice(rows, 1024))
                self.update(following)
                if not following:
                    self._uncounted.remove(rows)
            if doc_id in self:
                return self[doc_id]
        raise KeyError(doc_id)


def _row_positions(document: Document, position: int) -> Iterator[tuple[str, int]]:
    for first, last in document.ranges:
        end = document.size // MIN_SAMPLE_BYTES if last is None else last
        for number in range(first, end + 1):
            yield document.row(number).doc_id, position + number


@dataclass(frozen=True)
class Plan:
    """Shards, and the settings that affect their rows; stored in `files` files."""

    shards: tuple[Shard, ...]
    settings: Mapping[str, object]
    files: int = 1

    @property
    def documents(self) -> Iterator[Document]:
        return (planned.document for shard in self.shards for planned in shard.documents)

    @property
    def document_count(self) -> int:
        """The number of documents; a file whose rows were not counted counts as one."""
        counts = (document.row_count for document in self.documents)
        return sum(1 if count is None else count for count in counts)

    @property
    def expected_pages(self) -> int:
        return sum(shard.expected_pages for shard in self.shards)

    @property
    def duplicates(self) -> int:
        """The number of documents that seem to have the same bytes as an earlier one."""
        planned = (planned for shard in self.shards for planned in shard.documents)
        return sum(document.same_as is not None for document in planned)


def cut_shards(
    documents: Sequence[PlannedDocument], shard_pages: int, first: int = 0, workers: int = 1
) -> tuple[Shard, ...]:
    """Split documents, in order, into shards of at most `shard_pages` pages, numbered from
    `first`; a larger document is a shard by itself, unless it is several rows of a dataset, which
    are split. Duplicates stay in the shard of the first.

    For several workers (or engines) shards get smaller towards the end, so that all workers have
    something to do until then: each in turn gets one of half its share of the pages that are left.
    """
    shards: list[Shard] = []
    current: list[PlannedDocument] = []
    count, left = 0, sum(planned.pages or 1 for planned in documents)
    most = _most_pages(left, shard_pages, workers)
    waiting = deque(documents)
    while waiting:
        planned = waiting.popleft()
        pages = planned.pages or 1
        if current and count + pages > most and planned.same_as is None:
            shards.append(Shard(first + len(shards), _merge_rows(current)))
            left -= count
            current, count = [], 0
            if len(shards) % workers == 0:
                most = _most_pages(left, shard_pages, workers)
        planned, *rest = planned.split(max(most, min(planned.smallest_part, shard_pages)))
        waiting.extendleft(rest)
        current.append(planned)
        count += planned.pages or 1
    if current:
        shards.append(Shard(first + len(shards), _merge_rows(current)))
    return tuple(shards)


def _most_pages(left: int, shard_pages: int, workers: int) -> int:
    if workers == 1:
        return shard_pages
    return min(shard_pages, max(SMALLEST_SHARD, math.ceil(left / (2 * workers))))


def _merge_rows(documents: Sequence[PlannedDocument]) -> tuple[PlannedDocument, ...]:
    """Consecutive rows of the same file as one document, so that the file is opened once."""
    merged: list[PlannedDocument] = []
    for planned in documents:
        last = merged[-1] if merged else None
        if last is None or not _are_in_same_file(last.document, planned.document):
            merged.append(planned)
            continue
        ranges = [*last.document.ranges, *planned.document.ranges]
        pages = (last.pages or 1) + (planned.pages or 1)
        merged[-1] = PlannedDocument(last.document.with_rows(ranges), pages)
    return tuple(merged)


def _are_in_same_file(first: Document, second: Document) -> bool:
    return None not in (first.rows, second.rows) and first.file_uri == second.file_uri


def read_plan(store: Store) -> Plan | None:
    """The plan of the run in `store`, from all its files; None if there is no run."""
    paths = sorted(entry.path for entry in store.list(PLAN_FOLDER))
    if not paths:
        return None
    plans = [_read(store, path) for path in paths]
    shards = (shard for plan in plans for shard in plan.shards)
    return Plan(tuple(shards), plans[0].settings, len(plans))


def _read(store: Store, path: str) -> Plan:
    # Without threads: a command that exits immediately would crash while they start.
    source = io.BytesIO(store.get(path))
    # `read_table` would import pandas if it is installed.
    table = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
    shards: dict[int, list[PlannedDocument]] = {}
    for row in table.to_pylist():
        number, pages, same_as = row.pop("shard"), row.pop("pages"), row.pop("same_as", None)
        shards.setdefault(number, []).append(PlannedDocument(Document(**row), pages, same_as))
    settings = json.loads(table.schema.metadata[b"settings"])
    return Plan(
        tuple(Shard(number, tuple(documents)) for number, documents in sorted(shards.items())),
        settings,
    )


def write_plan(store: Store, plan: Plan) -> Plan:
    """Write `plan` if there is none yet, and return the plan that is stored."""
    if store.create(_path(0), _encode(plan.shards, plan.settings)):
        return plan
    existing = read_plan(store)
    assert existing is not None, "a plan that exists can be read"
    check_settings(store, existing, plan.settings)
    return existing


def append_plan(store: Store, plan: Plan, shards: tuple[Shard, ...]) -> Plan | None:
    """Append `shards` as the plan's next file and return the extended plan; None if another worker
    was first."""
    if not store.create(_path(plan.files), _encode(shards, plan.settings)):
        return None
    return Plan(plan.shards + shards, plan.settings, plan.files + 1)


def _path(number: int) -> str:
    return f"{PLAN_FOLDER}/{number:03d}.parquet"


def _encode(shards: Iterable[Shard], settings: Mapping[str, object]) -> bytes:
    rows = [
        {
            "shard": shard.number,
            "pages": planned.pages,
            "same_as": planned.same_as,
            **vars(planned.document),
        }
        for shard in shards
        for planned in shard.documents
    ]
    schema = _SCHEMA.with_metadata({"settings": json.dumps(dict(settings), sort_keys=True)})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue()


def check_settings(store: Store, plan: Plan, settings: Mapping[str, object]) -> None:
    """Raise SettingsMismatchError, naming the differences, if the run has other settings."""
    differences: Sequence[str] = [
        f"{key} was {plan.settings.get(key)!r}, is now {settings.get(key)!r}"
        for key in sorted({*plan.settings, *settings})
        if plan.settings.get(key) != settings.get(key)
    ]
    if differences:
        raise SettingsMismatchError(
            f"{store.uri} holds a run with different settings: {'; '.join(differences)}. "
            "Use the same settings to resume it",
            ProblemCode.OTHER_RUN,
        )
