"""Lines of text on an image: PP-OCRv6's two models, from the wheel of rapidocr."""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, typical_height
from llm_ocr.engines.embedded.models import Model, characters, in_wheel, load
from llm_ocr.engines.embedded.words.accents import has_accents, without_accents
from llm_ocr.engines.embedded.words.boxes import (
    CharPrediction,
    InkMask,
    Span,
    decode_steps,
    ink_mask,
    is_covered,
    spans,
)
from llm_ocr.engines.embedded.words.deskew import (
    TELLING,
    DeskewTransform,
    is_sideways,
    rotate_image,
    skew_of,
)
from llm_ocr.engines.embedded.words.detect import Detector, TextBox
from llm_ocr.engines.embedded.words.detect import Image as Image
from llm_ocr.engines.embedded.words.isolated_marks import dash_text, find_isolated_marks

# The recognizer's input: strips of this height, no narrower than this, in steps of this width.
HEIGHT, NARROWEST, STEP = 48, 64, 8
# Strips are squeezed by this factor: 6% less work, and as many characters right.
SQUEEZED = 0.9
# Strips are shrunk with care from this factor on.
SHRINKS = 1.6
# Ink that may stay unexplained, as specks and rules do, at no cost.
MOSTLY = 0.9
# What is read with less confidence is no text of a script that the recognizer knows.
MIN_SCORE = 0.5
# What can't be read is a line of text if it is so high, in pixels, and so long, in heights.
LOWEST, WORDS_LONG = 8.0, 4.0
# A page is turned only if some lines are read with this confidence turned, and with so much less
# as it was sent.
SURE, WORSE = 0.8, 0.12
PROBES, PROBE_LENGTH = 5, 16
# What a character outside of all lines is read with.
SURE_ALONE = 0.9
# What a dash alone is read as; on a page with other Chinese characters it is one.
HAN_DASH, _HAN = "\u4e00", re.compile("[\u3040-\u9fff]")
# A bullet at the start of a line, as it is read.
_BULLET = re.compile("[•▪●■]")
# A tall strip holds one character, which is read as it stands, up to this height in widths.
ONE_CHARACTER = 3.0


@dataclass(frozen=True)
class RecognizedPage:
    """An upright page and its lines, in no particular order, with how it became upright.

    `unread` are where text stands that can't be read: it is of a script that the recognizer doesn't
    know, or too faint.
    """

    image: Image
    lines: list[OcrLine]
    frame: DeskewTransform
    unread: Sequence[Rect] = ()


@dataclass(frozen=True)
class LineRecognition:
    """What was read in a strip, and the bullet in front of it."""

    strip: TextBox
    read: list[CharPrediction]
    ink: InkMask
    bullet: Word | None = None

    @cached_property
    def score(self) -> float:
        """How probable its characters are, less what they leave unexplained of the ink."""
        sure = [one.score for one in self.read if not one.text.isspace()]
        if not sure:
            return 0.0
        share = is_covered(self.read, self.ink.columns, HEIGHT)
        return statistics.fmean(sure) * min(1.0, share / MOSTLY)

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.read)

    @cached_property
    def spans(self) -> list[Span]:
        return spans(self.read, self.ink.columns, HEIGHT)

    @property
    def read_strip(self) -> TextBox:
        """Its strip, from the first word that was read on: there may be a bullet before it."""
        if not self.is_read:
            return self.strip
        read = self.strip.begin_at(self.spans[0].begin)
        return self.strip if read.is_tall else read

    @property
    def is_read(self) -> bool:
        return self.score >= MIN_SCORE and bool(self.text.strip())

    @property
    def is_line(self) -> bool:
        """Whether the strip has the shape of a line of some words: smaller ones are marks."""
        low, long = sorted((self.strip.width, self.strip.height))
        return low >= LOWEST and long >= WORDS_LONG * low


