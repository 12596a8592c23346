"""One document in memory."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import llm_ocr
from llm_ocr import (
    EngineFailedError,
    NoInputError,
    PageStatus,
    StorageError,
    convert,
)
from tests import documents
from tests.servers.chat import serving_beside


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, so that what is left there can be seen."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_a_document_comes_back_with_its_pages_blocks_and_figures(
    tmp_path: Path, temporary: Path
) -> None:
    path = tmp_path / "report.pdf"
    documents.pdf(path, pages=3)
    with serving_beside() as server:
        read = convert(path, base_url=server.base_url)
        same = convert(path.read_bytes(), base_url=server.base_url)
    assert read.status is PageStatus.OK
    assert read.error is None
    assert [page.number for page in read.pages] == [1, 2, 3]
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
    assert same.markdown.count("# Page") == read.markdown.count("# Page") == 3
    assert list(temporary.iterdir()) == []


def test_a_document_that_cannot_be_read_is_a_failed_result(temporary: Path) -> None:
    with serving_beside() as server:
        read = convert(b"no document at all", base_url=server.base_url)
    assert read.status is PageStatus.FAILED
    assert read.error is not None
    assert read.error.startswith("the bytes given: this is text")
    assert str(temporary) not in read.markdown
    assert [(page.number, page.status) for page in read.pages] == [(0, PageStatus.FAILED)]


def test_only_one_document_is_taken(tmp_path: Path) -> None:
    for name in ("a", "b"):
        documents.pdf(tmp_path / "many" / f"{name}.pdf", pages=1)
    with pytest.raises(NoInputError, match="2 documents; convert takes one"):
        convert(tmp_path / "many")
    with pytest.raises(NoInputError, match="a web address can't be read yet"):
        convert("https://example.org/report.pdf")
    with pytest.raises(NoInputError, match="no such file or folder"):
        convert(tmp_path / "nowhere.pdf")


def test_a_server_that_is_gone_is_an_error_of_the_package(tmp_path: Path, temporary: Path) -> None:
    with serving_beside() as gone:
        pass
    documents.pdf(tmp_path / "report.pdf", pages=1)
    with pytest.raises(EngineFailedError, match="no response from"):
        convert(tmp_path / "report.pdf", base_url=gone.base_url, ready_timeout=0.5)
    assert list(temporary.iterdir()) == []


def test_all_public_names_can_be_imported_and_are_found_by_completion() -> None:
    for name in llm_ocr.__all__:
        assert getattr(llm_ocr, name) is not None
    assert dir(llm_ocr) == sorted(llm_ocr.__all__)
    assert issubclass(StorageError, Exception)
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        getattr(llm_ocr, "nonesuch")  # noqa: B009


def test_a_program_without_a_terminal_prints_nothing_of_its_own(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "report.pdf", pages=1)
    with serving_beside() as server:
        code = f"import llm_ocr; llm_ocr.convert({str(tmp_path / 'report.pdf')!r}, "
        code += f"base_url={server.base_url!r})"
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
    assert (done.stdout, done.stderr) == ("", "")
