"""A page that remembers where each value was set: what the truth about an invoice is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO

from reportlab.lib.colors import Color, black
from reportlab.lib.pagesizes import A4
from reportlab.lib.units import mm
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

# (x1, y1, x2, y2) as shares of the page, from the top left.
Rect = tuple[float, float, float, float]
WIDTH, HEIGHT = A4[0] / mm, A4[1] / mm
# What stands above and below the base line, as shares of the font's size.
ABOVE, BELOW = 0.74, 0.22


@dataclass(frozen=True)
class Font:
    """A font's name and size in points."""

    name: str = "Helvetica"
    size: float = 9.5

    def width(self, text: str) -> float:
        """In millimeters."""
        return float(stringWidth(text, self.name, self.size) / mm)

    @property
    def leading(self) -> float:
        """From one line to the next, in millimeters."""
        return float(self.size * 1.32 / mm)


PLAIN, BOLD = Font(), Font("Helvetica-Bold")


@dataclass
class Sheet:
    """An A4 page to draw on, in millimeters from its top left; `boxes` are those of each path."""

    boxes: dict[str, list[Rect]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._target = BytesIO()
        self.canvas = Canvas(self._target, pagesize=A4, invariant=1)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        path: str | None = None,
        font: Font = PLAIN,
        align: float = 0,
        color: Color = black,
    ) -> None:
        """One line on the base line `y`; `align` is 0 for a left edge, 0.5 for the middle, 1 for a
        right edge at `x`."""
        width = font.width(text)
        left = x - align * width
        self.canvas.setFillColor(color)
        self.canvas.setFont(font.name, font.size)
        self.canvas.drawString(left * mm, (HEIGHT - y) * mm, text)
        if path is not None:
            self.boxes.setdefault(path, []).append(_rect(left, y, width, font))

    def runs(self, x: float, y: float, *runs: tuple[str, str | None], font: Font = PLAIN) -> None:
        """Pieces of one line, each with its path."""
        for text, path in runs:
            self.text(x, y, text, path, font)
            x += font.width(text)

    def lines(
        self,
        x: float,
        y: float,
        lines: Sequence[str],
        path: str | None = None,
        font: Font = PLAIN,
        align: float = 0,
    ) -> float:
        """Lines below each other as one value; gives the base line behind them."""
        rects = []
        for line in lines:
            self.text(x, y, line, font=font, align=align)
            rects.append(_rect(x - align * font.width(line), y, font.width(line), font))
            y += font.leading
        if path is not None:
            x1, y1, x2, y2 = zip(*rects, strict=True)
            self.boxes.setdefault(path, []).append((min(x1), min(y1), max(x2), max(y2)))
        return y

    def fill(self, x1: float, y1: float, x2: float, y2: float, color: Color) -> None:
        self.canvas.setFillColor(color)
        rect = (x1 * mm, (HEIGHT - y2) * mm, (x2 - x1) * mm, (y2 - y1) * mm)
        self.canvas.rect(*rect, fill=1, stroke=0)

    def rule(self, x1: float, y1: float, x2: float, y2: float, width: float = 0.6) -> None:
        self.canvas.setStrokeColor(black)
        self.canvas.setLineWidth(width)
        self.canvas.line(x1 * mm, (HEIGHT - y1) * mm, x2 * mm, (HEIGHT - y2) * mm)

    def pdf(self) -> bytes:
        """The page as a PDF; nothing can be drawn any more."""
        self.canvas.showPage()
        self.canvas.save()
        return self._target.getvalue()


def _rect(left: float, y: float, width: float, font: Font) -> Rect:
    size = font.size / mm
    return (
        left / WIDTH,
        (y - ABOVE * size) / HEIGHT,
        (left + width) / WIDTH,
        (y + BELOW * size) / HEIGHT,
    )
