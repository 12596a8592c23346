"""Split an answer into tokens, one character each, to compare parts of it quickly."""

import re
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

_BOX = r"<\|det\|>.*?(?:<\|/det\|>|\Z)"
_LABEL = r"<\|ref\|>.*?(?:<\|/ref\|>|\Z)"
_FILLER = (
    r"(?:(?:[._\-–—·•…=*~#+☐□]|&nbsp;|&#\d+;|<br\s*/?>|\\(?:quad|,|;|ldots|dots|cdots))[ \t]?){4,}"
)
_LONG = r"(?P<long>\w{60,})"
_TOKEN = re.compile(
    rf"(?P<box>{_BOX})|(?P<label>{_LABEL})|(?P<filler>{_FILLER})|{_LONG}"
    r"|(?P<tag></?[a-zA-Z][^<>]{0,120}>|&nbsp;|&#\d+;|\\[a-zA-Z]+|\|[-:| ]*)"
    r"|(?P<number>\d+)"
    r"|(?P<spaceless>[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
    r"|(?P<letter>\b[a-zA-Z]\b)"
    r"|(?P<word>[^\W\d_]+)|(?P<mark>[^\w\s]|_)",
    re.DOTALL,
)
NUMBER = "\x00"
BLOCK = "\x01"
FILLER = "\x02"
FIRST_WORD = 0x100
# How many words get a character of their own; later ones reuse these.
MAX_WORDS = sys.maxunicode + 1 - FIRST_WORD


@dataclass(frozen=True)
class Tokens:
    """The tokens of an answer: for each a character, its position, its value if it is a number, its
    kind, and how many letters it has."""

    codes: str
    starts: Sequence[int]
    ends: Sequence[int]
    values: Sequence[int]
    kinds: Sequence[str]
    letters: Sequence[int]


def tokenize(text: str) -> Tokens:
    """The words, numbers, tags and punctuation of an answer, without boxes. Single letters count as
    numbers."""
    known: dict[str, str] = {}
    codes: list[str] = []
    # A list of numbers takes several times the memory, and an answer may have millions of tokens.
    starts, ends, values, letters = (array("q") for _ in range(4))
    kinds: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, word = str(match.lastgroup), match.group()
        if kind == "box":
            continue
        value = 0
        if kind == "number":
            code, value = NUMBER, int(word[:15])
        elif kind == "letter":
            code, value = NUMBER, ord(word)
        elif kind == "label":
            code = BLOCK
        elif kind == "filler":
            code = FILLER
        else:
            code = known.setdefault(word, chr(FIRST_WORD + len(known) % MAX_WORDS))
        codes.append(code)
        starts.append(match.start())
        ends.append(match.end())
        values.append(value)
        kinds.append(kind)
        is_word = kind in ("word", "spaceless", "long")
        letters.append(len(word) if is_word else 0)
    return Tokens("".join(codes), starts, ends, values, kinds, letters)
