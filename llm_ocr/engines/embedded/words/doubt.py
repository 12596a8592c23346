"""Which lines may be misread: handwriting above all, where confidence is low all over."""

from collections.abc import Sequence

from llm_ocr.engines.embedded.geometry import OcrLine, Rect

# A line is doubtful below the first, and below the second where it and the lines around it are
# below the third together. Of handwritten lines 92 of 103 were, of printed ones 12 of 569, of a
# badly scanned table of single numbers 39 of 452 (measured November 2026).
ALONE, AMONG, AROUND = 0.85, 0.99, 0.97
NEAREST = 4


def low_confidence(lines: Sequence[OcrLine]) -> list[bool]:
    """For each line of a page whether it may well be misread. What a page was set with is not."""
    read = [line for line in lines if line.score < 1 or not line.is_exact]
    known = {id(line) for line in read}
    return [id(line) in known and _is_doubtful(line, read) for line in lines]


def _is_doubtful(line: OcrLine, lines: Sequence[OcrLine]) -> bool:
    if line.score < ALONE or line.score >= AMONG:
        return line.score < ALONE
    near = sorted(lines, key=lambda one: _distance(one.rect, line.rect))[: NEAREST + 1]
    characters = sum(len(one.text) for one in near)
    return sum(one.score * len(one.text) for one in near) < AROUND * characters


def _distance(one: Rect, other: Rect) -> float:
    beside = max(0.0, one[0] - other[2], other[0] - one[2])
    return beside + abs(one[1] + one[3] - other[1] - other[3]) / 2
