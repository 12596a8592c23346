"""Runs whose small files were merged: the same rows, and everything else can still be done."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llm_ocr import load_pages, run
from llm_ocr.batch.compacting import compact_run
from llm_ocr.batch.maintenance import retry
from llm_ocr.batch.worker import resume
from llm_ocr.cli.commands import app
from llm_ocr.report.status import read_status
from llm_ocr.settings import Settings
from llm_ocr.storage.store import RunInUseError, open_store
from llm_ocr.tables.schema import SCHEMAS
from tests import documents
from tests.processes import run_module
from tests.runs import files, tables
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.moody import Moody

SHARDS = 6
CHOSEN: dict[str, Any] = {
    "render_workers": 1,
    "viewer_pages": 5,
    "fallback": "none",
    "concurrency": 1,
}


@pytest.fixture(scope="module")
def moody() -> Moody:
    return Moody({4})


@pytest.fixture(scope="module")
def server(moody: Moody) -> Iterator[ChatServer]:
    with serving_beside(moody.reply) as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, server: ChatServer, moody: Moody) -> Path:
    """A run of a document of three pages a shard, each page with a figure; one page failed."""
    folder = tmp_path_factory.mktemp("small")
    for k in range(SHARDS):
        documents.pdf(folder / "in" / f"{k}.pdf", pages=3)
    moody.seen.clear()
    run(folder / "in", folder / "out", base_url=server.base_url, shard_pages=3, **CHOSEN)
    return folder / "out"


@pytest.fixture
def out(small: Path, tmp_path: Path) -> Path:
    return shutil.copytree(small, tmp_path / "out")


def names(out: Path, table: str) -> list[str]:
    return sorted(path.name for path in (out / "data" / table).iterdir())


def visible(out: Path) -> dict[str, list[str]]:
    """The ids that a reader sees who opens all files of a table."""
    return {
        table: pq.read_table(out / "data" / table, columns=[schema.names[0]]).to_pydict()[
            schema.names[0]
        ]
        for table, schema in SCHEMAS.items()
        if (out / "data" / table).is_dir()
    }


def test_compaction_keeps_the_rows_in_fewer_files(small: Path, out: Path) -> None:
    done = CliRunner().invoke(app, ["compact", str(out)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert f"{out}/data/pages: 6 files, now 1" in done.output.replace("\n", "")
    assert names(out, "pages") == names(out, "documents") == ["000000-to-000005.parquet"]
    assert tables(str(out)) == tables(str(small))
    assert visible(out) == visible(small)
    groups = pq.ParquetFile(out / "data" / "pages" / names(out, "pages")[0]).metadata
    assert (groups.num_rows, groups.num_row_groups) == (18, 2)
    assert read_status(str(out)).stages == read_status(str(small)).stages


def test_files_grow_up_to_the_target_size(small: Path, out: Path) -> None:
    sizes = [path.stat().st_size for path in (out / "data" / "pages").iterdir()]
    assert 4 * max(sizes) < 1_000_000 < 5 * min(sizes)
    compact_run(out, file_mb=1)
    assert names(out, "pages") == ["000000-to-000003.parquet", "000004-to-000005.parquet"]
    assert tables(str(out)) == tables(str(small))


def test_second_compaction_changes_nothing_or_merges_new_files(
    tmp_path: Path, server: ChatServer
) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=1)
    documents.pdf(tmp_path / "in" / "b.pdf", pages=1)
    out, chosen = tmp_path / "out", {"base_url": server.base_url, "shard_pages": 1, **CHOSEN}
    run(tmp_path / "in", out, **chosen)
    compact_run(out)
    before = files(str(out), "data")
    compact_run(out)
    assert files(str(out), "data") == before
    documents.pdf(tmp_path / "in" / "c.pdf", pages=1)
    run(tmp_path / "in", out, update=True, **chosen)
    assert names(out, "pages") == ["000000-to-000001.parquet", "000002-0.parquet"]
    compact_run(out)
    assert names(out, "pages") == ["000000-to-000002.parquet"]
    assert [row["name"] for row in load_pages(out)] == ["a", "b", "c"]


def test_retry_after_compaction_gives_the_same_rows(
    small: Path, tmp_path: Path, server: ChatServer, moody: Moody
) -> None:
    plain, compacted = (shutil.copytree(small, tmp_path / name) for name in ("plain", "compacted"))
    compact_run(compacted)
    moody.refused = set()
    try:
        for out in (plain, compacted):
            summary = retry(out, Settings(base_url=server.base_url, **CHOSEN))
            assert summary.pages_by_status["ok"] == 18
    finally:
        moody.refused = {4}
    assert tables(str(compacted)) == tables(str(plain)) != tables(str(small))
    assert visible(compacted) == visible(plain)
    assert names(compacted, "pages") == names(plain, "pages")
    compact_run(compacted)
    assert tables(str(compacted)) == tables(str(plain))


def test_later_stages_read_compacted_files(tmp_path: Path, server: ChatServer) -> None:
    for k in range(3):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=1)
    chosen = {"base_url": server.base_url, "shard_pages": 1, **CHOSEN}
    for out in ("plain", "compacted"):
        run(tmp_path / "in", tmp_path / out, stages=("extract",), **chosen)
    compact_run(tmp_path / "compacted")
    for out in ("plain", "compacted"):
        settings = Settings(base_url=server.base_url, **CHOSEN)
        resume(tmp_path / out, settings, stages=("describe", "assemble"))
    assert tables(str(tmp_path / "compacted")) == tables(str(tmp_path / "plain"))
    assert names(tmp_path / "compacted", "pages") == ["000000-to-000002.parquet"]


def test_compaction_of_an_active_run_is_refused(tmp_path: Path, server: ChatServer) -> None:
    for k in range(2):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=1)
    out = tmp_path / "out"
    chosen = {"base_url": server.base_url, "shard_pages": 1, **CHOSEN}
    run(tmp_path / "in", out, shard_index=0, shard_count=2, **chosen)
    before = files(str(out), "data")
    with pytest.raises(RunInUseError, match=r"the run is not finished .*finish it with"):
        compact_run(out)
    assert files(str(out), "data") == before


DIES = [
    "before:^data/pages/:1",
    "after:^data/pages/.*to:1",
    "after:^data/pages/000002-0:1",
    "before:^data/documents/:1",
    "after:^data/documents/000005-0:1",
]


@pytest.mark.parametrize("point", DIES)
def test_killed_compaction_loses_nothing_and_the_next_finishes_it(
    small: Path, out: Path, point: str
) -> None:
    killed = run_module("tests.batch.dying_compact", out, point)
    assert killed.returncode == -9, killed.stderr
    assert tables(str(out)) == tables(str(small))
    compact_run(out)
    assert tables(str(out)) == tables(str(small))
    assert visible(out) == visible(small)
    assert names(out, "pages") == ["000000-to-000005.parquet"]


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        "after:^data/pages/000001-0:1",
        "before:^data/pages/.*to:1",
        "after:^data/pages/.*to:1",
        "after:^data/pages/000001-1:1",
        "before:^data/figures/000001-0:1",
    ],
)
def test_retry_killed_while_splitting_files_loses_nothing(
    small: Path, out: Path, server: ChatServer, moody: Moody, point: str
) -> None:
    compact_run(out)
    moody.refused = set()
    try:
        for now, ends in ((point, -9), ("never", 0)):
            done = run_module("tests.batch.dying_retry", out, server.base_url, now)
            assert done.returncode == ends, done.stderr
    finally:
        moody.refused = {4}
    assert {row["status"] for row in load_pages(out)} == {"ok"}
    assert sorted(visible(out)["pages"]) == sorted(visible(small)["pages"])
    assert list(open_store(str(out)).list("_staging")) == []
