"""Write the files for people: Markdown, records, viewer, dataset card and summary."""

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePath

from llm_ocr.models.profile import Task
from llm_ocr.records import PageStatus
from llm_ocr.report.dataset_card import write_card
from llm_ocr.report.doubts import doubt_message
from llm_ocr.report.markdown_export import (
    DATA_COLUMNS,
    RowsOf,
    Write,
    export_into,
    export_markdown,
    with_data_files,
)
from llm_ocr.report.record_counts import RecordCounts
from llm_ocr.report.record_files import write_records
from llm_ocr.report.summary import SUMMARY_PATH, Summary
from llm_ocr.report.viewer import write_viewer
from llm_ocr.storage.store import StorageError, Store
from llm_ocr.tables.read import GroupedRows, read_table
from llm_ocr.tables.schema import Row

VIEWER_PATH = "index.html"
BATCH_FILES = 64


def write_outputs(
    store: Store,
    summary: Summary,
    planned_with: Mapping[str, object],
    viewer_pages: int,
    *,
    markdown: bool = True,
) -> Summary:
    """Write `markdown/`, `records/`, `index.html`, `README.md` and, last, `summary.json` from the
    run's tables. Returns the summary as written, with the counts of records.

    `planned_with` are the settings in the run's plan.
    """
    try:
        if markdown:
            figures = GroupedRows(read_table(store, "figures"), "doc_id")
            with _markdown(store) as write:
                files_of: RowsOf = figures.of
                if Task.DATA in summary.tasks:
                    described = read_table(store, "descriptions", DATA_COLUMNS)
                    files_of = with_data_files(figures.of, GroupedRows(described, "doc_id").of)
                export_markdown(read_table(store, "documents"), files_of, write)
        summary = summary.with_records(write_records(store))
        if viewer_pages:
            _put_viewer(store, summary, viewer_pages)
    except OSError as error:
        # Name the file: one of many may be the problem.
        place = error.filename2 or error.filename or store.uri
        raise StorageError(
            f"{place}: {error.strerror or error}; the tables are complete, so run the same "
            "command again when that is fixed"
        ) from error
    write_card(store, summary, planned_with)
    store.put(SUMMARY_PATH, json.dumps(summary.as_dict(), indent=2).encode())
    return summary


def read_record_counts(store: Store) -> RecordCounts:
    """The counts of records in the existing `summary.json`."""
    existing = json.loads(store.get(SUMMARY_PATH))
    return RecordCounts(**existing.get("records", {}))


@contextmanager
def _markdown(store: Store) -> Iterator[Write]:
    if store.folder is not None:
        yield export_into(store.folder / "markdown")
        return
    pending: dict[str, bytes | Path] = {}

    def put() -> None:
        store.put_many(pending, "Markdown of documents")
        pending.clear()

    def write(path: PurePath, content: bytes) -> None:
        pending[f"markdown/{path.as_posix()}"] = content
        if len(pending) == BATCH_FILES:
            put()

    yield write
    if pending:
        put()


def _put_viewer(store: Store, summary: Summary, limit: int) -> None:
    if store.folder is not None:
        _write_viewer(store, summary, limit, store.folder / VIEWER_PATH)
        return
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as name:
        path = Path(name) / VIEWER_PATH
        _write_viewer(store, summary, limit, path)
        store.put(VIEWER_PATH, path)


def _write_viewer(store: Store, summary: Summary, limit: int, path: Path) -> None:
    chosen = _pages_to_show(store, limit)
    figures = GroupedRows(_of_pages(store, "figures", chosen), "page_id")
    descriptions = GroupedRows(_of_pages(store, "descriptions", chosen), "page_id")
    pages = _of_pages(store, "pages", chosen)
    records = GroupedRows(_records_of(store, chosen), "doc_id")
    write_viewer(
        *(pages, figures.of, descriptions.of, summary.as_dict(), path),
        records_of=records.of,
        max_pages=limit,
    )


def _pages_to_show(store: Store, limit: int) -> Collection[str]:
    """At most `limit` page ids: pages with problems, then the first pages."""
    fine: list[str] = []
    problems: list[str] = []
    for row in read_table(store, "pages", ["page_id", "status", "flaw"]):
        good = row["status"] in (PageStatus.OK, PageStatus.BLANK) and not doubt_message(row)
        into = fine if good else problems
        if len(into) < limit:
            into.append(row["page_id"])
    return frozenset(islice([*problems, *fine], limit))


def _of_pages(store: Store, table: str, page_ids: Collection[str]) -> Iterator[Row]:
    return read_table(store, table, only=("page_id", page_ids))


def _records_of(store: Store, page_ids: Collection[str]) -> Iterator[Row]:
    """The records of pages and of their documents."""
    documents = {page_id.partition("/")[0] for page_id in page_ids}
    return read_table(store, "records", only=("record_id", documents.union(page_ids)))
