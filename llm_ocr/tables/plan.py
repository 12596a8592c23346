"""The plan of a run: its documents cut into shards, and the settings it was made with.

Written once, with put-if-absent, as `plans/000.parquet`: a second starter reads the first one's.
`run --update` appends `plans/001.parquet` and so on, whose shards go on counting.
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.documents import ROW, Document
from llm_ocr.storage.store import Store
from llm_ocr.tables.places import Places

FOLDER = "plans"
PLAN_PATH = f"{FOLDER}/000.parquet"

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


class SettingsMismatchError(Exception):
    """The output holds a run that was planned with other settings."""


@dataclass(frozen=True)
class PlannedDocument:
    """A document and how many of its pages were expected at planning (None: not countable).

    `same_as` is the doc_id of the document before it in the plan that seems to have the same bytes.
    """

    document: Document
    pages: int | None
    same_as: str | None = None


@dataclass(frozen=True)
class Shard:
    """The unit of work, commit and resume: some whole documents."""

    number: int
    documents: tuple[PlannedDocument, ...]

    @property
    def name(self) -> str:
        return f"{self.number:06d}"

    @property
    def expected_pages(self) -> int:
        return sum(planned.pages or 1 for planned in self.documents)

    def document(self, doc_id: str, source_uri: str) -> Document:
        """The document of the shard, or the row of one, that is known by these."""
        file_uri, _, number = source_uri.rpartition(ROW)
        for planned in self.documents:
            if planned.document.doc_id == doc_id:
                return planned.document
            if planned.document.rows is not None and planned.document.file_uri == file_uri:
                return planned.document.row(int(number))
        raise KeyError(doc_id)

    @property
    def document_count(self) -> int | None:
        """How many documents it has, rows counted one by one; None where nobody counted them."""
        counts = [planned.document.row_count for planned in self.documents]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def order(self) -> Places:
        """`doc_id` -> its place in the shard."""
        return Places([planned.document for planned in self.documents])


@dataclass(frozen=True)
class Plan:
    """Shards, and the settings that decide what their rows look like; from `files` files."""

    shards: tuple[Shard, ...]
    settings: Mapping[str, object]
    files: int = 1

    @property
    def documents(self) -> Iterator[Document]:
        return (planned.document for shard in self.shards for planned in shard.documents)

    @property
    def document_count(self) -> int:
        """How many documents it has; what nobody counted the rows of counts as one."""
        counts = (document.row_count for document in self.documents)
        return sum(1 if count is None else count for count in counts)

    @property
    def expected_pages(self) -> int:
        return sum(shard.expected_pages for shard in self.shards)

    @property
    def duplicates(self) -> int:
        """Documents that seem to have the same bytes as another one."""
        planned = (planned for shard in self.shards for planned in shard.documents)
        return sum(one.same_as is not None for one in planned)


def cut_shards(
    documents: Iterable[PlannedDocument], shard_pages: int, first: int = 0
) -> tuple[Shard, ...]:
    """Shards of at most `shard_pages` pages, in order, numbered from `first`; a larger document
    is a shard alone. A document that is the same as one before it stays with that."""
    shards: list[Shard] = []
    held: list[PlannedDocument] = []
    count = 0
    for planned in documents:
        pages = planned.pages or 1
        if held and count + pages > shard_pages and planned.same_as is None:
            shards.append(Shard(first + len(shards), _together(held)))
            held, count = [], 0
        held.append(planned)
        count += pages
    if held:
        shards.append(Shard(first + len(shards), _together(held)))
    return tuple(shards)


def _together(several: Sequence[PlannedDocument]) -> tuple[PlannedDocument, ...]:
    """Rows of one file that follow each other as one, so that it is opened once."""
    together: list[PlannedDocument] = []
    for planned in several:
        last = together[-1] if together else None
        if last is None or not _of_one_file(last.document, planned.document):
            together.append(planned)
            continue
        ranges = [*last.document.ranges, *planned.document.ranges]
        pages = (last.pages or 1) + (planned.pages or 1)
        together[-1] = PlannedDocument(last.document.of_rows(ranges), pages)
    return tuple(together)


def _of_one_file(one: Document, other: Document) -> bool:
    return None not in (one.rows, other.rows) and one.file_uri == other.file_uri


def read_plan(store: Store) -> Plan | None:
    """The plan of the run in `store`, of all its files, or None where no run was planned."""
    paths = sorted(thing.path for thing in store.list(FOLDER))
    if not paths:
        return None
    plans = [_read(store, path) for path in paths]
    shards = (shard for plan in plans for shard in plan.shards)
    return Plan(tuple(shards), plans[0].settings, len(plans))


def _read(store: Store, path: str) -> Plan:
    # Without threads: a command that ends at once would end in the middle of their start.
    source = io.BytesIO(store.get(path))
    # `read_table` would load pandas, where it is installed.
    table = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
    shards: dict[int, list[PlannedDocument]] = {}
    for row in table.to_pylist():
        number, pages, same_as = row.pop("shard"), row.pop("pages"), row.pop("same_as", None)
        shards.setdefault(number, []).append(PlannedDocument(Document(**row), pages, same_as))
    settings = json.loads(table.schema.metadata[b"settings"])
    return Plan(tuple(Shard(n, tuple(held)) for n, held in sorted(shards.items())), settings)


def write_plan(store: Store, plan: Plan) -> Plan:
    """Write `plan` unless another starter's stands there; either way the one that stands."""
    if store.create(_path(0), _encoded(plan.shards, plan.settings)):
        return plan
    standing = read_plan(store)
    assert standing is not None, "a plan that exists can be read"
    check_settings(store, standing, plan.settings)
    return standing


def append_plan(store: Store, plan: Plan, shards: tuple[Shard, ...]) -> Plan | None:
    """The plan with `shards` behind its own, written as its next file; None where another starter
    was quicker."""
    if not store.create(_path(plan.files), _encoded(shards, plan.settings)):
        return None
    return Plan(plan.shards + shards, plan.settings, plan.files + 1)


def _path(number: int) -> str:
    return f"{FOLDER}/{number:03d}.parquet"


def _encoded(shards: Iterable[Shard], settings: Mapping[str, object]) -> bytes:
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


def check_settings(store: Store, plan: Plan, wanted: Mapping[str, object]) -> None:
    """Raise SettingsMismatchError, naming the differences, unless the run was planned like this."""
    differences: Sequence[str] = [
        f"{key} was {plan.settings.get(key)!r}, is now {wanted.get(key)!r}"
        for key in sorted({*plan.settings, *wanted})
        if plan.settings.get(key) != wanted.get(key)
    ]
    if differences:
        raise SettingsMismatchError(
            f"{store.uri} holds a run with other settings: {'; '.join(differences)}. "
            "Use the same settings to go on with it, or give another --out"
        )
