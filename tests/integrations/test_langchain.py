"""The loader of documents for LangChain, with its own base class."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.document_loaders import BaseLoader

from llm_ocr import NoInputError
from llm_ocr.integrations.langchain import LlmOcrLoader
from tests import documents
from tests.evaluation.runs import page, write_run
from tests.servers.chat import ChatServer, serving_beside


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with serving_beside() as running:
        yield running


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "scans" / "report.pdf", pages=2)
    (tmp_path / "scans" / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    return tmp_path / "scans"


def test_pages_are_documents_with_their_places(scans: Path, server: ChatServer) -> None:
    loader = LlmOcrLoader(
        scans, blocks=True, base_url=server.base_url, skip_model_check=True, describe=False
    )
    assert isinstance(loader, BaseLoader)
    lazily = loader.lazy_load()
    broken = next(lazily)
    assert server.requests == [], "the next file is read when it is asked for"
    first, second = lazily
    assert (broken.page_content, broken.metadata["status"]) == ("", "failed")
    assert "can't be opened" in broken.metadata["error"]
    assert [one.metadata["page"] for one in (broken, first, second)] == [0, 1, 2]
    assert first.metadata["source"] == str(scans / "report.pdf")
    assert first.metadata["status"] == "ok"
    assert first.page_content.startswith("# Page")
    title = first.metadata["blocks"][0]
    assert title["label"] == "title"
    assert 0 < title["box"][0] < title["box"][2] <= first.metadata["width"]
    assert len({one.id for one in (broken, first, second)}) == 3


async def test_documents_are_loaded_whole_and_from_async_code(
    scans: Path, server: ChatServer
) -> None:
    loader = LlmOcrLoader(
        [scans / "report.pdf"],
        per_page=False,
        base_url=server.base_url,
        skip_model_check=True,
        describe=False,
    )
    (document,) = await loader.aload()
    assert document.page_content.count("# Page") == 2
    assert document.metadata["pages"] == 2
    assert "blocks" not in document.metadata


def test_a_run_is_loaded_without_reading_anything_again(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        page("x", 1, "# One"),
        page("x", 2, "", status="failed", error="broken", blocks=[]),
    )
    one, two = LlmOcrLoader(run=run, blocks=True).load()
    assert (one.page_content, one.metadata["page"], one.metadata["name"]) == ("# One", 1, "x")
    assert one.metadata["blocks"] == [{"label": "text", "box": [0, 0, 600, 800]}]
    assert (two.page_content, two.metadata["error"]) == ("", "broken")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="no such file or folder"):
        LlmOcrLoader(tmp_path / "nowhere.pdf").load()
