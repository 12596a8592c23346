"""Several workers on one run: which shards are whose."""

import json
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_pages, run
from llm_ocr.batch.partition import InvalidPartitionError, WorkerPartition, worker_partition
from llm_ocr.settings import Settings
from llm_ocr.tables.plan import Plan, Shard
from tests import documents
from tests.servers.chat import serving_beside


def test_worker_without_steal_work_does_only_its_share(tmp_path: Path) -> None:
    for k in range(4):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=1)
    out = tmp_path / "out"
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 1, "shard_count": 2}
        first = run(tmp_path / "in", out, shard_index=0, **chosen)
        assert {row["name"] for row in load_pages(out)} == {"0", "2"}
        assert first.pages == 2
        assert not (out / "summary.json").exists()
        run(tmp_path / "in", out, shard_index=1, **chosen)
    assert [row["name"] for row in load_pages(out)] == ["0", "1", "2", "3"]
    assert (out / "summary.json").exists()


def test_shares_are_disjoint_and_complete() -> None:
    plan = Plan(tuple(Shard(k, ()) for k in range(10)), {})
    parts = [WorkerPartition(index, 3).select(plan).shards for index in range(3)]
    assert sorted(shard.number for part in parts for shard in part) == list(range(10))


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, WorkerPartition(0, 1)),
        ({"CLOUD_RUN_TASK_INDEX": "3", "CLOUD_RUN_TASK_COUNT": "8"}, WorkerPartition(3, 8)),
        (
            {"AWS_BATCH_JOB_ARRAY_INDEX": "1", "AWS_BATCH_JOB_ARRAY_SIZE": "2"},
            WorkerPartition(1, 2),
        ),
        ({"RANK": "0", "WORLD_SIZE": "4"}, WorkerPartition(0, 4)),
        ({"RANK": "0"}, WorkerPartition(0, 1)),
    ],
)
def test_rank_is_read_from_platform_variables(
    environment: dict[str, str], share: WorkerPartition
) -> None:
    assert worker_partition(Settings(), environment) == share
    assert worker_partition(Settings(shard_index=1, shard_count=5), environment) == WorkerPartition(
        1, 5
    )


@pytest.mark.parametrize(("current", "index"), [("algo-1", 0), ("algo-9", 8), ("algo-10", 9)])
def test_rank_on_sagemaker_is_read_from_its_resource_file(
    tmp_path: Path, current: str, index: int
) -> None:
    hosts = sorted(f"algo-{k}" for k in range(1, 13))
    said = tmp_path / "resourceconfig.json"
    said.write_text(json.dumps({"current_host": current, "hosts": hosts}))
    assert worker_partition(Settings(), {}, said) == WorkerPartition(index, 12)
    assert worker_partition(Settings(shard_index=1, shard_count=5), {}, said) == WorkerPartition(
        1, 5
    )
    assert worker_partition(Settings(), {"RANK": "2", "WORLD_SIZE": "3"}, said) == WorkerPartition(
        2, 3
    )


@pytest.mark.parametrize("text", ["", "[]", '{"hosts": ["algo-1"]}', '{"current_host": "algo-1"}'])
def test_sagemaker_resource_file_without_hosts_is_reported(tmp_path: Path, text: str) -> None:
    said = tmp_path / "resourceconfig.json"
    said.write_text(text)
    with pytest.raises(InvalidPartitionError, match=r"resourceconfig\.json does not identify"):
        worker_partition(Settings(), {}, said)


@pytest.mark.parametrize(("rank", "size"), [("4", "4"), ("", "4"), ("-1", "4"), ("one", "4")])
def test_invalid_rank_is_reported(rank: str, size: str) -> None:
    with pytest.raises(InvalidPartitionError, match=f"RANK={rank} and WORLD_SIZE=4 are not"):
        worker_partition(Settings(), {"RANK": rank, "WORLD_SIZE": size})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shard_index": 4, "shard_count": 4}, "the last of 4 is 3"),
        ({"shard_index": 1}, "must be given together"),
        ({"shard_count": 3}, "must be given together"),
    ],
)
def test_invalid_shard_index_is_reported(settings: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidPartitionError, match=said):
        worker_partition(Settings(**settings), {})  # type: ignore[arg-type]
