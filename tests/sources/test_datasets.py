"""Datasets as inputs: which files and rows they are, and what is wrong with some."""

import json
import logging
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

from llm_ocr.batch.page_counting import count_documents
from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, ImagePolicy, Page, PageError
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import Shard, cut_shards
from tests import documents, shards

POLICY = ImagePolicy(400)
Read = list[tuple[Document, int | PageError]]


@pytest.fixture
async def pool() -> AsyncIterator[RenderPool]:
    async with RenderPool(1) as pool:
        yield pool


async def plan_shards(*inputs: Path | str, **settings: int) -> tuple[Shard, ...]:
    """The shards of inputs."""
    chosen = Settings(**settings)  # type: ignore[arg-type]
    async with RenderPool(1) as pool:
        listed = list_documents([str(one) for one in inputs])
        found = await count_documents(listed, chosen, pool, lambda event: None)
    return cut_shards(found, chosen.shard_pages)


def rows(found: tuple[Shard, ...]) -> list[list[tuple[str, str | None]]]:
    return [[(one.document.name, one.document.rows) for one in shard.documents] for shard in found]


async def read(pool: RenderPool, found: tuple[Shard, ...]) -> Read:
    """Each document of shards with its page count, or what is wrong with it."""
    several: Read = []
    for one in (one for shard in found for one in shard.documents):
        async for document, wrong in pool.rows(one.document):
            count = wrong or (await pool.inspect(document)).page_count
            several.append((document, count))
    return several


def codes(several: Read) -> list[int | ErrorCode]:
    return [one.code if isinstance(one, PageError) else one for _, one in several]


# Planning ----------------------------------------------------------------------------------------


async def test_shards_are_whole_row_groups_unless_too_large(tmp_path: Path) -> None:
    shards.images(tmp_path / "train-00000-of-00002.parquet", 10, group=4)
    shards.images(tmp_path / "train-00001-of-00002.parquet", 3, group=4)
    found = await plan_shards(tmp_path, shard_pages=8)
    assert rows(found) == [
        [("train-00000", "0-7")],
        [("train-00000", "8-9"), ("train-00001", "0-2")],
    ]
    assert [shard.document_count for shard in found] == [8, 5]
    first, second = rows(await plan_shards(tmp_path, shard_pages=3))[:2]
    assert (first, second) == ([("train-00000", "0-1")], [("train-00000", "2-3")])


async def test_list_of_images_counts_its_pages(tmp_path: Path) -> None:
    path = shards.albums(tmp_path / "a.parquet", [1, 2, 3, 1, 5, 1], group=2)
    found = await plan_shards(path, shard_pages=6)
    assert [shard.expected_pages for shard in found] == [3, 4, 6]
    assert rows(found) == [[("a", "0-1")], [("a", "2-3")], [("a", "4-5")]]


async def test_limit_takes_the_first_documents_of_all_kinds(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "one.pdf")
    path = shards.images(tmp_path / "a.parquet", 10, group=4)
    tar = shards.samples(tmp_path / "b.tar", 5)
    found = await plan_shards(tmp_path / "one.pdf", path, tar, limit=12)
    assert rows(found) == [[("one", None), ("a", "0-9"), ("b", "0")]]
    assert rows(await plan_shards(path, limit=6)) == [[("a", "0-5")]]
    assert rows(await plan_shards(path, limit=99)) == [[("a", "0-9")]]


async def test_sample_is_random_and_reproducible_by_seed(tmp_path: Path) -> None:
    for k in range(3):
        documents.picture(tmp_path / "files" / f"{k}.png")
    path = shards.images(tmp_path / "a.parquet", 60, group=10)
    tar = shards.samples(tmp_path / "b.tar", 20)
    inputs = (tmp_path / "files", path, tar)

    async def sample(**settings: int) -> list[str]:
        found = await plan_shards(*inputs, **settings)
        async with RenderPool(1) as pool:
            return [document.name for document, _ in await read(pool, found)]

    some = await sample(sample=12)
    assert len(set(some)) == 12
    assert some == await sample(sample=12, seed=0) == sorted(some, key=some.index)
    others = await sample(sample=12, seed=1)
    assert others != some
    assert {name[0] for name in await sample(sample=82)} == {"0", "1", "2", "a", "b"}
    assert len(await sample(sample=500)) == 83
    assert await sample(sample=2, limit=2) == ["0", "1"]


async def test_tar_is_counted_only_for_a_selection(tmp_path: Path) -> None:
    path = shards.samples(tmp_path / "b.tar", 5)
    assert rows(await plan_shards(path)) == [[("b", "0-")]]
    assert rows(await plan_shards(path, limit=3)) == [[("b", "0-2")]]


async def test_a_folder_with_documents_is_no_dataset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents.pdf(tmp_path / "one.pdf")
    shards.images(tmp_path / "a.parquet", 2)
    with caplog.at_level(logging.WARNING):
        assert [one.name for one in list_documents([str(tmp_path)])] == ["one"]
    assert f"{tmp_path}: in addition to documents there are 1 Parquet files or tars" in caplog.text
    named = list_documents([f"{tmp_path}/*.parquet?column=image"])
    assert [(one.name, one.kind, one.column) for one in named] == [("a", "parquet", "image")]


