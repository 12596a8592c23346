"""Figures: bar charts and line charts with their labels, diagrams, and pictures of no place."""

import io
import math
import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image, ImageFilter

from benchmarks.pages.english import English, begun
from benchmarks.pages.fonts import width
from benchmarks.pages.sheet import Sheet
from benchmarks.pages.style import Colour
from benchmarks.pages.truth import Box
from benchmarks.pages.vocabulary import MONTHS, PLACES

_COLOURS: tuple[Colour, ...] = (
    (0.2, 0.35, 0.6),
    (0.75, 0.4, 0.2),
    (0.35, 0.55, 0.35),
    (0.45, 0.45, 0.5),
)


@dataclass
class _Pen:
    """Writes in a figure, and remembers what."""

    sheet: Sheet
    size: float
    said: list[str]

    def text(self, text: str, x: float, base: float, align: str = "l") -> None:
        font = self.sheet.style.head.regular
        shift = {"l": 0.0, "c": 0.5, "r": 1.0}[align] * width(text, font, self.size)
        self.sheet.text(text, x - shift, base, font, self.size)
        self.said.append(text)


def figure(sheet: Sheet, writer: English, box: Box) -> tuple[str, ...]:
    """Draw one of the kinds into the box; returns what is printed in it."""
    kinds = [_bars, _curves, _diagram]
    if sheet.style.paper_colour is None:
        kinds += [_photograph, _photograph]
    return writer.chance.choice(kinds)(sheet, writer, box)


def _bars(sheet: Sheet, writer: English, box: Box) -> tuple[str, ...]:
    chance = writer.chance
    pen = _Pen(sheet, max(6.0, sheet.style.small - 1.2), [])
    x1, y1, x2, y2 = _axes(pen, writer, box)
    number = chance.randint(4, 7)
    names = (
        [one[:3] for one in MONTHS[:number]] if chance.random() < 0.5 else _years(chance, number)
    )
    values = [chance.randint(8, 95) for _ in range(number)]
    pitch = (x2 - x1) / number
    colour, valued = chance.choice(_COLOURS), chance.random() < 0.5
    for k, (name, value) in enumerate(zip(names, values, strict=True)):
        left, high = x1 + (k + 0.2) * pitch, value / 100 * (y2 - y1)
        sheet.fill((left, y2 - high, left + 0.6 * pitch, y2), colour)
        pen.text(name, left + 0.3 * pitch, y2 + pen.size * 1.3, "c")
        if valued:
            pen.text(str(value), left + 0.3 * pitch, y2 - high - 2, "c")
    return tuple(pen.said)


def _curves(sheet: Sheet, writer: English, box: Box) -> tuple[str, ...]:
    chance = writer.chance
    pen = _Pen(sheet, max(6.0, sheet.style.small - 1.2), [])
    x1, y1, x2, y2 = _axes(pen, writer, box)
    steps, names = 24, chance.sample(PLACES, chance.randint(1, 3))
    for k, name in enumerate(_years(chance, 5)):
        pen.text(name, x1 + (x2 - x1) * k / 4.4, y2 + pen.size * 1.3, "c")
    for k, name in enumerate(names):
        phase, swing = chance.uniform(0, 6), chance.uniform(0.1, 0.3)
        heights = [0.5 + swing * math.sin(phase + i / 4) + 0.01 * i - 0.1 * k for i in range(steps)]
        dots = [
            (x1 + (x2 - x1) * i / steps, y2 - (y2 - y1) * min(0.97, max(0.03, one)))
            for i, one in enumerate(heights)
        ]
        for (a, b), (c, d) in pairwise(dots):
            sheet.rule(a, b, c, d, 1.1, _COLOURS[k])
        top = y1 + (k + 1) * pen.size * 1.4
        sheet.rule(x2 - 62, top - 2, x2 - 50, top - 2, 1.4, _COLOURS[k])
        pen.text(name, x2 - 46, top)
    return tuple(pen.said)


