"""Parse over what other commands leave: compacted tables, buckets, several workers."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import Settings, load_pages, load_records, parse
from llm_ocr.batch.compacting import compact_run
from tests import documents
from tests.batch.test_parse_run import BILL, GOOD, is_guided
from tests.servers.chat import answer, at_once, serving_beside


def reply(body: dict[str, Any]) -> web.Response:
    return answer(json.dumps(GOOD)) if is_guided(body) else at_once(body)


@pytest.fixture
def settings(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    return Settings(shard_pages=2)


@pytest.fixture
def bill(tmp_path: Path) -> str:
    (tmp_path / "bill.py").write_text(BILL)
    return str(tmp_path / "bill.py")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for number in range(6):
        documents.pdf(tmp_path / "in" / f"{number}.pdf", pages=1 + number % 2)
    return tmp_path / "in"


def schemas(out: str) -> list[str]:
    return [row["schema"] for row in load_records(out)]


@pytest.mark.long
@pytest.mark.parametrize("place", ["disk", "s3://bucket/compacted"])
def test_records_in_merged_files_are_replaced(
    tmp_path: Path, inputs: Path, settings: Settings, bill: str, place: str
) -> None:
    out = str(tmp_path / "out") if place == "disk" else place
    with serving_beside(reply) as server:
        given = settings.model_copy(update={"base_url": server.base_url})
        parse(inputs, out, bill, given)
        assert compact_run(out).after["records"] == 1
        before = len(server.requests)
        parse(out, None, bill, given)
        assert len(server.requests) == before
        parse(out, None, "receipt", given)
    assert schemas(out) == ["receipt"] * 6


def test_a_run_in_a_bucket_is_parsed_into_a_folder_and_back(
    tmp_path: Path, inputs: Path, settings: Settings, bill: str
) -> None:
    there, here = "s3://bucket/there", str(tmp_path / "here")
    with serving_beside(reply) as server:
        given = settings.model_copy(update={"base_url": server.base_url})
        parse(inputs, there, bill, given)
        parse(there, here, "receipt", given)
        parse(here, "s3://bucket/back", "invoice", given)
    found = [schemas(place) for place in (there, here, "s3://bucket/back")]
    assert found == [["Bill"] * 6, ["receipt"] * 6, ["invoice"] * 6]
    pages = [[row["markdown"] for row in load_pages(place)] for place in (there, here)]
    assert pages[0] == pages[1]


def test_workers_share_the_parse_stage(
    tmp_path: Path, inputs: Path, settings: Settings, bill: str
) -> None:
    out = str(tmp_path / "out")
    with serving_beside(reply) as server:
        asked = []
        for index in (0, 1):
            share = {"base_url": server.base_url, "shard_index": index, "shard_count": 2}
            summary = parse(inputs, out, bill, settings.model_copy(update=share))
            asked.append(sum(map(is_guided, server.requests)))
    assert 0 < asked[0] < asked[1] == 9, "each page of the nine by one of the two"
    assert schemas(out) == ["Bill"] * 6
    assert summary.records.by_status == {"ok": 6}