async def test_globs_and_folders_in_a_bucket(tmp_path: Path) -> None:
    place = f"memory://{uuid.uuid4().hex}/data"
    path = shards.images(tmp_path / "a.parquet", 2)
    for name in ("a/x-00000-of-00002.parquet", "a/x-00001-of-00002.parquet", "b/y.parquet"):
        open_store(place).put(name, path)
    open_store(place).put("README.md", b"")
    names = [one.name for one in list_documents([place])]
    assert names == ["a/x-00000", "a/x-00001", "b/y"]
    assert [one.name for one in list_documents([f"{place}/*/x-*.parquet"])] == [
        "a/x-00000",
        "a/x-00001",
    ]
    assert [one.name for one in list_documents([f"{place}/b/y.parquet?column=image"])] == ["y"]


# Reading -----------------------------------------------------------------------------------------


async def test_rows_are_documents_with_ids_by_position(tmp_path: Path, pool: RenderPool) -> None:
    path = shards.images(tmp_path / "train.parquet", 6, group=4)
    several = await read(pool, await plan_shards(path))
    assert [count for _, count in several] == [1] * 6
    document = several[5][0]
    assert (document.source_uri, document.name) == (f"{path}#row=5", "train-000005")
    assert json.loads(document.metadata or "") == {"id": 5, "word": "word 5"}
    assert len({document.doc_id for document, _ in several}) == 6
    image = await pool.render(Page(document, 1), POLICY)
    assert image.jpeg == shards.picture(5), "it is a JPEG and small enough: it is left as it is"


async def test_evicted_row_is_read_again(tmp_path: Path, pool: RenderPool) -> None:
    path = shards.albums(tmp_path / "a.parquet", [2, 3])
    (_, _), (document, count) = await read(pool, await plan_shards(path))
    assert count == 3
    pool.release(document)
    assert (await pool.render(Page(document, 3), POLICY)).jpeg == shards.picture(102)


async def test_a_column_of_pdfs(tmp_path: Path, pool: RenderPool) -> None:
    bodies = [documents.pdf(tmp_path / f"{k}.pdf", pages=k).read_bytes() for k in (1, 3)]
    path = shards.table(tmp_path / "a.parquet", {"pdf": bodies, "id": [1, 2]})
    several = await read(pool, await plan_shards(path))
    assert [count for _, count in several] == [1, 3]


async def test_samples_of_a_tar(tmp_path: Path, pool: RenderPool) -> None:
    body = documents.pdf(tmp_path / "x.pdf", pages=2).read_bytes()
    path = shards.tar(
        tmp_path / "a.tar",
        [
            ("in/0001.jpg", shards.picture(1)),
            ("in/0001.json", b'{"text": "one", "boxes": [1]}'),
            ("in/0002.left.png", shards.picture(2, "PNG")),
            ("in/0002.right.png", shards.picture(3, "PNG")),
            ("in/0003.pdf", body),
            ("in/0003.jpg", shards.picture(4)),
            ("in/0004.txt", b"nothing to see"),
        ],
    )
    several = await read(pool, await plan_shards(path))
    assert codes(several) == [1, 2, 2, ErrorCode.NO_PAGES]
    assert [json.loads(document.metadata or "") for document, _ in several] == [
        {"__key__": "in/0001", "text": "one"},
        {"__key__": "in/0002"},
        {"__key__": "in/0003"},
        {"__key__": "in/0004", "txt": "nothing to see"},
    ]
    assert "a.tar#row=3: the sample in/0004 holds no image or PDF but .txt" in str(several[3][1])
    (_, count), *_ = await read(pool, await plan_shards(f"{path}?column=left.png"))
    assert isinstance(count, PageError)
    assert "holds no left.png file but .jpg .json" in count.message


async def test_values_that_are_long_are_cut(tmp_path: Path, pool: RenderPool) -> None:
    columns = {f"c{k:02d}": ["x" * 5000] for k in range(40)}
    path = shards.table(tmp_path / "a.parquet", {"image": [shards.picture(1)], **columns})
    ((document, _),) = await read(pool, await plan_shards(path))
    values = json.loads(document.metadata or "")
    assert 0 < len(values) < 40
    assert all(len(value) == 1000 for value in values.values())


# What is wrong -----------------------------------------------------------------------------------


async def test_rows_without_content_are_reported_one_by_one(
    tmp_path: Path, pool: RenderPool
) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    good = {"bytes": shards.picture(1), "path": None}
    rows = [good, None, {"bytes": None, "path": "x.jpg"}, {"bytes": b"<html>", "path": None}, good]
    path = shards.table(tmp_path / "a.parquet", {"image": pa.array(rows, kind)})
    several: Read = []
    for one in (await plan_shards(path))[0].documents:
        async for document, wrong in pool.rows(one.document):
            try:
                several.append((document, wrong or (await pool.inspect(document)).page_count))
            except PageError as error:
                several.append((document, error))
    empty, unsupported = ErrorCode.EMPTY_FILE, ErrorCode.UNSUPPORTED_FORMAT
    assert codes(several) == [1, empty, empty, unsupported, 1]
    assert str(several[1][1]) == f"{path}#row=1, column image: there is nothing; leave the row"
    assert "there is only a path (x.jpg), no bytes" in str(several[2][1])
    assert f"{path}#row=3: this is a web page" in str(several[3][1])


