"""The same documents through every store, as input and as output: equal tables, which open."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.same_pages import differing, opened, tables_of, upload
from llm_ocr import run
from llm_ocr.tables.schema import Row
from tests import documents
from tests.servers.chat import serving_beside


@pytest.fixture
def stores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    s3: dict[str, str],
    gcs: dict[str, str],
    hub: dict[str, str],
) -> dict[str, str]:
    """A place on each."""
    for key, value in {**s3, **gcs, **hub}.items():
        monkeypatch.setenv(key, value)
    buckets = {"s3": "s3://bucket/same", "gs": "gs://bucket/same"}
    return {"local": str(tmp_path), **buckets, "hub": "hf://datasets/user"}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A dozen documents, one of which can't be read."""
    folder = tmp_path / "documents"
    for number in range(4):
        documents.pdf(folder / f"{number}.pdf", pages=number + 1)
    for number in range(5):
        documents.picture(folder / "images" / f"{number}.png", f"picture {number}")
    documents.blank_image(folder / "images" / "blank.png")
    documents.cmyk_jpeg(folder / "colors.jpg")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    return folder


def check_opens(out: str, tables: Mapping[str, list[Row]], cache: Path) -> None:
    for table, rows in tables.items():
        assert len(opened(out, table, cache, streaming=False)) == len(rows)
    pages = opened(out, "pages", cache, streaming=False)
    figures = opened(out, "figures", cache, streaming=True)
    for shown, table in ((pages, "pages"), (figures, "figures")):
        for row, own in zip(shown, tables[table], strict=True):
            if own["image"] is None:
                assert row["image"] is None
            else:
                assert isinstance(row["image"], Image.Image)
                assert row["image"].size == (own["width"], own["height"])
    assert [row["markdown"] for row in pages] == [row["markdown"] for row in tables["pages"]]


@pytest.mark.long
def test_the_same_documents_give_the_same_tables(
    stores: dict[str, str], made: Path, tmp_path: Path
) -> None:
    ways = [("local", "local"), ("local", "s3"), ("s3", "gs"), ("gs", "hub"), ("hub", "local")]
    for place in stores.values():
        upload(made, f"{place}/in")
    first: dict[str, list[Row]] = {}
    with serving_beside() as server:
        # Shards in which nothing has a figure are among so small ones.
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 3, "viewer_pages": 0}
        for source, target in ways:
            out = f"{stores[target]}/out-{source}"
            run(f"{stores[source]}/in", out, **chosen)
            found = tables_of(out)
            first = first or found
            assert differing(first, found) == []
            if target != "hub":
                # Which takes a process of its own: see tests/report/test_card_on_hub.py.
                check_opens(out, found, tmp_path / f"cache-{source}-{target}")
    assert {table: len(rows) for table, rows in first.items()} | {"figures": 0} == {
        "pages": 18,
        "figures": 0,
        "descriptions": len(first["figures"]),
        "documents": 12,
    }
    assert 0 < len(first["figures"]) < 17


def test_a_difference_is_named() -> None:
    rows: dict[str, list[Row]] = {"documents": [{"name": "a", "markdown": "x"}]}
    assert differing(rows, {"documents": [{"name": "a", "markdown": "y"}]}) == [
        "documents.markdown"
    ]
    assert differing(rows, {"documents": []}) == ["documents"]