def _axes(pen: _Pen, writer: English, box: Box) -> Box:
    """Axes with ticks and their names; returns the place between them."""
    x1, y1, x2, y2 = box
    left, bottom = x1 + pen.size * 4.4, y2 - pen.size * 3.2
    top = y1 + pen.size * 2
    pen.sheet.rule(left, top, left, bottom, 0.7)
    pen.sheet.rule(left, bottom, x2, bottom, 0.7)
    for value in (0, 25, 50, 75, 100):
        y = bottom - value / 100 * (bottom - top)
        pen.sheet.rule(left - 3, y, left, y, 0.5)
        pen.text(str(value), left - 5, y + pen.size * 0.35, "r")
    name = f"{begun(writer.things())} a year"
    pen.sheet.upright(name, x1 + pen.size, bottom - 4, pen.sheet.style.head.regular, pen.size)
    pen.said.append(name)
    pen.text(writer.chance.choice(("Year", "Month", "Period")), (left + x2) / 2, y2 - 1, "c")
    return left, top, x2, bottom


def _diagram(sheet: Sheet, writer: English, box: Box) -> tuple[str, ...]:
    """Boxes with a word or two, joined by lines."""
    pen = _Pen(sheet, max(6.5, sheet.style.small - 0.6), [])
    x1, y1, x2, y2 = box
    number = 3 if x2 - x1 > 240 else 2
    wide, high = (x2 - x1) / (number * 1.35), (y2 - y1) * 0.26
    for row in range(2):
        for k in range(number):
            left = x1 + (x2 - x1 - wide) * k / (number - 1)
            top = y1 + 4 + row * (y2 - y1 - high - 8)
            sheet.frame((left, top, left + wide, top + high), 0.8)
            pen.text(_short(writer, wide, pen), left + wide / 2, top + high / 2 + 2, "c")
            if k:
                gap = (x2 - x1 - wide) / (number - 1) - wide
                sheet.rule(left - gap, top + high / 2, left, top + high / 2, 0.9)
            if row:
                across = left + wide / 2
                sheet.rule(across, y1 + 4 + high, across, top, 0.9)
    return tuple(pen.said)


def _short(writer: English, wide: float, pen: _Pen) -> str:
    font = pen.sheet.style.head.regular
    while True:
        text = begun(writer.chance.choice((writer.thing(), writer.things())))
        if width(text, font, pen.size) < wide - 4:
            return text


def _photograph(sheet: Sheet, writer: English, box: Box) -> tuple[str, ...]:
    """Hills under a sky, as grey or coloured pixels."""
    x1, y1, x2, y2 = box
    sheet.picture(_landscape(writer.chance, int((x2 - x1) * 1.6), int((y2 - y1) * 1.6)), box)
    return ()


def _landscape(chance: random.Random, wide: int, high: int) -> bytes:
    noise = np.random.default_rng(chance.randrange(2**32))
    rows, columns = np.mgrid[0:high, 0:wide]
    grey = 225.0 - 70.0 * rows / high
    for k in range(4):
        ridge = high * (0.35 + 0.15 * k) + sum(
            high * chance.uniform(0.01, 0.06) * np.sin(columns[0] / chance.uniform(9, 60) + phase)
            for phase in (chance.uniform(0, 6), chance.uniform(0, 6), chance.uniform(0, 6))
        )
        grey = np.where(rows > ridge, 165.0 - 34.0 * k, grey)
    grey = np.clip(grey + noise.normal(0, 9, grey.shape), 0, 255)
    tint = np.array(chance.choice(((1, 1, 1), (1, 0.95, 0.82), (0.8, 0.95, 1.0))))
    pixels = (grey[:, :, None] * tint).astype(np.uint8)
    image = Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(0.7))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=70)
    return data.getvalue()


def _years(chance: random.Random, number: int) -> list[str]:
    first, step = chance.randint(1850, 1980), chance.choice((1, 5, 10))
    return [str(first + k * step) for k in range(number)]
