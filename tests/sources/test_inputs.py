"""Inputs become documents: which files are found, in which order, under which names."""

import os
from pathlib import Path

import pytest

from llm_ocr.sources.inputs import NoInputError, list_documents, parse_pages


def make_files(folder: Path, *names: str) -> list[Path]:
    """Files whose bodies don't matter: planning reads none."""
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("body")
    return paths


def names(*inputs: str | Path) -> list[str]:
    return [one.name for one in list_documents([str(one) for one in inputs])]


def files(*inputs: str | Path) -> list[str]:
    return [Path(one.source_uri).name for one in list_documents([str(one) for one in inputs])]


def test_a_file_is_a_document_with_its_size_and_kind(tmp_path: Path) -> None:
    scan, photo = make_files(tmp_path, "scan.pdf", "photo.jpg")
    pdf, image = list_documents([str(scan), str(photo)])
    assert (pdf.source_uri, pdf.name, pdf.kind, pdf.size) == (str(scan), "scan", "pdf", 4)
    assert (image.name, image.kind) == ("photo", "image")


def test_folder_is_searched_without_hidden_and_unknown_files(tmp_path: Path) -> None:
    make_files(tmp_path, "b.pdf", "a/deep/c.png", "notes.txt", ".hidden.pdf", ".git/d.pdf", "e")
    assert names(tmp_path) == ["a/deep/c", "b"]


def test_a_hidden_folder_that_is_named_is_searched(tmp_path: Path) -> None:
    make_files(tmp_path, ".cache/a.pdf")
    assert names(tmp_path / ".cache") == ["a"]


def test_a_folder_with_a_documents_ending_is_no_document(tmp_path: Path) -> None:
    make_files(tmp_path, "folder.pdf/inside.pdf")
    assert names(tmp_path) == ["folder.pdf/inside"]


@pytest.mark.parametrize("ending", ["pdf", "PDF", "Png", "JPG", "jpeg", "WebP", "TIF", "tiff"])
def test_file_extensions_ignore_case(tmp_path: Path, ending: str) -> None:
    make_files(tmp_path, f"file.{ending}")
    kind = "pdf" if ending.lower() == "pdf" else "image"
    assert [one.kind for one in list_documents([str(tmp_path)])] == [kind]


def test_a_glob_finds_documents_and_names_them_below_its_fixed_part(tmp_path: Path) -> None:
    make_files(tmp_path, "x/one/b.pdf", "x/two/a.pdf", "x/two/deeper/c.pdf", "x/two/notes.txt")
    assert names(tmp_path / "x" / "*" / "*") == ["one/b", "two/a"]
    assert names(tmp_path / "x" / "**" / "*.pdf") == ["one/b", "two/a", "two/deeper/c"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    (path, _) = make_files(tmp_path, "scan [1].pdf", "scan 1.pdf")
    assert files(path) == ["scan [1].pdf"]


def test_file_list_is_relative_to_its_own_folder(tmp_path: Path) -> None:
    (elsewhere,) = make_files(tmp_path, "elsewhere/c.pdf")
    make_files(tmp_path, "lists/sub/a.pdf", "b.pdf")
    listing = tmp_path / "lists" / "files.txt"
    listing.write_text(f"# a comment\n\n  sub/a.pdf \n../b.pdf\r\n{elsewhere}\n")
    assert files(f"@{listing}") == ["a.pdf", "b.pdf", "c.pdf"]
    assert names(f"@{listing}") == ["sub/a", "b", "c"]


def test_missing_listed_file_is_a_document(tmp_path: Path) -> None:
    listing = tmp_path / "files.txt"
    listing.write_text("gone.pdf\nodd.xyz\n.\n")
    gone, odd, folder = list_documents([f"@{listing}"])
    assert (gone.version, gone.size, gone.name) == ("missing", 0, "gone")
    assert odd.name == "odd"
    assert folder.name


def test_file_list_with_bom_and_crlf_is_read(tmp_path: Path) -> None:
    make_files(tmp_path, "Überblick.pdf")
    listing = tmp_path / "files.txt"
    listing.write_bytes("\ufeffÜberblick.pdf\r\n".encode())
    (document,) = list_documents([f"@{listing}"])
    assert (document.name, document.size) == ("Überblick", 4)


def test_a_file_that_several_inputs_give_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path, _) = make_files(tmp_path, "x/a.pdf", "x/b.pdf")
    monkeypatch.chdir(tmp_path / "x")
    given: list[str | Path] = [
        path,
        tmp_path / "x",
        tmp_path / "x" / "*.pdf",
        "a.pdf",
        "./b.pdf",
        "../x/a.pdf",
    ]
    assert names(*given) == ["a", "b"]


def test_input_with_only_duplicate_files_is_accepted(tmp_path: Path) -> None:
    (path,) = make_files(tmp_path, "a.pdf")
    assert names(tmp_path, path) == ["a"]


