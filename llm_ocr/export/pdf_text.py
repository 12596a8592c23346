"""The invisible text of a PDF page: words at their boxes, in reading order."""

import statistics
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from llm_ocr.export.estimation import runs_right_to_left
from llm_ocr.export.invisible_font import WIDTH, InvisibleFont
from llm_ocr.export.layout import LayoutLine, PageLayout
from llm_ocr.records import Box

# A line is vertical if it is this many times as high as wide. Baselines of a line that differ by
# less than this share of its height are one.
VERTICAL, SAME_BASELINE = 2.0, 0.25
# The least width of a word or space in pixels.
LEAST = 0.1


@dataclass(frozen=True)
class Matrix:
    """(x, y) -> (a x + c y + e, b x + d y + f), as in PDF."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    def operands(self) -> bytes:
        values = (self.a, self.b, self.c, self.d, self.e, self.f)
        return b" ".join(_number(value) for value in values)


def page_matrix(box: Box, size: tuple[int, int], rotation: int) -> Matrix:
    """From pixels of a page image of `size` to the space of its page, whose visible part is `box`
    (with `y1` at the bottom). The image is the page rotated clockwise by `rotation`."""
    width, height = size
    across, up = box.x2 - box.x1, box.y2 - box.y1
    if rotation % 360 == 90:
        return Matrix(0, up / width, across / height, 0, box.x1, box.y1)
    if rotation % 360 == 180:
        return Matrix(-across / width, 0, 0, up / height, box.x2, box.y1)
    if rotation % 360 == 270:
        return Matrix(0, -up / width, -across / height, 0, box.x2, box.y2)
    return Matrix(across / width, 0, 0, -up / height, box.x1, box.y2)


def invisible_text(
    layout: PageLayout, matrix: Matrix, font: InvisibleFont, font_name: bytes
) -> bytes:
    """The content of a page that has its text and shows nothing; `matrix` leads from pixels to the
    page's space."""
    words = b"\n".join(piece for line in layout.lines for piece in _line(line, font))
    if not words:
        return b""
    start = b"q\n%s cm\nBT\n3 Tr\n/%s 1 Tf\n" % (matrix.operands(), font_name)
    return b"%s%s\nET\nQ\n" % (start, words)


def visual_order(text: str) -> str:
    """A word as it is printed from left to right: readers of PDFs expect the glyphs of
    right-to-left scripts in this order, and turn them round. Numbers run from left to right."""
    if not any(unicodedata.bidirectional(char) in ("R", "AL") for char in text):
        return text
    turned: list[str] = []
    number = ""
    for char in text:
        if unicodedata.bidirectional(char) in ("EN", "AN"):
            number += char
            continue
        turned[:0] = [char, number] if number else [char]
        number = ""
    return "".join([number, *turned])


def _line(line: LayoutLine, font: InvisibleFont) -> Iterator[bytes]:
    if line.box.y2 - line.box.y1 > VERTICAL * (line.box.x2 - line.box.x1) and len(line.text) > 1:
        yield from _vertical_line(line, font)
        return
    words = line.words
    size = statistics.median(word.box.y2 - word.box.y1 for word in words)
    usual = statistics.median(word.box.y2 for word in words)
    if runs_right_to_left(line.text):
        yield _right_to_left_line(line, font, size, usual)
        return
    for word, following in zip_longest(words, words[1:]):
        is_level = abs(word.box.y2 - usual) < SAME_BASELINE * size
        base = usual if is_level else word.box.y2
        left, right = word.box.x1, word.box.x2
        text = visual_order(word.text)
        yield _show(font, text, Matrix(_scale(len(text), right - left), 0, 0, -size, left, base))
        if following is not None:
            gap = _scale(1, following.box.x1 - right)
            yield _show(font, " ", Matrix(gap, 0, 0, -size, right, base))


def _right_to_left_line(line: LayoutLine, font: InvisibleFont, size: float, base: float) -> bytes:
    """The line in one piece from left to right: readers of PDFs turn round each piece, but not the
    order of pieces. So its glyphs have one width, and its words are moved to their places."""
    words = sorted(line.words, key=lambda word: word.box.x1)
    left, right = words[0].box.x1, max(word.box.x2 for word in words)
    scale = _scale(sum(len(word.text) + 1 for word in words) - 1, right - left)
    pieces: list[bytes] = []
    at = left
    for word in words:
        if pieces:
            # In thousandths of the font size, to the left.
            pieces.append(_number((at - word.box.x1) / scale * 1000))
        text = visual_order(word.text) + ("" if word is words[-1] else " ")
        pieces.append(font.encode(text))
        at = word.box.x1 + len(text) * scale * WIDTH / 1000
    matrix = Matrix(scale, 0, 0, -size, left, base)
    return b"%s Tm [%s] TJ" % (matrix.operands(), b" ".join(pieces))


def _vertical_line(line: LayoutLine, font: InvisibleFont) -> Iterator[bytes]:
    """Text that runs up, or down where its first word is above its last. Chinese and Japanese text
    always runs down."""
    words = line.words
    is_wide = any(unicodedata.east_asian_width(char) in "WF" for char in line.text)
    runs_down = is_wide or words[0].box.y1 < words[-1].box.y1
    for k, word in enumerate(words):
        box, text = word.box, word.text + (" " if k + 1 < len(words) else "")
        size = box.x2 - box.x1
        along = _scale(len(word.text), box.y2 - box.y1)
        if runs_down:
            yield _show(font, text, Matrix(0, along, size, 0, box.x1, box.y1))
        else:
            yield _show(font, text, Matrix(0, -along, -size, 0, box.x2, box.y2))


def _scale(count: int, length: float) -> float:
    """The horizontal scale in which so many glyphs are `length` pixels long."""
    return max(LEAST, length) / (max(1, count) * WIDTH / 1000)


def _show(font: InvisibleFont, text: str, matrix: Matrix) -> bytes:
    return b"%s Tm %s Tj" % (matrix.operands(), font.encode(text))


def _number(value: float) -> bytes:
    text = f"{value:.5f}".rstrip("0").rstrip(".")
    return (text if text not in ("", "-0") else "0").encode()
