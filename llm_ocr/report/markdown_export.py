"""A run's documents as a folder of Markdown files with their figures beside them."""

from collections.abc import Callable, Iterable
from pathlib import Path, PurePath

from llm_ocr.records import PageStatus
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.tables.schema import Row

# Writes a file: its path below where all go, and its content.
Write = Callable[[PurePath, bytes], object]


def export_markdown(
    documents: Iterable[Row], figures_of: Callable[[str], Iterable[Row]], write: Write
) -> int:
    """Writes `NAME.md` for each document and `figures/` beside it; returns how many documents.

    A document's `name` may have folders in it. `figures_of` gives the figures of a `doc_id`;
    `write` is `into(folder)`, or puts them elsewhere. A document that failed without any text has
    no file.

    Raises ValueError for a name that would lead out of the folder.
    """
    count = 0
    for document in documents:
        path = _inside(f"{document['name']}.md")
        for figure in figures_of(document["doc_id"]):
            write(path.parent / "figures" / _inside(figure["name"]), figure["image"]["bytes"])
        if document["status"] == PageStatus.FAILED and not document["markdown"]:
            continue
        # Last, so that whoever finds the document finds its figures too.
        write(path, (document["markdown"] or "").encode())
        count += 1
    return count


def _inside(name: str) -> PurePath:
    path = PurePath(name)
    # An anchor is a leading slash, or a drive on Windows.
    if path.anchor or ".." in path.parts or not path.name:
        raise ValueError(
            f"{name!r} would be written outside of the output folder; names must be relative and "
            "without '..'. Rename the input."
        )
    return path


def into(folder: Path) -> Write:
    """Writes files below `folder`: those that differ, each of which appears when it is complete."""
    return lambda path, content: _write(folder / path, content)


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    with atomic_write(path) as target:
        target.write(content)
