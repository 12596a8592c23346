"""Read the characters of a PDF page in reading order.

pdfium returns characters in drawing order. Three cases are repaired here: the letters of a ligature
in right-to-left text, marks that precede their letter in such text, and accents that are drawn as
separate characters, as TeX does. Characters of the same size get boxes of the same height, whatever
their fonts declare. Ligatures of which a converter has kept only the last letter are restored.
"""

import ctypes
import math
import re
import statistics
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box
from llm_ocr.sources.page_transform import PageTransform
from llm_ocr.sources.text_layer_quality import SOFT_HYPHENS

SOFT_HYPHEN = "\u00ad"
# Characters smaller than this (in pixels of the page) are left out: nobody can read them.
MIN_SIZE = 0.5
# Plausible heights of a font's characters, as shares of the font size: Type 3 fonts have any unit.
MIN_EXTENT, MAX_EXTENT = 0.5, 3.0
# What a letter stands for where its font draws it wider than usual, by at least these factors. So
# many of the font's letters must be known, and no larger share of them may be wide.
_LIGATURES = {"i": ("fi", "ffi"), "l": ("fl", "ffl"), "f": ("ff", "ff"), "h": ("Th", "Th")}
WIDE, VERY_WIDE = 1.5, 2.7
MIN_LETTERS, MAX_WIDE_SHARE = 5, 0.25
_NAME_BYTES = 128
# A space that pdfium inserted is removed if the gap is smaller than this share of the height.
MIN_GAP = 0.2
# Accents as separate characters -> as combining marks.
_MARKS = {
    "`": "\u0300",
    "´": "\u0301",
    "^": "\u0302",
    "ˆ": "\u0302",
    "~": "\u0303",
    "˜": "\u0303",
    "¯": "\u0304",
    "ˉ": "\u0304",
    "˘": "\u0306",
    "˙": "\u0307",
    "¨": "\u0308",
    "˚": "\u030a",
    "°": "\u030a",
    "˝": "\u030b",
    "ˇ": "\u030c",
    "¸": "\u0327",
    "˛": "\u0328",
}
_COMBINING = frozenset(_MARKS.values())
# Only text with one of these may need repair: accents, and scripts that run from right to left.
# Signs next to numbers and degrees (5 °C, ~20, 2^10) are not accents. Many pages have them, and
# searching for their letters would cost as much as rendering the page.
_REPAIRABLE = re.compile(
    rf"(?<!\d)(?<!\d )[{re.escape(''.join(_MARKS))}](?! ?\d|(?<=°) ?[CFK]\b)|"
    "[\u0300-\u036f\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"
)
_BELOW = frozenset("\u0327\u0328")
_DOTLESS = {"ı": "i", "ȷ": "j"}
# The most characters, not counting spaces, between an accent and its letter in drawing order.
MAX_DISTANCE = 3
# How far an accent may be from its letter, as shares of the letter's height: from its top (or
# bottom), and from its sides.
MAX_VERTICAL, MAX_HORIZONTAL = 0.6, 0.15
# Letters that don't join to the next one: a ligature has them only at its end.
_NON_JOINING = frozenset("اأإآٱدذرزوؤةىء")
# The exception, as pdfium returns it and as it is written.
_REORDERED = {"هللا": "الله"}


@dataclass(frozen=True)
class Glyph:
    """A character and its box on the rendered page; `direction` as returned by
    `PageTransform.direction`. A space has the text " "; `is_generated`: pdfium inserted it."""

    text: str
    box: Box
    index: int
    direction: int | None = 0
    is_generated: bool = False

    @property
    def size(self) -> float:
        return self.box.y2 - self.box.y1

    @property
    def middle(self) -> float:
        return (self.box.y1 + self.box.y2) / 2

    @property
    def runs_left(self) -> bool:
        return unicodedata.bidirectional(self.text[0]) in ("R", "AL")


# Consecutive characters; None at the end of a line.
Stream = list[Glyph | None]


def may_need_repair(text: str) -> bool:
    """Whether pdfium's text of a page has characters whose order may need repair."""
    return _REPAIRABLE.search(text) is not None


def read_glyphs(raw: Any, frame: PageTransform) -> tuple[Stream, bool]:  # noqa: ANN401
    """The characters of the page, and whether they differ from what pdfium returns."""
    returned = _level_heights(raw, frame, list(_characters(raw, frame)))
    repaired = _restore_ligatures(raw, returned)
    if any(glyph is not None and glyph.runs_left for glyph in returned):
        repaired = _move_marks_after_letters(_order_ligatures(repaired))
    if any(
        glyph is not None and (glyph.text in _MARKS or glyph.text in _COMBINING)
        for glyph in returned
    ):
        repaired = _compose_accents(raw, frame, repaired)
    return repaired, repaired != returned


