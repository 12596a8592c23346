"""A dataset's files counted, and cut into the units that a plan is made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from llm_ocr.documents import Document, Range
from llm_ocr.sources.names import BYTES_A_PAGE


@dataclass(frozen=True)
class Group:
    """Rows `first` to `first + count - 1` of a file, with about `pages` pages."""

    first: int
    count: int
    pages: int


@dataclass(frozen=True)
class Counted:
    """A dataset's file and its rows; `groups` is None where nobody counted them."""

    document: Document
    groups: tuple[Group, ...] | None

    @property
    def row_count(self) -> int:
        return sum(group.count for group in self.groups or ())


def count_rows(document: Document, tar_limit: int | None) -> Counted:
    """Blocks, and reads a Parquet file's footer. Of a tar, the headers of its files, up to
    `tar_limit` samples; with 0, nothing. Raises PageError."""
    if document.kind == "parquet":
        from llm_ocr.sources.parquet import read_footer

        footer = read_footer(document)
        groups = tuple(
            Group(one.first, one.count, _pages(one.size) if footer.is_pdf else one.images)
            for one in footer.groups
            if one.count
        )
        return Counted(replace(document, column=footer.column), groups)
    if tar_limit == 0:
        return Counted(document, None)
    from llm_ocr.sources.webdataset import count_samples

    count = count_samples(document, tar_limit)
    return Counted(document, (Group(0, count, count),))


def units(
    counted: Counted, chosen: Sequence[int] | None, shard_pages: int
) -> Iterator[tuple[Document, int]]:
    """Documents that stand for all rows, or for the `chosen` ones (in order), with about how many
    pages; those of one row group together, or as many of them as make a shard."""
    document = counted.document
    if counted.groups is None:
        yield document.of_rows([(0, None)]), _pages(document.size)
        return
    wanted = None if chosen is None else set(chosen)
    for group in counted.groups:
        numbers = range(group.first, group.first + group.count)
        rows = numbers if wanted is None else [one for one in numbers if one in wanted]
        step = max(1, shard_pages * group.count // max(1, group.pages))
        starts = [*range(0, len(rows), step), len(rows)]
        for start, end in pairwise(starts):
            taken = rows[start:end]
            pages = max(1, round(group.pages * len(taken) / group.count))
            yield document.of_rows(_ranges(taken)), pages


def _ranges(numbers: Sequence[int]) -> list[Range]:
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    return [(number, number) for number in numbers]


def _pages(size: int) -> int:
    return max(1, size // BYTES_A_PAGE)
