"""Group the characters of a PDF page into lines and words with boxes on the rendered page."""

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

# Shares of a character's height: the largest gap within a line, the smallest gap between words, the
# largest gap between two pieces of a row, and the largest vertical offset (of an index).
MAX_LINE_GAP, MIN_WORD_GAP, MAX_ROW_GAP, MAX_OFFSET = 1.3, 0.2, 0.45, 0.6
# The usual gap of a run is measured from this many characters on. Where characters overlap by at
# least MIN_OVERLAP, spaces are narrow, too.
MIN_RUN, MIN_NARROW_WORD_GAP, MIN_OVERLAP = 8, 0.14, 0.03
# The share of a bold line's characters that are bold.
MIN_BOLD_SHARE = 0.7
BOLD_WEIGHT = 600
BOLD_NAMES = (b"bold", b"black", b"heavy", b"demi")
# Text that is printed twice, as a shadow or to look bold, is offset by less than this.
MAX_SHADOW_OFFSET = 0.15
_NAME_BYTES = 128


@dataclass(frozen=True)
class _Piece:
    """Part of a row: its words, each with whether it is bold."""

    words: tuple[tuple[TextWord, bool], ...]
    text: str
    box: Box
    size: float


def build_lines(raw: Any, glyphs: Stream) -> tuple[TextLine, ...]:  # noqa: ANN401
    """The lines of the rendered page, in the PDF's order, without repeated ones."""
    upright: list[_Piece] = []
    others: list[TextLine] = []
    for direction, run in _runs(glyphs):
        if direction == 0:
            upright.append(_piece(raw, run))
        else:
            others.append(_rotated_line(direction, run))
    lines = [_line(piece) for piece in _rows(_without_shadows(upright))]
    return (*_ignore_usual_bold(lines), *others)


def _ignore_usual_bold(lines: Sequence[TextLine]) -> Sequence[TextLine]:
    """The lines, none of them bold if more than half of the text is: then bold marks nothing."""
    bold = sum(len(line.text) for line in lines if line.bold)
    if 2 * bold <= sum(len(line.text) for line in lines):
        return lines
    return [replace(line, bold=False) for line in lines]


# Consecutive characters of a line; None for a space between two of them.
_Run = list[Glyph | None]


def _runs(glyphs: Stream) -> Iterator[tuple[int | None, _Run]]:
    """Consecutive characters that are on one row or run in the same other direction, each run with
    its direction."""
    run: _Run = []
    last: Glyph | None = None
    direction: int | None = 0
    for char in glyphs:
        is_apart = char is None or (
            char.text != " " and last is not None and char.direction != direction
        )
        if (
            not is_apart
            and char is not None
            and last is not None
            and char.text != " "
            and direction == 0
        ):
            is_apart = _is_elsewhere(last, char)
        if is_apart:
            if last is not None:
                yield direction, run
            run, last = [], None
        if char is None:
            continue
        if char.text == " ":
            if run:
                run.append(None)
        else:
            run.append(char)
            last, direction = char, char.direction
    if last is not None:
        yield direction, run


def _rotated_line(direction: int | None, run: _Run) -> TextLine:
    """A line of text that is not horizontal. Slanted text, such as the headings of narrow columns,
    gets the box of its first character: what it is about is below that."""
    text = "".join(" " if char is None else char.text for char in run).strip()
    boxes = [char.box for char in run if char is not None]
    box = boxes[0] if direction is None else _hull(boxes)
    return TextLine(text, (TextWord(text, box),), vertical=direction in (90, 270))


def _is_elsewhere(last: Glyph, char: Glyph) -> bool:
    size = max(last.size, char.size)
    if last.runs_left or char.runs_left:
        # Words of another script run the other way in such a line.
        return abs(char.middle - last.middle) > MAX_OFFSET * size
    gap = char.box.x1 - last.box.x2
    is_offset = abs(char.middle - last.middle) > MAX_OFFSET * size
    return is_offset or not -2 * size < gap < MAX_LINE_GAP * size


