"""Count the rows of a dataset's files, and split them into batches for the plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from llm_ocr.documents import Document, Range
from llm_ocr.sources.names import BYTES_PER_PAGE

# A part of a row group is read from the start of the group: this many bytes are read in about the
# time that an engine needs for a page.
READ_BYTES_PER_PAGE = 32 << 20


@dataclass(frozen=True)
class RowBatch:
    """Rows `first` to `first + count - 1` of a file, with about `pages` pages. A part of them with
    `smallest_part` pages takes no longer to read than an engine needs for it."""

    first: int
    count: int
    pages: int
    smallest_part: int = 1


@dataclass(frozen=True)
class RowCount:
    """A dataset's file and the batches of its rows; None if rows were not counted."""

    document: Document
    batches: tuple[RowBatch, ...] | None

    @property
    def row_count(self) -> int:
        return sum(batch.count for batch in self.batches or ())


def count_rows(document: Document, tar_limit: int | None) -> RowCount:
    """Count a file's rows. Blocks. Reads the footer of a Parquet file, or the headers of a tar up
    to `tar_limit` samples (0: a tar is not read and its rows are not counted). Raises PageError."""
    if document.kind == "parquet":
        from llm_ocr.sources.parquet import read_footer

        footer = read_footer(document)
        batches = tuple(
            RowBatch(
                group.first,
                group.count,
                _pages(group.size) if footer.is_pdf else group.images,
                group.size // READ_BYTES_PER_PAGE,
            )
            for group in footer.groups
            if group.count
        )
        return RowCount(replace(document, column=footer.column), batches)
    if tar_limit == 0:
        return RowCount(document, None)
    from llm_ocr.sources.webdataset import count_samples

    count = count_samples(document, tar_limit)
    return RowCount(document, (RowBatch(0, count, count),))


def iter_batches(
    counted: RowCount, selected: Sequence[int] | None
) -> Iterator[tuple[Document, int, int]]:
    """For each row group a document of all its rows, or of the `selected` ones (sorted), with
    their approximate page count and the smallest part to split off."""
    document = counted.document
    if counted.batches is None:
        yield document.with_rows([(0, None)]), _pages(document.size), 1
        return
    wanted = None if selected is None else set(selected)
    for batch in counted.batches:
        numbers = range(batch.first, batch.first + batch.count)
        rows = numbers if wanted is None else [number for number in numbers if number in wanted]
        if rows:
            pages = max(1, round(batch.pages * len(rows) / batch.count))
            yield document.with_rows(_ranges(rows)), pages, batch.smallest_part


def _ranges(numbers: Sequence[int]) -> list[Range]:
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    return [(number, number) for number in numbers]


def _pages(size: int) -> int:
    return max(1, size // BYTES_PER_PAGE)
