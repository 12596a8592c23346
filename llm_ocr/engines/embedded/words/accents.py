"""Letters with an accent that was read where there is none, on a page without accents."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from llm_ocr.engines.embedded.words.boxes import CharPrediction

# An accent is doubtful below this confidence.
DOUBTFUL = 0.9
# In a language with accents some are sure, or this share of the letters has some.
SURE, ACCENTED = 0.97, 0.01


def has_accents(lines: Iterable[Sequence[CharPrediction]]) -> bool:
    """Whether a page is of a language with accents."""
    letters = [one for line in lines for one in line if one.text.isalpha()]
    accented = [one.score for one in letters if _is_accented(one.text)]
    return max(accented, default=0.0) >= SURE or len(accented) > ACCENTED * len(letters)


def without_accents(line: Sequence[CharPrediction]) -> list[CharPrediction]:
    """A line of a page without accents."""
    return [
        replace(one, text=_base(one.text))
        if one.score < DOUBTFUL and _is_accented(one.text)
        else one
        for one in line
    ]


def _is_accented(text: str) -> bool:
    return text.isalpha() and not text.isascii() and _base(text).isascii()


def _base(text: str) -> str:
    return unicodedata.normalize("NFD", text)[0]
