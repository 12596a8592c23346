"""Verify a PDF's text layer against the rendered page: accept, repair, complete or ignore it."""

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Protocol

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, area, hull, overlap
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.text_layer_input import TextLayerInput
from llm_ocr.sources.text_layer_quality import garbled_share

# Lines that are read again to see whether the layer says what the page shows.
SAMPLES = 4
# A sample begins a line: it has about so many characters (what is longer only takes longer to
# read), is so high in pixels, and was read with this confidence.
SHORTEST, LONG_ENOUGH, LOWEST, CONFIDENT = 12, 30, 8.0, 0.8
# Broken layers agreed 0.20 to 0.22 with what was read, good ones 0.85 and more.
AGREES = 0.5
# Of a scanned page pictures cover at least so much.
PICTURED = 0.9
# A word where the pixels vary less than this (standard deviation, 0..255) is not to be seen.
UNSEEN = 4.0
# Nor is one of which a smaller share is on the page.
ON_PAGE = 0.5
# Of a line's characters so many make it unreadable if they are no text.
RUBBISH = 0.25
# Figures from this share of the page on may hold what the page says.
LARGE_FIGURE = 0.25
# Edges that no line of the layer accounts for: their share of the page's edges, and how many there
# must be, as a share of the page's pixels, for the page to be searched for more text.
STRAY_SHARE, STRAY_LEAST = 0.08, 0.0006
EDGE = 60
# Scripts whose words the recognizer knows: Latin, Chinese, kana.
_KNOWN = re.compile("[\u0000-\u024f\u1e00-\u1eff\u2000-\u22ff\u3000-\u9fff\uff00-\uffef]")
# What a font with a wrong character map makes of ligatures: di!culties.
_PATCHED = re.compile(r"[^\W\d_][!#$%*+<>=@^~|\\][^\W\d_]")
_WORD = re.compile(r"[^\W_]+")


class Texts(Protocol):
    """Reads pieces of an image, and finds the lines of one."""

    def texts(self, crops: Sequence[Image]) -> list[tuple[str, float]]: ...

    def lines(self, image: Image) -> list[OcrLine]: ...


@dataclass(frozen=True)
class VerifiedTextLayer:
    """A page's lines, with what became of its text layer; none where it is left alone.

    `agreement` (0..1) is of the layer with what was read in a few of its places; None where none
    could be read with confidence.
    """

    lines: list[OcrLine]
    is_used: bool
    agreement: float | None
    mended: int = 0
    added: int = 0


def verify_text_layer(
    image: Image, given: TextLayerInput, figures: Sequence[Rect], recognizer: Texts
) -> VerifiedTextLayer:
    """The lines of a page (height x width x 3, BGR) for which a text layer came; `figures` is where
    the layout model sees any."""
    lines = [seen for line in given.lines if (seen := _seen_part(image, line)) is not None]
    read = _read_again(image, lines, recognizer) if given.verify else []
    ratios = [ratio for ratio, score in read if score >= CONFIDENT]
    agreement = statistics.median(ratios) if ratios else None
    if agreement is not None and agreement < AGREES:
        return VerifiedTextLayer([], False, agreement)
    if read and _is_pictured(image, given.pictures):
        # What another program read of a picture is as sure as what is read of it here.
        sure = statistics.fmean(score for _, score in read)
        lines = [replace(line, score=sure) for line in lines]
    lines, mended = _mend(image, lines, recognizer) if given.verify else (lines, 0)
    added = _missing(image, lines, figures, recognizer) if given.verify else []
    return VerifiedTextLayer([*lines, *added], True, agreement, mended, len(added))


def _crop(image: Image, rect: Rect) -> Image:
    margin = max(2, int(0.1 * (rect[3] - rect[1])))
    x1, y1, x2, y2 = (int(value) for value in rect)
    return image[max(0, y1 - margin) : y2 + margin, max(0, x1 - margin) : x2 + margin]


def _seen_part(image: Image, line: OcrLine) -> OcrLine | None:
    """A line without the words that are not to be seen, such as white ones on white paper; None
    for one that is mostly beside the page."""
    height, width = image.shape[:2]
    if overlap(line.rect, (0.0, 0.0, float(width), float(height))) < ON_PAGE * area(line.rect):
        return None
    seen = tuple(word for word in line.words if _is_seen(image, word.rect))
    if len(seen) == len(line.words):
        return line
    return replace(line, text=" ".join(word.text for word in seen), words=seen) if seen else None


def _is_seen(image: Image, rect: Rect) -> bool:
    x1, y1, x2, y2 = (max(0, int(value)) for value in rect)
    inside = image[y1 : max(y2, y1 + 1), x1 : max(x2, x1 + 1)]
    return inside.size > 0 and float(inside.std()) >= UNSEEN