def join_text(stream: Stream) -> str:
    """The characters as one text."""
    pieces: list[str] = []
    for glyph in stream:
        if glyph is not None:
            pieces.append(glyph.text)
        elif pieces and pieces[-1] != "\n":
            pieces.append("\n")
    return "".join(pieces)


def _characters(raw: Any, frame: PageTransform) -> Iterator[Glyph | None]:  # noqa: ANN401
    unicode, angle = pdfium_c.FPDFText_GetUnicode, pdfium_c.FPDFText_GetCharAngle
    loose, edges = pdfium_c.FPDFText_GetLooseCharBox, pdfium_c.FS_RECTF()
    directions: dict[float, int | None] = {}
    high = 0
    for k in range(pdfium_c.FPDFText_CountChars(raw)):
        code = unicode(raw, k)
        # pdfium returns characters beyond U+FFFF as surrogate pairs with one box.
        if _is_high(code) and _is_low(unicode(raw, k + 1)):
            high = code
            continue
        text = _character(0x10000 + (high - 0xD800) * 0x400 + code - 0xDC00 if high else code)
        high = 0
        if text in ("\r", "\n"):
            yield None
            continue
        radians = round(angle(raw, k), 2)
        if radians not in directions:
            directions[radians] = frame.direction(radians)
        if not loose(raw, k, edges):
            continue
        box = frame.box(edges.left, edges.bottom, edges.right, edges.top)
        if text.isspace():
            is_generated = pdfium_c.FPDFText_IsGenerated(raw, k) == 1
            yield Glyph(" ", box, k, directions[radians], is_generated)
        elif box.y2 - box.y1 > MIN_SIZE:
            yield Glyph(text, box, k, directions[radians])


@dataclass(frozen=True)
class _Extent:
    """How far a font's characters reach above and below the baseline, as shares of the font size
    (in pixels)."""

    above: float
    below: float
    font_size: float

    def level(self, box: Box, above: float, below: float) -> Box:
        """A character's box with another extent."""
        baseline = box.y2 - self.below * self.font_size
        top, bottom = baseline - above * self.font_size, baseline + below * self.font_size
        return Box(box.x1, top, box.x2, bottom)


def _level_heights(raw: Any, frame: PageTransform, stream: Stream) -> Stream:  # noqa: ANN401
    """Give all characters the ascent and descent that most of the page has, relative to the font
    size: fonts declare very different ones, even subsets of one typeface."""
    extents: dict[tuple[float, float], _Extent | None] = {}
    found: list[_Extent | None] = []
    for glyph in stream:
        extent = None
        if glyph is not None and glyph.text != " " and glyph.direction == 0:
            size = pdfium_c.FPDFText_GetFontSize(raw, glyph.index)
            key = round(size, 2), round(glyph.size, 1)
            if key not in extents:
                extents[key] = _extent(raw, frame, glyph, size)
            extent = extents[key]
        found.append(extent)
    known = [extent for extent in found if extent is not None]
    if not known:
        return stream
    above = statistics.median(extent.above for extent in known)
    below = statistics.median(extent.below for extent in known)
    leveled: Stream = []
    for glyph, extent in zip(stream, found, strict=True):
        if glyph is not None and extent is not None:
            leveled.append(replace(glyph, box=extent.level(glyph.box, above, below)))
        else:
            leveled.append(glyph)
    return leveled


def _extent(raw: Any, frame: PageTransform, glyph: Glyph, font_size: float) -> _Extent | None:  # noqa: ANN401
    matrix, x, y = pdfium_c.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()
    if not pdfium_c.FPDFText_GetMatrix(raw, glyph.index, matrix):
        return None
    if not pdfium_c.FPDFText_GetCharOrigin(raw, glyph.index, x, y):
        return None
    side = font_size * math.hypot(matrix.c, matrix.d)
    unit = frame.box(0, 0, side, side)
    size = unit.y2 - unit.y1
    baseline = frame.box(x.value, y.value, x.value, y.value).y1
    if not MIN_EXTENT * size < glyph.size < MAX_EXTENT * size:
        return None
    return _Extent((baseline - glyph.box.y1) / size, (glyph.box.y2 - baseline) / size, size)


def _is_high(code: int) -> bool:
    return 0xD800 <= code < 0xDC00


