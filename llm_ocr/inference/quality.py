"""Assess an answer: loops, truncation, missing text, and agreement with what the page shows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from llm_ocr.inference.agreement import agreement, word_recall
from llm_ocr.inference.loops import MAX_REPEATED_MARKS, Loop, find_loop
from llm_ocr.inference.responses import Answer
from llm_ocr.inference.text_rows import TextRows
from llm_ocr.records import FIGURE_LABELS, Block, Box, TextLayer

# With an empty answer, a page with a smaller share of inked pixels counts as blank: specks of dust,
# a fold.
MAX_BLANK_INK = 2e-3

# A text layer that agrees this much with an answer confirms it, however often the answer repeats.
CONFIRMING_AGREEMENT = 0.9

# An answer that should have boxes is uncertain from this share of blocks without one: none of 76
# clean answers reached it, and garbage of DeepSeek-OCR has 0.83 to 1.
MAX_BOXLESS_SHARE = 0.5
# A page with this many points on rows of text (see `TextRows`) has some 500 characters or more. An
# answer with fewer characters per point, figures aside, is uncertain; a figure that covers this
# share of the page is the page, not a figure. Of 142 pages that the embedded engine read, 39 have
# that many points, and the least was 4.7 characters per point (handwriting). At half of this an
# apology of 80 characters passes for up to 53 points, at twice two pages are flagged.
MIN_TEXT_POINTS, MIN_CHARACTERS_PER_POINT, PAGE_SIZED_FIGURE = 25, 3.0, 0.5
# The share of such points that may lie outside all boxes; of the same pages the most was 0.28, and
# at half of this one of 39 is flagged.
MAX_OUTSIDE_SHARE = 0.5
# How far outside its box a row of text may lie, as a share of the page's longest side.
BOX_MARGIN = 0.01

# An answer that ends like this is cut, whatever finish reason the server gives: inside one of the
# model's tags, or of an HTML table's.
_INSIDE_TAG = re.compile(
    r"(?:<\|ref\|>(?:(?!<\|/ref\|>).){0,200}"
    r"|<\|det\|>(?:(?!<\|/det\|>).){0,200}"
    r"|<\|[a-z/]{0,9}\|?"
    r"|</?(?:table|thead|tbody|tr|td|th)\b[^<>]{0,200}"
    r"|<\|ref\|>[^<\n]{0,200}<\|/ref\|>)\s*\Z",
    re.DOTALL,
)
_JSON_CELLS = re.compile(r"\s*(?:```(?:json)?\s*)?\[\s*\{\s*\"bbox")


class QualityIssue(StrEnum):
    """What can be wrong with an answer, from least to most severe."""

    NO_BOXES = "no_boxes"
    UNREAD_TEXT = "unread_text"
    DISAGREES = "disagrees"
    CUT = "cut"
    LOOP = "loop"
    UNREADABLE = "unreadable"
    NO_TEXT = "no_text"
    EMPTY = "empty"


# Issues with which the answer may still be right: the page may have few boxes, or its text layer
# may be what is wrong.
UNCERTAIN_ISSUES = frozenset(
    {QualityIssue.NO_BOXES, QualityIssue.UNREAD_TEXT, QualityIssue.DISAGREES}
)
SEVERITY = {issue: severity for severity, issue in enumerate(QualityIssue)}


@dataclass(frozen=True)
class QualitySignals:
    """What is known about a page in addition to the answer.

    `ink` is the share of inked pixels, 0..1. An answer is uncertain if it agrees less than
    `min_agreement` (0..1) with a text layer that is the page's own, and has less than that share of
    its words; at 0 no answer is. `may_loop` is false for an engine that generates nothing: what it
    repeats is on the page. `rows` are the rows of text in the page's image; `expects_boxes` is
    whether blocks should have boxes; `is_confirmed` is whether the page's text layer is known to
    confirm the answer.
    """

    ink: float
    layer: TextLayer | None = None
    min_agreement: float = 0.0
    may_loop: bool = True
    rows: TextRows | None = None
    expects_boxes: bool = False
    is_confirmed: bool = False


@dataclass(frozen=True)
class QualityAssessment:
    """How good an answer is; `issue` is None for a good one.

    `kept_length` is how many of the answer's characters are worth keeping; `agreement` is that with
    the text layer, 0..1, None where there is no usable one; `reason` explains the issue.
    """

    issue: QualityIssue | None
    kept_length: int
    agreement: float | None
    reason: str = ""

    @property
    def is_good(self) -> bool:
        return self.issue is None

    @property
    def sort_key(self) -> tuple[int, float]:
        """Orders assessments of the same page: less severe is greater, then by agreement or
        length."""
        severity = -1 if self.issue is None else SEVERITY[self.issue]
        return -severity, self.kept_length if self.agreement is None else self.agreement


def assess(answer: Answer, blocks: Sequence[Block], signals: QualitySignals) -> QualityAssessment:
    """Assess `answer`, which was parsed to `blocks`."""
    agrees = text_layer_agreement(signals.layer, blocks)
    length = len(answer.text)

    def flag(issue: QualityIssue, reason: str, kept_length: int = length) -> QualityAssessment:
        return QualityAssessment(issue, kept_length, agrees, reason)

    if not blocks and signals.ink >= MAX_BLANK_INK:
        return flag(QualityIssue.EMPTY, "nothing was read on a page that has ink", 0)
    has_words = any(block.text.strip() for block in blocks)
    if blocks and not has_words and not all(block.label in FIGURE_LABELS for block in blocks):
        return flag(QualityIssue.NO_TEXT, "the answer has tags, but no text in them")
    loop = _find_loop(answer, signals, agrees) if signals.may_loop else None
    if loop is not None:
        reason = f"{loop.period} characters repeat ({loop.kind}) from character {loop.start} on"
        return flag(QualityIssue.LOOP, reason, loop.start)
    if answer.finish_reason == "repetition":
        return flag(QualityIssue.LOOP, "the server stopped a repetition")
    if answer.finish_reason == "length":
        return flag(QualityIssue.CUT, f"cut off after {answer.completion_tokens} tokens")
    if signals.may_loop and _ends_inside_tag(answer.text):
        return flag(QualityIssue.CUT, f"the answer ends inside a tag: {answer.text[-40:]!r}")
    issue, reason = _find_uncertain_issue(blocks, signals, agrees)
    return QualityAssessment(issue, length, agrees, reason)


def _ends_inside_tag(text: str) -> bool:
    """Whether an answer ends in the middle of a tag, or of a JSON cell."""
    if _INSIDE_TAG.search(text[-300:]):
        return True
    return _JSON_CELLS.match(text) is not None and not text.rstrip(" \t\r\n`").endswith(("]", "}"))


def _find_loop(answer: Answer, signals: QualitySignals, agrees: float | None) -> Loop | None:
    """A loop that is not on the page. Words that the text layer confirms are no loop; about what
    has no words, as empty cells, agreement says nothing."""
    is_confirmed = signals.is_confirmed or (agrees is not None and agrees >= CONFIRMING_AGREEMENT)
    loop = find_loop(answer.text, answer.finish_reason, without_words=is_confirmed)
    if loop is None or not is_confirmed or signals.layer is None:
        return loop
    sample = answer.text[loop.start : loop.start + MAX_REPEATED_MARKS[0] // 2].strip()
    return None if sample and sample in signals.layer.text else loop


def _find_uncertain_issue(
    blocks: Sequence[Block], signals: QualitySignals, agrees: float | None
) -> tuple[QualityIssue | None, str]:
    """What may be wrong with an answer that seems complete, and the reason."""
    if not signals.min_agreement or not blocks:
        return None, ""
    is_own = signals.layer is not None and signals.layer.is_own
    if is_own and agrees is not None and _is_other_page(blocks, signals, agrees):
        return QualityIssue.DISAGREES, f"agrees {agrees:.2f} with the text layer"
    if not is_own and signals.rows is not None:
        unread = _describe_unread_text(blocks, signals.rows, signals)
        if unread:
            return QualityIssue.UNREAD_TEXT, unread
    boxless = sum(block.box is None for block in blocks)
    if signals.expects_boxes and boxless > MAX_BOXLESS_SHARE * len(blocks):
        return QualityIssue.NO_BOXES, f"{boxless} of {len(blocks)} blocks have no box"
    return None, ""


def _is_other_page(blocks: Sequence[Block], signals: QualitySignals, agrees: float) -> bool:
    """Whether answer and text layer seem to be of two pages. An answer that has what a short layer
    has, and more, is of the same page: the rest may be in pictures."""
    minimum, layer = signals.min_agreement, signals.layer
    if layer is None or agrees >= minimum:
        return False
    return word_recall(_text(blocks), layer.text) < minimum


def _describe_unread_text(blocks: Sequence[Block], rows: TextRows, signals: QualitySignals) -> str:
    """How much of the text in the page's image is missing from the answer; empty if not much."""
    page_area, margin = rows.width * rows.height, BOX_MARGIN * max(rows.width, rows.height)
    boxes = [
        (block.label in FIGURE_LABELS, _expand(block.box, margin))
        for block in blocks
        if block.box is not None
        and (block.label not in FIGURE_LABELS or block.box.area < PAGE_SIZED_FIGURE * page_area)
    ]
    points = rows.count_outside([box for is_figure, box in boxes if is_figure])
    if points < MIN_TEXT_POINTS:
        return ""
    characters = sum(not char.isspace() for block in blocks for char in block.text)
    if characters < MIN_CHARACTERS_PER_POINT * points:
        return f"only {characters} characters were read on a page that seems to be full of text"
    outside = rows.count_outside([box for _, box in boxes]) / len(rows.points)
    has_boxes = signals.expects_boxes and any(block.box is not None for block in blocks)
    if has_boxes and outside > MAX_OUTSIDE_SHARE:
        return f"{outside:.0%} of the page's text seems to lie outside all boxes"
    return ""


def _expand(box: Box, margin: float) -> Box:
    return Box(box.x1 - margin, box.y1 - margin, box.x2 + margin, box.y2 + margin)


def truncate_at_loop(answer: Answer, *, is_confirmed: bool = False) -> Answer:
    """The answer up to its loop, if it has one; `is_confirmed` as in `QualitySignals`."""
    loop = find_loop(answer.text, answer.finish_reason, without_words=is_confirmed)
    return answer if loop is None else replace(answer, text=answer.text[: loop.start])


def text_layer_agreement(layer: TextLayer | None, blocks: Sequence[Block]) -> float | None:
    """How far blocks agree with a page's text layer, 0..1; None where that is not usable."""
    if layer is None or not layer.is_usable:
        return None
    return agreement(_text(blocks), layer.text)


def _text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.text for block in blocks)
