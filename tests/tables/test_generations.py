"""A shard done again in part: what is kept, what stands, and what is swept."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llm_ocr.storage.store import Store, open_store
from llm_ocr.tables.commit_index import INDEX_FOLDER, CommitIndex
from llm_ocr.tables.commits import Commit, read_commit, unchanged_since
from llm_ocr.tables.counts import CountMismatchError, ItemResult
from llm_ocr.tables.data_files import published_ranges
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import with_all_columns
from llm_ocr.tables.shards import ShardWriter, publish

TABLES = ("pages", "figures")
ORDER = {"b": 0, "a": 1}
PAGES = [f"{doc}/{number}" for doc in ("b", "a") for number in (1, 2, 3)]


def result(page_id: str, status: str, text: str) -> ItemResult:
    page = {
        "page_id": page_id,
        "doc_id": page_id[0],
        "status": status,
        "markdown": text,
        "error_code": "corrupt_page" if status == "failed" else None,
        "attempts": 1,
        "prompt_tokens": 10,
        "completion_tokens": 5,
    }
    figures = [{"figure_id": f"{page_id}/1", "page_id": page_id, "caption": text}]
    rows = {"pages": [page], "figures": figures if status == "ok" else []}
    return ItemResult(page_id, status, rows, 10, 5, 1, page["error_code"])  # type: ignore[arg-type]


def do(store: Store, results: list[ItemResult], **arguments: object) -> Commit:
    writer = ShardWriter(store, "extract", "000000", TABLES, ORDER, **arguments)  # type: ignore[arg-type]
    writer.write_part(results)
    return writer.commit([one.item_id for one in results])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Six pages, of which `b/2` and `a/3` failed."""
    store = open_store(str(tmp_path / "run"))
    status = {"b/2": "failed", "a/3": "failed"}
    first = do(store, [result(one, status.get(one, "ok"), f"first {one}") for one in PAGES])
    publish(store, first, TABLES, ORDER)
    return store


def again(store: Store) -> Commit:
    """`b/2` is read now, `a/3` is not."""
    failed = result("a/3", "failed", "worse")
    stands = replace(failed, rows={}, is_unimproved=True, attempts=2, prompt_tokens=20)
    kept = frozenset(PAGES) - {"b/2", "a/3"}
    return do(store, [result("b/2", "ok", "second b/2"), stands], generation=1, unchanged_ids=kept)


def test_new_and_kept_rows_are_one_table_in_order(store: Store) -> None:
    commit = again(store)
    publish(store, commit, TABLES, ORDER)
    texts = [row["markdown"] for row in read_table(store, "pages")]
    assert texts == [
        *("first b/1", "second b/2", "first b/3"),
        *("first a/1", "first a/2", "first a/3"),
    ]
    captions = [row["caption"] for row in read_table(store, "figures")]
    assert captions == [text for text in texts if text != "first a/3"]
    assert [thing.path for thing in store.list("_staging")] == []
    assert {thing.path.rsplit("-")[-1] for thing in store.list("data")} == {"1.parquet"}


def test_counts_cover_new_and_kept_rows(store: Store) -> None:
    counts = again(store).counts
    assert (counts.items, counts.statuses) == (6, {"ok": 5, "failed": 1})
    assert counts.errors == {"corrupt_page": 1}
    assert counts.rows == {"pages": 6, "figures": 5}
    assert counts.attempts == {"1": 5, "2": 1}
    assert counts.prompt_tokens == 5 * 10 + 20
    assert read_commit(store, "extract", "000000", 1).counts == counts


def test_unchanged_shards_since_a_generation_are_known(store: Store) -> None:
    publish(store, again(store), TABLES, ORDER)
    kept = frozenset(PAGES) - {"b/1"}
    third = do(store, [result("b/1", "ok", "third")], generation=2, unchanged_ids=kept)
    publish(store, third, TABLES, ORDER)
    assert unchanged_since(store, "extract", "000000", 1, 2) == kept
    assert unchanged_since(store, "extract", "000000", 0, 2) == kept - {"b/2"}
    assert [row["markdown"] for row in read_table(store, "pages")][:2] == ["third", "second b/2"]


