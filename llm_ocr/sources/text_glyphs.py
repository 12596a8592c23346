"""The characters of a PDF page in reading order.

pdfium returns characters in drawing order. Three cases are repaired here: the letters of a ligature
in right-to-left text, marks that precede their letter in such text, and accents that are drawn as
separate characters, as TeX does.
"""

import ctypes
import re
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
# Smaller than this, in pixels of a page, no text is read by anybody.
SMALLEST = 0.5
# A space of pdfium's own between characters is none if they are nearer, in parts of their height.
NEAR = 0.2
# Accents as signs of their own -> as marks on a letter.
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
# Nothing is mended in a text without any of these: accents, and scripts that run to the left. Signs
# beside numbers and degrees (5 °C, ~20, 2^10) are no accents. Many pages have them, and to look for
# their letters would cost as much as drawing the page.
_MENDABLE = re.compile(
    rf"(?<!\d)(?<!\d )[{re.escape(''.join(_MARKS))}](?! ?\d|(?<=°) ?[CFK]\b)|"
    "[\u0300-\u036f\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"
)
_BELOW = frozenset("\u0327\u0328")
_DOTLESS = {"ı": "i", "ȷ": "j"}
# A letter stands so many characters from its accent at most, spaces not counted.
REACH = 3
# How far an accent may be off its letter, in parts of the letter's height: from its top (or
# bottom) up or down, and from its sides.
OFF, ASIDE = 0.6, 0.15
# Letters that no letter joins behind: no ligature has one of them but at its end.
_LAST = frozenset("اأإآٱدذرزوؤةىء")
# The one that has, as pdfium tells it and as it is written.
_TURNED = {"هللا": "الله"}


@dataclass(frozen=True)
class Glyph:
    """A character and its box on the rendered page; `way` is its direction as PageTransform returns
    it. A space has the text " "; `is_generated` is one that is not in the PDF."""

    text: str
    box: Box
    index: int
    way: int | None = 0
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


# Characters that follow each other; None where a line ends.
Stream = list[Glyph | None]


def may_need_repair(text: str) -> bool:
    """Whether pdfium's text of a page has characters whose order may need repair."""
    return _MENDABLE.search(text) is not None


def read_glyphs(raw: Any, frame: PageTransform) -> tuple[Stream, bool]:  # noqa: ANN401
    """The characters of the page, and whether they differ from what pdfium returns."""
    told = list(_characters(raw, frame))
    read = told
    if any(one is not None and one.runs_left for one in told):
        read = _marks_behind_letters(_ligatures_in_order(read))
    if any(one is not None and (one.text in _MARKS or one.text in _COMBINING) for one in told):
        read = _composed(raw, frame, read)
    return read, read != told


def join_text(stream: Stream) -> str:
    """The characters as one text."""
    pieces: list[str] = []
    for one in stream:
        if one is not None:
            pieces.append(one.text)
        elif pieces and pieces[-1] != "\n":
            pieces.append("\n")
    return "".join(pieces)


def _characters(raw: Any, frame: PageTransform) -> Iterator[Glyph | None]:  # noqa: ANN401
    unicode, angle = pdfium_c.FPDFText_GetUnicode, pdfium_c.FPDFText_GetCharAngle
    loose, edges = pdfium_c.FPDFText_GetLooseCharBox, pdfium_c.FS_RECTF()
    ways: dict[float, int | None] = {}
    high = 0
    for k in range(pdfium_c.FPDFText_CountChars(raw)):
        code = unicode(raw, k)
        # pdfium tells of a character beyond the first 65,536 as two halves, as UTF-16 does; the
        # second has the first one's box.
        if _is_high(code) and _is_low(unicode(raw, k + 1)):
            high = code
            continue
        text = _character(0x10000 + (high - 0xD800) * 0x400 + code - 0xDC00 if high else code)
        high = 0
        if text in ("\r", "\n"):
            yield None
            continue
        turned = round(angle(raw, k), 2)
        if turned not in ways:
            ways[turned] = frame.direction(turned)
        if not loose(raw, k, edges):
            continue
        box = frame.box(edges.left, edges.bottom, edges.right, edges.top)
        if text.isspace():
            is_generated = pdfium_c.FPDFText_IsGenerated(raw, k) == 1
            yield Glyph(" ", box, k, ways[turned], is_generated)
        elif box.y2 - box.y1 > SMALLEST:
            yield Glyph(text, box, k, ways[turned])


def _is_high(code: int) -> bool:
    return 0xD800 <= code < 0xDC00


def _is_low(code: int) -> bool:
    return 0xDC00 <= code < 0xE000


def _character(code: int) -> str:
    """A character of the text; U+FFFD for what is none, such as half of one."""
    is_half = _is_high(code) or _is_low(code)
    text = chr(code) if 0 < code <= 0x10FFFF and not is_half else "\ufffd"
    if text in SOFT_HYPHENS:
        return SOFT_HYPHEN
    # Ligatures as their letters.
    return unicodedata.normalize("NFKC", text) if "\ufb00" <= text <= "\ufb06" else text


def _ligatures_in_order(stream: Stream) -> Stream:
    """The letters of a glyph, which have one box, in the order in which they are read: pdfium
    turns all of a line that runs to the left, and so the letters within its glyphs."""
    read: Stream = []
    for _, group in groupby(stream, key=lambda one: one and (one.box, one.text == " ")):
        letters = list(group)
        first = letters[0]
        if len(letters) > 1 and first is not None and any(map(_is_leftward, letters)):
            letters = _in_order(letters)
        read += letters
    return read


