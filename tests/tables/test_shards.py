import math
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from llm_ocr.documents import Document
from llm_ocr.storage.objects import ObjectStore
from llm_ocr.storage.store import Store, StoredObject, open_store
from llm_ocr.tables.commits import latest_generations, read_commit
from llm_ocr.tables.counts import CountMismatchError, ItemResult
from llm_ocr.tables.plan import (
    Plan,
    PlannedDocument,
    SettingsMismatchError,
    Shard,
    cut_shards,
    read_plan,
    write_plan,
)
from llm_ocr.tables.read import read_table
from llm_ocr.tables.shards import ShardWriter, publish

TABLES = ("pages", "figures")
ORDER = {"doc-b": 0, "doc-a": 1}
PAGES = [f"{doc}/{number}" for doc in ("doc-b", "doc-a") for number in range(1, 41)]


def document(k: int) -> Document:
    return Document(f"doc{k}", f"/in/{k}.pdf", "1-1", f"{k}", "pdf", 1)


def result(page_id: str, status: str = "ok") -> ItemResult:
    doc_id = page_id.split("/")[0]
    page = {"page_id": page_id, "doc_id": doc_id, "status": status, "markdown": f"text {page_id}"}
    figure = {"figure_id": f"{page_id}/1", "page_id": page_id, "doc_id": doc_id}
    return ItemResult(page_id, status, {"pages": [page], "figures": [figure]}, 10, 5, 1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "run"))


def writer(store: Store, **arguments: object) -> ShardWriter:
    return ShardWriter(store, "extract", "000000", TABLES, ORDER, **arguments)  # type: ignore[arg-type]


def write(shard: ShardWriter, pages: list[str]) -> None:
    for page in pages:
        shard.add(result(page))
    shard.write_part(shard.drain())


def test_documents_never_straddle_shards_and_large_ones_are_alone() -> None:
    counts = [3, 3, 3, 20, None, 8, 2]
    planned = [PlannedDocument(document(k), pages) for k, pages in enumerate(counts)]
    shards = cut_shards(planned, 8)
    held = [[one.document.doc_id for one in shard.documents] for shard in shards]
    assert held == [["doc0", "doc1"], ["doc2"], ["doc3"], ["doc4"], ["doc5"], ["doc6"]]
    assert [shard.number for shard in shards] == list(range(6))


@pytest.mark.parametrize("workers", [2, 8, 24])
@pytest.mark.parametrize("total", [2_000, 10_000])
def test_shards_for_several_workers_get_smaller_so_that_all_end_together(
    workers: int, total: int
) -> None:
    lengths = random.Random(workers)
    counts: list[int] = []
    while sum(counts) < total:
        counts.append(lengths.choice([1, 1, 2, 5, 8, 13]))
    planned = [PlannedDocument(document(k), pages) for k, pages in enumerate(counts)]
    shards = cut_shards(planned, 512, workers=workers)
    assert [one for shard in shards for one in shard.documents] == planned
    assert max(shard.expected_pages for shard in shards) <= 512
    assert shards[-1].expected_pages <= 32
    # With a share of the shards each, and with the next shard for whoever has done one.
    shares, taken = [0] * workers, [0] * workers
    for shard in shards:
        shares[shard.number % workers] += shard.expected_pages
        taken[taken.index(min(taken))] += shard.expected_pages
    assert max(shares) - sum(counts) / workers < 100
    assert max(taken) - sum(counts) / workers < 32


def row_group(file: int, rows: int, pages: int, **chosen: int) -> PlannedDocument:
    whole = Document(f"file{file}", f"/in/{file}.parquet", "1-1", f"{file}", "parquet", 1)
    return PlannedDocument(whole.with_rows([(0, rows - 1)]), pages, **chosen)  # type: ignore[arg-type]


def row_uris(documents: Iterable[PlannedDocument]) -> list[str]:
    return [
        one.document.row(number).source_uri
        for one in documents
        for first, last in one.document.ranges
        for number in range(first, (last or 0) + 1)
    ]


