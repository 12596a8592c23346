"""Whether paragraphs follow each other as they should."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.text import plain

# Shorter ones (page numbers, labels of a drawing) stand in too many places.
SHORTEST = 15
# A paragraph is looked for by its beginning, and is there if so much of it is alike (0..100).
BEGINNING = 120
ALIKE = 75.0
# What stands in place of text that a paragraph was found in.
TAKEN = "\0"

_BLANK_LINE = re.compile(r"\n\s*\n")
_TABLE = re.compile(r"<table\b.*?(?:</table\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class ReadingOrder:
    """How paragraphs of the truth stand in what was said.

    `distance` (0..1) is the edit distance between their order there and here, as a share of their
    number: a missing one is a deletion. `neighbors` (0..1) is the share of pairs that follow each
    other in the truth, both of which are there, the first before the second; None for fewer than
    two paragraphs. `missing` are the places of those that were not found.
    """

    distance: float
    neighbors: float | None
    missing: tuple[int, ...] = ()


def paragraphs(markdown: str) -> list[str]:
    """The paragraphs, headings and items of lists apart by blank lines, as plain text; tables and
    what is very short left out."""
    pieces = (plain(piece) for piece in _BLANK_LINE.split(_TABLE.sub("\n\n", markdown)))
    return [piece for piece in pieces if len(piece) >= SHORTEST]


def reading_order(truth: Sequence[str], said: str) -> ReadingOrder:
    """How the paragraphs of `truth`, as plain text, stand in the Markdown `said`."""
    if not truth:
        return ReadingOrder(0.0, None)
    places = _places(truth, plain(said))
    found = [k for k, place in enumerate(places) if place is not None]
    order = sorted(found, key=lambda k: (places[k], k))
    neighbors = [_follows(before, after) for before, after in pairwise(places)]
    return ReadingOrder(
        Levenshtein.distance(range(len(truth)), order) / len(truth),
        sum(neighbors) / len(neighbors) if neighbors else None,
        tuple(k for k, place in enumerate(places) if place is None),
    )


def order_distance(truth: str, said: str) -> float:
    """`ReadingOrder.distance` of two Markdown texts."""
    return reading_order(paragraphs(truth), said).distance


def neighbors_in_order(truth: str, said: str) -> float | None:
    """`ReadingOrder.neighbors` of two Markdown texts."""
    return reading_order(paragraphs(truth), said).neighbors


def _follows(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and before < after


def _places(truth: Sequence[str], said: str) -> list[int | None]:
    """Where each paragraph begins in a text, those first that stand there as they are: no two are
    in one place."""
    places: list[int | None] = [None] * len(truth)
    free = said
    for find in (_exactly, _nearly):
        for k, paragraph in enumerate(truth):
            beginning = paragraph[:BEGINNING]
            span = find(beginning, free) if places[k] is None else None
            if span is not None:
                start, end = span
                places[k] = start
                free = f"{free[:start]}{TAKEN * (end - start)}{free[end:]}"
    return places


def _exactly(beginning: str, text: str) -> tuple[int, int] | None:
    start = text.find(beginning)
    return None if start < 0 else (start, start + len(beginning))


def _nearly(beginning: str, text: str) -> tuple[int, int] | None:
    """Where a text like this stands."""
    if len(text) < len(beginning):
        return None
    best = fuzz.partial_ratio_alignment(beginning, text, score_cutoff=ALIKE)
    return None if best is None else (best.dest_start, best.dest_end)
