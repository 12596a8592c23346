"""A page while it is drawn: what is put on it is written down in the same step."""

import io
from collections.abc import Sequence

from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from benchmarks.pages.fonts import width
from benchmarks.pages.style import Colour, Style
from benchmarks.pages.truth import Box, Part, TrueBlock, TruePage
from benchmarks.pages.typeset import SetLine

# How far letters reach above and below the line they stand on, in sizes.
ASCENT, DESCENT = 0.76, 0.24


class Sheet:
    """A canvas with y counted from the top, and the blocks that are on it."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.width, self.height = style.paper
        self.blocks: list[TrueBlock] = []
        self.counts: dict[str, int] = {}
        self._bytes = io.BytesIO()
        self._canvas = Canvas(self._bytes, pagesize=style.paper, invariant=1, pageCompression=1)
        if style.paper_colour is not None:
            self.fill((0, 0, self.width, self.height), style.paper_colour)

    def add(self, block: TrueBlock) -> None:
        self.blocks.append(block)

    def count(self, kind: str) -> int:
        """The next number of a figure, a table or a section."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.counts[kind]

    def page(self, name: str, layout: str, columns: int) -> TruePage:
        fonts = {"body": self.style.body.name, "head": self.style.head.name}
        dark = self.style.paper_colour is not None
        return TruePage(
            name,
            layout,
            self.width,
            self.height,
            columns,
            tuple(self.blocks),
            dark=dark,
            fonts=fonts,
        )

    def pdf(self) -> bytes:
        self._canvas.showPage()
        self._canvas.save()
        return self._bytes.getvalue()

    def text(
        self, text: str, x: float, base: float, font: str, size: float, ink: Colour | None = None
    ) -> Box:
        """A text that begins at `x` and stands on `base`; returns its box."""
        self._canvas.setFillColorRGB(*(ink or self.style.ink))
        self._canvas.setFont(font, size)
        self._canvas.drawString(x, self.height - base, text)
        return x, base - ASCENT * size, x + width(text, font, size), base + DESCENT * size

    def line_of(
        self,
        line: SetLine,
        x: float,
        base: float,
        size: float,
        wide: float | None = None,
        ink: Colour | None = None,
    ) -> Box:
        """A set line; stretched to `wide` points where that is given."""
        gaps = len(line.words) - 1
        spare = (wide - line.natural) / gaps if wide is not None and gaps else 0.0
        at = x
        for k, (word, font) in enumerate(line.words):
            # The space is part of what is drawn, as most programs write it.
            said = word if k == gaps else word + " "
            self.text(said, at, base, font, size, ink)
            at += width(said, font, size) + (spare if k < gaps else 0.0)
        return x, base - ASCENT * size, at, base + DESCENT * size

    def upright(self, text: str, x: float, base: float, font: str, size: float) -> None:
        """A text that runs up along an axis."""
        self._canvas.saveState()
        self._canvas.translate(x, self.height - base)
        self._canvas.rotate(90)
        self._canvas.setFillColorRGB(*self.style.ink)
        self._canvas.setFont(font, size)
        self._canvas.drawString(0, 0, text)
        self._canvas.restoreState()

    def rule(
        self, x1: float, y1: float, x2: float, y2: float, thick: float, ink: Colour | None = None
    ) -> None:
        self._canvas.setStrokeColorRGB(*(ink or self.style.ink))
        self._canvas.setLineWidth(thick)
        self._canvas.line(x1, self.height - y1, x2, self.height - y2)

    def fill(self, box: Box, colour: Colour, stroked: bool = False) -> None:
        self._canvas.setFillColorRGB(*colour)
        self._canvas.setStrokeColorRGB(0.2, 0.2, 0.2)
        self._canvas.setLineWidth(0.6)
        x1, y1, x2, y2 = box
        self._canvas.rect(x1, self.height - y2, x2 - x1, y2 - y1, fill=1, stroke=int(stroked))

    def frame(self, box: Box, thick: float = 0.7) -> None:
        x1, y1, x2, y2 = box
        self._canvas.setStrokeColorRGB(*self.style.ink)
        self._canvas.setLineWidth(thick)
        self._canvas.rect(x1, self.height - y2, x2 - x1, y2 - y1, fill=0, stroke=1)

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        self._canvas.setFillColorRGB(*colour)
        self._canvas.circle(x, self.height - y, radius, fill=1, stroke=0)

    def picture(self, data: bytes, box: Box) -> None:
        """A JPEG."""
        x1, y1, x2, y2 = box
        image = ImageReader(io.BytesIO(data))
        self._canvas.drawImage(image, x1, self.height - y2, x2 - x1, y2 - y1)


def hull(boxes: Sequence[Box]) -> Box:
    x1, y1, x2, y2 = zip(*boxes, strict=True)
    return min(x1), min(y1), max(x2), max(y2)


def part(text: str, boxes: Sequence[Box]) -> Part:
    """What stands in one place; boxes to a hundredth of a point."""
    x1, y1, x2, y2 = (round(value, 2) for value in hull(boxes))
    return Part(text, (x1, y1, x2, y2))