async def test_broken_page_of_a_list_fails_alone(tmp_path: Path, pool: RenderPool) -> None:
    lists = [[shards.picture(1), None, b"no image", shards.picture(4)], []]
    path = shards.table(tmp_path / "a.parquet", {"images": lists})
    (document, count), (_, empty) = await read(pool, await plan_shards(path))
    assert count == 4
    assert "#row=1, column images: the list is empty" in str(empty)
    for number, said in ((2, "image 2: the image is empty"), (3, "image 3: the image can't")):
        with pytest.raises(PageError, match=f"{path}#row=0, {said}"):
            await pool.render(Page(document, number), POLICY)
    assert (await pool.render(Page(document, 4), POLICY)).jpeg == shards.picture(4)


async def test_invalid_parquet_file_is_one_failed_document(
    tmp_path: Path, pool: RenderPool
) -> None:
    shards.images(tmp_path / "b.parquet", 2)
    (tmp_path / "a.parquet").write_bytes(b"this is no Parquet")
    cut = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "c.parquet").write_bytes(cut[: len(cut) // 2])
    shards.table(tmp_path / "d.parquet", {"id": [1]})
    several = await read(pool, await plan_shards(tmp_path))
    corrupt = ErrorCode.CORRUPT_DOCUMENT
    assert codes(several) == [corrupt, 1, 1, corrupt, ErrorCode.UNSUPPORTED_FORMAT]
    assert f"{tmp_path}/a.parquet: it is no Parquet file, or cut off" in str(several[0][1])
    assert "no column holds bytes of images or PDFs. Columns: id (int64)" in str(several[4][1])


async def test_damage_in_a_file_is_reported_for_each_affected_row(
    tmp_path: Path, pool: RenderPool
) -> None:
    path = shards.images(tmp_path / "a.parquet", 8, group=4)
    body = bytearray(path.read_bytes())
    at = body.index(shards.picture(0))
    body[at - 30 : at] = b"\xff" * 30
    before = await plan_shards(path)
    path.write_bytes(body)
    several = await read(pool, await plan_shards(path))
    assert len(several) == 8
    assert codes(several) == [ErrorCode.CORRUPT_DOCUMENT] * 4 + [1] * 4
    assert f"{path}#row=3: the file is damaged there" in str(several[3][1])
    changed = await read(pool, before)
    assert codes(changed) == [ErrorCode.SOURCE_CHANGED] * 8


@pytest.mark.parametrize("limit", [None, 9])
async def test_truncated_tar_reports_what_is_lost(
    tmp_path: Path, pool: RenderPool, limit: int | None
) -> None:
    path = shards.samples(tmp_path / "a.tar", 5)
    body = path.read_bytes()
    path.write_bytes(body[: body.index(b"0003.jpg") + 1500])
    several = await read(pool, await plan_shards(path, **({"limit": limit} if limit else {})))
    assert codes(several) == [1, 1, 1, ErrorCode.CORRUPT_DOCUMENT]
    assert f"{path}#row=3: the tar is cut off or damaged here" in str(several[3][1])


async def test_invalid_tar_is_reported(tmp_path: Path, pool: RenderPool) -> None:
    (tmp_path / "a.tar").write_bytes(b"no tar" * 500)
    several = await read(pool, await plan_shards(tmp_path / "a.tar"))
    assert codes(several) == [ErrorCode.CORRUPT_DOCUMENT]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "left and right could hold the pages; add \\?column=left"),
        ("?column=middle", "column 'middle' is not there; .* Columns: left .binary."),
        ("?column=id", "column 'id' holds no bytes"),
        ("?colum=left", r"unknown parameter \?colum=; use \?config="),
    ],
)
async def test_missing_column_is_reported(tmp_path: Path, query: str, said: str) -> None:
    images = [shards.picture(1)]
    path = shards.table(tmp_path / "a.parquet", {"left": images, "right": images, "id": [1]})
    with pytest.raises(NoInputError, match=said):
        await plan_shards(f"{path}{query}")


async def test_empty_dataset_is_reported(tmp_path: Path) -> None:
    path = shards.table(tmp_path / "a.parquet", {"image": pa.array([], pa.binary())})
    with pytest.raises(NoInputError, match=r"a.parquet: the dataset has no rows"):
        await plan_shards(path)
    (tmp_path / "none").mkdir()
    with pytest.raises(NoInputError, match="holds no document"):
        await plan_shards(tmp_path / "none")
    with pytest.raises(NoInputError, match="no such file"):
        await plan_shards(tmp_path / "b.parquet")