def test_the_order_is_the_same_each_time_and_sorted_within_an_input(tmp_path: Path) -> None:
    make_files(tmp_path, "z/2.pdf", "a/10.pdf", "a/2.pdf", "m.pdf")
    assert names(tmp_path / "z", tmp_path / "a") == ["2", "10", "2-pdf"]
    assert names(tmp_path) == ["a/10", "a/2", "m", "z/2"]
    assert list_documents([str(tmp_path)]) == list_documents([str(tmp_path)])


def test_names_are_unique_even_where_case_does_not_count(tmp_path: Path) -> None:
    make_files(tmp_path, "a.pdf", "a.png", "A.pdf", "a.PNG", "a-png.pdf")
    found = names(tmp_path)
    assert len({one.casefold() for one in found}) == len(found) == 5


def test_names_are_safe_for_files_and_links(tmp_path: Path) -> None:
    make_files(tmp_path, 'we:i?r*d "one"<2>.pdf', "..odd.pdf", "sub ./a\nb.pdf", "Straße (1).pdf")
    found = names(tmp_path, tmp_path / "..odd.pdf")
    assert "Straße (1)" in found
    for name in found:
        assert not set(name) & set(':?*"<>|\n\\#%')
        for part in name.split("/"):
            assert part == part.strip(". ") != ""


def test_names_never_escape_the_output(tmp_path: Path) -> None:
    make_files(tmp_path, "up.pdf", "lists/x.pdf")
    listing = tmp_path / "lists" / "files.txt"
    listing.write_text("../../../../../../../../../etc/passwd\n../up.pdf\n")
    found = names(f"@{listing}")
    assert len(found) == 2
    for name in found:
        assert not name.startswith("/")
        assert ".." not in name.split("/")


def test_the_id_changes_when_the_file_does_and_only_then(tmp_path: Path) -> None:
    (path,) = make_files(tmp_path, "a.pdf")
    (before,) = list_documents([str(path)])
    assert list_documents([str(tmp_path)])[0].doc_id == before.doc_id
    path.write_text("longer body")
    (longer,) = list_documents([str(path)])
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    (touched,) = list_documents([str(path)])
    assert len({before.doc_id, longer.doc_id, touched.doc_id}) == 3


def test_two_files_have_two_ids(tmp_path: Path) -> None:
    paths = make_files(tmp_path, "a.pdf", "b.pdf")
    for path in paths:
        os.utime(path, ns=(0, 0))
    assert len({one.doc_id for one in list_documents([str(tmp_path)])}) == 2


def test_missing_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match=r"gone\.pdf: no such file or folder; check"):
        list_documents([str(tmp_path / "gone.pdf")])


def test_missing_input_among_good_ones_is_reported(tmp_path: Path) -> None:
    (path,) = make_files(tmp_path, "a.pdf")
    with pytest.raises(NoInputError, match="gone"):
        list_documents([str(path), str(tmp_path / "gone")])


def test_empty_folder_is_reported_with_the_supported_formats(tmp_path: Path) -> None:
    make_files(tmp_path, "notes.txt")
    with pytest.raises(NoInputError, match=r"the folder holds no document .*\.pdf.*; ") as raised:
        list_documents([str(tmp_path)])
    assert str(tmp_path) in str(raised.value)


def test_glob_without_a_match_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match=r"\*\.pdf: the glob matches no document .*; quote"):
        list_documents([str(tmp_path / "*.pdf")])


@pytest.mark.parametrize("content", ["", "# only a comment\n\n"])
def test_empty_file_list_is_reported(tmp_path: Path, content: str) -> None:
    listing = tmp_path / "files.txt"
    listing.write_text(content)
    with pytest.raises(NoInputError, match=r"files\.txt: the list names no file; "):
        list_documents([f"@{listing}"])


def test_missing_file_list_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match=r"@.*files\.txt: .* be read \(No such file.*; check"):
        list_documents([f"@{tmp_path}/files.txt"])


def test_binary_file_list_is_reported(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.4 \xe2\xe3\xcf\xd3")
    with pytest.raises(NoInputError, match=r"@.*scan\.pdf: the list is no UTF-8 text; write"):
        list_documents([f"@{tmp_path}/scan.pdf"])


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("1", [1]),
        ("1-3,5", [1, 2, 3, 5]),
        (" 2 - 3 , 9-", [2, 3, 9, 10]),
        ("3-", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("4,2,2-3", [2, 3, 4]),
        ("9-400", [9, 10]),
        ("11", []),
        ("11-", []),
    ],
)
def test_pages_are_selected(text: str, chosen: list[int]) -> None:
    assert parse_pages(text).select(10) == chosen


@pytest.mark.parametrize("text", ["", "0", "0-3", "5-2", "-3", "a", "1,,2", "1-2-3", "1.5", "²"])
def test_invalid_page_ranges_are_reported(text: str) -> None:
    with pytest.raises(ValueError, match="is no range; write them as 1-5,9"):
        parse_pages(text)