class Recognizer:
    """Finds and reads the lines of an image; may be used by several threads at once."""

    def __init__(self) -> None:
        path = in_wheel("rapidocr", "models", "PP-OCRv6_rec_small.onnx")
        self._detector = Detector()
        self._model: Model = load(path)
        self._characters = ("", *characters(path), " ")

    def page(self, image: Image) -> RecognizedPage:
        """The page on an image (height x width x 3, BGR) that may be turned or askew."""
        strips = self._detector.strips(image)
        turned, known = self._rotation(image, strips)
        if turned:
            # Short lines are not found where they stand on their side or their head.
            image = rotate_image(image, turned)
            strips, known = self._detector.strips(image), {}
        height, width = image.shape[:2]
        frame = DeskewTransform(width, height, turned, skew_of(strips))
        if frame.skew:
            strips = [strip.along(math.tan(math.radians(frame.skew))) for strip in strips]
            known = {k: replace(one, strip=strips[k]) for k, one in known.items()}
        read = self._strung(image, strips, known)
        read = [one for one in read if one.is_read or one.is_line]
        if not has_accents(one.read for one in read):
            read = [replace(one, read=without_accents(one.read)) for one in read]
        strips = [one.read_strip for one in read]
        bullets = [
            float(strip.corners[0, 0])
            for one, strip in zip(read, strips, strict=True)
            if _BULLET.match(one.text)
        ]
        marks = find_isolated_marks(image, strips, math.tan(math.radians(frame.skew)), bullets)
        for k, bullet in marks.bullets:
            read[k] = replace(read[k], bullet=bullet)
        alone = [self._read(image, strip) for strip in marks.characters]
        read += [one for one in alone if one.score >= SURE_ALONE]
        lines = [_line(one, frame) for one in read if one.is_read]
        lines += [_dash(strip, text, frame) for strip, text in marks.dashes]
        if not any(_HAN.search(line.text.strip(HAN_DASH)) for line in lines):
            lines = [_with_dash(line, unit=typical_height(lines)) for line in lines]
        unread = [_part(one.strip, frame) for one in read if not one.is_read and one.is_line]
        return RecognizedPage(frame.deskew(image), lines, frame, unread)

    def lines(self, image: Image) -> list[OcrLine]:
        """The lines on an upright image (height x width x 3, BGR), in no particular order."""
        height, width = image.shape[:2]
        read = self._strung(image, self._detector.strips(image), {})
        return [_line(one, DeskewTransform(width, height)) for one in read if one.is_read]

    def texts(self, crops: Sequence[Image]) -> list[tuple[str, float]]:
        """What each of some images of one line says, with its confidence (0..1)."""
        read = [self._read(crop, TextBox.around((0, 0, *crop.shape[1::-1]))) for crop in crops]
        return [(one.text, one.score) for one in read]

    def _rotation(
        self, image: Image, strips: Sequence[TextBox]
    ) -> tuple[int, dict[int, LineRecognition]]:
        """How many degrees clockwise make the page upright, and what was read to know it."""
        sideways = is_sideways(strips)
        probes = _probes(strips, sideways)
        as_sent = {k: self._read(image, strips[k].rotate(int(sideways))) for k in probes}
        if not probes or (not sideways and _sureness(as_sent) >= SURE):
            return 0, as_sent
        other = {k: self._read(image, strips[k].rotate(3 if sideways else 2)) for k in probes}
        one_way, other_way = _sureness(as_sent), _sureness(other)
        if max(one_way, other_way) < SURE or abs(one_way - other_way) < WORSE:
            return 0, {} if sideways else as_sent
        if one_way > other_way:
            return (270 if sideways else 0), as_sent
        return (90 if sideways else 180), other

    def _read(self, image: Image, strip: TextBox) -> LineRecognition:
        crop = _crop(image, strip)
        width = crop.shape[1]
        # A character alone is taken for another without the gray beside it that training had.
        batch = np.zeros((1, 3, HEIGHT, max(NARROWEST, width)), np.float32)
        batch[0, :, :, :width] = (crop.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)
        read = decode_steps(self._model(batch)[0][0], self._characters)
        wider = batch.shape[3] / width
        read = [replace(one, place=min(1.0, one.place * wider)) for one in read]
        return LineRecognition(strip, read, ink_mask(crop))

    def _strung(
        self, image: Image, strips: Sequence[TextBox], known: dict[int, LineRecognition]
    ) -> list[LineRecognition]:
        return [known.get(k) or self._best(image, strip) for k, strip in enumerate(strips)]

    def _best(self, image: Image, strip: TextBox) -> LineRecognition:
        """A strip as it is read with the most confidence: text may run up or down in tall ones."""
        if not strip.is_tall:
            return self._read(image, strip)
        best = LineRecognition(strip, [], InkMask(np.zeros(0, bool), 0.0))
        if strip.height < ONE_CHARACTER * strip.width:
            best = self._read(image, strip)
            if best.score >= SURE and len(best.text) == 1:
                return best
        for turns in (3, 1):
            if best.score < SURE or len(best.text) == 1:
                best = max(best, self._read(image, strip.rotate(turns)), key=_plausibility)
        return best


