"""Tables drawn to a PDF page, with their truth as HTML and the words' boxes as a text layer has."""

import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import pypdfium2
from reportlab.lib.colors import Color
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from llm_ocr.engines.embedded.geometry import OcrLine, Word, hull
from llm_ocr.engines.embedded.words.recognize import Image

DPI = 150
SCALE = DPI / 72
MARGIN = 36.0
# What is not drawn: ruled lines of each kind.
ALL, HEAD, OUTER, BETWEEN_ROWS, BETWEEN_COLUMNS = "all", "head", "outer", "rows", "columns"


@dataclass(frozen=True)
class Cell:
    """A cell's lines of text, how far it reaches, and how it is set."""

    lines: tuple[str, ...]
    columns: int = 1
    rows: int = 1
    head: bool = False
    align: str = "left"
    indent: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(self.lines)


@dataclass(frozen=True)
class Style:
    """How a table looks; `rules` is a set of the kinds above, `groups` rules under wide heads,
    `dark` heads in white letters, on a ground that ends without a rule."""

    rules: frozenset[str] = frozenset()
    groups: bool = False
    shaded: bool = False
    dark: bool = False
    font: str = "Helvetica"
    size: float = 9.0
    gap: float = 14.0
    leading: float = 1.2
    row_gap: float = 4.0
    rule: float = 0.6
    gray: float = 0.0
    dash: tuple[float, ...] = ()
    middle: bool = False
    bold_head: bool = True


# A row's cells, each with the column that it begins at.
Rows = Sequence[Sequence[tuple[int, Cell]]]


@dataclass(frozen=True)
class Drawn:
    """A table's truth, its page as pixels, and its lines as a text layer has them."""

    html: str
    image: Image
    lines: tuple[OcrLine, ...]
    head_rows: int


def truth(rows: Rows) -> str:
    pieces = []
    for row in rows:
        cells = "".join(_cell_html(cell) for _, cell in row)
        pieces.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(pieces)}</table>"


def _cell_html(cell: Cell) -> str:
    tag = "th" if cell.head else "td"
    spans = f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
    spans += f' colspan="{cell.columns}"' if cell.columns > 1 else ""
    return f"<{tag}{spans}>{html.escape(cell.text, quote=False)}</{tag}>"


