"""Text as it is compared: words without case and accents, and how far two are apart."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+")
_SHARP = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l"})
# Characters that readers mistake for each other, where digits are concerned.
_ALIKE = str.maketrans("oilsbzg", "0115829")


@dataclass(frozen=True)
class WordSpan:
    """A word at `start` to `end` of a text, as it is compared."""

    text: str
    start: int
    end: int


def normalize(text: str) -> str:
    """Without case, accents and ligatures."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold().translate(_SHARP))
    return "".join(char for char in apart if not unicodedata.combining(char))


def words_in(text: str) -> Iterator[WordSpan]:
    """The words and numbers of a text, without what stands between them."""
    for match in _WORD.finditer(text):
        yield WordSpan(normalize(match.group()), match.start(), match.end())


def normalized_words(text: str) -> tuple[str, ...]:
    """The words of a text as they are compared."""
    return tuple(word.text for word in words_in(text))


def same_digits(one: str, other: str) -> bool:
    """Whether two texts have the same digits, but for letters that look like them."""
    return _digits(one, other) == _digits(other, one)


def _digits(text: str, other: str) -> str:
    if not re.search(r"\d", text + other):
        return ""
    # A word without a digit is no number in disguise.
    numbers = [word for word in text.split() if re.search(r"\d", word)]
    return re.sub(r"\D", "", "".join(numbers).translate(_ALIKE))


def distance(one: str, other: str, most: int) -> int:
    """How many characters must be put in, taken out or changed; `most + 1` where it is more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    one, other = _differing(one, other)
    if not one or not other or most < 2:
        # With one error at most, no more than one character of each is left.
        return min(max(len(one), len(other)), most + 1)
    return _edits(one, other, most)


def _edits(one: str, other: str, most: int) -> int:
    """The distance, a row of the table of all prefixes' distances at a time.

    Where a row goes up and down from cell to cell is kept as the bits of two numbers
    (G. Myers, Journal of the ACM 46, 1999).
    """
    last, mask = 1 << (len(one) - 1), (1 << len(one)) - 1
    where: dict[str, int] = {}
    for k, char in enumerate(one):
        where[char] = where.get(char, 0) | (1 << k)
    up, down, edits = mask, 0, len(one)
    for left, char in zip(range(len(other) - 1, -1, -1), other, strict=True):
        same = where.get(char, 0)
        across = (((same & up) + up) ^ up) | same
        rises, falls = down | ~(across | up), up & across
        edits += bool(rises & last) - bool(falls & last)
        if edits - left > most:
            return most + 1
        rises, same = (rises << 1) | 1, same | down
        up, down = ((falls << 1) | ~(same | rises)) & mask, rises & same & mask
    return edits


def _differing(one: str, other: str) -> tuple[str, str]:
    """Two texts without what they have in common at their beginnings and ends."""
    shorter = min(len(one), len(other))
    start = 0
    while start < shorter and one[start] == other[start]:
        start += 1
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]
