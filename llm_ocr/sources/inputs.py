"""Listing the documents of inputs (files, folders, globs, list files), without reading them."""

import glob
import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from llm_ocr.documents import Document, document_id
from llm_ocr.sources.configs import UnknownSplitError
from llm_ocr.sources.datasets import (
    DatasetSource,
    InvalidQueryError,
    list_converted_files,
    list_dataset_files,
    parse_dataset_source,
)
from llm_ocr.sources.listing import glob_root, is_remote, walk_folder
from llm_ocr.sources.names import (
    DATASET_KINDS,
    KINDS,
    file_version,
    name_key,
    path_uri,
    safe_name,
)
from llm_ocr.sources.remote import remote_documents

_log = logging.getLogger(__name__)
# A scheme in front, as of an address: https://host/path.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_RANGE = re.compile(r"\s*(\d+)\s*(?:(-)\s*(\d+)?\s*)?")


class NoInputError(ValueError):
    """There is nothing to read; the message names the input and says what to do."""


@dataclass(frozen=True)
class PageSelection:
    """Ranges of page numbers, from 1; an open one has no end."""

    ranges: tuple[tuple[int, int | None], ...]

    def select(self, page_count: int) -> list[int]:
        """The selected pages that a document of `page_count` pages has, in order."""
        chosen = {
            number
            for first, last in self.ranges
            for number in range(first, min(last or page_count, page_count) + 1)
        }
        return sorted(chosen)


def parse_pages(text: str) -> PageSelection:
    """Pages written as `1-5,9` or `3-`; raises ValueError naming what can't be understood."""
    ranges: list[tuple[int, int | None]] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        first = int(match[1]) if match else 0
        last = int(match[3]) if match and match[3] else (None if match and match[2] else first)
        if first < 1 or (last is not None and last < first):
            raise ValueError(
                f"pages {text!r}: {piece.strip()!r} is no range; write them as 1-5,9 or 3-, from 1"
            )
        ranges.append((first, last))
    return PageSelection(tuple(ranges))


def list_documents(inputs: Sequence[str]) -> list[Document]:
    """The documents of inputs: files, folders (searched through), globs, lists (`@files.txt`),
    and what lies below a place in a bucket (`s3://`, `gs://`).

    Sorted within each input, each file once. A listed file that is missing or of unknown kind is a
    document all the same: what is wrong with it is said when it is read. Raises NoInputError for
    an input that is nothing, or holds nothing.
    """
    if not inputs:
        raise NoInputError(
            "there is no input; name a file, a folder, a glob or a list (@files.txt)"
        )
    found: dict[str, Document] = {}
    for given in inputs:
        expanded = _found(given)
        if not expanded:
            raise NoInputError(_nothing(given))
        for same, document in expanded:
            found.setdefault(same, document)
    return list(deduplicate_names(found.values()))


def raise_for_scheme(given: str) -> None:
    """Raises NoInputError for an address that can't be read, such as https://."""
    address = given.removeprefix("@")
    if _SCHEME.match(address) and not is_remote(given):
        raise NoInputError(_no_path(address))


def _no_path(address: str) -> str:
    """What is wrong with an address in the place of a path, and what to do."""
    scheme = address.partition("://")[0].lower()
    if scheme in ("http", "https"):
        remedy = f"a web address can't be read yet; download the file (curl -LO '{address}')"
        return f"{address}: {remedy}, and name that"
    if scheme == "file":
        return f"{address}: give the path alone, without file://"
    if is_remote(address):
        return f"{address}: a list holds local paths; give this address itself as an input"
    return f"{address}: {scheme}:// can't be read; give a local path, s3://, gs:// or hf://"


def _found(given: str) -> list[tuple[str, Document]]:
    """Documents, or where there are none the files of a dataset."""
    try:
        source = parse_dataset_source(given)
        if source.is_dataset:
            return _in_dataset(source)
        plain = [*_plain(source)]
        # A bucket with documents is not listed once more to tell of what else is there.
        is_answered = given.startswith("@") or (plain and is_remote(given))
        in_dataset = [] if is_answered else [*list_dataset_files(source)]
    except (UnknownSplitError, InvalidQueryError) as error:
        raise NoInputError(str(error)) from error
    if plain and in_dataset:
        _log.warning(
            "%s: beside documents there are %d Parquet files or tars, which are left out; "
            "name them to read them too, as %s/*.parquet",
            *(given, len(in_dataset), given.rstrip("/")),
        )
    return plain or in_dataset


def _in_dataset(source: DatasetSource) -> list[tuple[str, Document]]:
    """The files of a dataset. A repository may also hold documents, or what the Hub converted."""
    found = [*list_dataset_files(source)]
    if found or not source.is_repository:
        return found
    wants_part = source.config or source.split
    return ([] if wants_part else [*_plain(source)]) or [*list_converted_files(source)]


