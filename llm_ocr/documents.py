"""A document as a type: one input file, some rows of a dataset, or one of them."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

# What a row's place is called, behind its file's URI.
ROW, ROWS = "#row=", "#rows="
# Rows `first` to `last`, both of them included; to the end of the file where `last` is None.
Range = tuple[int, int | None]


def document_id(uri: str, version: str) -> str:
    """16 hex digits that are others when place or content are."""
    return hashlib.sha256(f"{uri}\n{version}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Document:
    """One input file or one row of a dataset; nothing of its body was read to make it.

    `doc_id` is a hash of `source_uri` and `version` (for a file: its size and modification time).
    `name` is its path below the input without the ending, unique within a run; outputs are named
    by it. `kind` is `pdf` or `image`, or for what is in a dataset `parquet` or `webdataset`.

    In a plan, a document with `rows` (as `0-99,103`, or `0-` where nobody counted them) stands for
    those rows of the file, each a document of its own: see `row`. `column` is where they hold
    their images or PDF, `metadata` is what else a row holds, as JSON.
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
    def file_uri(self) -> str:
        """The file that the rows are in."""
        if self.rows is None:
            return self.source_uri
        return self.source_uri.rpartition(ROWS if ROWS in self.source_uri else ROW)[0]

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
        """How many documents it stands for; None where nobody counted its rows."""
        if self.rows is None:
            return 1
        count = 0
        for first, last in self.ranges:
            if last is None:
                return None
            count += last - first + 1
        return count

    def of_rows(self, ranges: Sequence[Range]) -> "Document":
        """The document that stands for some of the file's rows, given in order."""
        rows = ",".join(_written(one) for one in _joined(ranges))
        return self._at(f"{self.file_uri}{ROWS}{rows}", rows, self.name)

    def among(self, doc_ids: Collection[str]) -> "Document":
        """As `of_rows`, of those rows that have these ids; itself where nobody counted them."""
        if self.rows is None or self.row_count is None:
            return self
        numbers = (
            number for first, last in self.ranges for number in range(first, (last or 0) + 1)
        )
        wanted = [(one, one) for one in numbers if self.row(one).doc_id in doc_ids]
        return self.of_rows(wanted) if wanted else replace(self, rows="")

    def row(self, number: int) -> "Document":
        """One row as a document."""
        name = f"{self.name}-{number:06d}"
        return self._at(f"{self.file_uri}{ROW}{number}", str(number), name)

    def _at(self, uri: str, rows: str, name: str) -> "Document":
        doc_id = document_id(uri, self.version)
        return replace(self, doc_id=doc_id, source_uri=uri, rows=rows, name=name)


def _joined(ranges: Sequence[Range]) -> Iterator[Range]:
    """Ranges, those that follow each other as one."""
    start, end = ranges[0]
    for first, last in ranges[1:]:
        if end is not None and first == end + 1:
            end = last
        else:
            yield start, end
            start, end = first, last
    yield start, end


def _written(one: Range) -> str:
    first, last = one
    if last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"