class _Page:
    """Draws one table and notes where its words stand."""

    def __init__(self, rows: Rows, style: Style) -> None:
        self.rows, self.style = rows, style
        self.words: list[list[Word]] = []
        self.x = self._columns()
        self.y = self._row_edges()
        self.width, self.height = self.x[-1] + MARGIN, self.y[-1] + MARGIN
        self.file = io.BytesIO()
        self.canvas = Canvas(self.file, pagesize=(self.width, self.height))

    def font(self, cell: Cell) -> str:
        bold = cell.head and self.style.bold_head
        names = {"Times-Roman": "Times-Bold"}
        return names.get(self.style.font, f"{self.style.font}-Bold") if bold else self.style.font

    def cell_width(self, cell: Cell) -> float:
        width = max((self._long(line, cell) for line in cell.lines), default=0.0)
        return width + self.style.gap + cell.indent

    def _long(self, text: str, cell: Cell) -> float:
        return float(stringWidth(text, self.font(cell), self.style.size))

    def _columns(self) -> list[float]:
        count = max(at + cell.columns for row in self.rows for at, cell in row)
        widths = [2 * self.style.size] * count
        cells = [(cell.columns, at, cell) for row in self.rows for at, cell in row if cell.lines]
        for columns, at, cell in sorted(cells, key=lambda one: one[0]):
            missing = self.cell_width(cell) - sum(widths[at : at + columns])
            if missing > 0:
                for k in range(at, at + columns):
                    widths[k] += missing / columns
        return [MARGIN + sum(widths[:k]) for k in range(count + 1)]

    def _row_edges(self) -> list[float]:
        heights = []
        for row in self.rows:
            most = max((len(cell.lines) for _, cell in row if cell.rows == 1), default=1)
            lines = max(1, most)
            heights.append(lines * self.style.size * self.style.leading + self.style.row_gap)
        return [MARGIN + sum(heights[:k]) for k in range(len(heights) + 1)]

    def draw(self) -> bytes:
        if self.style.shaded:
            self._shade(range(0, len(self.rows), 2), Color(0.87, 0.9, 0.95))
        if self.style.dark:
            self._shade(range(head_rows(self.rows)), Color(0.26, 0.33, 0.42))
        for k, row in enumerate(self.rows):
            for at, cell in row:
                self._cell(k, at, cell)
        self._rules()
        self.canvas.showPage()
        self.canvas.save()
        return self.file.getvalue()

    def _shade(self, rows: Iterable[int], color: Color) -> None:
        self.canvas.setFillColor(color)
        for k in rows:
            top, bottom = self.y[k], self.y[k + 1]
            self.canvas.rect(
                self.x[0], self.height - bottom, self.x[-1] - self.x[0], bottom - top, 0, 1
            )
        self.canvas.setFillColor(Color(0, 0, 0))

    def _cell(self, k: int, at: int, cell: Cell) -> None:
        size, style = self.style.size, self.style
        top, bottom = self.y[k], self.y[k + cell.rows]
        self.canvas.setFillGray(1 if style.dark and cell.head else 0)
        left, right = self.x[at] + style.gap / 2, self.x[at + cell.columns] - style.gap / 2
        used = len(cell.lines) * size * style.leading
        if style.middle or cell.rows > 1:
            top += (bottom - top - used - style.row_gap) / 2
        for n, text in enumerate(cell.lines):
            base = top + style.row_gap / 2 + n * size * style.leading + size * 0.95
            long = self._long(text, cell)
            starts = {"left": left + cell.indent, "right": right - long}
            x = starts.get(cell.align, (left + right - long) / 2)
            self._text(text, x, base, self.font(cell))

    def _text(self, text: str, x: float, base: float, font: str) -> None:
        size, line = self.style.size, []
        self.canvas.setFont(font, size)
        self.canvas.drawString(x, self.height - base, text)
        for word in text.split(" "):
            wide = float(stringWidth(word, font, size))
            rect = (x, base - 0.78 * size, x + wide, base + 0.22 * size)
            line.append(Word(tuple(v * SCALE for v in rect), word))  # type: ignore[arg-type]
            x += wide + float(stringWidth(" ", font, size))
        if text:
            self.words.append(line)

    def _rules(self) -> None:
        rules, heads = self.style.rules, head_rows(self.rows)
        self.canvas.setLineWidth(self.style.rule)
        self.canvas.setStrokeGray(self.style.gray)
        self.canvas.setDash(*([list(self.style.dash)] if self.style.dash else []))
        if ALL in rules:
            for k, row in enumerate(self.rows):
                for at, cell in row:
                    self._box(at, k, at + cell.columns, k + cell.rows)
        if OUTER in rules:
            for k in (0, len(self.rows)):
                self._across(k, 0, len(self.x) - 1)
        if HEAD in rules:
            self._across(heads, 0, len(self.x) - 1)
        if BETWEEN_ROWS in rules:
            for k in range(len(self.rows) + 1):
                for first, last in self._free(k):
                    self._across(k, first, last)
        if BETWEEN_COLUMNS in rules:
            for k, row in enumerate(self.rows):
                for at, cell in row:
                    for x in (self.x[at], self.x[at + cell.columns]):
                        self._line(x, self.y[k], x, self.y[k + cell.rows])
        if self.style.groups:
            for k, row in enumerate(self.rows[:heads]):
                for at, cell in row:
                    if cell.columns > 1 and k + 1 < heads:
                        inset = self.style.gap / 3
                        y = self.y[k + 1]
                        self._line(self.x[at] + inset, y, self.x[at + cell.columns] - inset, y)

    def _free(self, k: int) -> list[tuple[int, int]]:
        """The columns above row `k` that no cell reaches over."""
        crossed = {
            column
            for top, row in enumerate(self.rows)
            for at, cell in row
            if top < k < top + cell.rows
            for column in range(at, at + cell.columns)
        }
        return [(c, c + 1) for c in range(len(self.x) - 1) if c not in crossed]

    def _box(self, x1: int, y1: int, x2: int, y2: int) -> None:
        for k in (y1, y2):
            self._across(k, x1, x2)
        for k in (x1, x2):
            self._line(self.x[k], self.y[y1], self.x[k], self.y[y2])

    def _across(self, row: int, first: int, last: int) -> None:
        if self.style.dark and row == head_rows(self.rows):
            return
        self._line(self.x[first], self.y[row], self.x[last], self.y[row])

    def _line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.canvas.line(x1, self.height - y1, x2, self.height - y2)


def head_rows(rows: Rows) -> int:
    return sum(1 for row in rows if any(cell.head for _, cell in row))


def draw(rows: Rows, style: Style) -> Drawn:
    page = _Page(rows, style)
    document = pypdfium2.PdfDocument(page.draw())
    pixels = document[0].render(scale=SCALE).to_numpy()
    image = np.ascontiguousarray(pixels[:, :, :3])
    lines = tuple(
        OcrLine(" ".join(word.text for word in words), tuple(words), 1.0, is_exact=True)
        for words in page.words
    )
    return Drawn(truth(rows), image, lines, head_rows(rows))


def scanned(image: Image, seed: int = 0) -> Image:
    """The page as a cheap scanner gives it: blurred, noisy, compressed."""
    random = np.random.default_rng(seed)
    soft = cv2.GaussianBlur(image, (0, 0), 0.8).astype(np.float32)
    noisy = np.clip(soft + random.normal(0, 6, soft.shape), 0, 255).astype(np.uint8)
    _, packed = cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, 45])
    return np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), dtype=np.uint8)


def area_of(drawn: Drawn) -> tuple[float, float, float, float]:
    return hull(line.rect for line in drawn.lines)
