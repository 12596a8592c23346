"""Documents in memory, with engines that stay warm."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import llm_ocr
from llm_ocr import (
    AsyncConverter,
    Block,
    Converter,
    DocumentResult,
    EngineFailedError,
    NoInputError,
    PageStatus,
    StorageError,
    load_documents,
    load_pages,
    run,
)
from llm_ocr.tables.rows import page_from_row
from tests import documents
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.web import CERTIFICATE, respond, serving_web_beside

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, so that what is left there can be seen."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with serving_beside() as server:
        yield server


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documents.pdf(tmp_path_factory.mktemp("documents") / "report.pdf", pages=3)


def test_a_document_comes_back_with_its_pages_blocks_and_figures(
    report: Path, server: ChatServer, temporary: Path
) -> None:
    with Converter(base_url=server.base_url) as converter:
        read = converter.convert(report)
        same = converter.convert(report.read_bytes())
    assert read.status is PageStatus.OK
    assert read.error is None
    assert [page.page_number for page in read.pages] == [1, 2, 3]
    assert {page.status for page in read.pages} == {PageStatus.OK}
    page = read.pages[0]
    assert page.markdown.strip()
    assert page.markdown.splitlines()[0] in read.markdown
    boxes = [block.box for block in page.blocks if block.box is not None]
    assert boxes
    assert page.width
    assert all(0 <= box.x1 < box.x2 <= page.width for box in boxes)
    assert read.figures
    for figure in read.figures:
        assert f"figures/{figure.name}" in read.markdown
        assert figure.image.size[0] > 10
        assert figure.image.getpixel((0, 0)) is not None, "the picture is whole"
        assert figure.description
        assert figure.description in read.markdown
    assert same.markdown.count("# Page") == read.markdown.count("# Page") == 3
    assert list(temporary.iterdir()) == []


def test_a_document_that_cannot_be_read_is_a_failed_result(
    server: ChatServer, temporary: Path
) -> None:
    with Converter(base_url=server.base_url) as converter:
        read = converter.convert(b"no document at all")
    assert read.status is PageStatus.FAILED
    assert read.error is not None
    assert read.error.startswith("the given bytes: this is text")
    assert str(temporary) not in read.markdown
    assert [(page.page_number, page.status) for page in read.pages] == [(0, PageStatus.FAILED)]


def test_a_url_is_downloaded_within_what_the_settings_allow(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, server: ChatServer
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    data = documents.pdf(tmp_path / "report.pdf", pages=2).read_bytes()
    broken = respond(b"%PDF-1.4 broken")
    with (
        serving_web_beside({"/my.pdf": respond(data), "/broken.pdf": broken}) as web,
        Converter(base_url=server.base_url, allow_private_urls=True) as private,
        Converter(base_url=server.base_url) as public,
    ):
        url = f"{web.url}/my.pdf?token=hush"
        read = private.convert(url)
        bad, gone = (private.convert(f"{web.url}/{name}") for name in ("broken.pdf", "gone.pdf"))
        refused = public.convert(url)
    assert (read.status, len(read.pages)) == (PageStatus.OK, 2)
    assert read.figures[0].name.startswith("my-p1")
    assert bad.error is not None
    assert bad.error.startswith(f"{web.url}/broken.pdf: the PDF can't be opened")
    for result, said in (
        (gone, f"{web.url}/gone.pdf: the server answered 404"),
        (refused, f"{web.url}/my.pdf: the host's address, 127.0.0.1, is not on the public"),
    ):
        assert result.status is PageStatus.FAILED
        assert [(page.page_number, page.error) for page in result.pages] == [(0, result.error)]
        assert result.error is not None
        assert result.error.startswith(said)
    assert list(temporary.iterdir()) == []


def test_only_one_document_is_taken(tmp_path: Path, server: ChatServer) -> None:
    for name in ("a", "b"):
        documents.pdf(tmp_path / "many" / f"{name}.pdf", pages=1)
    with Converter(base_url=server.base_url) as converter:
        with pytest.raises(NoInputError, match="2 documents; convert takes one"):
            converter.convert(tmp_path / "many")
        with pytest.raises(NoInputError, match="no such file or folder"):
            converter.convert(tmp_path / "nowhere.pdf")
        assert converter.convert(tmp_path / "many" / "a.pdf").status is PageStatus.OK


def test_a_server_that_is_gone_is_an_error_of_the_package(report: Path, temporary: Path) -> None:
    with serving_beside() as gone:
        pass
    with (
        Converter(base_url=gone.base_url, ready_timeout=0.5) as converter,
        pytest.raises(EngineFailedError, match="no response from"),
    ):
        converter.convert(report)
    assert list(temporary.iterdir()) == []


def test_the_model_is_checked_once_for_all_documents(report: Path) -> None:
    with serving_beside() as server, Converter(base_url=server.base_url) as converter:
        first = converter.convert(report)
        asked = len(server.requests)
        assert converter.convert(report).markdown == first.markdown
        assert len(server.requests) - asked == len(first.pages) + len(first.figures)


def test_several_documents_at_once_and_in_several_loops(report: Path, server: ChatServer) -> None:
    async def convert_all(count: int) -> list[DocumentResult]:
        async with AsyncConverter(base_url=server.base_url) as converter:
            return await asyncio.gather(*(converter.convert(report) for _ in range(count)))

    results = [*asyncio.run(convert_all(3)), *asyncio.run(convert_all(2))]
    assert len(results) == 5
    assert len({result.markdown for result in results}) == 1
    assert {result.status for result in results} == {PageStatus.OK}


@pytest.fixture(scope="module")
def warm() -> Iterator[tuple[Converter, list[str]]]:
    """A converter with the embedded engine, and what it notifies of."""
    lines: list[str] = []
    with Converter(engine="embedded", describe=False, notify=lines.append) as converter:
        yield converter, lines


@pytest.mark.parametrize(
    "name",
    [
        "report.pdf",
        "invoice.jpg",
        pytest.param("rotated-scan.pdf", marks=pytest.mark.long),
        pytest.param("letters.tiff", marks=pytest.mark.long),
    ],
)
def test_a_run_gives_the_same(tmp_path: Path, warm: tuple[Converter, list[str]], name: str) -> None:
    converter, _ = warm
    result = converter.convert(EXAMPLES / name)
    run(EXAMPLES / name, tmp_path, engine="embedded", describe=False, progress=False)
    assert [row["markdown"] for row in load_documents(tmp_path)] == [result.markdown]
    pages = [page_from_row(row) for row in load_pages(tmp_path)]
    assert [in_table(page.blocks) for page in pages] == [
        in_table(page.blocks) for page in result.pages
    ]
    assert [page.markdown for page in pages] == [page.markdown for page in result.pages]
    assert len(pages) > 0


def in_table(blocks: Sequence[Block]) -> list[Block]:
    """Blocks with their confidence as a table has it: in 32 bits."""
    return [
        replace(block, confidence=None if block.confidence is None else round(block.confidence, 6))
        for block in blocks
    ]


def test_the_engine_stays_warm(warm: tuple[Converter, list[str]]) -> None:
    converter, lines = warm
    for _ in range(2):
        assert converter.convert(EXAMPLES / "invoice.jpg").status is PageStatus.OK
    assert lines.count("starting the embedded engine") == 1


def test_a_text_layer_alone_needs_no_engine(tmp_path: Path) -> None:
    lines: list[str] = []
    chosen: dict[str, Any] = {"text_layer": "only", "describe": False}
    with Converter(notify=lines.append, **chosen) as converter:
        result = converter.convert(EXAMPLES / "report.pdf")
    assert lines == []
    run(EXAMPLES / "report.pdf", tmp_path, progress=False, **chosen)
    assert [row["markdown"] for row in load_documents(tmp_path)] == [result.markdown]
    assert "# " in result.markdown


class Invoice(BaseModel):
    invoice_number: str | None = None


@pytest.mark.long
@pytest.mark.parametrize("schema", ["invoice", Invoice])
def test_a_schema_makes_a_record(schema: str | type[BaseModel]) -> None:
    with Converter(engine="embedded", describe=False, schema=schema) as converter:
        result = converter.convert(EXAMPLES / "invoice.jpg")
    assert result.record is not None
    assert result.record["invoice_number"]
    [record] = result.records
    assert record.evidence
    [number] = [one for one in record.evidence if one.path == "invoice_number"]
    assert number.reading is not None
    assert 0.9 < number.reading <= 1
    readings = [one.reading for one in record.evidence if one.reading is not None]
    assert schema is Invoice or min(readings) < 1
    assert all(one.reading is None for one in record.evidence if one.matched is None)
    assert number.extraction is not None
    assert number.confidence <= number.extraction < 1
    assert record.doc_id == result.doc_id


def test_a_password_in_a_url_is_nowhere_in_the_result(server: ChatServer) -> None:
    with Converter(base_url=server.base_url) as converter:
        result = converter.convert(
            "https://user:secret-word@127.0.0.1:9/report.pdf?key=secret-word"
        )
    assert result.status is PageStatus.FAILED
    assert "secret-word" not in repr(result)


def test_all_public_names_can_be_imported_and_are_found_by_completion() -> None:
    for name in llm_ocr.__all__:
        assert getattr(llm_ocr, name) is not None
    assert dir(llm_ocr) == sorted(llm_ocr.__all__)
    assert issubclass(StorageError, Exception)
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        getattr(llm_ocr, "nonesuch")  # noqa: B009


def test_a_program_prints_nothing_of_its_own_and_leaves_nothing_behind(
    report: Path, server: ChatServer, tmp_path: Path
) -> None:
    chosen = f"base_url={server.base_url!r}"
    code = f"import llm_ocr\nfor _ in 1, 2: llm_ocr.convert({str(report)!r}, {chosen})"
    before = len(server.requests)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1", "TMPDIR": str(tmp_path)},
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) > before


PRINT_DESCENDANTS = """
import os, subprocess
found = {str(os.getpid())}
lines = subprocess.check_output(["ps", "-eo", "pid,ppid,args"], text=True)
for pid, parent, args in sorted(line.split(None, 2) for line in lines.splitlines()[1:]):
    if parent in found and "ps -eo" not in args:
        found.add(pid)
        print(pid, args)
"""


def test_an_engine_ends_with_the_process_that_converted(tmp_path: Path) -> None:
    example = str(EXAMPLES / "invoice.jpg")
    code = f"import llm_ocr\nllm_ocr.convert({example!r}, engine='embedded', describe=False)"
    done = subprocess.run(
        [sys.executable, "-c", code + PRINT_DESCENDANTS],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    started = [line.split()[0] for line in done.stdout.splitlines()]
    assert "llm_ocr.engines.embedded" in done.stdout
    for _ in range(200):
        if not any(map(is_running, started)):
            return
        time.sleep(0.1)
    raise AssertionError(f"still running: {done.stdout}")


def is_running(pid: str) -> bool:
    """Whether a process runs, and is not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
