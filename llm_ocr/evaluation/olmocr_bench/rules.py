"""Rules for text: present or absent, in order, and free of garbage.

They give the same verdicts as olmOCR-bench's, so that its tests can be used; docs/accuracy.md lists
where they differ and why.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from rapidfuzz import fuzz

from llm_ocr.evaluation.olmocr_bench.fuzzy_search import (
    Excerpt,
    count_trailing_repeats,
    find_near_matches,
    find_nearest,
    make_excerpt,
)
from llm_ocr.evaluation.olmocr_bench.page_view import PageView

IMAGES = re.compile(r"!\[.*?\]\(.*?\)")
# Scripts and emojis that recognizers hallucinate on pages in Latin script.
FOREIGN = re.compile("[\u4e00-\u9fff\u3040-\u30ff\U0001f600-\U0001f64f\U0001f300-\U0001f5ff"
                     "\U0001f680-\U0001f6ff\U0001f1e0-\U0001f1ff]")  # fmt: skip
MAX_REPEATED_LENGTH = 5


class RuleVerdict(StrEnum):
    """The verdict of a rule; `skipped` means that it could not be decided, and does not count."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class RuleResult:
    """A rule's verdict on a page, the reason, what was expected, and the most similar text found.

    `grid` has the texts of the table cells around the cell in question, whose position in it is
    `center` (row, column).
    """

    verdict: RuleVerdict
    reason: str = ""
    expected: str = ""
    found: tuple[Excerpt, ...] = ()
    grid: tuple[tuple[str, ...], ...] = ()
    center: tuple[int, int] | None = None


PASSED = RuleResult(RuleVerdict.PASSED)


class PageRule(Protocol):
    """A requirement on a page."""

    def check(self, page: PageView) -> RuleResult: ...


def failure(reason: str, expected: str = "", *found: Excerpt | None) -> RuleResult:
    """A failure, with the most similar texts."""
    excerpts = tuple(excerpt for excerpt in found if excerpt is not None)
    return RuleResult(RuleVerdict.FAILED, reason, expected, excerpts)


def required_similarity(text: str, max_diffs: int) -> float:
    """The similarity (0..1) required of a text that may differ in `max_diffs` characters; slightly
    less, as neither side of the comparison is exact."""
    return 1 - max_diffs / max(1, len(text)) - 1e-9


@dataclass(frozen=True)
class TextRule:
    """`text`, which is normalized, is present on the page, or absent from it.

    `first` and `last` limit the search to that many characters at the start and end of the page.
    """

    text: str
    absent: bool = False
    max_diffs: int = 0
    case_sensitive: bool = True
    first: int | None = None
    last: int | None = None

    def check(self, page: PageView) -> RuleResult:
        wanted, text = self.text, page.text
        if not self.case_sensitive:
            wanted, text = wanted.lower(), text.lower()
        text = self._part(text)
        similarity = _best_similarity(wanted, text)
        threshold = required_similarity(wanted, self.max_diffs)
        if (similarity >= threshold) != self.absent:
            return PASSED
        near = find_nearest(wanted, text)
        if self.absent:
            return failure("present on the page", f"not: {self.text}", near)
        reason = f"similarity {_truncate(similarity)}, required {_truncate(threshold)}"
        return failure(reason, self.text, near)

    def _part(self, text: str) -> str:
        if self.first and self.last:
            return text[: self.first] + text[-self.last :]
        if self.first:
            return text[: self.first]
        return text[-self.last :] if self.last else text


def _best_similarity(wanted: str, text: str) -> float:
    """The similarity (0..1) of the best matching part of `text`, or of all of it if it is shorter
    than `wanted`."""
    compare = fuzz.partial_ratio if len(text) >= len(wanted) else fuzz.ratio
    return compare(wanted, text) / 100


def _truncate(value: float) -> str:
    """Three digits, not rounded up: 0.9999 is not shown as 1."""
    return f"{math.floor(1000 * value + 1e-6) / 1000:g}"


@dataclass(frozen=True)
class OrderRule:
    """`before` comes before `after` on the page; both are normalized."""

    before: str
    after: str
    max_diffs: int = 0

    def check(self, page: PageView) -> RuleResult:
        expected = f"{self.before} … {self.after}"
        occurrences = []
        for wanted in (self.before, self.after):
            matches = find_near_matches(wanted, page.text, self.max_diffs)
            if not matches:
                reason = f"not found with at most {self.max_diffs} differences: {wanted}"
                return failure(reason, expected, find_nearest(wanted, page.text))
            occurrences.append(matches)
        first = min(occurrences[0], key=lambda match: match.start)
        last = max(occurrences[1], key=lambda match: match.start)
        if first.start < last.start:
            return PASSED
        pairs = ((last, self.after), (first, self.before))
        found = (make_excerpt(page.text, match.start, match.end, wanted) for match, wanted in pairs)
        return failure("in reverse order", expected, *found)


@dataclass(frozen=True)
class BaselineRule:
    """The page has text that neither ends in a loop nor has characters foreign to Latin script.

    With `max_length` instead: it is blank, with at most that many letters and digits.
    """

    max_length: int | None = None
    skips_images: bool = False
    max_repeats: int = 30
    no_foreign: bool = True

    def check(self, page: PageView) -> RuleResult:
        text = page.markdown
        if self.max_length is not None:
            length = _count_alphanumeric(IMAGES.sub("", text) if self.skips_images else text)
            if length <= self.max_length:
                return PASSED
            expected = f"a blank page: at most {self.max_length} letters and digits"
            return failure(f"{length} letters and digits", expected)
        if not _count_alphanumeric(text):
            return failure("no letters or digits", "some text")
        for size, times in count_trailing_repeats(text, MAX_REPEATED_LENGTH):
            if times > self.max_repeats:
                reason = f"ends with {text[-size:]!r} repeated {times} times"
                return failure(reason, "no repetition at the end")
        foreign = FOREIGN.search(text) if self.no_foreign else None
        if foreign is None:
            return PASSED
        found = make_excerpt(text, *foreign.span(), foreign.group())
        reason = f"{foreign.group()} is Chinese, Japanese or an emoji, which no test here expects"
        return failure(reason, "letters of the page's script", found)


def _count_alphanumeric(text: str) -> int:
    return sum(character.isalnum() for character in text)