@pytest.mark.parametrize("workers", [2, 8, 24])
@pytest.mark.parametrize("rows", [20, 100, 1_000, 7_000])
@pytest.mark.parametrize("ratio", [0.3, 1, 3])
def test_row_groups_are_split_so_that_all_workers_end_together(
    workers: int, rows: int, ratio: float
) -> None:
    pages = round(rows * ratio)
    planned = [row_group(k, rows, pages) for k in range(math.ceil(6_000 / pages))]
    shards = cut_shards(planned, 512, workers=workers)
    assert row_uris(one for shard in shards for one in shard.documents) == row_uris(planned)
    assert sum(shard.expected_pages for shard in shards) == pages * len(planned)
    assert max(shard.expected_pages for shard in shards) <= 512
    taken = [0] * workers
    for shard in shards:
        taken[taken.index(min(taken))] += shard.expected_pages
    assert max(taken) - pages * len(planned) / workers < 32
    # A part is read from the start of its row group: there are few more than without the workers.
    parts = sum(len(shard.documents) for shard in shards)
    whole = sum(len(shard.documents) for shard in cut_shards(planned, 512))
    assert parts <= whole + 8 * workers


def test_part_of_a_row_group_is_not_smaller_than_worth_reading() -> None:
    group = row_group(0, 2_000, 2_000, smallest_part=100)
    sizes = [shard.expected_pages for shard in cut_shards([group], 512, workers=4)]
    assert 50 <= min(sizes) <= 100
    larger = row_group(0, 2_000, 2_000, smallest_part=9_999)
    assert cut_shards([larger], 512, workers=4) == cut_shards([larger], 512)


def test_selected_rows_are_split() -> None:
    group = row_group(0, 1_000, 1_000)
    numbers = sorted(random.Random(1).sample(range(1_000), 300))
    chosen = group.document.with_rows([(number, number) for number in numbers])
    shards = cut_shards([PlannedDocument(chosen, 300)], 100)
    assert [shard.document_count for shard in shards] == [100] * 3
    assert row_uris(one for shard in shards for one in shard.documents) == [
        f"/in/0.parquet#row={number}" for number in numbers
    ]


def test_first_plan_is_kept_and_other_settings_are_refused(store: Store) -> None:
    shard = Shard(0, (PlannedDocument(document(0), 3), PlannedDocument(document(1), None)))
    first = Plan((shard,), {"model": "a", "pages": None})
    assert read_plan(store) is None
    assert write_plan(store, first) == first
    assert read_plan(store) == first
    assert write_plan(store, Plan((), {"model": "a", "pages": None})) == first
    with pytest.raises(SettingsMismatchError, match="model was 'a', is now 'b'"):
        write_plan(store, Plan((), {"model": "b", "pages": None}))


def test_rows_are_in_order_whatever_order_they_finish_in(store: Store) -> None:
    pages = random.Random(1).sample(PAGES, len(PAGES))
    shard = writer(store)
    for part in _nines(pages):
        write(shard, part)
    commit = shard.commit(PAGES)
    publish(store, commit, TABLES, ORDER)
    assert [row["page_id"] for row in read_table(store, "pages")] == PAGES
    assert [row["page_id"] for row in read_table(store, "figures")] == PAGES
    assert commit.counts.statuses == {"ok": len(PAGES)}
    assert (commit.counts.prompt_tokens, commit.counts.rows["figures"]) == (800, 80)
    assert {thing.path.split("/")[0] for thing in store.list("")} == {"commits", "data"}


def _nines(pages: list[str]) -> list[list[str]]:
    return [pages[k : k + 9] for k in range(0, len(pages), 9)]


