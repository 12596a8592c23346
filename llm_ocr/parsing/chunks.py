"""Split long documents into chunks of text that fit a model's context."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

# About 8,000 tokens, which leaves room for the schema and the answer in a context of 16,384.
CHUNK_CHARACTERS = 24_000


class TextChunk(NamedTuple):
    """A part of a document's text; `overlaps` if it begins with the end of the one before."""

    text: str
    overlaps: bool


def split_chunks(pages: Sequence[str], characters: int = CHUNK_CHARACTERS) -> Iterator[TextChunk]:
    """The pages' texts, joined up to a number of characters.

    A chunk begins with the last page of the one before, if there is room, so that what spans two
    pages is complete in one chunk. A longer page is split into chunks that overlap by a tenth.
    """
    pages_in_chunk: list[str] = []
    has_new_page = overlaps = False
    for page in pages:
        if pages_in_chunk and sum(map(len, pages_in_chunk)) + len(page) > characters:
            if has_new_page:
                yield TextChunk("\n\n".join(pages_in_chunk), overlaps)
            overlaps = len(pages_in_chunk[-1]) + len(page) <= characters
            pages_in_chunk = pages_in_chunk[-1:] if overlaps else []
            has_new_page = False
        if len(page) > characters:
            yield from _split_page(page, characters)
            pages_in_chunk, overlaps = [], False
            continue
        pages_in_chunk.append(page)
        has_new_page = True
    if has_new_page:
        yield TextChunk("\n\n".join(pages_in_chunk), overlaps)


def _split_page(page: str, characters: int) -> Iterator[TextChunk]:
    step = characters - characters // 10
    for start in range(0, max(1, len(page) - characters // 10), step):
        yield TextChunk(page[start : start + characters], start > 0)
