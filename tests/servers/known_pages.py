"""Documents whose right result is known, and an engine that reads the number off each page.

    with serving_beside(KnownPages().reply) as server: ...

A page shows a number, as a strip of black and white cells over its whole width; every third one has
a figure, which shows its own. What the engine answers depends on what is drawn there alone, so that
a page that was mixed up with another shows in the result. It counts what it was asked about.
"""

import asyncio
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from tests.servers.chat import answer, image_of, refusal

WIDTH, HEIGHT = 300, 420
# Where the figure is, in thousandths of the page: left, top, right, bottom.
FIGURE = (100, 500, 900, 800)
# Of the strip's number; a black cell, one of white, and these.
PAGE_BITS, DOCUMENT_BITS, CHECK_BITS = 8, 18, 5
BITS = 1 + PAGE_BITS + DOCUMENT_BITS + CHECK_BITS
CELLS = BITS + 2
STRIP = 0.08


@dataclass(frozen=True, order=True)
class Shown:
    """What a picture shows: a page of a document, both from 1, or its figure."""

    document: int
    page: int
    is_figure: bool = False

    @property
    def has_figure(self) -> bool:
        return (self.document + self.page) % 3 == 0

    @property
    def text(self) -> str:
        """The words of a page, in Markdown, or those that describe a figure."""
        if self.is_figure:
            return f"A strip that says {self.document} and {self.page}."
        return (
            f"# Document {self.document}, page {self.page}\n\n"
            f"Their product is {self.document * self.page}."
        )

    def cells(self) -> list[bool]:
        """Whether each cell is black."""
        number = (self.document << PAGE_BITS | self.page) << 1 | self.is_figure
        number = number << CHECK_BITS | number * 2654435761 % (1 << 32) >> (32 - CHECK_BITS)
        bits = [bool(number >> k & 1) for k in reversed(range(BITS))]
        return [True, False, *bits]


def known_pdf(document: int, pages: int) -> bytes:
    """A PDF without a text layer."""
    sink = io.BytesIO()
    sheet = Canvas(sink, pagesize=(WIDTH, HEIGHT))
    for number in range(1, pages + 1):
        shown = Shown(document, number)
        _draw_strip(sheet, shown.cells(), (0, 0, 1000, 1000), STRIP)
        # Lines, as of words.
        for line in range(12):
            sheet.rect(30, HEIGHT * 0.86 - 10 * line, 150 + (37 * line) % 90, 4, fill=1, stroke=0)
        if shown.has_figure:
            cells = Shown(document, number, is_figure=True).cells()
            _draw_strip(sheet, cells, FIGURE, 1.0)
        sheet.showPage()
    sheet.save()
    return sink.getvalue()


def _draw_strip(
    sheet: Canvas, cells: Sequence[bool], box: tuple[int, int, int, int], share: float
) -> None:
    """Over the width of the box, and this share of its height from the top."""
    left, top, right, bottom = (
        side * length / 1000 for side, length in zip(box, (WIDTH, HEIGHT) * 2, strict=True)
    )
    width, height = (right - left) / len(cells), (bottom - top) * share
    for k, is_black in enumerate(cells):
        if is_black:
            sheet.rect(left + k * width, HEIGHT - top - height, width, height, fill=1, stroke=0)


def read_strip(jpeg: bytes) -> Shown:
    """What the picture shows. Raises ValueError if there is no such strip."""
    with Image.open(io.BytesIO(jpeg)) as image:
        image.draft("L", (image.width // 2, image.height // 2))
        row = image.convert("L").crop(
            (0, int(image.height * STRIP / 2), image.width, int(image.height * STRIP / 2) + 1)
        )
        gray = row.tobytes()
    are_black = [gray[int((k + 0.5) * len(gray) / CELLS)] < 128 for k in range(CELLS)]
    number = int("".join(str(int(one)) for one in are_black[2:]), 2)
    number >>= CHECK_BITS
    shown = Shown(number >> (PAGE_BITS + 1), number >> 1 & ((1 << PAGE_BITS) - 1), bool(number & 1))
    if are_black != shown.cells():
        raise ValueError("the picture shows no number")
    return shown


def grounded_answer(shown: Shown) -> str:
    """What a model says about it that is asked as DeepSeek-OCR is."""
    if shown.is_figure:
        return shown.text
    title, words = shown.text.split("\n\n")
    text = (
        f"<|ref|>title<|/ref|><|det|>[[100, 100, 900, 140]]<|/det|>\n{title}\n\n"
        f"<|ref|>text<|/ref|><|det|>[[100, 150, 900, 420]]<|/det|>\n{words}\n\n"
    )
    if shown.has_figure:
        text += f"<|ref|>image<|/ref|><|det|>[{list(FIGURE)}]<|/det|>\n"
    return text


def expected_paragraphs(document: int, pages: int) -> list[str]:
    """The paragraphs of a document's Markdown, as `paragraphs_of` gives them."""
    paragraphs: list[str] = []
    for number in range(1, pages + 1):
        shown = Shown(document, number)
        paragraphs += shown.text.split("\n\n")
        if shown.has_figure:
            paragraphs.append(f"> {Shown(document, number, is_figure=True).text}")
    return paragraphs


def paragraphs_of(markdown: str) -> list[str]:
    """Those that have words: neither the anchors of pages nor the links to figures."""
    paragraphs = (paragraph.strip() for paragraph in markdown.split("\n\n"))
    return [one for one in paragraphs if one and not one.startswith(("<a id=", "!["))]


class KnownPages:
    """An engine that answers after `seconds`, and counts. While it is `down`, it refuses."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.down = seconds, False
        self.asked: Counter[Shown] = Counter()
        # Requests whose picture shows nothing known, or that came while it was down.
        self.refused = 0

    async def reply(self, body: dict[str, Any]) -> web.StreamResponse:
        if self.down:
            self.refused += 1
            return refusal(503, "it is down")
        if isinstance(body["messages"][0]["content"], str):
            return answer("ready")
        try:
            shown = read_strip(image_of(body))
        except ValueError as error:
            self.refused += 1
            return refusal(400, str(error))
        self.asked[shown] += 1
        await asyncio.sleep(self.seconds)
        return answer(grounded_answer(shown))

    @property
    def repeated(self) -> int:
        """Requests beyond the first for each picture."""
        return sum(self.asked.values()) - len(self.asked)