def _plausibility(one: LineRecognition) -> float:
    """How far a reading is believed: single characters look alike from every side."""
    return one.score if len(one.text) > 1 else one.score - 0.2


def _probes(strips: Sequence[TextBox], sideways: bool) -> list[int]:
    """Some of the longest strips, from all over the page."""
    lengths = [
        one.height / max(1.0, one.width) if sideways else one.width / max(1.0, one.height)
        for one in strips
    ]
    least = max(TELLING, min(PROBE_LENGTH, max(lengths, default=0.0)) / 2)
    long = [k for k, length in enumerate(lengths) if length >= least]
    step = max(1.0, len(long) / PROBES)
    return [long[int(k * step)] for k in range(min(PROBES, len(long)))]


def _sureness(read: dict[int, LineRecognition]) -> float:
    return statistics.fmean(one.score for one in read.values())


def _crop(image: Image, strip: TextBox) -> Image:
    """A strip's pixels, lying, in the height that the recognizer takes."""
    wide = SQUEEZED * HEIGHT * strip.width / max(1.0, strip.height)
    width = max(STEP, round(wide / STEP + 0.5) * STEP)
    factor = max(1.0, strip.height / HEIGHT)
    factor = factor if factor > SHRINKS else 1.0
    size = int(width * factor), int(HEIGHT * factor)
    onto = np.array([(0, 0), (size[0], 0), (0, size[1])], dtype=np.float32)
    matrix = cv2.getAffineTransform(strip.corners[[0, 1, 3]], onto)
    crop: Any = cv2.warpAffine(
        image, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    if factor > 1.0:
        crop = cv2.resize(crop, (width, HEIGHT), interpolation=cv2.INTER_AREA)
    lying: Image = crop
    return lying


def _line(one: LineRecognition, frame: DeskewTransform) -> OcrLine:
    words = tuple(
        Word(_part(one.strip, frame, part.begin, part.end), part.text, part.score)
        for part in one.spans
    )
    if one.bullet is not None:
        # It is as high as its line, which would seem lower otherwise.
        (x1, _, x2, _), (_, y1, _, y2) = (
            _part(TextBox.around(one.bullet.rect), frame),
            words[0].rect,
        )
        words = (Word((x1, y1, x2, y2), one.bullet.text), *words)
    begin, end = frame.forth(one.strip.corners[:2])
    runs, sinks = (end - begin).tolist()
    vertical = abs(sinks) > abs(runs)
    slope = 0.0 if vertical or runs <= 0 else sinks / runs
    text = " ".join(word.text for word in words)
    return OcrLine(text, words, one.score, slope, one.ink.thickness, vertical=vertical)


def _part(strip: TextBox, frame: DeskewTransform, begin: float = 0.0, end: float = 1.0) -> Rect:
    """The upright rectangle around a part of a strip, given as shares of its width."""
    top, bottom = strip.corners[[0, 1]], strip.corners[[3, 2]]
    shares = np.array([[1 - begin, begin], [1 - end, end]], dtype=np.float32)
    points = frame.forth(np.concatenate([shares @ top, shares @ bottom]))
    (x1, y1), (x2, y2) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return x1, y1, x2, y2


def _dash(strip: TextBox, text: str, frame: DeskewTransform) -> OcrLine:
    return OcrLine(text, (Word(_part(strip, frame), text),), SURE_ALONE)


def _with_dash(line: OcrLine, unit: float) -> OcrLine:
    if line.text != HAN_DASH:
        return line
    text = dash_text(line.width / unit)
    return replace(line, text=text, words=(Word(line.rect, text),))
