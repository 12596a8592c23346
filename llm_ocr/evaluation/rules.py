"""What a test asks of a page: text that is there or not, in order, and no rubbish.

The rules are olmOCR-bench's in effect, so that its tests can be used; docs/accuracy.md lists where
they differ and why.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from rapidfuzz import fuzz

from llm_ocr.evaluation.near import Excerpt, excerpt, near_matches, nearest, repeats_at_end
from llm_ocr.evaluation.said import Said

IMAGES = re.compile(r"!\[.*?\]\(.*?\)")
# Scripts and signs that recognizers make up on pages in Latin script.
FOREIGN = re.compile("[\u4e00-\u9fff\u3040-\u30ff\U0001f600-\U0001f64f\U0001f300-\U0001f5ff"
                     "\U0001f680-\U0001f6ff\U0001f1e0-\U0001f1ff]")  # fmt: skip
LONGEST_REPEATED = 5


class Verdict(StrEnum):
    """What became of a test; `skipped` ones could not be decided, and don't count."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """A test's verdict on a page, why, what was expected, and what came nearest to it.

    `grid` are the texts of table cells around the one that was looked at, which is `center`
    (row, column) of it.
    """

    verdict: Verdict
    why: str = ""
    expected: str = ""
    found: tuple[Excerpt, ...] = ()
    grid: tuple[tuple[str, ...], ...] = ()
    center: tuple[int, int] | None = None


PASSED = Outcome(Verdict.PASSED)


class Rule(Protocol):
    """What a test asks."""

    def judge(self, said: Said) -> Outcome: ...


def failed(why: str, expected: str = "", *found: Excerpt | None) -> Outcome:
    """A failure with what came nearest."""
    return Outcome(Verdict.FAILED, why, expected, tuple(one for one in found if one is not None))


def needed(text: str, max_diffs: int) -> float:
    """How alike (0..1) a text must be that may differ in so many characters; a hair less, since
    neither side of the comparison is exact."""
    return 1 - max_diffs / max(1, len(text)) - 1e-9


@dataclass(frozen=True)
class TextRule:
    """`text`, which is normalized, stands on the page, or is absent from it.

    `first` and `last` bound where it is looked for: so many characters from the page's beginning
    and from its end.
    """

    text: str
    absent: bool = False
    max_diffs: int = 0
    case_sensitive: bool = True
    first: int | None = None
    last: int | None = None

    def judge(self, said: Said) -> Outcome:
        wanted, text = self.text, said.text
        if not self.case_sensitive:
            wanted, text = wanted.lower(), text.lower()
        text = self._part(text)
        alike = _alike(wanted, text)
        threshold = needed(wanted, self.max_diffs)
        if (alike >= threshold) != self.absent:
            return PASSED
        near = nearest(wanted, text)
        if self.absent:
            return failed("stands on the page", f"not: {self.text}", near)
        return failed(f"{_cut(alike)} alike, {_cut(threshold)} is needed", self.text, near)

    def _part(self, text: str) -> str:
        if self.first and self.last:
            return text[: self.first] + text[-self.last :]
        if self.first:
            return text[: self.first]
        return text[-self.last :] if self.last else text


def _alike(wanted: str, text: str) -> float:
    """How alike the best stretch of `text` is, 0..1. What is shorter than what was wanted does not
    hold it."""
    compare = fuzz.partial_ratio if len(text) >= len(wanted) else fuzz.ratio
    return compare(wanted, text) / 100


def _cut(value: float) -> str:
    """Three digits, not rounded up: what is nearly 1 is not 1."""
    return f"{math.floor(1000 * value + 1e-6) / 1000:g}"


@dataclass(frozen=True)
class OrderRule:
    """`before` stands on the page before `after` does; both are normalized."""

    before: str
    after: str
    max_diffs: int = 0

    def judge(self, said: Said) -> Outcome:
        expected = f"{self.before} … {self.after}"
        places = []
        for wanted in (self.before, self.after):
            matches = near_matches(wanted, said.text, self.max_diffs)
            if not matches:
                why = f"not found with {self.max_diffs} differences: {wanted}"
                return failed(why, expected, nearest(wanted, said.text))
            places.append(matches)
        first = min(places[0], key=lambda match: match.start)
        last = max(places[1], key=lambda match: match.start)
        if first.start < last.start:
            return PASSED
        pairs = ((last, self.after), (first, self.before))
        shown = (excerpt(said.text, one.start, one.end, wanted) for one, wanted in pairs)
        return failed("the other way round", expected, *shown)


@dataclass(frozen=True)
class BaselineRule:
    """The page has text, which doesn't end in a loop or hold what no page in Latin script does;
    with `max_length`, instead, it is blank: no more letters and digits than that."""

    max_length: int | None = None
    skips_images: bool = False
    max_repeats: int = 30
    no_foreign: bool = True

    def judge(self, said: Said) -> Outcome:
        text = said.markdown
        if self.max_length is not None:
            length = _letters(IMAGES.sub("", text) if self.skips_images else text)
            if length <= self.max_length:
                return PASSED
            return failed(f"{length} letters and digits", f"at most {self.max_length}: it is blank")
        if not _letters(text):
            return failed("there is not one letter or digit", "some text")
        for size, times in repeats_at_end(text, LONGEST_REPEATED):
            if times > self.max_repeats:
                why = f"ends with {text[-size:]!r} {times} times"
                return failed(why, "an end without a loop")
        foreign = FOREIGN.search(text) if self.no_foreign else None
        if foreign is None:
            return PASSED
        shown = excerpt(text, *foreign.span(), foreign.group())
        why = f"{foreign.group()} is Chinese, Japanese or an emoji, which no test here expects"
        return failed(why, "letters of the page's script", shown)


def _letters(text: str) -> int:
    return sum(one.isalnum() for one in text)