def _is_leftward(one: Glyph | None) -> bool:
    return one is not None and one.runs_left


def _in_order(letters: Stream) -> Stream:
    texts = [one.text for one in letters if one is not None]
    turned = texts[::-1]
    told = "".join(texts)
    if told in _TURNED:
        turned = list(_TURNED[told])
    elif told in _TURNED.values() or _is_joined(texts) > _is_joined(turned):
        # From a font that names the ligature itself: pdfium has it in order.
        return letters
    return [replace(one, text=text) for one, text in zip(letters, turned, strict=True) if one]


def _is_joined(letters: Sequence[str]) -> bool:
    """Whether letters can be of one glyph in this order."""
    return not any(one in _LAST for one in letters[:-1])


def _marks_behind_letters(stream: Stream) -> Stream:
    """Marks behind the letters that they stand over, where these come after them, without the
    spaces that have no width and only move to the mark's place."""
    read = list(stream)
    for k in range(len(read) - 1, -1, -1):
        mark = read[k]
        if mark is None or mark.way != 0 or unicodedata.category(mark.text[0]) != "Mn":
            continue
        letter = read[k + 1] if k + 1 < len(read) else None
        if letter is None or not letter.runs_left or not _is_over(mark.box, letter.box):
            continue
        read[k], read[k + 1] = letter, mark
        before = read[k - 1] if k else None
        if before is not None and before.text == " " and before.box.x2 - before.box.x1 < SMALLEST:
            del read[k - 1]
    return read


def _is_over(mark: Box, letter: Box) -> bool:
    return letter.x1 <= (mark.x1 + mark.x2) / 2 <= letter.x2


def _composed(raw: Any, frame: PageTransform, stream: Stream) -> Stream:  # noqa: ANN401
    """Letters with the accents that are drawn at them."""
    read = list(stream)
    k = 0
    while k < len(read):
        accent = read[k]
        mark = None if accent is None else _mark(accent.text)
        place = None if mark is None else _letter_of(raw, frame, read, k, mark)
        if place is None:
            k += 1
            continue
        letter = read[place]
        assert letter is not None
        assert mark is not None
        read[place] = replace(letter, text=_with_mark(letter.text, mark))
        del read[k]
        k = _closed_up(read, k)
    return read


def _mark(text: str) -> str | None:
    return text if text in _COMBINING else _MARKS.get(text)


def _with_mark(letter: str, mark: str) -> str:
    return unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)


def _letter_of(
    raw: Any,  # noqa: ANN401
    frame: PageTransform,
    stream: Stream,
    k: int,
    mark: str,
) -> int | None:
    """The place of the letter that the accent at `k` is drawn at: the one nearest below it, or
    above it, that there is with such an accent."""
    accent = stream[k]
    ink = None if accent is None or accent.way != 0 else _ink(raw, frame, accent)
    if ink is None:
        return None
    best: tuple[float, int] | None = None
    for place in _around(stream, k):
        letter = stream[place]
        assert letter is not None
        if letter.way != 0 or len(_with_mark(letter.text, mark)) != 1 or not letter.text.isalpha():
            continue
        body = _ink(raw, frame, letter)
        if body is None or not _is_at(ink, body, is_below=mark in _BELOW):
            continue
        off = abs((ink.x1 + ink.x2) - (body.x1 + body.x2)) / 2
        if best is None or off < best[0]:
            best = off, place
    return None if best is None else best[1]


def _around(stream: Stream, k: int) -> Iterator[int]:
    """The places of the characters next to the one at `k`."""
    for step in (1, -1):
        place, left = k + step, REACH
        while 0 <= place < len(stream) and left:
            one = stream[place]
            if one is not None and one.text != " ":
                yield place
                left -= 1
            place += step


def _ink(raw: Any, frame: PageTransform, glyph: Glyph) -> Box | None:  # noqa: ANN401
    edges = [ctypes.c_double() for _ in range(4)]
    if not pdfium_c.FPDFText_GetCharBox(raw, glyph.index, *edges):
        return None
    left, right, bottom, top = (edge.value for edge in edges)
    return frame.box(left, bottom, right, top)


def _is_at(accent: Box, letter: Box, *, is_below: bool) -> bool:
    height = letter.y2 - letter.y1
    middle, aside = (accent.x1 + accent.x2) / 2, ASIDE * height
    if not letter.x1 - aside <= middle <= letter.x2 + aside:
        return False
    if is_below:
        return accent.y2 > letter.y2 and accent.y1 - letter.y2 < OFF * height
    # An accent ends above the letter's middle, and begins not far above its top.
    return accent.y2 < letter.y1 + height / 2 and letter.y1 - accent.y2 < OFF * height


def _closed_up(stream: Stream, k: int) -> int:
    """Takes away what pdfium put around an accent that stood before `k`, a space or a line's end,
    where the characters on both sides are near, and puts a space between them where the accent
    took its place. Returns the place to go on from."""
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
    if gap < NEAR * size:
        del stream[start:end]
    elif start == end and gap < 2 * size:
        between = Box(before.box.x2, before.box.y1, after.box.x1, before.box.y2)
        stream.insert(start, Glyph(" ", between, before.index, before.way, is_generated=True))
    return start


def _is_generated(one: Glyph | None) -> bool:
    return one is None or one.is_generated
