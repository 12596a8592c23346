"""Measure reading order: whether paragraphs follow each other as in the ground truth."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.text_similarity import strip_markup
from llm_ocr.text.table_markup import remove_html_tables

# Shorter paragraphs (page numbers, labels of a drawing) occur in too many places.
MIN_LENGTH = 15
# A paragraph is searched by its first characters, with at least this similarity (0..100).
PREFIX_LENGTH = 120
MIN_SIMILARITY = 75.0
# Replaces text in which a paragraph was found.
MATCHED = "\0"

_BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class ReadingOrder:
    """The order of the ground truth's paragraphs in a prediction.

    `distance` (0..1) is the edit distance between both orders as a share of the number of
    paragraphs; a missing paragraph is a deletion. `neighbors` (0..1) is the share of pairs of
    consecutive paragraphs that were both found, the first before the second; None for fewer than
    two paragraphs. `missing` has the indices of paragraphs that were not found.
    """

    distance: float
    neighbors: float | None
    missing: tuple[int, ...] = ()


def find_paragraphs(markdown: str) -> list[str]:
    """The blocks separated by blank lines, as plain text; without tables and very short blocks."""
    pieces = (strip_markup(piece) for piece in _BLANK_LINE.split(remove_html_tables(markdown)))
    return [piece for piece in pieces if len(piece) >= MIN_LENGTH]


def measure_reading_order(truth: Sequence[str], prediction: str) -> ReadingOrder:
    """The order of the paragraphs of `truth`, as plain text, in the Markdown `prediction`."""
    if not truth:
        return ReadingOrder(0.0, None)
    positions = _find_positions(truth, strip_markup(prediction))
    found = [k for k, position in enumerate(positions) if position is not None]
    order = sorted(found, key=lambda k: (positions[k], k))
    neighbors = [_is_in_order(before, after) for before, after in pairwise(positions)]
    return ReadingOrder(
        Levenshtein.distance(range(len(truth)), order) / len(truth),
        sum(neighbors) / len(neighbors) if neighbors else None,
        tuple(k for k, position in enumerate(positions) if position is None),
    )


def order_distance(truth: str, prediction: str) -> float:
    """`ReadingOrder.distance` of two Markdown texts."""
    return measure_reading_order(find_paragraphs(truth), prediction).distance


def neighbors_in_order(truth: str, prediction: str) -> float | None:
    """`ReadingOrder.neighbors` of two Markdown texts."""
    return measure_reading_order(find_paragraphs(truth), prediction).neighbors


def _is_in_order(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and before < after


def _find_positions(truth: Sequence[str], prediction: str) -> list[int | None]:
    """Where each paragraph begins in a text, exact matches first; each part of the text matches at
    most one paragraph."""
    positions: list[int | None] = [None] * len(truth)
    remaining = prediction
    for find in (_find_exact, _find_similar):
        for k, paragraph in enumerate(truth):
            prefix = paragraph[:PREFIX_LENGTH]
            span = find(prefix, remaining) if positions[k] is None else None
            if span is not None:
                start, end = span
                positions[k] = start
                remaining = f"{remaining[:start]}{MATCHED * (end - start)}{remaining[end:]}"
    return positions


def _find_exact(prefix: str, text: str) -> tuple[int, int] | None:
    start = text.find(prefix)
    return None if start < 0 else (start, start + len(prefix))


def _find_similar(prefix: str, text: str) -> tuple[int, int] | None:
    """The span of the most similar text."""
    if len(text) < len(prefix):
        return None
    best = fuzz.partial_ratio_alignment(prefix, text, score_cutoff=MIN_SIMILARITY)
    return None if best is None else (best.dest_start, best.dest_end)
