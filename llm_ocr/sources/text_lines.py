"""The lines of a PDF's text page, each with its words and their boxes on the drawn page."""

import ctypes
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box, TextLine, TextWord
from llm_ocr.sources.text_glyphs import Glyph, Stream

# Parts of a character's height: how far off the next one of a line may be, what parts two words,
# how far lines that stand on one row are one, and how much higher or lower an index stands.
SAME_LINE, SAME_WORD, SAME_ROW, HIGHER = 1.3, 0.2, 0.45, 0.6
# Characters of a run from which on their usual distance is known; where they are set into each
# other, spaces are narrow too.
TELLING, NARROW_SPACE, LEAST_OVERLAP = 8, 0.14, 0.03
# Of a line's words at least so many (by characters) are bold in a bold line.
MOSTLY = 0.7
BOLD_WEIGHT = 600
BOLD_NAMES = (b"bold", b"black", b"heavy", b"demi")
# What is printed twice, for its shadow or to look bold, stands closer to itself than this.
TWICE = 0.15
_NAME_BYTES = 128


@dataclass(frozen=True)
class _Piece:
    """Part of a row: words with whether they are bold."""

    words: tuple[tuple[TextWord, bool], ...]
    text: str
    box: Box
    size: float


def build_lines(raw: Any, glyphs: Stream) -> tuple[TextLine, ...]:  # noqa: ANN401
    """The lines of the rendered page, in the PDF's order, without repeated ones."""
    upright: list[_Piece] = []
    others: list[TextLine] = []
    for way, run in _runs(glyphs):
        if way == 0:
            upright.append(_piece(raw, run))
        else:
            others.append(_turned(way, run))
    lines = [_line(piece) for piece in _rows(_without_shadows(upright))]
    return (*_told_apart(lines), *others)


def _told_apart(lines: Sequence[TextLine]) -> Sequence[TextLine]:
    """Lines of which none is bold where most would be: then it tells nothing."""
    bold = sum(len(line.text) for line in lines if line.bold)
    if 2 * bold <= sum(len(line.text) for line in lines):
        return lines
    return [replace(line, bold=False) for line in lines]


# Characters that follow each other; None for a space between two of them.
_Run = list[Glyph | None]


def _runs(glyphs: Stream) -> Iterator[tuple[int | None, _Run]]:
    """Characters that follow each other on a row, or in another direction, with that."""
    run: _Run = []
    last: Glyph | None = None
    way: int | None = 0
    for char in glyphs:
        away = char is None or (char.text != " " and last is not None and char.way != way)
        if not away and char is not None and last is not None and char.text != " " and way == 0:
            away = _is_elsewhere(last, char)
        if away:
            if last is not None:
                yield way, run
            run, last = [], None
        if char is None:
            continue
        if char.text == " ":
            if run:
                run.append(None)
        else:
            run.append(char)
            last, way = char, char.way
    if last is not None:
        yield way, run


def _turned(way: int | None, run: _Run) -> TextLine:
    """Text that runs another way. What is askew, as headings of narrow columns are, stands where
    it begins: what it is about is below."""
    text = "".join(" " if char is None else char.text for char in run).strip()
    boxes = [char.box for char in run if char is not None]
    place = boxes[0] if way is None else _hull(boxes)
    return TextLine(text, (TextWord(text, place),), vertical=way in (90, 270))


def _is_elsewhere(last: Glyph, char: Glyph) -> bool:
    size = max(last.size, char.size)
    if last.runs_left or char.runs_left:
        # Words of another script stand in such a line the other way round.
        return abs(char.middle - last.middle) > HIGHER * size
    gap = char.box.x1 - last.box.x2
    return abs(char.middle - last.middle) > HIGHER * size or not -2 * size < gap < SAME_LINE * size