def _is_low(code: int) -> bool:
    return 0xDC00 <= code < 0xE000


def _character(code: int) -> str:
    """The character of a code; U+FFFD for an invalid one, such as a lone surrogate."""
    is_half = _is_high(code) or _is_low(code)
    text = chr(code) if 0 < code <= 0x10FFFF and not is_half else "\ufffd"
    if text in SOFT_HYPHENS:
        return SOFT_HYPHEN
    # Latin ligatures become separate letters.
    return unicodedata.normalize("NFKC", text) if "\ufb00" <= text <= "\ufb06" else text


def _restore_ligatures(raw: Any, stream: Stream) -> Stream:  # noqa: ANN401
    """Restore ligatures that Ghostscript mapped to their last letter: a font draws a letter in only
    one width, relative to its height. Where all letters are known, they have the same box."""
    fonts: dict[tuple[bytes, str], dict[int, float]] = {}
    name = ctypes.create_string_buffer(_NAME_BYTES)
    for k, glyph in enumerate(stream):
        if glyph is None or glyph.text not in _LIGATURES or glyph.direction != 0:
            continue
        if any(other is not None and other.box == glyph.box for other in _beside(stream, k)):
            continue
        pdfium_c.FPDFText_GetFontInfo(raw, glyph.index, name, _NAME_BYTES, ctypes.c_int())
        if name.value:
            width = (glyph.box.x2 - glyph.box.x1) / glyph.size
            fonts.setdefault((name.value, glyph.text), {})[k] = width
    restored = list(stream)
    for (_, text), widths in fonts.items():
        usual = statistics.median(widths.values())
        wide = [k for k, width in widths.items() if width > WIDE * usual]
        if len(widths) < MIN_LETTERS or len(wide) > MAX_WIDE_SHARE * len(widths):
            continue
        for k in wide:
            glyph = stream[k]
            assert glyph is not None
            letters = _LIGATURES[text][widths[k] > VERY_WIDE * usual]
            restored[k] = replace(glyph, text=letters)
    return restored


def _beside(stream: Stream, k: int) -> Stream:
    return [*stream[max(0, k - 1) : k], *stream[k + 1 : k + 2]]


def _order_ligatures(stream: Stream) -> Stream:
    """Put the letters of a ligature, which have the same box, in reading order: pdfium reverses
    lines that run from right to left, and with them the letters within ligatures."""
    ordered: Stream = []
    for _, group in groupby(stream, key=lambda glyph: glyph and (glyph.box, glyph.text == " ")):
        letters = list(group)
        first = letters[0]
        if len(letters) > 1 and first is not None and any(map(_runs_left, letters)):
            letters = _order_letters(letters)
        ordered += letters
    return ordered


def _runs_left(glyph: Glyph | None) -> bool:
    return glyph is not None and glyph.runs_left


def _order_letters(letters: Stream) -> Stream:
    texts = [letter.text for letter in letters if letter is not None]
    ordered = texts[::-1]
    returned = "".join(texts)
    if returned in _REORDERED:
        ordered = list(_REORDERED[returned])
    elif returned in _REORDERED.values() or _can_join(texts) > _can_join(ordered):
        # The font maps the ligature to its letters, which pdfium then has in order.
        return letters
    return [
        replace(letter, text=text) for letter, text in zip(letters, ordered, strict=True) if letter
    ]


def _can_join(letters: Sequence[str]) -> bool:
    """Whether letters in this order can be a ligature."""
    return not any(letter in _NON_JOINING for letter in letters[:-1])


def _move_marks_after_letters(stream: Stream) -> Stream:
    """Move marks after the letters they belong to, and delete the spaces without width that only
    position a mark."""
    moved = list(stream)
    for k in range(len(moved) - 1, -1, -1):
        mark = moved[k]
        if mark is None or mark.direction != 0 or unicodedata.category(mark.text[0]) != "Mn":
            continue
        letter = moved[k + 1] if k + 1 < len(moved) else None
        if letter is None or not letter.runs_left or not _is_over(mark.box, letter.box):
            continue
        moved[k], moved[k + 1] = letter, mark
        before = moved[k - 1] if k else None
        if before is not None and before.text == " " and before.box.x2 - before.box.x1 < MIN_SIZE:
            del moved[k - 1]
    return moved


def _is_over(mark: Box, letter: Box) -> bool:
    return letter.x1 <= (mark.x1 + mark.x2) / 2 <= letter.x2


