"""List the documents of inputs (files, folders, globs, list files), and find duplicates among them,
without reading most of them."""

import glob
import hashlib
import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from llm_ocr.documents import Document, document_id
from llm_ocr.messages import CodedError
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
# The scheme of a URL, as in https://host/path.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
HASH_CHUNK = 1 << 20
_RANGE = re.compile(r"\s*(\d+)\s*(?:(-)\s*(\d+)?\s*)?")


_ContentKey = tuple[str, ...]


class NoInputError(CodedError, ValueError):
    """An input has no documents; the message names the input and says what to do."""


@dataclass(frozen=True)
class PageSelection:
    """Ranges of page numbers, which begin at 1; an open range ends with None."""

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
    """The documents of inputs: files, folders (recursively), globs, list files (`@files.txt`), and
    prefixes in buckets (`s3://`, `gs://`).

    Sorted within each input, each file once. A listed file that is missing or has an unknown
    extension is a document, too: the error is reported when it is read. Raises NoInputError for an
    input that does not exist or has no documents.
    """
    if not inputs:
        raise NoInputError(
            "there is no input; name a file, a folder, a glob or a list (@files.txt)"
        )
    documents: dict[str, Document] = {}
    for source in inputs:
        expanded = _find_documents(source)
        if not expanded:
            raise NoInputError(_no_documents_message(source))
        for key, document in expanded:
            documents.setdefault(key, document)
    return list(deduplicate_names(documents.values()))


def absolute_input(source: str) -> str:
    """An input as part of a run's identity: the same from any working directory.

    Raises NoInputError for an address that can't be read, such as https://.
    """
    raise_for_scheme(source)
    if is_remote(source):
        return source.rstrip("/")
    listed = source.startswith("@")
    path = Path(os.path.expanduser(source.removeprefix("@")))
    return ("@" if listed else "") + str(Path.cwd() / path)


def raise_for_scheme(source: str) -> None:
    """Raise NoInputError for an input with an unsupported scheme, such as https://."""
    address = source.removeprefix("@")
    if _SCHEME.match(address) and not is_remote(source):
        raise NoInputError(_scheme_message(address))


def _scheme_message(address: str) -> str:
    """Why an address can't be used in the place of a path, and what to do."""
    scheme = address.partition("://")[0].lower()
    if scheme in ("http", "https"):
        remedy = "give it to `llm-ocr convert`, or download it and give the file"
        return f"{address}: a run can't read a URL, as it may change or vanish; {remedy}"
    if scheme == "file":
        return f"{address}: give the path alone, without file://"
    if is_remote(address):
        return f"{address}: a list holds local paths; give this address itself as an input"
    return f"{address}: {scheme}:// can't be read; give a local path, s3://, gs:// or hf://"


def _find_documents(source: str) -> list[tuple[str, Document]]:
    """The documents of an input or, if it has none, the files of its dataset; each with its real
    path or URI."""
    try:
        dataset = parse_dataset_source(source)
        if dataset.is_dataset:
            return _find_dataset_files(dataset)
        documents = [*_list_plain_documents(dataset)]
        # A bucket with documents is not listed a second time to warn of other files in it.
        is_complete = source.startswith("@") or (documents and is_remote(source))
        dataset_files = [] if is_complete else [*list_dataset_files(dataset)]
    except (UnknownSplitError, InvalidQueryError) as error:
        raise NoInputError(str(error)) from error
    if documents and dataset_files:
        _log.warning(
            "%s: in addition to documents there are %d Parquet files or tars, which are left out; "
            "to read them too, add %s/*.parquet as an input",
            *(source, len(dataset_files), source.rstrip("/")),
        )
    return documents or dataset_files


def _find_dataset_files(source: DatasetSource) -> list[tuple[str, Document]]:
    """The files of a dataset. A repository may also contain documents, or be converted by the
    Hub."""
    files = [*list_dataset_files(source)]
    if files or not source.is_repository:
        return files
    has_selection = source.config or source.split
    documents = [] if has_selection else [*_list_plain_documents(source)]
    return documents or [*list_converted_files(source)]


def _list_plain_documents(source: DatasetSource) -> Iterator[tuple[str, Document]]:
    return (
        remote_documents(source.location)
        if is_remote(source.location)
        else _expand_documents(source.location)
    )


