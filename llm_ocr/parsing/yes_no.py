"""Where a text says yes or no, in a word or by a box."""

import re
from collections.abc import Iterator, Sequence

from llm_ocr.parsing.opposites import EMPTY, NEGATIONS, NO, TICKED, YES
from llm_ocr.parsing.words import folded, words_in

_PAIR = re.compile(r"([^\W_]+)\s?[/|]\s?([^\W_]+)")
_BOXED = re.compile(rf"([{TICKED}{EMPTY}])\s?([^\W_]+)")


def offered(text: str) -> set[int]:
    """Where words stand that are offered as answers and are none: yes/no, an empty box and yes."""
    found: set[int] = set()
    for match in _PAIR.finditer(text):
        one, other = folded(match[1]), folded(match[2])
        if (one in YES and other in NO) or (one in NO and other in YES):
            found |= {match.start(1), match.start(2)}
    for match in _BOXED.finditer(text):
        if match[1] in EMPTY and folded(match[2]) in YES | NO:
            found.add(match.start(2))
    return found


def answers_in(text: str, value: bool) -> Iterator[tuple[int, int]]:
    """The words and boxes of a text that say yes, or no, from start to end."""
    not_said = offered(text)
    for word in words_in(text):
        if word.text in (YES if value else NO) and word.start not in not_said:
            yield word.start, word.end
    for match in re.finditer(f"[{TICKED if value else EMPTY}]", text):
        # A box in front of yes or no ticks that word.
        behind = _BOXED.match(text, match.start())
        if behind is None or folded(behind[2]) not in YES | NO:
            yield match.span()


def is_denied(value: bool, in_front: Sequence[str], between: Sequence[str]) -> bool:
    """Whether an answer is not its label's: another stands between them, or the label is negated.

    `in_front` are the words before the label.
    """
    if in_front and in_front[-1] in NEGATIONS - NO:
        return True
    against = NO | NEGATIONS if value else YES
    return any(word in against for word in between)
