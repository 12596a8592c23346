"""Score headings: how many were found, and how many with the right level."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from llm_ocr.evaluation.text_similarity import strip_markup

# Headings with at least this similarity (0..100) match.
MIN_SIMILARITY = 80.0

_HEADING = re.compile(
    r"^[ ]{0,3}(?P<marks>#{1,6})[ \t]+(?P<text>\S[^\n]*?)(?:[ \t]+#+)?[ \t]*$"
    r"|^(?<![^\n]\n)[ ]{0,3}(?P<over>\S[^\n]*)\n[ ]{0,3}(?P<under>=+|-{2,})[ \t]*$"
    r"|<h(?P<level>[1-6])\b[^>]*>(?P<html>.{0,500}?)</h(?P=level)\s*>",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class Heading:
    """A heading's plain text and its level, 1 to 6."""

    text: str
    level: int


@dataclass(frozen=True)
class HeadingScore:
    """The numbers of headings `expected` in the ground truth, `predicted`, and `matched`, also with
    the `same_level`."""

    expected: int
    predicted: int
    matched: int
    same_level: int

    @property
    def precision(self) -> float | None:
        """The share of predicted headings that match; None if none was predicted."""
        return self.matched / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """The share of expected headings that match; None if there are none."""
        return self.matched / self.expected if self.expected else None

    @property
    def level_accuracy(self) -> float | None:
        """The share of matches with the same level; None if there are no matches."""
        return self.same_level / self.matched if self.matched else None

    def __add__(self, other: "HeadingScore") -> "HeadingScore":
        return HeadingScore(
            *(self.expected + other.expected, self.predicted + other.predicted),
            *(self.matched + other.matched, self.same_level + other.same_level),
        )


def find_headings(markdown: str) -> list[Heading]:
    """The headings of Markdown, in order: ATX, setext and HTML ones."""
    found: list[Heading] = []
    for match in _HEADING.finditer(markdown):
        if match["marks"]:
            text, level = match["text"], len(match["marks"])
        elif match["under"]:
            text, level = match["over"], 1 if match["under"].startswith("=") else 2
        else:
            text, level = match["html"], int(match["level"])
        if shown := strip_markup(text):
            found.append(Heading(shown, level))
    return found


def score_headings(truth: str, prediction: str) -> HeadingScore:
    """Match the headings of two Markdown texts, each with the most similar one."""
    return match_headings(find_headings(truth), find_headings(prediction))


def match_headings(truth: Sequence[Heading], prediction: Sequence[Heading]) -> HeadingScore:
    """Match headings, the most similar ones first; no heading is matched twice."""
    candidates = sorted(
        (-fuzz.ratio(heading.text.casefold(), other.text.casefold()), abs(i - j), i, j)
        for i, heading in enumerate(truth)
        for j, other in enumerate(prediction)
    )
    pairs: dict[int, int] = {}
    for score, _, i, j in candidates:
        if -score >= MIN_SIMILARITY and i not in pairs and j not in pairs.values():
            pairs[i] = j
    same_level = sum(truth[i].level == prediction[j].level for i, j in pairs.items())
    return HeadingScore(len(truth), len(prediction), len(pairs), same_level)