def _plain(source: DatasetSource) -> Iterator[tuple[str, Document]]:
    return (
        remote_documents(source.location)
        if is_remote(source.location)
        else _expanded(source.location)
    )


def _expanded(source: str) -> Iterator[tuple[str, Document]]:
    for path, name in _expand(source):
        yield os.path.realpath(path), _document(_in_real_folder(path), name)


def _in_real_folder(path: Path) -> Path:
    """One path for one file, however it was given; a link's own name is kept, for its ending."""
    return Path(os.path.realpath(path.parent)) / path.name


def _expand(source: str) -> Iterator[tuple[Path, str]]:
    """`(path, name)` of the files that an input stands for."""
    if source.startswith("@"):
        yield from _listed(Path(os.path.expanduser(source[1:])))
        return
    # Unlike Path.expanduser it leaves `~$report.pdf` alone, where no user is called so.
    path = Path(os.path.expanduser(source))
    if os.path.isdir(path):
        yield from ((file, _name(file, path)) for file in _documents_in_folder(path))
    elif os.path.exists(path):
        yield path, _name(path, path.parent)
    elif glob.has_magic(source):
        root = glob_root(path)
        matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
        files = (file for file in matches if file.is_file() and file.suffix.lower() in KINDS)
        yield from ((file, _name(file, root)) for file in files)


def _documents_in_folder(folder: Path) -> list[Path]:
    """The documents below a folder; a link that leads nowhere is one, so that it is told of."""
    known = (path for path in walk_folder(folder) if path.suffix.lower() in KINDS)
    return sorted(path for path in known if path.is_file() or path.is_symlink())


def _listed(listing: Path) -> Iterator[tuple[Path, str]]:
    try:
        lines = listing.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        said = f"the list can't be read ({error.strerror}); check its path"
        raise NoInputError(f"@{listing}: {said}") from error
    except UnicodeDecodeError:
        lines = ["\0"]
    if any("\0" in line for line in lines):
        raise NoInputError(f"@{listing}: the list is no UTF-8 text; write one path a line")
    for line in lines:
        entry = line.strip()
        if entry and not entry.startswith("#"):
            if _SCHEME.match(entry):
                raise NoInputError(f"@{listing}: {_no_path(entry)}")
            path = listing.parent / os.path.expanduser(entry)
            name = entry if not Path(entry).is_absolute() else Path(entry).name
            yield path, _name(Path(name), Path())


def _name(path: Path, root: Path) -> str:
    """A document's name: its path below the input, without the ending, safe for a file name."""
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = Path(path.name)
    return safe_name(relative)


def deduplicate_names(found: Iterable[Document], names: Iterable[str] = ()) -> Iterator[Document]:
    """Names that differ, from `names` too and even where case or the form of accents does not
    count: with the ending, or else a number."""
    taken = {name_key(name) for name in names}
    numbers: dict[str, Iterator[int]] = {}
    for document in found:
        name = document.name
        ending = PurePosixPath(document.source_uri).suffix.lower().lstrip(".")
        key = name_key(name)
        numbered = (f"{name}-{k}" for k in numbers.setdefault(key, itertools.count(2)))
        with_ending = [f"{name}-{ending}"] if ending else []
        candidates = itertools.chain([name], with_ending, numbered)
        chosen = next(one for one in candidates if name_key(one) not in taken)
        taken.add(name_key(chosen))
        yield replace(document, name=chosen)


def _document(path: Path, name: str) -> Document:
    kind = (KINDS | DATASET_KINDS).get(path.suffix.lower(), "pdf")
    try:
        version, size = file_version(path)
    except (OSError, ValueError):
        version, size = "missing", 0
    uri = path_uri(path)
    if uri != str(path):
        _log.warning("%s: the file's name is not valid UTF-8 and can't be read; rename it", uri)
        version, size = "missing", 0
    return Document(document_id(uri, version), uri, version, name, kind, size)


def _nothing(source: str) -> str:
    kinds = " ".join(sorted(KINDS | DATASET_KINDS))
    if is_remote(source):
        return f"{source}: no document ({kinds}) lies there; check bucket and folder"
    if source.startswith("@"):
        return f"{source}: the list names no file; write one path a line"
    if os.path.isdir(os.path.expanduser(source)):
        return f"{source}: the folder holds no document ({kinds}); name another"
    if glob.has_magic(source):
        return f"{source}: the glob matches no document ({kinds}); quote it for the shell"
    return f"{source}: no such file or folder; check its spelling"
