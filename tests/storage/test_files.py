"""Files that are there whole or not at all."""

from pathlib import Path

import pytest

from llm_ocr.storage.files import appearing


def test_two_that_write_one_file_at_once_do_not_hinder_each_other(tmp_path: Path) -> None:
    path = tmp_path / "below" / "page.md"
    with appearing(path) as first:
        with appearing(path) as second:
            first.write(b"the first")
            second.write(b"the second")
        assert path.read_bytes() == b"the second"
    assert path.read_bytes() == b"the first"
    assert list(path.parent.iterdir()) == [path]


def test_what_was_there_stays_when_the_writer_fails(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before")
    with pytest.raises(OSError, match="no space"), appearing(path) as target:
        target.write(b"half")
        raise OSError("no space left")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("\u9875" * 84 + ".md")
    with appearing(path) as target:
        target.write(b"text")
    assert path.read_bytes() == b"text"
