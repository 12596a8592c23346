"""Files that are there whole or not at all."""

from pathlib import Path

import pytest

from llm_ocr.storage.local_files import atomic_write


def test_concurrent_writers_of_one_file_both_succeed(tmp_path: Path) -> None:
    path = tmp_path / "below" / "page.md"
    with atomic_write(path) as first:
        with atomic_write(path) as second:
            first.write(b"the first")
            second.write(b"the second")
        assert path.read_bytes() == b"the second"
    assert path.read_bytes() == b"the first"
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before")
    with pytest.raises(OSError, match="no space"), atomic_write(path) as target:
        target.write(b"half")
        raise OSError("no space left")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_name_may_have_the_maximum_length(tmp_path: Path) -> None:
    path = tmp_path / ("\u9875" * 84 + ".md")
    with atomic_write(path) as target:
        target.write(b"text")
    assert path.read_bytes() == b"text"
