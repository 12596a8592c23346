"""Detect scripts: a page in another script than its document was probably misread."""

import unicodedata
from collections import Counter

# Scripts by the first word of a letter's Unicode name, where they differ.
_SCRIPTS = {
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
# Japanese uses both scripts, so that they count as one.
_SAME_SCRIPT = {"Kana": "Han"}
MIN_LETTERS = 30


def count_scripts(text: str) -> Counter[str]:
    """The number of letters of a text in each script, such as Latin, Han or Arabic."""
    letters = Counter(filter(str.isalpha, text))
    counts: Counter[str] = Counter()
    for letter, count in letters.items():
        if name := _script(letter):
            counts[name] += count
    return counts


def _script(letter: str) -> str:
    if letter < "\u0250":
        return "Latin"
    word = unicodedata.name(letter, "").partition(" ")[0]
    return _SCRIPTS.get(word, word.capitalize())


def main_script(counts: Counter[str]) -> str | None:
    """The script of most letters; None if there are too few letters, or no script has half."""
    if counts.total() < MIN_LETTERS:
        return None
    name, count = _merge_scripts(counts).most_common(1)[0]
    return name if 2 * count >= counts.total() else None


def foreign_share(page: Counter[str], document: Counter[str]) -> float:
    """The share of a page's letters (0..1) in scripts that are rare (less than a tenth) in the rest
    of its document."""
    own, rest = _merge_scripts(page), _merge_scripts(document)
    rest = rest - own
    if own.total() < MIN_LETTERS or rest.total() < MIN_LETTERS:
        return 0.0
    foreign = sum(n for name, n in own.items() if 10 * rest[name] < rest.total())
    return foreign / own.total()


def _merge_scripts(counts: Counter[str]) -> Counter[str]:
    merged: Counter[str] = Counter()
    for name, count in counts.items():
        merged[_SAME_SCRIPT.get(name, name)] += count
    return merged
