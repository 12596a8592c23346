"""What was read of a page, as phrases in rows: words that stand together, and where."""

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, hull
from llm_ocr.text.normalize import WordSpan, words_in
from llm_ocr.text.table_markup import (
    is_markdown_row,
    read_html_rows,
    read_markdown_rows,
    split_at_tables,
)

# Words of a line with a gap of this many of its heights between them are two phrases.
PHRASE_GAP = 1.1
# The size of a character in a text without a place, and where the columns of its tables stand.
ACROSS, DOWN, COLUMN = 10.0, 24.0, 400.0
# A line shorter than this many heights says little about how the page lies.
LONG_ENOUGH = 6.0


@dataclass(frozen=True)
class Phrase:
    """A text on a page that was laid straight; `number` tells it from all others.

    `score` is the recognizer's confidence in its line (0..1).
    """

    number: int
    text: str
    rect: Rect
    row: int = 0
    score: float = 1.0

    @property
    def height(self) -> float:
        return self.rect[3] - self.rect[1]

    @property
    def middle(self) -> float:
        return (self.rect[1] + self.rect[3]) / 2

    @cached_property
    def words(self) -> tuple[WordSpan, ...]:
        return tuple(words_in(self.text))


@dataclass(frozen=True)
class Paper:
    """A page's phrases from top to bottom, in rows from left to right."""

    rows: tuple[tuple[Phrase, ...], ...]

    @cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        return tuple(phrase for row in self.rows for phrase in row)

    @cached_property
    def text(self) -> str:
        return "\n".join(" ".join(phrase.text for phrase in row) for row in self.rows)

    @cached_property
    def height(self) -> float:
        """Of a usual line."""
        return statistics.median([phrase.height for phrase in self.phrases] or [1.0])

    @cached_property
    def edges(self) -> Rect:
        return hull([phrase.rect for phrase in self.phrases] or [(0.0, 0.0, 1.0, 1.0)])

    def right_of(self, phrase: Phrase) -> Iterator[Phrase]:
        """What follows in its row, nearest first."""
        return (one for one in self.rows[phrase.row] if one.rect[0] > phrase.rect[0])

    def below(self, phrase: Phrase, reach: float) -> Iterator[Phrase]:
        """What stands under it within `reach` of its heights, nearest first."""
        limit = phrase.rect[3] + reach * max(phrase.height, self.height)
        for row in self.rows[phrase.row + 1 :]:
            if row[0].rect[1] > limit and min(one.rect[1] for one in row) > limit:
                return
            for one in row:
                across = min(one.rect[2], phrase.rect[2]) - max(one.rect[0], phrase.rect[0])
                if one.rect[1] <= limit and across > 0:
                    yield one


def paper_of_lines(lines: Sequence[OcrLine]) -> Paper:
    """The phrases of lines that were read on an image."""
    straight = _Straightener(lines)
    found = [
        _Part(part.text, straight(part.rect), line.score)
        for line in lines
        for part in _parts(line)
        if part.text.strip()
    ]
    return _in_rows(found)


def paper_of_text(text: str) -> Paper:
    """The phrases of a page's text, Markdown or HTML: cells, and pieces of lines with wide gaps."""
    found: list[_Part] = []
    at = 0
    for is_table, piece in split_at_tables(text):
        lines = piece.splitlines()
        grid = read_html_rows(piece) if is_table else []
        if not is_table and all(map(is_markdown_row, filter(str.strip, lines))):
            grid = read_markdown_rows(lines)
        for row in grid:
            found += [_place(c.text, c.column * COLUMN, at) for c in row if c.text]
            at += 1
        for line in [] if grid else lines:
            if is_markdown_row(line):
                cells = read_markdown_rows([line])
                found += [_place(c.text, c.column * COLUMN, at) for r in cells for c in r if c.text]
            else:
                for match in re.finditer(r"\S+(?:[ ]\S+)*", _plain(line).expandtabs(4)):
                    found.append(_place(match.group(), match.start() * ACROSS, at))
            at += 1
    return _in_rows(found)


def _plain(line: str) -> str:
    return re.sub(r"^\s{0,3}#{1,6}\s+|\*\*|__|</?center>", "", line)


def _place(text: str, x: float, row: int) -> "_Part":
    one_line = " ".join(text.split())
    y = row * DOWN
    return _Part(one_line, (x, y, x + ACROSS * len(one_line), y + 0.8 * DOWN))


def _parts(line: OcrLine) -> Iterator["_Part"]:
    """A line's words, those with a wide gap between them apart."""
    words = sorted(line.words, key=lambda word: word.rect[0])
    if "".join(line.text.split()) != "".join("".join(word.text.split()) for word in words):
        yield _Part(line.text, line.rect)
        return
    start, texts = 0, line.text.split()
    if len(texts) != len(words):
        texts = [word.text for word in words]
    for k in range(1, len(words) + 1):
        wide = k < len(words) and (
            words[k].rect[0] - words[k - 1].rect[2] > PHRASE_GAP * line.height
        )
        if wide or k == len(words):
            rects = [word.rect for word in words[start:k]]
            yield _Part(" ".join(texts[start:k]), hull(rects))
            start = k


@dataclass(frozen=True)
class _Part:
    text: str
    rect: Rect
    score: float = 1.0


class _Straightener:
    """Moves a rectangle to where it would be on a page that lies straight.

    How much lines sink changes from the top to the bottom of a page seen from a slant: a straight
    line through the slopes of all long lines tells it.
    """

    def __init__(self, lines: Sequence[OcrLine]) -> None:
        longest = [one for one in lines if one.rect[2] - one.rect[0] > LONG_ENOUGH * one.height]
        self._first, self._change = 0.0, 0.0
        if longest:
            slopes = np.array([line.slope for line in longest])
            middles = np.array([line.middle for line in longest])
            weights = np.array([line.rect[2] - line.rect[0] for line in longest])
            if len(longest) >= 5 and float(np.ptp(middles)) > 0:
                change, first = np.polyfit(middles, slopes, 1, w=np.sqrt(weights))
                self._change, self._first = float(change), float(first)
            else:
                self._first = float(np.average(slopes, weights=weights))

    def __call__(self, rect: Rect) -> Rect:
        middle = (rect[1] + rect[3]) / 2
        down = (self._first + self._change * middle) * (rect[0] + rect[2]) / 2
        return rect[0], rect[1] - down, rect[2], rect[3] - down


def _in_rows(found: Sequence[_Part]) -> Paper:
    """Phrases whose middles are within half of a line's height are of one row."""
    rows: list[list[_Part]] = []
    for part in sorted(found, key=lambda one: one.rect[1] + one.rect[3]):
        rect = part.rect
        middle = (rect[1] + rect[3]) / 2
        if rows:
            others = [(one.rect[1] + one.rect[3]) / 2 for one in rows[-1]]
            height = min(rect[3] - rect[1], *(one.rect[3] - one.rect[1] for one in rows[-1]))
            if middle - statistics.mean(others) < 0.5 * height:
                rows[-1].append(part)
                continue
        rows.append([part])
    number = 0
    paper: list[tuple[Phrase, ...]] = []
    for k, row in enumerate(rows):
        phrases = []
        for part in sorted(row, key=lambda one: one.rect[0]):
            phrases.append(Phrase(number, part.text.strip(), part.rect, k, part.score))
            number += 1
        paper.append(tuple(phrases))
    return Paper(tuple(paper))
