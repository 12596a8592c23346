"""Long documents in parts that a model can be shown at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Some 8,000 tokens: the answer and the schema have room beside them in 16,384.
CHUNK_CHARACTERS = 24_000


class TextChunk(NamedTuple):
    """A stretch of a document's text; `overlaps` if it begins with what ended the one before."""

    text: str
    overlaps: bool


def split_chunks(pages: Sequence[str], characters: int = CHUNK_CHARACTERS) -> Iterator[TextChunk]:
    """The pages' texts joined up to so many characters; each part begins with the page with which
    the one before it ended, where there is room, so that what spans two pages is whole in one.

    A page longer than that is a part alone, cut into parts that overlap by a tenth.
    """
    held: list[str] = []
    fresh = overlaps = False
    for page in pages:
        if held and sum(map(len, held)) + len(page) > characters:
            if fresh:
                yield TextChunk("\n\n".join(held), overlaps)
            overlaps = len(held[-1]) + len(page) <= characters
            held = held[-1:] if overlaps else []
            fresh = False
        if len(page) > characters:
            yield from _cut(page, characters)
            held, overlaps = [], False
            continue
        held.append(page)
        fresh = True
    if fresh:
        yield TextChunk("\n\n".join(held), overlaps)


def _cut(page: str, characters: int) -> Iterator[TextChunk]:
    step = characters - characters // 10
    for start in range(0, max(1, len(page) - characters // 10), step):
        yield TextChunk(page[start : start + characters], start > 0)
