"""Where a text stands in another, misread here and there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from rapidfuzz import fuzz

# Pieces of a text that are looked for as they are have at least so many characters.
SHORTEST_PIECE = 3
AROUND = 60


@dataclass(frozen=True)
class Match:
    """`text[start:end]` is the text that was looked for, but for `distance` edits."""

    start: int
    end: int
    distance: int


@dataclass(frozen=True)
class Excerpt:
    """The stretch of a text that comes nearest to what was looked for, with what is around it, and
    how alike they are (0..1)."""

    before: str
    match: str
    after: str
    alike: float


def near_matches(wanted: str, text: str, most: int) -> list[Match]:
    """The places of `wanted` in `text` with at most so many edits (insertions, deletions,
    replacements); of places that overlap the best one."""
    if not most:
        return list(_exact(wanted, text))
    found = [
        Match(first + one.start, first + one.end, one.distance)
        for first, last in _stretches(wanted, text, most)
        for one in _within(wanted, text[first:last], most)
    ]
    return _best_apart(found)


def nearest(wanted: str, text: str, around: int = AROUND) -> Excerpt | None:
    """The stretch of `text` most like `wanted`; None where nothing is alike."""
    if not text or not wanted:
        return None
    best = fuzz.partial_ratio_alignment(wanted, text)
    if best is None or not best.score:
        return None
    # A text that is shorter than what is looked for is itself the stretch.
    start, end = (best.dest_start, best.dest_end) if len(wanted) <= len(text) else (0, len(text))
    return excerpt(text, start, end, wanted, around)


def excerpt(text: str, start: int, end: int, wanted: str, around: int = AROUND) -> Excerpt:
    """A stretch of `text` as the one that comes nearest to `wanted`."""
    alike = fuzz.ratio(wanted, text[start:end]) / 100
    before, after = text[max(0, start - around) : start], text[end : end + around]
    return Excerpt(before, text[start:end], after, alike)


def _exact(wanted: str, text: str) -> Iterator[Match]:
    at = text.find(wanted)
    while at >= 0:
        yield Match(at, at + len(wanted), 0)
        at = text.find(wanted, at + 1)


def _stretches(wanted: str, text: str, most: int) -> list[tuple[int, int]]:
    """Where it can be at all: of `most + 1` pieces one must stand there as it is."""
    size = len(wanted) // (most + 1)
    if size < SHORTEST_PIECE:
        return [(0, len(text))]
    spans = []
    for k in range(most + 1):
        offset = k * size
        piece = wanted[offset : offset + size]
        for match in _exact(piece, text):
            begin = match.start - offset
            spans.append((max(0, begin - most), begin + len(wanted) + most))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged


def _within(wanted: str, text: str, most: int) -> Iterator[Match]:
    """Every end of a match, with its best start: a table of edits, a character of `text` a step,
    in which a match may begin anywhere."""
    # For each beginning of `wanted`: edits, and where in `text` it begins.
    column = [(k, 0) for k in range(len(wanted) + 1)]
    for at, character in enumerate(text):
        above = column
        column = [(0, at + 1)]
        for k, one in enumerate(wanted):
            edits, start = above[k]
            column.append(
                min(
                    (edits + (one != character), start),
                    (above[k + 1][0] + 1, above[k + 1][1]),
                    (column[k][0] + 1, column[k][1]),
                )
            )
        edits, start = column[-1]
        if edits <= most:
            yield Match(start, at + 1, edits)


def _best_apart(matches: Sequence[Match]) -> list[Match]:
    groups: list[list[Match]] = []
    end = -1
    for match in sorted(matches, key=lambda one: (one.start, one.end)):
        if groups and match.start < end:
            groups[-1].append(match)
            end = max(end, match.end)
        else:
            groups.append([match])
            end = match.end
    return [min(group, key=lambda one: (one.distance, one.start - one.end)) for group in groups]


def repeats_at_end(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """For each length up to `longest`: how often what the text ends with stands there in a row."""
    text = " ".join(text.split())
    for size in range(1, min(longest, len(text)) + 1):
        last = text[-size:]
        times = next(k for k in count(1) if not text.endswith(last, 0, len(text) - k * size))
        yield size, times