def _piece(raw: Any, run: _Run) -> _Piece:  # noqa: ANN401
    groups: list[list[Glyph]] = []
    last: Glyph | None = None
    runs_left = any(char is not None and char.runs_left for char in run)
    usual = 0.0 if runs_left else _usual_gap(run)
    word_gap = math.inf if runs_left else MIN_NARROW_WORD_GAP if usual < 0 else MIN_WORD_GAP
    for char in run:
        if char is not None:
            if last is None or _gap(last, char) - usual > word_gap * max(last.size, char.size):
                groups.append([])
            groups[-1].append(char)
        last = char
    words = tuple((_word(group), _is_bold(raw, group[len(group) // 2].index)) for group in groups)
    sizes = sorted(char.size for group in groups for char in group)
    text = " ".join(word.text for word, _ in words)
    return _Piece(words, text, _hull([word.box for word, _ in words]), sizes[len(sizes) // 2])


def _gap(last: Glyph, char: Glyph) -> float:
    return char.box.x1 - last.box.x2


def _usual_gap(run: _Run) -> float:
    """The median gap between characters if they overlap, else 0."""
    pairs = [
        (char, following)
        for char, following in pairwise(run)
        if char is not None and following is not None
    ]
    if len(pairs) < MIN_RUN:
        return 0.0
    usual = statistics.median(_gap(*pair) for pair in pairs)
    return usual if usual < -MIN_OVERLAP * pairs[0][0].size else 0.0


def _word(group: Sequence[Glyph]) -> TextWord:
    text = "".join(char.text for char in group)
    # TeX sets double quotes as two single ones.
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
    """The pieces, each once even if it is printed several times at nearly the same position."""
    unique: list[_Piece] = []
    by_text: dict[str, list[Box]] = {}
    for piece in pieces:
        offset = MAX_SHADOW_OFFSET * piece.size
        boxes = by_text.setdefault(piece.text, [])
        if not any(_is_near(box, piece.box, offset) for box in boxes):
            boxes.append(piece.box)
            unique.append(piece)
    return unique


def _is_near(box: Box, other: Box, offset: float) -> bool:
    return abs(box.x1 - other.x1) < offset and abs(box.y1 - other.y1) < offset


def _rows(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Join pieces of a row that were split by a change of font or an index, if the gap between them
    is at most that of words."""
    rows: list[_Piece] = []
    for piece in pieces:
        if rows and _is_continued(rows[-1], piece):
            rows[-1] = _join_pieces(rows[-1], piece)
        else:
            rows.append(piece)
    return rows


def _is_continued(last: _Piece, piece: _Piece) -> bool:
    shared = min(last.box.y2, piece.box.y2) - max(last.box.y1, piece.box.y1)
    smaller = min(last.box.y2 - last.box.y1, piece.box.y2 - piece.box.y1)
    gap = piece.box.x1 - last.box.x2
    max_gap = MAX_ROW_GAP * max(last.size, piece.size)
    return shared > 0.5 * smaller and -0.5 * smaller <= gap <= max_gap


def _join_pieces(last: _Piece, piece: _Piece) -> _Piece:
    size = max(last.size, piece.size)
    separator = " " if piece.box.x1 - last.box.x2 >= MIN_WORD_GAP * size else ""
    longer = last if len(last.text) >= len(piece.text) else piece
    box = _hull([last.box, piece.box])
    text = f"{last.text}{separator}{piece.text}"
    return _Piece(last.words + piece.words, text, box, longer.size)


def _line(piece: _Piece) -> TextLine:
    total = sum(len(word.text) for word, _ in piece.words)
    bold = sum(len(word.text) for word, is_bold in piece.words if is_bold)
    # A line that continues in regular type is the beginning of a paragraph.
    is_bold = bold > MIN_BOLD_SHARE * total and piece.words[-1][1]
    return TextLine(piece.text, tuple(word for word, _ in piece.words), is_bold)
