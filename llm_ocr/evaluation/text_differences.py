"""Find the passages in which two texts differ, word by word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten

from rapidfuzz.distance import Levenshtein

# Words of a text that are compared, and characters of a passage that are shown.
MAX_WORDS = 5_000
MAX_LENGTH = 200
# Differences with fewer equal words between them are one passage.
JOINING_WORDS = 2
# Words shown before a passage.
CONTEXT_WORDS = 4


@dataclass(frozen=True)
class DifferingPassage:
    """What two texts have in the same place, one of which may be empty, and the words before."""

    before: str
    a: str
    b: str


def differing_passages(a: str, b: str, count: int) -> list[DifferingPassage]:
    """The `count` longest passages in which two texts differ, in their order.

    At most `MAX_WORDS` words of each text are compared; long passages are shortened.
    """
    words, others = a.split()[:MAX_WORDS], b.split()[:MAX_WORDS]
    spans = list(_differing_spans(words, others))
    longest = sorted(spans, key=lambda span: -max(span.length_a, span.length_b))[:count]
    return [
        DifferingPassage(
            before=" ".join(words[max(0, span.start_a - CONTEXT_WORDS) : span.start_a]),
            a=_shorten_words(words[span.start_a : span.end_a]),
            b=_shorten_words(others[span.start_b : span.end_b]),
        )
        for span in sorted(longest, key=lambda span: (span.start_a, span.start_b))
    ]


def _shorten_words(words: Sequence[str]) -> str:
    return shorten(" ".join(words), MAX_LENGTH, placeholder=" …")


@dataclass(frozen=True)
class _Span:
    """Words of two texts that differ."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int

    @property
    def length_a(self) -> int:
        return self.end_a - self.start_a

    @property
    def length_b(self) -> int:
        return self.end_b - self.start_b


def _differing_spans(words: Sequence[str], others: Sequence[str]) -> Iterator[_Span]:
    current: _Span | None = None
    for step in Levenshtein.opcodes(words, others):
        if step.tag == "equal":
            continue
        span = _Span(step.src_start, step.src_end, step.dest_start, step.dest_end)
        if current is not None and span.start_a - current.end_a <= JOINING_WORDS:
            current = _Span(current.start_a, span.end_a, current.start_b, span.end_b)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current