def _compose_accents(raw: Any, frame: PageTransform, stream: Stream) -> Stream:  # noqa: ANN401
    """Combine letters with the accents that are drawn at them."""
    composed = list(stream)
    k = 0
    while k < len(composed):
        accent = composed[k]
        mark = None if accent is None else _mark(accent.text)
        position = None if mark is None else _find_letter(raw, frame, composed, k, mark)
        if position is None:
            k += 1
            continue
        letter = composed[position]
        assert letter is not None
        assert mark is not None
        composed[position] = replace(letter, text=_with_mark(letter.text, mark))
        del composed[k]
        k = _close_gap(composed, k)
    return composed


def _mark(text: str) -> str | None:
    return text if text in _COMBINING else _MARKS.get(text)


def _with_mark(letter: str, mark: str) -> str:
    return unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)


def _find_letter(
    raw: Any,  # noqa: ANN401
    frame: PageTransform,
    stream: Stream,
    k: int,
    mark: str,
) -> int | None:
    """The position of the letter that the accent at `k` is drawn at: the horizontally closest one
    that exists with this accent."""
    accent = stream[k]
    accent_box = None
    if accent is not None and accent.direction == 0:
        accent_box = _tight_box(raw, frame, accent)
    if accent_box is None:
        return None
    best: tuple[float, int] | None = None
    for position in _nearby(stream, k):
        letter = stream[position]
        assert letter is not None
        is_composable = len(_with_mark(letter.text, mark)) == 1 and letter.text.isalpha()
        if letter.direction != 0 or not is_composable:
            continue
        box = _tight_box(raw, frame, letter)
        if box is None or not _is_drawn_at(accent_box, box, is_below=mark in _BELOW):
            continue
        distance = abs((accent_box.x1 + accent_box.x2) - (box.x1 + box.x2)) / 2
        if best is None or distance < best[0]:
            best = distance, position
    return None if best is None else best[1]


def _nearby(stream: Stream, k: int) -> Iterator[int]:
    """The positions of the characters around `k`, without spaces: first those after it."""
    for step in (1, -1):
        position, remaining = k + step, MAX_DISTANCE
        while 0 <= position < len(stream) and remaining:
            glyph = stream[position]
            if glyph is not None and glyph.text != " ":
                yield position
                remaining -= 1
            position += step


def _tight_box(raw: Any, frame: PageTransform, glyph: Glyph) -> Box | None:  # noqa: ANN401
    """The box of a character's ink; None if pdfium has none."""
    edges = [ctypes.c_double() for _ in range(4)]
    if not pdfium_c.FPDFText_GetCharBox(raw, glyph.index, *edges):
        return None
    left, right, bottom, top = (edge.value for edge in edges)
    return frame.box(left, bottom, right, top)


def _is_drawn_at(accent: Box, letter: Box, *, is_below: bool) -> bool:
    height = letter.y2 - letter.y1
    middle, margin = (accent.x1 + accent.x2) / 2, MAX_HORIZONTAL * height
    if not letter.x1 - margin <= middle <= letter.x2 + margin:
        return False
    if is_below:
        return accent.y2 > letter.y2 and accent.y1 - letter.y2 < MAX_VERTICAL * height
    # An accent ends above the letter's middle, and begins not far above its top.
    return accent.y2 < letter.y1 + height / 2 and letter.y1 - accent.y2 < MAX_VERTICAL * height


def _close_gap(stream: Stream, k: int) -> int:
    """Repair the gap at `k`, where an accent was removed, and return the position to continue from.

    Spaces and line ends that pdfium generated there are deleted if the characters on both sides are
    close; a space is inserted if they are not and the accent was in its place.
    """
    start, end = k, k
    while start > 0 and _is_generated(stream[start - 1]):
        start -= 1
    while end < len(stream) and _is_generated(stream[end]):
        end += 1
    before = stream[start - 1] if start else None
    after = stream[end] if end < len(stream) else None
    if before is None or after is None or " " in (before.text, after.text):
        return k
    size = max(before.size, after.size)
    gap = after.box.x1 - before.box.x2
    if abs(before.middle - after.middle) >= size / 2 or gap <= -size:
        return k
    if gap < MIN_GAP * size:
        del stream[start:end]
    elif start == end and gap < 2 * size:
        between = Box(before.box.x2, before.box.y1, after.box.x1, before.box.y2)
        stream.insert(start, Glyph(" ", between, before.index, before.direction, is_generated=True))
    return start


def _is_generated(glyph: Glyph | None) -> bool:
    return glyph is None or glyph.is_generated