def test_item_both_kept_and_redone_is_refused(store: Store) -> None:
    with pytest.raises(CountMismatchError, match="7 came out"):
        do(store, [result("b/2", "ok", "x")], generation=1, unchanged_ids=frozenset(PAGES))


def test_publishing_an_older_generation_leaves_attempts_at_a_later_one(store: Store) -> None:
    first = read_commit(store, "extract", "000000", 0)
    writer = ShardWriter(store, "extract", "000000", TABLES, ORDER, generation=1)
    writer.write_part([result("b/2", "ok", "x")])
    late = ShardWriter(store, "extract", "000000", TABLES, ORDER)
    late.write_part([result("b/2", "ok", "too late")])
    publish(store, first, TABLES, ORDER)
    staged = [thing.path for thing in store.list("_staging")]
    assert len(staged) == 3
    assert all("/000000/1-" in path for path in staged)


def test_attempts_with_another_purpose_are_not_resumed(store: Store) -> None:
    writer = ShardWriter(store, "extract", "000000", TABLES, ORDER, generation=1, cache_key="x")
    writer.write_part([result("b/2", "ok", "x")])
    for purpose, taken in (("x", {"b/2"}), ("y", set()), ("", set())):
        other = ShardWriter(
            store, "extract", "000000", TABLES, ORDER, generation=1, cache_key=purpose
        )
        assert other.staged_items == taken


def test_session_indexes_are_merged_and_hold_the_latest_generation(store: Store) -> None:
    for generation in (0, 1):
        commit = read_commit(store, "extract", "000000", 0) if not generation else again(store)
        commit_index = CommitIndex(store, ["extract"])
        commit_index.add(commit)
        commit_index.write()
    assert len(list(store.list(INDEX_FOLDER))) == 2
    last = CommitIndex(store, ["extract"])
    last.refresh()
    last.consolidate()
    assert len(list(store.list(INDEX_FOLDER))) == 1
    found = CommitIndex(store, ["extract"])
    found.refresh()
    assert found.entries("extract")["000000"].generation == 1
    assert found.entries("extract")["000000"].counts.statuses == {"ok": 5, "failed": 1}
    assert found.is_published("extract", "000000")


def test_rows_of_an_earlier_version_get_missing_columns(store: Store) -> None:
    """As those of a run that was begun before pages had `flaw` and `missing`."""
    (piece,) = published_ranges(store, "pages").values()
    assert store.folder is not None
    path = store.folder / piece.path
    pq.write_table(pq.read_table(path).drop_columns(["flaw", "missing"]), path)
    publish(store, again(store), TABLES, ORDER)
    rows = list(read_table(store, "pages"))
    assert [row["page_id"] for row in rows] == PAGES
    assert {(row["flaw"], row["missing"]) for row in rows} == {(None, None)}


def test_rows_of_an_earlier_version_get_missing_parts_of_their_columns() -> None:
    """As those of a run that was begun before the evidence of records had `reading`."""
    before = {"path": "total", "matched": "exact", "quote": "3.50"}
    rows = pa.Table.from_pylist([{"record_id": "a", "evidence": [before]}, {"record_id": "b"}])
    [first, second] = with_all_columns(rows, "records").to_pylist()
    [found] = first["evidence"]
    assert {**found, **before} == found
    assert (found["reading"], found["extraction"]) == (None, None)
    assert second["evidence"] is None


def test_doubtful_pages_stay_counted_when_others_are_redone(store: Store) -> None:
    doubted = [result(one, "ok", "x") for one in PAGES]
    doubted[0].rows["pages"][0]["flaw"] = "disagrees"  # type: ignore[index]
    doubted[0] = replace(doubted[0], doubt="disagrees")
    first = do(store, doubted, generation=1)
    assert first.counts.doubts == {"disagrees": 1}
    publish(store, first, TABLES, ORDER)
    kept = frozenset(PAGES) - {"b/2"}
    second = do(store, [result("b/2", "ok", "y")], generation=2, unchanged_ids=kept)
    assert second.counts.doubts == {"disagrees": 1}
