"""A recognition model's outputs -> the characters of a strip, compared with its ink: words, where
they stand, what was left out."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.models import Array
from llm_ocr.engines.embedded.words.detect import Image

# The model's first class stands for nothing read here.
NOTHING = 0

Columns = npt.NDArray[np.bool_]

# A pixel is ink if it is this far from the paper, as a share of the farthest but for a few; a row
# that is nearly all ink is a rule.
IS_INK, FARTHEST, IS_RULE = 0.4, 0.99, 0.8
# In heights of the strip: white this wide between two characters, if it is wider than a character,
# is a space that was not read; and a character accounts for ink up to this far from its middle.
IS_SPACE, REACH = 0.33, 0.45


@dataclass(frozen=True)
class CharPrediction:
    """A character, its probability (0..1) and the middle of its place, as a share of the strip."""

    text: str
    score: float
    place: float


def decode_steps(steps: Array, characters: Sequence[str]) -> list[CharPrediction]:
    """The characters of one strip, given the probabilities of its steps (steps x classes).

    What neighboring steps agree on is one character; two alike have nothing between them.
    """
    best = steps.argmax(axis=1)
    sure = steps[np.arange(len(best)), best]
    begins = np.flatnonzero(np.diff(best, prepend=-1))
    ends = np.append(begins[1:], len(best))
    read = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        one = int(best[begin])
        if one != NOTHING:
            middle = (begin + end) / 2 / len(best)
            read.append(CharPrediction(characters[one], float(sure[begin:end].max()), middle))
    return read


@dataclass(frozen=True)
class InkMask:
    """What is written in a strip: the columns that have some, and how many pixels its strokes are
    thick."""

    columns: Columns
    thickness: float


@dataclass(frozen=True)
class Span:
    """A word, where it begins and ends, as shares of its strip's width, and the mean probability
    (0..1) of its characters."""

    text: str
    begin: float
    end: float
    score: float


def spans(read: Sequence[CharPrediction], inked: Columns, height: int) -> list[Span]:
    """The words of a strip `height` pixels high, of which some columns are inked."""
    width = len(inked)
    pitch = _pitch(read) * width
    # Two characters are as far apart as they are, with a space between them or not.
    widest = max(IS_SPACE * height, pitch if len(read) > 2 else 0.0)
    found: list[Span] = []
    text, begin, last = "", 0.0, 0.0
    scores: list[float] = []
    open_gap = True
    for one in read:
        at = one.place * width
        if one.text.isspace():
            open_gap = True
            continue
        if text:
            end, start = _gap(inked, last, at)
            if open_gap or start - end > widest:
                found.append(Span(text, begin / width, end / width, statistics.fmean(scores)))
                text, begin, scores = "", start, []
        else:
            begin = _first_ink(inked, at, pitch)
        text, last, open_gap = text + one.text, at, False
        scores.append(one.score)
    if text:
        end = width - _first_ink(inked[::-1], width - last, pitch)
        found.append(Span(text, begin / width, end / width, statistics.fmean(scores)))
    return found


def is_covered(read: Sequence[CharPrediction], inked: Columns, height: int) -> float:
    """The share of the ink that the characters account for.

    Letters of a script that the recognizer never saw are passed over, with what it knows beside
    them read for sure.
    """
    if not inked.any():
        return 1.0
    near = np.zeros_like(inked)
    reach = int(REACH * height)
    for one in read:
        if not one.text.isspace():
            middle = int(one.place * len(inked))
            near[max(0, middle - reach) : middle + reach + 1] = True
    return float((inked & near).sum() / inked.sum())


def ink_mask(crop: Image) -> InkMask:
    """What is written in a strip, whether it is darker or lighter than the paper."""
    gray = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY)
    # Not of the rows above and below: a cell's own ground may be what the letters stand on.
    paper = np.median(gray)
    ink = cv2.absdiff(gray, np.full_like(gray, paper))
    darkest = np.searchsorted(np.bincount(ink.ravel()).cumsum(), FARTHEST * ink.size)
    marked = np.asarray(ink > IS_INK * float(darkest), dtype=np.uint8)
    marked[marked.mean(axis=1) > IS_RULE] = 0
    inside = int(cv2.erode(marked, np.ones((3, 3), np.uint8)).sum())
    whole = int(marked.sum())
    columns = np.asarray(marked.any(axis=0), dtype=np.bool_)
    return InkMask(columns, 2 * whole / max(1, whole - inside))


def _pitch(read: Sequence[CharPrediction]) -> float:
    """How far a character is from the next, mostly, as a share of the strip."""
    steps = [after.place - before.place for before, after in pairwise(read)]
    return statistics.median(steps) if steps else 1.0


def _gap(inked: Columns, left: float, right: float) -> tuple[float, float]:
    """The widest white between two places, or their middle."""
    first, last = int(left), max(int(left) + 1, int(right))
    edges = np.flatnonzero(np.diff(inked[first:last].astype(np.int8), prepend=1, append=1))
    runs = edges.reshape(-1, 2)
    if not len(runs):
        return (left + right) / 2, (left + right) / 2
    begin, end = runs[(runs[:, 1] - runs[:, 0]).argmax()].tolist()
    return float(first + begin), float(first + end)


def _first_ink(inked: Columns, at: float, pitch: float) -> float:
    """Where the character whose middle is at `at` begins."""
    first = max(0, int(at - pitch))
    found = np.flatnonzero(inked[first : int(at) + 1])
    return float(first + found[0]) if len(found) else max(0.0, at - pitch / 2)
