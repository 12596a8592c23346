"""Fuzzy search: find a text within another despite recognition errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from rapidfuzz import fuzz

# Shorter pieces of a text occur in too many places to narrow the search.
MIN_PIECE_LENGTH = 3
CONTEXT_LENGTH = 60


@dataclass(frozen=True)
class FuzzyMatch:
    """`text[start:end]` is the text searched for, up to `distance` edits."""

    start: int
    end: int
    distance: int


@dataclass(frozen=True)
class Excerpt:
    """The part of a text most similar to the text searched for, with its context; `similarity`
    is 0..1."""

    before: str
    match: str
    after: str
    similarity: float


def find_near_matches(wanted: str, text: str, max_edits: int) -> list[FuzzyMatch]:
    """Occurrences of `wanted` in `text` with at most `max_edits` insertions, deletions and
    substitutions; of occurrences that overlap, the best one."""
    if not max_edits:
        return list(_find_exact(wanted, text))
    found = [
        FuzzyMatch(first + match.start, first + match.end, match.distance)
        for first, last in _candidate_spans(wanted, text, max_edits)
        for match in _find_in_span(wanted, text[first:last], max_edits)
    ]
    return _best_of_overlapping(found)


def find_nearest(wanted: str, text: str, context: int = CONTEXT_LENGTH) -> Excerpt | None:
    """The part of `text` most similar to `wanted`; None if nothing is similar."""
    if not text or not wanted:
        return None
    best = fuzz.partial_ratio_alignment(wanted, text)
    if best is None or not best.score:
        return None
    # A text shorter than the one searched for is returned whole.
    start, end = (best.dest_start, best.dest_end) if len(wanted) <= len(text) else (0, len(text))
    return make_excerpt(text, start, end, wanted, context)


def make_excerpt(
    text: str, start: int, end: int, wanted: str, context: int = CONTEXT_LENGTH
) -> Excerpt:
    """`text[start:end]` with its context, compared with `wanted`."""
    similarity = fuzz.ratio(wanted, text[start:end]) / 100
    before, after = text[max(0, start - context) : start], text[end : end + context]
    return Excerpt(before, text[start:end], after, similarity)


def _find_exact(wanted: str, text: str) -> Iterator[FuzzyMatch]:
    at = text.find(wanted)
    while at >= 0:
        yield FuzzyMatch(at, at + len(wanted), 0)
        at = text.find(wanted, at + 1)


def _candidate_spans(wanted: str, text: str, max_edits: int) -> list[tuple[int, int]]:
    """The spans in which a match is possible: of `max_edits + 1` pieces of `wanted`, at least one
    must occur without an edit."""
    size = len(wanted) // (max_edits + 1)
    if size < MIN_PIECE_LENGTH:
        return [(0, len(text))]
    spans = []
    for k in range(max_edits + 1):
        offset = k * size
        piece = wanted[offset : offset + size]
        for match in _find_exact(piece, text):
            begin = match.start - offset
            spans.append((max(0, begin - max_edits), begin + len(wanted) + max_edits))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged


def _find_in_span(wanted: str, text: str, max_edits: int) -> Iterator[FuzzyMatch]:
    """Every end of a match, with its best start (Sellers' algorithm: edit distance in which a match
    may begin anywhere in `text`)."""
    # For each prefix of `wanted`: the edits, and where in `text` the match begins.
    column = [(k, 0) for k in range(len(wanted) + 1)]
    for at, character in enumerate(text):
        above = column
        column = [(0, at + 1)]
        for k, expected in enumerate(wanted):
            edits, start = above[k]
            column.append(
                min(
                    (edits + (expected != character), start),
                    (above[k + 1][0] + 1, above[k + 1][1]),
                    (column[k][0] + 1, column[k][1]),
                )
            )
        edits, start = column[-1]
        if edits <= max_edits:
            yield FuzzyMatch(start, at + 1, edits)


def _best_of_overlapping(matches: Sequence[FuzzyMatch]) -> list[FuzzyMatch]:
    groups: list[list[FuzzyMatch]] = []
    end = -1
    for match in sorted(matches, key=lambda match: (match.start, match.end)):
        if groups and match.start < end:
            groups[-1].append(match)
            end = max(end, match.end)
        else:
            groups.append([match])
            end = match.end
    return [
        min(group, key=lambda match: (match.distance, match.start - match.end)) for group in groups
    ]


def count_trailing_repeats(text: str, max_length: int) -> Iterator[tuple[int, int]]:
    """For each length up to `max_length`: how many times in a row the last `length` characters are
    repeated at the end."""
    text = " ".join(text.split())
    for size in range(1, min(max_length, len(text)) + 1):
        last = text[-size:]
        times = next(k for k in count(1) if not text.endswith(last, 0, len(text) - k * size))
        yield size, times