def _piece(raw: Any, run: _Run) -> _Piece:  # noqa: ANN401
    groups: list[list[Glyph]] = []
    last: Glyph | None = None
    leftward = any(char is not None and char.runs_left for char in run)
    usual = 0.0 if leftward else _usual_gap(run)
    space = math.inf if leftward else NARROW_SPACE if usual < 0 else SAME_WORD
    for char in run:
        if char is not None:
            if last is None or _gap(last, char) - usual > space * max(last.size, char.size):
                groups.append([])
            groups[-1].append(char)
        last = char
    words = tuple((_word(group), _is_bold(raw, group[0].index)) for group in groups)
    sizes = sorted(char.size for group in groups for char in group)
    text = " ".join(word.text for word, _ in words)
    return _Piece(words, text, _hull([word.box for word, _ in words]), sizes[len(sizes) // 2])


def _gap(last: Glyph, char: Glyph) -> float:
    return char.box.x1 - last.box.x2


def _usual_gap(run: _Run) -> float:
    """The distance between characters, where they are set into each other; else 0."""
    pairs = [(one, other) for one, other in pairwise(run) if one is not None and other is not None]
    if len(pairs) < TELLING:
        return 0.0
    usual = statistics.median(_gap(*pair) for pair in pairs)
    return usual if usual < -LEAST_OVERLAP * pairs[0][0].size else 0.0


def _word(group: Sequence[Glyph]) -> TextWord:
    text = "".join(char.text for char in group)
    # Typesetters' way to double quotes.
    text = text.replace("‘‘", "“").replace("’’", "”").replace("``", "“")
    return TextWord(text, _hull([char.box for char in group]))


def _hull(boxes: Sequence[Box]) -> Box:
    x1, y1 = min(box.x1 for box in boxes), min(box.y1 for box in boxes)
    return Box(x1, y1, max(box.x2 for box in boxes), max(box.y2 for box in boxes))


def _is_bold(raw: Any, index: int) -> bool:  # noqa: ANN401
    if pdfium_c.FPDFText_GetFontWeight(raw, index) >= BOLD_WEIGHT:
        return True
    name, flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
    pdfium_c.FPDFText_GetFontInfo(raw, index, name, _NAME_BYTES, flags)
    return any(word in name.value.lower() for word in BOLD_NAMES)


def _without_shadows(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Each piece once, however often it is printed on its own place."""
    kept: list[_Piece] = []
    by_text: dict[str, list[Box]] = {}
    for piece in pieces:
        near = TWICE * piece.size
        places = by_text.setdefault(piece.text, [])
        if not any(_is_at(place, piece.box, near) for place in places):
            places.append(piece.box)
            kept.append(piece)
    return kept


def _is_at(one: Box, other: Box, near: float) -> bool:
    return abs(one.x1 - other.x1) < near and abs(one.y1 - other.y1) < near


def _rows(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Pieces that a change of font or an index cut apart, joined where only a word's gap parts
    them."""
    rows: list[_Piece] = []
    for piece in pieces:
        if rows and _goes_on(rows[-1], piece):
            rows[-1] = _joined(rows[-1], piece)
        else:
            rows.append(piece)
    return rows


def _goes_on(last: _Piece, piece: _Piece) -> bool:
    shared = min(last.box.y2, piece.box.y2) - max(last.box.y1, piece.box.y1)
    smaller = min(last.box.y2 - last.box.y1, piece.box.y2 - piece.box.y1)
    gap = piece.box.x1 - last.box.x2
    return shared > 0.5 * smaller and -0.5 * smaller <= gap <= SAME_ROW * max(last.size, piece.size)


def _joined(last: _Piece, piece: _Piece) -> _Piece:
    size = max(last.size, piece.size)
    glue = " " if piece.box.x1 - last.box.x2 >= SAME_WORD * size else ""
    longer = last if len(last.text) >= len(piece.text) else piece
    box = _hull([last.box, piece.box])
    return _Piece(last.words + piece.words, f"{last.text}{glue}{piece.text}", box, longer.size)


def _line(piece: _Piece) -> TextLine:
    total = sum(len(word.text) for word, _ in piece.words)
    bold = sum(len(word.text) for word, is_bold in piece.words if is_bold)
    return TextLine(piece.text, tuple(word for word, _ in piece.words), bold > MOSTLY * total)
