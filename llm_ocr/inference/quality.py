"""Is an answer good: loops, truncation, emptiness, tags without text, the text layer's word."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from llm_ocr.inference.agreement import agreement
from llm_ocr.inference.loops import find_loop
from llm_ocr.inference.replies import Answer
from llm_ocr.records import FIGURE_LABELS, Block, TextLayer

# With an empty answer, pages with less ink than this are taken for blank: specks of dust, a fold.
SPECKLED_INK = 2e-3

# What agrees this much with the page's text layer stands on the page, however often it repeats.
WITNESSED = 0.9


class Flaw(StrEnum):
    """What can be wrong with an answer, from bad to worse."""

    DISAGREES = "disagrees"
    CUT = "cut"
    LOOP = "loop"
    UNREADABLE = "unreadable"
    NO_TEXT = "no_text"
    EMPTY = "empty"


GRAVITY = {flaw: place for place, flaw in enumerate(Flaw)}


@dataclass(frozen=True)
class Evidence:
    """What is known of the page beside the answer.

    `ink` is the share of inked pixels, 0..1. An answer that agrees less than `min_agreement`
    (0..1) with a text layer that is the page's own is doubted. `may_loop` is false for an engine
    that generates nothing: what it repeats stands on the page.
    """

    ink: float
    layer: TextLayer | None = None
    min_agreement: float = 0.0
    may_loop: bool = True


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
    score = _agreement(blocks, evidence.layer)
    length = len(answer.text)
    words = any(block.text.strip() for block in blocks)
    if not blocks and evidence.ink >= SPECKLED_INK:
        return Verdict(Flaw.EMPTY, 0, score, "nothing was read on a page that has ink")
    if blocks and not words and not all(block.label in FIGURE_LABELS for block in blocks):
        return Verdict(Flaw.NO_TEXT, length, score, "the answer has tags, but no text in them")
    is_witnessed = score is not None and score >= WITNESSED
    may_loop = evidence.may_loop and not is_witnessed
    loop = find_loop(answer.text, answer.finish_reason) if may_loop else None
    if loop is not None:
        said = f"{loop.period} characters again and again ({loop.kind}), from {loop.start} on"
        return Verdict(Flaw.LOOP, loop.start, score, said)
    if answer.finish_reason == "repetition":
        return Verdict(Flaw.LOOP, length, score, "the server stopped a repetition")
    if answer.finish_reason == "length":
        return Verdict(Flaw.CUT, length, score, f"cut off after {answer.completion_tokens} tokens")
    if score is not None and score < _expected(evidence):
        return Verdict(Flaw.DISAGREES, length, score, f"agrees {score:.2f} with the text layer")
    return Verdict(None, length, score)


def before_loop(answer: Answer) -> Answer:
    """The answer up to its loop, if there is one."""
    loop = find_loop(answer.text, answer.finish_reason)
    return answer if loop is None else replace(answer, text=answer.text[: loop.start])


def _agreement(blocks: Sequence[Block], layer: TextLayer | None) -> float | None:
    if layer is None or not layer.is_usable:
        return None
    return agreement("\n\n".join(block.text for block in blocks), layer.text)


def _expected(evidence: Evidence) -> float:
    """An earlier OCR's text under a scan proves nothing."""
    is_own = evidence.layer is not None and not evidence.layer.under_image
    return evidence.min_agreement if is_own else 0.0
