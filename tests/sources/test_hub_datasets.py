"""Datasets on the Hub as inputs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_pages, run
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.storage.store import StorageError, create_repository, open_store
from tests import documents, shards
from tests.servers.chat import serving_beside

PUSH = """
import io, sys
from datasets import Dataset, Features, Image, List, Value
from tests import documents, shards

features = Features({"images": List(Image()), "source": Value("string")})
for config, splits in (("small", {"train": 5, "test": 2}), ("other", {"train": 3})):
    for split, rows in splits.items():
        images = [[{"bytes": shards.picture(k), "path": None}] * (1 + k % 2) for k in range(rows)]
        columns = {"images": images, "source": [f"{split} {k}" for k in range(rows)]}
        table = Dataset.from_dict(columns, features=features)
        table.push_to_hub("user/fine", config_name=config, split=split, num_shards=2)
"""


@pytest.fixture(scope="module")
def fine(hub: dict[str, str]) -> str:
    """A dataset with two configs, as `push_to_hub` makes it."""
    command = [sys.executable, "-c", PUSH]
    done = subprocess.run(command, env={**os.environ, **hub}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "hf://datasets/user/fine"


@pytest.fixture(autouse=True)
def _there(hub: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in hub.items():
        monkeypatch.setenv(key, value)


def listed_documents(source: str) -> list[tuple[str, str]]:
    return [(one.source_uri, one.name) for one in list_documents([source])]


def test_a_config_and_a_split(fine: str) -> None:
    assert listed_documents(f"{fine}?config=small&split=train") == [
        (f"{fine}/small/train-0000{k}-of-00002.parquet", f"small/train-0000{k}") for k in range(2)
    ]
    assert [name for _, name in listed_documents(f"{fine}@main?config=small&split=test")] == [
        "small/test-00000",
        "small/test-00001",
    ]
    assert [name for _, name in listed_documents(f"{fine}/other")] == ["train-00000", "train-00001"]
    assert [name for _, name in listed_documents(f"{fine}/small/test-*.parquet?column=images")] == [
        "test-00000",
        "test-00001",
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", r"choose a config with \?config=; options: other, small"),
        ("?config=tiny", "config 'tiny' does not exist; options: other, small"),
        ("?config=small&split=dev", "split 'validation' does not exist; options: test, train"),
    ],
)
def test_available_configs_and_splits_are_reported(fine: str, query: str, said: str) -> None:
    with pytest.raises(NoInputError, match=f"{fine}: {said}"):
        listed_documents(f"{fine}{query}")


def test_missing_repository_is_reported() -> None:
    with pytest.raises(StorageError, match="hf://datasets/user/none"):
        listed_documents("hf://datasets/user/none?config=x")


def test_dataset_without_parquet_is_read_from_the_hub_conversion(
    tmp_path: Path, hub: dict[str, str]
) -> None:
    from huggingface_hub import HfApi

    place = "hf://datasets/user/lines"
    create_repository(place, private=False)
    open_store(place).put("data.jsonl", b"{}")
    api = HfApi(hub["HF_ENDPOINT"], token=hub["HF_TOKEN"])
    api.create_branch("user/lines", branch="refs/convert/parquet", repo_type="dataset")
    path = shards.images(tmp_path / "a.parquet", 3)
    for name in ("default/train/0000.parquet", "default/test/0000.parquet"):
        api.upload_file(
            path_or_fileobj=path,
            path_in_repo=name,
            repo_id="user/lines",
            repo_type="dataset",
            revision="refs/convert/parquet",
        )
    ((uri, name),) = listed_documents(f"{place}?split=test")
    assert name == "default/test/0000"
    assert uri == f"{place}@refs/convert/parquet/default/test/0000.parquet"


def test_a_run_over_a_dataset(tmp_path: Path, fine: str) -> None:
    source = f"{fine}?config=small&split=train&column=images"
    chosen: dict[str, Any] = {"viewer_pages": 0, "concurrency": 2, "shard_pages": 2}
    with serving_beside() as server:
        summary = run(source, tmp_path / "out", limit=4, base_url=server.base_url, **chosen)
    assert (summary.documents, summary.pages) == (4, 6)
    pages = list(load_pages(tmp_path / "out"))
    assert [row["status"] for row in pages] == ["ok"] * 6
    assert [row["metadata"] for row in pages if row["page_number"] == 1] == [
        f'{{"source": "train {k}"}}' for k in range(4)
    ]
    uri = f"{fine}/small/train-00000-of-00002.parquet#row=0"
    assert pages[0]["source_uri"] == uri


def test_repository_of_documents_is_not_a_dataset(tmp_path: Path) -> None:
    place = "hf://datasets/user/scans"
    create_repository(place, private=False)
    with pytest.raises(NoInputError, match="no document"):
        listed_documents(place)
    with pytest.raises(NoInputError, match="no document"):
        listed_documents(f"{place}?split=train")
    open_store(place).put("a/one.pdf", documents.pdf(tmp_path / "one.pdf"))
    assert listed_documents(place) == [(f"{place}/a/one.pdf", "a/one")]
