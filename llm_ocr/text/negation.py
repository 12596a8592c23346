"""Find words for yes and no, and similar texts that mean the opposite."""

import re
from collections.abc import Collection, Iterator, Sequence

from rapidfuzz.distance import Levenshtein

from llm_ocr.text.normalize import normalize, words_in

YES_WORDS = frozenset({"yes", "true", "ja", "wahr", "oui", "vrai", "si", "x", "y"})
NO_WORDS = frozenset({"no", "false", "nein", "falsch", "non", "faux", "nee", "n"})
TICKED_BOXES, EMPTY_BOXES = "☑☒✓✔", "☐"
_NEGATION_WORDS = """
not never nicht nie kein keine keinen keiner non pas ne sans senza sin sem nao niet geen without
ohne zonder except
"""
NEGATIONS = frozenset(_NEGATION_WORDS.split())
# Including and excluding, imports and exports, increase and decrease, paid and unpaid.
_OPPOSITE_PREFIXES = (("in", "ex"), ("im", "ex"), ("in", "de"))
_NEGATING_PREFIXES = ("un", "in", "im", "ir", "non", "dis", "nicht")
_OPPOSITES = (
    ("net", "gross"),
    ("netto", "brutto"),
    ("with", "without"),
    ("mit", "ohne"),
    ("debit", "credit"),
    ("before", "after"),
    ("max", "min"),
    ("maximum", "minimum"),
)
_OPPOSITE_PAIRS = {pair for one, other in _OPPOSITES for pair in ((one, other), (other, one))}
# The rest of a word without its prefix is a word if it has at least this many characters.
MIN_STEM_CHARACTERS = 3
# A text matches another if at most one in this many characters is wrong.
CHARACTERS_PER_ERROR = 5


def contradict(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two similar texts mean the opposite: including and excluding tax."""
    if _count_negations(one) != _count_negations(other):
        return True
    mine, theirs = set(one) - set(other), set(other) - set(one)
    return any(_is_opposite(word, against) for word in mine for against in theirs)


def _count_negations(words: Collection[str]) -> int:
    return sum(word in NEGATIONS for word in words)


def _is_opposite(word: str, other: str) -> bool:
    if (word, other) in _OPPOSITE_PAIRS:
        return True
    return any(
        _have_prefixes(word, prefix, other, against) or _have_prefixes(word, against, other, prefix)
        for prefix, against in _OPPOSITE_PREFIXES
    ) or any(
        len(short) >= MIN_STEM_CHARACTERS and long == prefix + short
        for long, short in ((word, other), (other, word))
        for prefix in _NEGATING_PREFIXES
    )


def _have_prefixes(word: str, prefix: str, other: str, against: str) -> bool:
    """Whether two words have these prefixes, and similar stems."""
    if not word.startswith(prefix) or not other.startswith(against):
        return False
    stem, against_stem = word[len(prefix) :], other[len(against) :]
    most = len(stem) // CHARACTERS_PER_ERROR
    return (
        len(stem) >= MIN_STEM_CHARACTERS
        and Levenshtein.distance(stem, against_stem, score_cutoff=most) <= most
    )


_OPTIONS = re.compile(r"([^\W_]+)\s?[/|]\s?([^\W_]+)")
_BOX_AND_WORD = re.compile(rf"([{TICKED_BOXES}{EMPTY_BOXES}])\s?([^\W_]+)")


def unselected_options(text: str) -> set[int]:
    """The positions of words that are options, not answers: yes/no, or yes after an empty box."""
    found: set[int] = set()
    for match in _OPTIONS.finditer(text):
        one, other = normalize(match[1]), normalize(match[2])
        if (one in YES_WORDS and other in NO_WORDS) or (one in NO_WORDS and other in YES_WORDS):
            found |= {match.start(1), match.start(2)}
    for match in _BOX_AND_WORD.finditer(text):
        if match[1] in EMPTY_BOXES and normalize(match[2]) in YES_WORDS | NO_WORDS:
            found.add(match.start(2))
    return found


def boolean_mentions(text: str, value: bool) -> Iterator[tuple[int, int]]:
    """The start and end of each word or box in a text that means yes, or no."""
    unselected = unselected_options(text)
    for word in words_in(text):
        if word.text in (YES_WORDS if value else NO_WORDS) and word.start not in unselected:
            yield word.start, word.end
    for match in re.finditer(f"[{TICKED_BOXES if value else EMPTY_BOXES}]", text):
        # A box before yes or no ticks that word.
        behind = _BOX_AND_WORD.match(text, match.start())
        if behind is None or normalize(behind[2]) not in YES_WORDS | NO_WORDS:
            yield match.span()


def is_negated(value: bool, in_front: Sequence[str], between: Sequence[str]) -> bool:
    """Whether an answer isn't its label's: another answer is between them, or the label is negated.

    `in_front` are the words before the label.
    """
    if in_front and in_front[-1] in NEGATIONS - NO_WORDS:
        return True
    against = NO_WORDS | NEGATIONS if value else YES_WORDS
    return any(word in against for word in between)
