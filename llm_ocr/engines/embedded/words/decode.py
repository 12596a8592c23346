"""A recognition model's outputs -> characters with their confidences and places."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llm_ocr.engines.embedded.models import Array

# The model's first class stands for nothing read here.
NOTHING = 0


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
