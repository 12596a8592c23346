"""Normalize text for comparison: without case, accents and ligatures, as far as a caller needs."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+")
# Letters that NFKD leaves alone.
_LIGATURES = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l"})
# Letters that OCR takes for digits.
_LOOKALIKES = str.maketrans("oilsbzg", "0115829")


@dataclass(frozen=True)
class WordSpan:
    """A normalized word and its position (`start` to `end`) in the text it comes from."""

    text: str
    start: int
    end: int


def normalize(text: str) -> str:
    """The text without case, accents and ligatures."""
    if text.isascii():
        return text.lower()
    return _without_marks(unicodedata.normalize("NFKD", text.casefold().translate(_LIGATURES)))


def fold_case(text: str) -> str:
    """The text without case, in Unicode NFKC: ligatures and full-width forms become plain letters,
    accents stay."""
    return unicodedata.normalize("NFKC", text).casefold()


def strip_diacritics(text: str) -> str:
    """The text without diacritics; case and ligatures stay."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _without_marks(unicodedata.normalize("NFD", text)))


def _without_marks(decomposed: str) -> str:
    """The text without combining characters. A text has few different characters, so each of these
    is looked up once."""
    marks = [char for char in set(decomposed) if unicodedata.combining(char)]
    return decomposed.translate(dict.fromkeys(map(ord, marks))) if marks else decomposed


def words_in(text: str) -> Iterator[WordSpan]:
    """The normalized words and numbers of a text, without white space and punctuation."""
    for match in _WORD.finditer(text):
        yield WordSpan(normalize(match.group()), match.start(), match.end())


def normalized_words(text: str) -> tuple[str, ...]:
    """The texts of `words_in`."""
    return tuple(word.text for word in words_in(text))


def same_digits(text: str, other: str) -> bool:
    """Whether two texts have the same digits; lowercase letters that look like digits count."""
    return _digits(text, other) == _digits(other, text)


def _digits(text: str, other: str) -> str:
    if not re.search(r"\d", text + other):
        return ""
    # Only words that contain a digit: in others an o is an o.
    numbers = [word for word in text.split() if re.search(r"\d", word)]
    return re.sub(r"\D", "", "".join(numbers).translate(_LOOKALIKES))
