"""Inputs that are odd: links, many of a name, names that are no text, folders that are shut."""

import logging
import os
import unicodedata
from pathlib import Path, PurePosixPath

import pytest

from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.sources.names import safe_name


def test_missing_inputs_are_reported() -> None:
    with pytest.raises(NoInputError, match="there is no input; name a file"):
        list_documents([])


def test_a_file_and_a_link_to_it_are_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("body")
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "same.pdf").symlink_to(tmp_path / "a.pdf")
    (found,) = list_documents([str(tmp_path)])
    assert found.source_uri == str(tmp_path / "a.pdf")


def test_dangling_link_is_a_document_that_fails(tmp_path: Path) -> None:
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


def test_longest_names_leave_room_for_suffixes(
    tmp_path: Path,
) -> None:
    """A figure's name is the document's with page and number; names are measured in bytes."""
    folder = tmp_path / ("deep" * 60)
    folder.mkdir()
    for name in ("a" * 251, "a" * 250 + "b", "漢" * 83, "short"):
        (folder / f"{name}.pdf").write_text("body")
    names = [PurePosixPath(one.name) for one in list_documents([str(tmp_path)])]
    assert len(set(names)) == 4
    assert "short" in [name.name for name in names]
    for part in (part for name in names for part in name.parts):
        assert len(f"{part}-jpeg-000123-p12345-12.json".encode()) <= 255
    assert [safe_name(PurePosixPath(f"{name}.pdf")) for name in names] == [
        str(one) for one in names
    ]


def test_deep_folders_fit_a_buckets_names(tmp_path: Path) -> None:
    below = PurePosixPath(*(f"{k}-" + "x" * 100 for k in range(12)))
    (tmp_path / below).mkdir(parents=True)
    (tmp_path / below.parent / "other").mkdir()
    for folder in (below, below.parent / "other"):
        (tmp_path / folder / "scan.pdf").write_text("body")
    names = [one.name for one in list_documents([str(tmp_path)])]
    assert len(set(names)) == 2
    for name in names:
        assert len(name.encode()) <= 700
        assert PurePosixPath(name).name == "scan"
        assert PurePosixPath(name).parts[0] == below.parts[0]


def test_names_differ_even_when_case_and_unicode_form_are_ignored(tmp_path: Path) -> None:
    """As on macOS: `é` as one character, and as `e` with an accent."""
    for name in ("caf\u00e9", "cafe\u0301", "CAFE\u0301", "stra\u00dfe", "STRASSE"):
        (tmp_path / f"{name}.pdf").write_text("body")
    names = [one.name for one in list_documents([str(tmp_path)])]
    folded = {unicodedata.normalize("NFC", name).casefold() for name in names}
    assert len(folded) == 5
    assert sum("caf\u00e9" in name for name in folded) == 3, "no accent is lost"


def test_tilde_is_home_at_the_start_and_literal_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`~$report.pdf` and `~draft` are names as good as others, where no user is called so."""
    home = tmp_path / "home"
    (home / "scans").mkdir(parents=True)
    (home / "scans" / "~mine.pdf").write_text("body")
    (tmp_path / "~$report.pdf").write_text("body")
    (tmp_path / "~draft").mkdir()
    (tmp_path / "~draft" / "a~b.pdf").write_text("body")
    (tmp_path / "list.txt").write_text("~$report.pdf\n~/scans/~mine.pdf\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)

    def found(given: str) -> list[str]:
        return [one.source_uri for one in list_documents([given])]

    mine, report = str(home / "scans" / "~mine.pdf"), str(tmp_path / "~$report.pdf")
    drafts = [str(tmp_path / "~draft" / "a~b.pdf")]
    assert found("~/scans") == found("~/scans/*.pdf") == [mine]
    assert found("~$report.pdf") == found("~$*.pdf") == [report]
    assert found("~draft") == drafts
    assert found("@list.txt") == [report, mine]
    with pytest.raises(NoInputError, match="~nobody: no such file"):
        list_documents(["~nobody"])


def test_invalid_paths_are_documents_that_fail(tmp_path: Path) -> None:
    listing = tmp_path / "files.txt"
    listing.write_text("x" * 5000 + ".pdf\n/\n..\n")
    assert list_documents([f"@{listing}"])[0].version == "missing"
    with pytest.raises(NoInputError, match="no such file or folder"):
        list_documents(["x" * 5000])


def test_file_list_with_zero_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "files.txt").write_text("a.pdf\0b.pdf\0")
    with pytest.raises(NoInputError, match="the list is no UTF-8 text; write"):
        list_documents([f"@{tmp_path}/files.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_unreadable_folder_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.pdf").write_text("body")
    (tmp_path / "shut").mkdir(mode=0)
    assert len(list_documents([str(tmp_path)])) == 1
    assert "shut: the folder is skipped (Permission denied)" in caplog.text
