"""Is an answer good: loops, truncation, emptiness, tags without text, what the page itself says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from llm_ocr.inference.agreement import agreement, recall
from llm_ocr.inference.loops import MOST_SIGNS, Loop, find_loop
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.text_rows import TextRows
from llm_ocr.records import FIGURE_LABELS, Block, Box, TextLayer

# With an empty answer, pages with less ink than this are taken for blank: specks of dust, a fold.
SPECKLED_INK = 2e-3

# What agrees this much with the page's text layer stands on the page, however often it repeats.
WITNESSED = 0.9

# The share of blocks without a box from which on an answer that should have boxes is doubted: none
# of 76 clean answers had it, and garbage of DeepSeek-OCR has 0.83 to 1.
MOST = 0.5
# A page with so many pieces of rows of text (see `TextRows`) has some 500 characters or more. An
# answer is doubted that has fewer than so many characters a piece, figures aside; a figure of this
# share of the page is no figure but the page. Of 39 pages with that many, of 142 that the embedded
# engine read, the least was 4.7 (handwriting). At half of this an apology of 80 characters passes
# up to 53 pieces, at twice two pages are accused.
FEWEST_ROWS, CHARACTERS_A_ROW, WHOLE_PAGE = 25, 3.0, 0.5
# The share of such pieces that may lie outside of all boxes; of the same pages the most was 0.28,
# and at half of this one of 39 is accused.
MOST_OUTSIDE = 0.5
# How far from its box a row of text may lie, as a share of the page's longest side.
MARGIN = 0.01

# An answer that ends so has no end, however the server says that it ended: within a tag of the
# model's, or of a table in HTML.
_WITHIN_TAG = re.compile(
    r"(?:<\|ref\|>(?:(?!<\|/ref\|>).){0,200}"
    r"|<\|det\|>(?:(?!<\|/det\|>).){0,200}"
    r"|<\|[a-z/]{0,9}\|?"
    r"|</?(?:table|thead|tbody|tr|td|th)\b[^<>]{0,200}"
    r"|<\|ref\|>[^<\n]{0,200}<\|/ref\|>)\s*\Z",
    re.DOTALL,
)
_JSON_CELLS = re.compile(r"\s*(?:```(?:json)?\s*)?\[\s*\{\s*\"bbox")


class Flaw(StrEnum):
    """What can be wrong with an answer, from bad to worse."""

    NO_BOXES = "no_boxes"
    UNREAD_TEXT = "unread_text"
    DISAGREES = "disagrees"
    CUT = "cut"
    LOOP = "loop"
    UNREADABLE = "unreadable"
    NO_TEXT = "no_text"
    EMPTY = "empty"


# What is only doubted: the page may have such words, and the page's own text may be what is wrong.
DOUBTS = frozenset({Flaw.NO_BOXES, Flaw.UNREAD_TEXT, Flaw.DISAGREES})
GRAVITY = {flaw: place for place, flaw in enumerate(Flaw)}


@dataclass(frozen=True)
class Evidence:
    """What is known of the page beside the answer.

    `ink` is the share of inked pixels, 0..1. An answer that agrees less than `min_agreement`
    (0..1) with a text layer that is the page's own, and has less than that share of its words, is
    doubted; at 0 no answer is doubted for
    anything. `may_loop` is false for an engine that generates nothing: what it repeats stands on
    the page. `rows` are where the page's image has rows of text; `expects_boxes` is whether blocks
    should have boxes; `is_witnessed`, whether the page's text is known to bear out what is said.
    """

    ink: float
    layer: TextLayer | None = None
    min_agreement: float = 0.0
    may_loop: bool = True
    rows: TextRows | None = None
    expects_boxes: bool = False
    is_witnessed: bool = False


@dataclass(frozen=True)
class Verdict:
    """What was found; `flaw` is None for a good answer.

    `kept` is how many of the answer's characters are worth keeping; `agreement` is with the text
    layer, 0..1, None where there is no usable one; `why` says what was found.
    """

    flaw: Flaw | None
    kept: int
    agreement: float | None
    why: str = ""

    @property
    def is_good(self) -> bool:
        return self.flaw is None

    @property
    def worth(self) -> tuple[int, float]:
        """Orders verdicts on the same page: less grave first, then by agreement or length."""
        grave = -1 if self.flaw is None else GRAVITY[self.flaw]
        return -grave, self.kept if self.agreement is None else self.agreement


def judge(answer: Answer, blocks: Sequence[Block], evidence: Evidence) -> Verdict:
    """What is wrong with `answer`, which was read as `blocks`."""
    score = agreement_with(evidence.layer, blocks)
    length = len(answer.text)
    words = any(block.text.strip() for block in blocks)
    if not blocks and evidence.ink >= SPECKLED_INK:
        return Verdict(Flaw.EMPTY, 0, score, "nothing was read on a page that has ink")
    if blocks and not words and not all(block.label in FIGURE_LABELS for block in blocks):
        return Verdict(Flaw.NO_TEXT, length, score, "the answer has tags, but no text in them")
    loop = _loop(answer, evidence, score) if evidence.may_loop else None
    if loop is not None:
        said = f"{loop.period} characters again and again ({loop.kind}), from {loop.start} on"
        return Verdict(Flaw.LOOP, loop.start, score, said)
    if answer.finish_reason == "repetition":
        return Verdict(Flaw.LOOP, length, score, "the server stopped a repetition")
    if answer.finish_reason == "length":
        return Verdict(Flaw.CUT, length, score, f"cut off after {answer.completion_tokens} tokens")
    if evidence.may_loop and _ends_within(answer.text):
        return Verdict(Flaw.CUT, length, score, f"it ends within a tag: {answer.text[-40:]!r}")
    flaw, why = _doubt(blocks, evidence, score)
    return Verdict(flaw, length, score, why)


def _ends_within(text: str) -> bool:
    """Whether an answer ends in the middle of a tag, or of a cell in JSON."""
    if _WITHIN_TAG.search(text[-300:]):
        return True
    return _JSON_CELLS.match(text) is not None and not text.rstrip(" \t\r\n`").endswith(("]", "}"))


def _loop(answer: Answer, evidence: Evidence, score: float | None) -> Loop | None:
    """A loop of words that the page's own text has, too, is none. Of what has no words, as empty
    cells, agreement says nothing."""
    is_witnessed = evidence.is_witnessed or (score is not None and score >= WITNESSED)
    loop = find_loop(answer.text, answer.finish_reason, without_words=is_witnessed)
    if loop is None or not is_witnessed or evidence.layer is None:
        return loop
    sample = answer.text[loop.start : loop.start + MOST_SIGNS[0] // 2].strip()
    return None if sample and sample in evidence.layer.text else loop


def _doubt(
    blocks: Sequence[Block], evidence: Evidence, score: float | None
) -> tuple[Flaw | None, str]:
    """What speaks against an answer that seems whole, and how it is said."""
    if not evidence.min_agreement or not blocks:
        return None, ""
    is_own = evidence.layer is not None and evidence.layer.is_own
    if is_own and score is not None and _is_of_another(blocks, evidence, score):
        return Flaw.DISAGREES, f"agrees {score:.2f} with the text layer"
    unread = "" if is_own or evidence.rows is None else _unread(blocks, evidence.rows, evidence)
    if unread:
        return Flaw.UNREAD_TEXT, unread
    boxless = sum(block.box is None for block in blocks)
    if evidence.expects_boxes and boxless > MOST * len(blocks):
        return Flaw.NO_BOXES, f"{boxless} of {len(blocks)} blocks have no box"
    return None, ""


def _is_of_another(blocks: Sequence[Block], evidence: Evidence, score: float) -> bool:
    """Whether answer and layer seem to be of two pages. An answer that has what a short layer has,
    and more, is of the same: the rest may be in pictures."""
    least, layer = evidence.min_agreement, evidence.layer
    return layer is not None and score < least and recall(_text(blocks), layer.text) < least


def _unread(blocks: Sequence[Block], rows: TextRows, evidence: Evidence) -> str:
    """What the page's ink says of text that is not in the answer; nothing where it isn't much."""
    page, margin = rows.width * rows.height, MARGIN * max(rows.width, rows.height)
    placed = [
        (block.label in FIGURE_LABELS, _wider(block.box, margin))
        for block in blocks
        if block.box is not None
        and (block.label not in FIGURE_LABELS or block.box.area < WHOLE_PAGE * page)
    ]
    beside = rows.outside([box for is_figure, box in placed if is_figure])
    if beside < FEWEST_ROWS:
        return ""
    characters = sum(not one.isspace() for block in blocks for one in block.text)
    if characters < CHARACTERS_A_ROW * beside:
        return f"{characters} characters were read of a page that seems to be full of text"
    outside = rows.outside([box for _, box in placed]) / len(rows.pieces)
    has_boxes = evidence.expects_boxes and any(block.box is not None for block in blocks)
    if has_boxes and outside > MOST_OUTSIDE:
        return f"{outside:.0%} of the page's text seems to lie outside of all boxes"
    return ""


def _wider(box: Box, margin: float) -> Box:
    return Box(box.x1 - margin, box.y1 - margin, box.x2 + margin, box.y2 + margin)


def before_loop(answer: Answer, *, is_witnessed: bool = False) -> Answer:
    """The answer up to its loop, if there is one; `is_witnessed` as in `Evidence`."""
    loop = find_loop(answer.text, answer.finish_reason, without_words=is_witnessed)
    return answer if loop is None else replace(answer, text=answer.text[: loop.start])


def agreement_with(layer: TextLayer | None, blocks: Sequence[Block]) -> float | None:
    """How far blocks agree with a page's own text, 0..1; None where that is not usable."""
    if layer is None or not layer.is_usable:
        return None
    return agreement(_text(blocks), layer.text)


def _text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block.text for block in blocks)