def _read_again(
    image: Image, lines: Sequence[OcrLine], recognizer: Texts
) -> list[tuple[float, float]]:
    """How much the beginnings of a few lines from all over the page are like what is read there
    (0..1), and with which confidence it is read."""
    lying = [line for line in lines if line.height > LOWEST and not line.vertical]
    fit = [begin for line in lying if _is_known((begin := _beginning(line)).text)]
    if len(fit) > SAMPLES:
        step = (len(fit) - 1) / (SAMPLES - 1)
        fit = [fit[int(k * step)] for k in range(SAMPLES)]
    read = recognizer.texts([_crop(image, one.rect) for one in fit])
    return [
        (_likeness(one.text, text), score) for one, (text, score) in zip(fit, read, strict=True)
    ]


def _is_pictured(image: Image, pictures: Sequence[Rect]) -> bool:
    """Whether pictures cover the page: then its text is not what is seen on it."""
    height, width = image.shape[:2]
    page = 0.0, 0.0, float(width), float(height)
    covered = sum(overlap(page, one) for one in pictures)
    return bool(covered > PICTURED * width * height)


def _beginning(line: OcrLine) -> Word:
    """A line's first words, as many as make a sample."""
    taken: list[Word] = []
    for word in line.words:
        taken.append(word)
        if sum(len(one.text) + 1 for one in taken) >= LONG_ENOUGH:
            break
    return Word(hull(one.rect for one in taken), " ".join(one.text for one in taken))


def _is_known(text: str) -> bool:
    known = sum(_KNOWN.match(one) is not None for one in text)
    return len(text) >= SHORTEST and known > 0.9 * len(text)


def _likeness(held: str, read: str) -> float:
    one, other = ("".join(_WORD.findall(text)).casefold() for text in (held, read))
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _mend(image: Image, lines: Sequence[OcrLine], recognizer: Texts) -> tuple[list[OcrLine], int]:
    """Lines whose characters are partly no text, or not what the page shows, read again."""
    bad = [k for k, line in enumerate(lines) if _is_garbled(line) or _PATCHED.search(line.text)]
    read = recognizer.texts([_crop(image, lines[k].rect) for k in bad])
    mended = list(lines)
    for k, (text, score) in zip(bad, read, strict=True):
        if text.strip() and score >= CONFIDENT:
            mended[k] = _mend_line(lines[k], text.split(), score)
    return mended, sum(old is not new for old, new in zip(lines, mended, strict=True))


def _is_garbled(line: OcrLine) -> bool:
    return garbled_share(line.text) > RUBBISH


def _mend_line(line: OcrLine, read: Sequence[str], score: float) -> OcrLine:
    """A line with what was read of it; of one that isn't garbled only the patched words are taken
    from the reading, if both have the same number of words: the layer is right about the rest."""
    if _is_garbled(line):
        text = " ".join(read)
        return OcrLine(text, (Word(line.rect, text),), score)
    if len(read) != len(line.words):
        return line
    words = tuple(
        replace(word, text=text) if _PATCHED.search(word.text) else word
        for word, text in zip(line.words, read, strict=True)
    )
    return replace(line, text=" ".join(word.text for word in words), words=words)


def _missing(
    image: Image, lines: Sequence[OcrLine], figures: Sequence[Rect], recognizer: Texts
) -> list[OcrLine]:
    """What can be read where neither the layer nor a figure is: text in pictures, outlines."""
    whole = image.shape[0] * image.shape[1]
    figures = [rect for rect in figures if area(rect) < LARGE_FIGURE * whole]
    rects = [_grow(line.rect, 3.0) for line in lines]
    if not _has_strays(image, [*rects, *figures]):
        return []
    masked = image.copy()
    for rect in [*rects, *figures]:
        _paint_over(masked, rect)
    return [line for line in recognizer.lines(masked) if line.text.strip()]


def _has_strays(image: Image, known: Iterable[Rect]) -> bool:
    """Whether there is much on the page that none of the known rectangles accounts for."""
    small = cv2.cvtColor(image[::2, ::2], cv2.COLOR_BGR2GRAY)
    edges = cv2.morphologyEx(small, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > EDGE
    total = int(edges.sum())
    # Rules and frames are long and thin; text is neither.
    thin = edges.astype(np.uint8)
    for kernel in ((1, 41), (41, 1)):
        edges &= cv2.morphologyEx(thin, cv2.MORPH_OPEN, np.ones(kernel, np.uint8)) == 0
    for rect in known:
        x1, y1, x2, y2 = (max(0, round(value / 2)) for value in rect)
        edges[y1:y2, x1:x2] = False
    strays = int(edges.sum())
    return strays > STRAY_SHARE * total and strays > STRAY_LEAST * edges.size


def _paint_over(image: Image, rect: Rect) -> None:
    """A rectangle in the color of its own edge."""
    x1, y1, x2, y2 = (max(0, round(value)) for value in rect)
    inside = image[y1:y2, x1:x2]
    if inside.size:
        edge = np.concatenate([inside[0], inside[-1], inside[:, 0], inside[:, -1]])
        inside[:] = np.median(edge, axis=0)


def _grow(rect: Rect, by: float) -> Rect:
    return rect[0] - by, rect[1] - by, rect[2] + by, rect[3] + by