def _expand_documents(source: str) -> Iterator[tuple[str, Document]]:
    for path, name in _expand(source):
        yield os.path.realpath(path), _document(_resolve_folder(path), name)


def _resolve_folder(path: Path) -> Path:
    """The path with links in its folder resolved. The name of a link is kept for its extension."""
    return Path(os.path.realpath(path.parent)) / path.name


def _expand(source: str) -> Iterator[tuple[Path, str]]:
    """`(path, name)` of each file of an input."""
    if source.startswith("@"):
        yield from _read_list(Path(os.path.expanduser(source[1:])))
        return
    # Path.expanduser would fail on a file such as `~$report.pdf`.
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
    """The documents below a folder, including broken links, which are reported when read."""
    paths = (path for path in walk_folder(folder) if path.suffix.lower() in KINDS)
    return sorted(path for path in paths if path.is_file() or path.is_symlink())


def _read_list(listing: Path) -> Iterator[tuple[Path, str]]:
    try:
        lines = listing.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        problem = f"the list can't be read ({error.strerror}); check its path"
        raise NoInputError(f"@{listing}: {problem}") from error
    except UnicodeDecodeError:
        lines = ["\0"]
    if any("\0" in line for line in lines):
        raise NoInputError(f"@{listing}: the list is no UTF-8 text; write one path a line")
    for line in lines:
        entry = line.strip()
        if entry and not entry.startswith("#"):
            if _SCHEME.match(entry):
                raise NoInputError(f"@{listing}: {_scheme_message(entry)}")
            path = listing.parent / os.path.expanduser(entry)
            name = entry if not Path(entry).is_absolute() else Path(entry).name
            yield path, _name(Path(name), Path())


def _name(path: Path, root: Path) -> str:
    """A document's name: its path below the input, without the extension, safe for a file name."""
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = Path(path.name)
    return safe_name(relative)


def deduplicate_names(
    documents: Iterable[Document], names: Iterable[str] = ()
) -> Iterator[Document]:
    """Documents with names that differ from each other and from `names`, even on file systems that
    ignore case or normalize Unicode. A repeated name gets the extension or a number as a suffix."""
    taken = {name_key(name) for name in names}
    numbers: dict[str, Iterator[int]] = {}
    for document in documents:
        name = document.name
        ending = PurePosixPath(document.source_uri).suffix.lower().lstrip(".")
        key = name_key(name)
        numbered = (f"{name}-{k}" for k in numbers.setdefault(key, itertools.count(2)))
        with_ending = [f"{name}-{ending}"] if ending else []
        candidates = itertools.chain([name], with_ending, numbered)
        chosen = next(candidate for candidate in candidates if name_key(candidate) not in taken)
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


def _no_documents_message(source: str) -> str:
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


def duplicate_groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in order, each with the later ones that seem to have the same bytes.

    Files of the same size are hashed; objects in buckets are compared by size and ETag. Their
    hashes are compared again when they are read.
    """
    all_documents = list(documents)
    sizes: dict[_ContentKey, list[Document]] = {}
    for document in all_documents:
        sizes.setdefault(_size_key(document), []).append(document)
    alike: dict[_ContentKey, list[Document]] = {}
    keys: dict[str, _ContentKey] = {}
    for size_key, group in sizes.items():
        for document in group:
            is_alone = len(group) == 1 or document.size == 0
            key = (document.doc_id,) if is_alone else (*size_key, *_content_key(document))
            keys[document.doc_id] = key
            alike.setdefault(key, []).append(document)
    for document in all_documents:
        group_of_same = alike[keys[document.doc_id]]
        if group_of_same[0] is document:
            yield group_of_same


def _size_key(document: Document) -> _ContentKey:
    if is_remote(document.source_uri):
        bucket = "/".join(document.source_uri.split("/")[:3])
        return bucket, document.kind, str(document.size), document.version
    return "file", document.kind, str(document.size)


def _content_key(document: Document) -> _ContentKey:
    if is_remote(document.source_uri):
        return ()
    digest = hashlib.sha256()
    try:
        with Path(document.source_uri).open("rb") as file:
            while chunk := file.read(HASH_CHUNK):
                digest.update(chunk)
    except OSError:
        # The error is reported when the document is read.
        return (document.doc_id,)
    return (digest.hexdigest(),)
