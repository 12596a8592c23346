"""Long documents in parts that a model can be shown at once."""

from collections.abc import Iterator, Sequence

# Some 8,000 tokens: the answer and the schema have room beside them in 16,384.
WINDOW_CHARACTERS = 24_000


def windows(pages: Sequence[str], characters: int = WINDOW_CHARACTERS) -> Iterator[str]:
    """The pages' texts joined up to so many characters; each part begins with the page with which
    the one before it ended, so that what spans two pages is whole in one of them.

    A page longer than that is a part alone, cut into parts that overlap by a tenth.
    """
    held: list[str] = []
    fresh = False
    for page in pages:
        if held and sum(map(len, held)) + len(page) > characters:
            if fresh:
                yield "\n\n".join(held)
            held = held[-1:] if len(held[-1]) + len(page) <= characters else []
            fresh = False
        if len(page) > characters:
            yield from _cut(page, characters)
            held = []
            continue
        held.append(page)
        fresh = True
    if fresh:
        yield "\n\n".join(held)


def _cut(page: str, characters: int) -> Iterator[str]:
    step = characters - characters // 10
    for start in range(0, max(1, len(page) - characters // 10), step):
        yield page[start : start + characters]
