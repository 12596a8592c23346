"""Inputs that are odd: links, many of a name, names that are no text, folders that are shut."""

import logging
import os
from pathlib import Path

import pytest

from llm_ocr.sources.open import NoInputError, list_documents


def test_no_input_at_all_is_said() -> None:
    with pytest.raises(NoInputError, match="there is no input; name a file"):
        list_documents([])


def test_a_file_and_a_link_to_it_are_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("body")
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "same.pdf").symlink_to(tmp_path / "a.pdf")
    (found,) = list_documents([str(tmp_path)])
    assert found.source_uri == str(tmp_path / "a.pdf")


def test_a_link_that_leads_nowhere_is_a_document_and_so_told_of(tmp_path: Path) -> None:
    (tmp_path / "lost.pdf").symlink_to(tmp_path / "gone.pdf")
    (found,) = list_documents([str(tmp_path)])
    assert (found.name, found.version) == ("lost", "missing")


def test_a_file_whose_name_is_no_utf_8_is_a_document_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "good.pdf").write_text("body")
    with open(os.fsencode(tmp_path) + b"/b\xe4d.pdf", "w") as file:
        file.write("body")
    with caplog.at_level(logging.WARNING):
        bad, good = list_documents([str(tmp_path)])
    assert good.name == "good"
    assert bad.version == "missing"
    assert f"{bad.source_uri} {bad.name}".encode().isascii()
    assert "rename it" in caplog.text


def test_many_files_of_one_name_are_numbered_at_once(tmp_path: Path) -> None:
    listing = tmp_path / "files.txt"
    listing.write_text("\n".join(f"/nowhere/{k}/scan.pdf" for k in range(5000)))
    names = [one.name for one in list_documents([f"@{listing}"])]
    assert names[:4] == ["scan", "scan-pdf", "scan-2", "scan-3"]
    assert len(set(names)) == 5000


def test_paths_that_can_not_be_are_documents_too(tmp_path: Path) -> None:
    listing = tmp_path / "files.txt"
    listing.write_text("x" * 5000 + ".pdf\n/\n..\n")
    assert list_documents([f"@{listing}"])[0].version == "missing"
    with pytest.raises(NoInputError, match="no such file or folder"):
        list_documents(["x" * 5000])


def test_a_list_with_zero_bytes_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "files.txt").write_text("a.pdf\0b.pdf\0")
    with pytest.raises(NoInputError, match="the list is no UTF-8 text; write"):
        list_documents([f"@{tmp_path}/files.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_that_is_shut_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.pdf").write_text("body")
    (tmp_path / "shut").mkdir(mode=0)
    assert len(list_documents([str(tmp_path)])) == 1
    assert "shut: the folder is skipped (Permission denied)" in caplog.text
