"""The type of a document: one input file, some rows of a dataset file, or one such row."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

# Fragments that mark one row, or several, behind the URI of their file.
ROW_FRAGMENT, ROWS_FRAGMENT = "#row=", "#rows="
# In front of the hash that stands for a document without a place: one that was given as bytes.
BYTES_SCHEME = "bytes:"
# Rows `first` to `last`, both included; to the end of the file if `last` is None.
Range = tuple[int, int | None]


def document_id(uri: str, version: str) -> str:
    """16 hex digits that change when the location or the content does."""
    return hashlib.sha256(f"{uri}\n{version}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Document:
    """One input file or one row of a dataset, known without reading its content.

    `doc_id` is a hash of `source_uri` and `version` (for a file: its size and modification time).
    `name` is its path below the input without the extension, unique within a run; outputs are named
    after it. `kind` is `pdf` or `image`, or in a dataset `parquet` or `webdataset`.

    In a plan, a document with `rows` (`0-99,103`, or `0-` if they were not counted) represents
    these rows of the file, each of which is a document: see `row`. `column` names the column with
    their images or PDFs, `metadata` contains a row's other columns as JSON.
    """

    doc_id: str
    source_uri: str
    version: str
    name: str
    kind: str
    size: int
    rows: str | None = None
    column: str | None = None
    metadata: str | None = None

    def page_id(self, page_number: int) -> str:
        return f"{self.doc_id}/{page_number}"

    @property
    def display_name(self) -> str:
        """What messages call it: its URI, unless that would tell a reader nothing."""
        return "the given bytes" if self.source_uri.startswith(BYTES_SCHEME) else self.source_uri

    @property
    def file_uri(self) -> str:
        """The file that the rows are in."""
        if self.rows is None:
            return self.source_uri
        return self.source_uri.rpartition(
            ROWS_FRAGMENT if ROWS_FRAGMENT in self.source_uri else ROW_FRAGMENT
        )[0]

    @property
    def file_id(self) -> str:
        """The `doc_id` of the file that the rows are in."""
        return document_id(self.file_uri, self.version)

    @property
    def ranges(self) -> Iterator[Range]:
        """The rows, in order, counted from 0."""
        for piece in (self.rows or "").split(",") if self.rows else ():
            first, dash, last = piece.partition("-")
            yield int(first), (int(last) if last else None) if dash else int(first)

    @property
    def row_count(self) -> int | None:
        """How many documents it represents; None if its rows were not counted."""
        if self.rows is None:
            return 1
        count = 0
        for first, last in self.ranges:
            if last is None:
                return None
            count += last - first + 1
        return count

    def with_rows(self, ranges: Sequence[Range]) -> "Document":
        """The document that represents these rows of the file, in ascending order."""
        rows = ",".join(_format_range(rows) for rows in _merge_ranges(ranges))
        return self._at(f"{self.file_uri}{ROWS_FRAGMENT}{rows}", rows, self.name)

    def split_rows(self, count: int) -> tuple["Document", "Document"]:
        """Its first `count` rows and the others, if its rows were counted and there are more."""
        first_rows: list[Range] = []
        other_rows: list[Range] = []
        for first, last in self.ranges:
            assert last is not None, "its rows were counted"
            middle = min(first + count, last + 1)
            first_rows += [(first, middle - 1)] if first < middle else []
            other_rows += [(middle, last)] if middle <= last else []
            count -= middle - first
        return self.with_rows(first_rows), self.with_rows(other_rows)

    def select_rows(self, doc_ids: Collection[str]) -> "Document":
        """Like `with_rows`, for the rows with these ids; unchanged if its rows were not counted."""
        if self.rows is None or self.row_count is None:
            return self
        numbers = (
            number for first, last in self.ranges for number in range(first, (last or 0) + 1)
        )
        selected = [(number, number) for number in numbers if self.row(number).doc_id in doc_ids]
        return self.with_rows(selected) if selected else replace(self, rows="")

    def row(self, number: int) -> "Document":
        """One row as a document."""
        name = f"{self.name}-{number:06d}"
        return self._at(f"{self.file_uri}{ROW_FRAGMENT}{number}", str(number), name)

    def _at(self, uri: str, rows: str, name: str) -> "Document":
        doc_id = document_id(uri, self.version)
        return replace(self, doc_id=doc_id, source_uri=uri, rows=rows, name=name)


def _merge_ranges(ranges: Sequence[Range]) -> Iterator[Range]:
    """The ranges, with adjacent ones merged."""
    start, end = ranges[0]
    for first, last in ranges[1:]:
        if end is not None and first == end + 1:
            end = last
        else:
            yield start, end
            start, end = first, last
    yield start, end


def _format_range(rows: Range) -> str:
    first, last = rows
    if last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"
