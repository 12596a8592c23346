"""Which files are those of a config and a split."""

import uuid

import pytest

from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.storage.store import open_store

# As `push_to_hub` writes it, and with patterns and folders as people do.
README = """---
license: mit
configs:
- config_name: first
  data_files:
  - split: train
    path: first/train-*
  - split: test
    path: [first/test-*, more/extra.parquet]
- config_name: second
  data_dir: second
  default: true
- config_name: third
  data_files: "{third}/**/*.parquet"
- config_name: texts
  data_files: texts/*.jsonl
---
# A dataset
"""
FILES = (
    "first/train-00000-of-00002.parquet",
    "first/train-00001-of-00002.parquet",
    "first/test-00000-of-00001.parquet",
    "more/extra.parquet",
    "second/validation/0000.parquet",
    "third/deep/er/one.parquet",
    "third/two.parquet",
)


def place_of(files: tuple[str, ...], readme: str | None = None) -> str:
    place = f"memory://{uuid.uuid4().hex}/data"
    for name in files:
        open_store(place).put(name, b"")
    if readme is not None:
        open_store(place).put("README.md", readme.encode())
    return place


def listed_uris(place: str, query: str) -> list[str]:
    listed = list_documents([f"{place}?{query}"])
    return [one.source_uri.removeprefix(f"{place}/") for one in listed]


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("config=first&split=train", FILES[:2]),
        ("config=first&split=test", FILES[2:4]),
        ("config=second&split=validation", FILES[4:5]),
        ("config=second&split=val", FILES[4:5]),
        ("config=third", FILES[5:7]),
        ("split=validation", FILES[4:5]),
    ],
)
def test_the_readme_names_configs_and_splits(query: str, files: tuple[str, ...]) -> None:
    assert listed_uris(place_of(FILES, README.replace("{third}", "third")), query) == list(files)


@pytest.mark.parametrize(
    ("files", "query", "wanted"),
    [
        (("data/train-00000-of-00001.parquet", "data/test-00000.parquet"), "split=test", [1]),
        (("train.parquet", "test.parquet"), "split=train", [0]),
        (("a/train-00000.parquet", "b/train-00000.parquet"), "config=b", [1]),
        (("a/train/0000.parquet", "a/test/0000.parquet"), "config=a&split=train", [0]),
        (("a/partial-train/0000.parquet",), "config=a&split=train", [0]),
        (("shard-000000.tar", "shard-000001.tar", "notes.txt"), "config=default", [0, 1]),
        (("data/eng_train-0001.tar", "data/eng_dev-0001.tar"), "split=validation", [1]),
    ],
)
def test_configs_come_from_folders_and_names_without_a_readme(
    files: tuple[str, ...], query: str, wanted: list[int]
) -> None:
    assert listed_uris(place_of(files), query) == [files[k] for k in wanted]
    assert listed_uris(place_of(files, "---\n[broken: yaml\n---\n"), query) == [
        files[k] for k in wanted
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("config=fourth", "config 'fourth' does not exist; options: first, second, third"),
        ("config=first", r"choose a split with \?split=; options: test, train"),
        ("config=first&split=dev", "split 'validation' does not exist; options: test, train"),
    ],
)
def test_unknown_config_is_reported_with_the_known_ones(query: str, said: str) -> None:
    with pytest.raises(NoInputError, match=said):
        listed_uris(place_of(FILES, README.replace("{third}", "third")), query)
