"""Whether headings were found, and with their levels."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from llm_ocr.evaluation.text import plain

# Headings are the same if so much of them is alike (0..100).
ALIKE = 80.0

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
    """`found` of the truth's `expected` headings are among the `said` ones, `levels` of them with
    the same level."""

    expected: int
    said: int
    found: int
    levels: int

    @property
    def precision(self) -> float | None:
        """The share of headings said that are some; None where none was said."""
        return self.found / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        """The share of headings found; None where there are none."""
        return self.found / self.expected if self.expected else None

    @property
    def level_accuracy(self) -> float | None:
        """Of the headings found, the share with the same level."""
        return self.levels / self.found if self.found else None

    def __add__(self, other: "HeadingScore") -> "HeadingScore":
        return HeadingScore(
            *(self.expected + other.expected, self.said + other.said),
            *(self.found + other.found, self.levels + other.levels),
        )


def headings(markdown: str) -> list[Heading]:
    """The headings of Markdown, in order: with marks, underlined, or in HTML."""
    found: list[Heading] = []
    for match in _HEADING.finditer(markdown):
        if match["marks"]:
            text, level = match["text"], len(match["marks"])
        elif match["under"]:
            text, level = match["over"], 1 if match["under"].startswith("=") else 2
        else:
            text, level = match["html"], int(match["level"])
        if shown := plain(text):
            found.append(Heading(shown, level))
    return found


def score_headings(truth: str, said: str) -> HeadingScore:
    """The headings of two Markdown texts, each matched with the one most like it."""
    return compare_headings(headings(truth), headings(said))


def compare_headings(truth: Sequence[Heading], said: Sequence[Heading]) -> HeadingScore:
    """As `score_headings`; no heading is matched twice."""
    likeness = sorted(
        (-fuzz.ratio(one.text.casefold(), other.text.casefold()), abs(i - j), i, j)
        for i, one in enumerate(truth)
        for j, other in enumerate(said)
    )
    pairs: dict[int, int] = {}
    for score, _, i, j in likeness:
        if -score >= ALIKE and i not in pairs and j not in pairs.values():
            pairs[i] = j
    levels = sum(truth[i].level == said[j].level for i, j in pairs.items())
    return HeadingScore(len(truth), len(said), len(pairs), levels)
