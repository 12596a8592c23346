"""Which scripts a text is in: a page in another one than its document was probably misread."""

import unicodedata
from collections import Counter

# The first word of a letter's Unicode name, where it is not the script's.
_NAMES = {
    "CJK": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "HALFWIDTH": "Kana",
    "HANGUL": "Hangul",
    "MODIFIER": "",
    "FULLWIDTH": "Latin",
    "MATHEMATICAL": "",
    "SCRIPT": "",
    "DOUBLE-STRUCK": "",
    "BLACK-LETTER": "",
    "FEMININE": "Latin",
    "MASCULINE": "Latin",
    "MICRO": "Greek",
    "OHM": "Greek",
}
# Japanese is written in both; a page of either is no stranger to the other.
_TOGETHER = {"Kana": "Han"}
FEWEST_LETTERS = 30


def scripts(text: str) -> Counter[str]:
    """How many letters of a text are in each script, such as Latin, Han or Arabic."""
    letters = Counter(one for one in text if one.isalpha())
    found: Counter[str] = Counter()
    for letter, count in letters.items():
        if name := _script(letter):
            found[name] += count
    return found


def _script(letter: str) -> str:
    if letter < "\u0250":
        return "Latin"
    word = unicodedata.name(letter, "").partition(" ")[0]
    return _NAMES.get(word, word.capitalize())


def main_script(found: Counter[str]) -> str | None:
    """The script of most letters; None for too few to say, or where none has half of them."""
    if found.total() < FEWEST_LETTERS:
        return None
    name, count = _joined(found).most_common(1)[0]
    return name if 2 * count >= found.total() else None


def strangeness(page: Counter[str], document: Counter[str]) -> float:
    """The share of a page's letters (0..1) in scripts that are rare in the rest of its document:
    less than a tenth of it."""
    mine, rest = _joined(page), _joined(document)
    rest = rest - mine
    if mine.total() < FEWEST_LETTERS or rest.total() < FEWEST_LETTERS:
        return 0.0
    strange = sum(n for name, n in mine.items() if 10 * rest[name] < rest.total())
    return strange / mine.total()


def _joined(found: Counter[str]) -> Counter[str]:
    joined: Counter[str] = Counter()
    for name, count in found.items():
        joined[_TOGETHER.get(name, name)] += count
    return joined
