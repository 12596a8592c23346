"""Words to lines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.pages.fonts import width

Word = tuple[str, str]
_VOWELS = "aeiouyäöüéèêáóíà"
_LETTERS = re.compile(r"[^\W\d_]{7,}")
_LEAST = 3


@dataclass(frozen=True)
class SetLine:
    """Words with their fonts; `cut` where the last is the first half of one, with its hyphen."""

    words: tuple[Word, ...]
    natural: float
    cut: bool = False
    last: bool = False

    @property
    def text(self) -> str:
        return " ".join(word for word, _ in self.words)


def words_of(text: str, font: str) -> list[Word]:
    return [(word, font) for word in text.split()]


def joined(lines: Sequence[SetLine]) -> str:
    """The text of lines, without their ends and the hyphens there."""
    said = ""
    for line in lines:
        said += line.text[:-1] if line.cut else line.text + " "
    return said.strip()


def lines_of(
    words: Sequence[Word],
    size: float,
    wide: float,
    indent: float = 0.0,
    hyphenated: bool = False,
) -> list[SetLine]:
    """Lines at most `wide` points long, the first of them shorter by `indent`."""
    lines: list[SetLine] = []
    row: list[Word] = []
    used, left = 0.0, list(reversed(words))
    while left:
        word, font = left.pop()
        space = width(" ", font, size) if row else 0.0
        room = wide - (0.0 if lines else indent) - used - space
        needs = width(word, font, size)
        if needs <= room:
            row.append((word, font))
            used += space + needs
            continue
        halves = _halves(word, font, size, room) if hyphenated else None
        if halves is not None:
            row.append((halves[0], font))
            left.append((halves[1], font))
            used += space + width(halves[0], font, size)
        else:
            left.append((word, font))
        if not row:
            raise ValueError(f"{word!r} is wider than {wide:.0f} points at {size} points")
        lines.append(SetLine(tuple(row), used, cut=halves is not None))
        row, used = [], 0.0
    return [*lines, SetLine(tuple(row), used, last=True)]


def _halves(word: str, font: str, size: float, room: float) -> tuple[str, str] | None:
    """The longest beginning of a word that fits with a hyphen, and the rest of it."""
    for place in sorted(_breaks(word), reverse=True):
        begun = word[:place] + "-"
        if width(begun, font, size) <= room:
            return begun, word[place:]
    return None


def _breaks(word: str) -> Iterator[int]:
    """Between vowel and consonant before a vowel, and between two consonants: near enough."""
    for letters in _LETTERS.finditer(word):
        start, inside = letters.start(), letters[0].lower()
        for k in range(_LEAST, len(inside) - _LEAST):
            before, here, after = (one in _VOWELS for one in inside[k - 1 : k + 2])
            open_end = before and not here and after
            between = not before and not here and after and inside[k - 2] in _VOWELS
            if open_end or between:
                yield start + k