def test_successor_resumes_from_staged_parts(store: Store) -> None:
    dead = writer(store)
    write(dead, PAGES[:30])
    dead.add(result(PAGES[30]))  # held in memory only: lost with its worker
    heir = writer(store)
    assert heir.staged_items == frozenset(PAGES[:30])
    write(heir, PAGES[30:])
    publish(store, heir.commit(PAGES), TABLES, ORDER)
    assert [row["page_id"] for row in read_table(store, "pages")] == PAGES


def test_incomplete_part_is_ignored(store: Store) -> None:
    dead = writer(store)
    write(dead, PAGES[:10])
    store.delete(thing.path for thing in store.list("_staging") if thing.path.endswith(".json"))
    assert writer(store).staged_items == frozenset()


def test_two_workers_on_one_shard_publish_the_same_commit(store: Store) -> None:
    one, two = writer(store), writer(store)
    write(one, PAGES)
    write(two, PAGES)
    first, second = one.commit(PAGES), two.commit(PAGES)
    assert first == second
    publish(store, first, TABLES, ORDER)
    publish(store, second, TABLES, ORDER)
    assert [row["page_id"] for row in read_table(store, "pages")] == PAGES
    assert latest_generations(store, "extract") == {"000000": 0}


def test_parts_deleted_while_listed_belong_to_the_winning_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer(store)
    write(first, PAGES)
    commit = first.commit(PAGES)
    found = ObjectStore.list

    def just_before(self: ObjectStore, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        things = list(found(self, prefix, after=after))
        monkeypatch.undo()
        publish(store, commit, TABLES, ORDER)
        return iter(things)

    monkeypatch.setattr(ObjectStore, "list", just_before)
    late = writer(store)
    assert late.staged_items == frozenset()
    write(late, PAGES)
    assert late.commit(PAGES) == commit


def test_overlapping_parts_of_two_attempts_count_each_item_once(store: Store) -> None:
    one, two = writer(store), writer(store)
    write(one, PAGES[:10])
    write(two, PAGES[5:20])
    heir = writer(store)
    rest = [page for page in PAGES if page not in heir.staged_items]
    write(heir, rest)
    publish(store, heir.commit(PAGES), TABLES, ORDER)
    assert [row["page_id"] for row in read_table(store, "pages")] == PAGES


def test_a_shard_that_does_not_balance_is_not_committed(store: Store) -> None:
    shard = writer(store)
    write(shard, PAGES[:-1])
    with pytest.raises(CountMismatchError, match="80 items went in, 79 came out"):
        shard.commit(PAGES)
    assert latest_generations(store, "extract") == {}


def test_new_generation_replaces_the_old_one(store: Store) -> None:
    first = writer(store)
    write(first, PAGES)
    publish(store, first.commit(PAGES), TABLES, ORDER)
    second = writer(store, generation=1)
    assert second.staged_items == frozenset()
    for page in PAGES:
        second.add(result(page, "truncated"))
    second.write_part(second.drain())
    commit = second.commit(PAGES)
    publish(store, commit, TABLES, ORDER)
    assert {row["status"] for row in read_table(store, "pages")} == {"truncated"}
    assert latest_generations(store, "extract") == {"000000": 1}
    assert read_commit(store, "extract", "000000", 1) == commit
    assert len(list(store.list("data/pages"))) == 1


def test_a_published_file_has_small_row_group(store: Store) -> None:
    shard = writer(store)
    write(shard, PAGES)
    publish(store, shard.commit(PAGES), TABLES, ORDER)
    with store.open("data/pages/000000-0.parquet") as source:
        assert pq.ParquetFile(source).metadata.num_row_groups == len(PAGES) // 16


def test_reading_a_run_does_not_load_pandas(tmp_path: Path) -> None:
    """It takes longer than everything else that a command loads, where it is installed."""
    store = open_store(str(tmp_path))
    write_plan(store, Plan(cut_shards([], 1), {}))
    asked = (
        "import sys; from llm_ocr.storage.store import open_store; "
        "from llm_ocr.tables.plan import read_plan; "
        f"read_plan(open_store({str(tmp_path)!r})); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
