"""Generate pages of 15 kinds, as a scanner would have made them: the same seed, the same pages.

Each kind has a few issuers with a typeface and a layout of their own, as documents of one kind in
one office have. Invoices and credit notes are twins: only the title differs.
"""

import hashlib
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pypdfium2 as pdfium
from PIL import Image, ImageFilter
from reportlab.lib.pagesizes import A4, landscape
from reportlab.pdfgen.canvas import Canvas

ISSUERS = 3
DPI = 100
_FONTS = ("Helvetica", "Times-Roman", "Courier")
_NAMES = ("Abel", "Brandt", "Castro", "Dubois", "Eriksen", "Fontana", "Gruber", "Hughes", "Ito")
_FIRST = ("Anna", "Bruno", "Carla", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas")
_PLACES = ("Leeds", "Porto", "Graz", "Lyon", "Ghent", "Turku", "Parma", "Cork", "Bergen", "Gdansk")
_STREETS = ("Mill Lane", "Station Road", "Harbor Street", "Church Walk", "Market Square")
_GOODS = ("hinge", "valve", "bracket", "cable", "gasket", "pump", "filter", "lamp", "belt", "lock")
_TEXT = """
the of and in to for with on at from by a as be this that we our their have has been will would
project order meeting delivery budget committee region method result period measure training quality
review schedule material customer supplier contract office report water energy station survey
service system public local annual second final early further small
"""
_WORDS = _TEXT.split()


@dataclass(frozen=True)
class GeneratedPage:
    """A page of a kind, as scanned. `name` is unique for a seed."""

    name: str
    kind: str
    image: Image.Image


class _Paper:
    """A page that is being written, from the top down, in points."""

    def __init__(self, chance: random.Random, issuer: int, size: tuple[float, float] = A4) -> None:
        self.chance, self.issuer = chance, issuer
        self.width, self.height = size
        self._data = io.BytesIO()
        self.canvas = Canvas(self._data, pagesize=size)
        self.font = _FONTS[issuer % len(_FONTS)]
        self.margin = 46.0 + 14 * issuer
        self.y = self.height - self.margin

    @property
    def bold(self) -> str:
        return {"Times-Roman": "Times-Bold"}.get(self.font, f"{self.font}-Bold")

    @property
    def right(self) -> float:
        return self.width - self.margin

    def text(self, x: float, text: str, size: float = 10, *, bold: bool = False) -> None:
        self.canvas.setFont(self.bold if bold else self.font, size)
        self.canvas.drawString(x, self.y, text)

    def line(self, text: str, size: float = 10, *, bold: bool = False, gap: float = 1.4) -> None:
        self.text(self.margin, text, size, bold=bold)
        self.y -= gap * size

    def centered(self, text: str, size: float, *, bold: bool = True) -> None:
        self.canvas.setFont(self.bold if bold else self.font, size)
        self.canvas.drawCentredString(self.width / 2, self.y, text)
        self.y -= 1.5 * size

    def box(self, x: float, y: float, width: float, height: float) -> None:
        self.canvas.rect(x, y, width, height)

    def rule(self) -> None:
        self.canvas.line(self.margin, self.y, self.right, self.y)
        self.y -= 12

    def words(self, number: int) -> str:
        return " ".join(self.chance.choice(_WORDS) for _ in range(number))

    def paragraph(
        self, lines: int, x: float | None = None, width: float | None = None, size: float = 10
    ) -> None:
        left = self.margin if x is None else x
        room = (self.right - left) if width is None else width
        for k in range(lines):
            text = ""
            last = self.chance.uniform(0.3, 0.9) if k == lines - 1 else 1.0
            self.canvas.setFont(self.font, size)
            while self.canvas.stringWidth(text, self.font, size) < room * last - 40:
                text += f"{self.chance.choice(_WORDS)} "
            self.text(left, text, size)
            self.y -= 1.3 * size
        self.y -= 0.6 * size

    def person(self) -> str:
        return f"{self.chance.choice(_FIRST)} {self.chance.choice(_NAMES)}"

    def address(self) -> list[str]:
        number = self.chance.randint(1, 180)
        return [
            self.person(),
            f"{number} {self.chance.choice(_STREETS)}",
            f"{self.chance.randint(1000, 9999)} {self.chance.choice(_PLACES)}",
        ]

    def date(self) -> str:
        return f"{self.chance.randint(1, 28)}.{self.chance.randint(1, 12)}.2026"

    def number(self) -> str:
        return str(self.chance.randint(10_000, 99_999))

    def money(self) -> str:
        return f"{self.chance.uniform(5, 4000):,.2f}"

    def letterhead(self) -> None:
        name = ("Nordwind Ltd", "Casa Verde SpA", "Kestrel & Sons")[self.issuer % 3]
        x = (self.margin, self.right - 150, self.width / 2 - 60)[self.issuer % 3]
        self.text(x, name, 16, bold=True)
        self.y -= 14
        self.text(x, f"{_STREETS[self.issuer]}, {_PLACES[self.issuer]}", 8)
        self.y -= 30

    def table(self, heads: Sequence[str], rows: int, *, grid: bool = False) -> None:
        step = (self.right - self.margin) / (len(heads) + 1)
        places = [self.margin, *(self.margin + step * (k + 1) for k in range(1, len(heads)))]
        for x, head in zip(places, heads, strict=True):
            self.text(x, head, 9, bold=True)
        self.y -= 5
        self.canvas.line(self.margin, self.y, self.right, self.y)
        self.y -= 12
        for _ in range(rows):
            self.text(places[0], f"{self.chance.choice(_GOODS)} {self.number()}", 9)
            for x in places[1:]:
                self.text(x, self.money(), 9)
            if grid:
                self.canvas.line(self.margin, self.y - 4, self.right, self.y - 4)
            self.y -= 15
        self.y -= 8

    def pdf(self) -> bytes:
        self.canvas.save()
        return self._data.getvalue()


def _billing(title: str) -> Callable[[random.Random, int], bytes]:
    """Twins: the same page with another title."""

    def draw(chance: random.Random, issuer: int) -> bytes:
        paper = _Paper(chance, issuer)
        paper.letterhead()
        for line in paper.address():
            paper.line(line)
        paper.y -= 24
        paper.line(title, 18, bold=True)
        paper.line(f"Number {paper.number()}    Date {paper.date()}    Customer {paper.number()}")
        paper.y -= 14
        paper.table(("Item", "Quantity", "Price", "Amount"), chance.randint(3, 12))
        for label in ("Net", "VAT 20%", "Total"):
            paper.text(paper.right - 160, label, bold=label == "Total")
            paper.text(paper.right - 70, paper.money(), bold=label == "Total")
            paper.y -= 15
        paper.y = paper.margin + 20
        paper.line("Bank account XX00 0000 0000 0000    VAT number XX 000 000", 8)
        return paper.pdf()

    return draw


def _purchase_order(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.letterhead()
    paper.centered(f"PURCHASE ORDER {paper.number()}", 15)
    half = (paper.right - paper.margin) / 2 - 8
    top = paper.y
    for k, head in enumerate(("Vendor", "Ship to")):
        x = paper.margin + k * (half + 16)
        paper.y = top
        paper.box(x, top - 70, half, 78)
        paper.text(x + 6, head, bold=True)
        for line in paper.address():
            paper.y -= 15
            paper.text(x + 6, line)
    paper.y = top - 100
    heads = ("Part", "Ordered", "Unit", "Price", "Due")
    paper.table(heads, chance.randint(6, 16), grid=True)
    paper.line(f"Requested by {paper.person()}    Approved by {paper.person()}")
    return paper.pdf()


def _letter(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.letterhead()
    for line in [*paper.address(), "", paper.date(), "", f"Dear {paper.person()},"]:
        paper.line(line, 11)
    paper.y -= 6
    for _ in range(chance.randint(3, 5)):
        paper.paragraph(chance.randint(3, 7), size=11)
    paper.line("Yours sincerely,", 11)
    paper.y -= 40
    paper.line(paper.person(), 11)
    return paper.pdf()


def _bank_statement(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.line("Account statement", 15, bold=True)
    paper.line(f"Account {paper.number()}   Period {paper.date()} to {paper.date()}", 9)
    paper.line(f"Opening balance {paper.money()}", 9)
    paper.rule()
    paper.table(("Booking", "Value", "Debit", "Credit", "Balance"), chance.randint(24, 34))
    paper.line(f"Closing balance {paper.money()}", 9, bold=True)
    return paper.pdf()


def _receipt(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer, (230, 520))
    paper.margin, paper.y = 16, 495
    paper.centered(("CORNER SHOP", "TEA ROOM", "GREEN GROCER")[issuer], 13)
    paper.centered(f"{chance.choice(_STREETS)} {chance.randint(1, 99)}", 8, bold=False)
    paper.line(f"{paper.date()}  till {chance.randint(1, 9)}  no {paper.number()}", 8)
    for _ in range(chance.randint(6, 18)):
        paper.text(paper.margin, chance.choice(_GOODS), 9)
        paper.text(paper.right - 45, paper.money(), 9)
        paper.y -= 13
    paper.rule()
    paper.text(paper.margin, "TOTAL", 12, bold=True)
    paper.text(paper.right - 60, paper.money(), 12, bold=True)
    paper.y -= 26
    paper.centered("Thank you for your visit", 8, bold=False)
    return paper.pdf()


def _application_form(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.line("Application for membership", 16, bold=True)
    paper.line("Please complete in capital letters", 9)
    values = [paper.person(), paper.date(), *paper.address()[1:], paper.number(), paper.number()]
    labels = ("Name", "Date of birth", "Street", "Town", "Telephone", "Reference")
    for label, value in zip(labels, values, strict=True):
        paper.y -= 30
        paper.text(paper.margin, label, 9)
        paper.box(paper.margin + 110, paper.y - 7, paper.right - paper.margin - 110, 22)
        if chance.random() < 0.8:
            paper.text(paper.margin + 116, value, 12)
    paper.y -= 40
    for _ in range(6 + issuer):
        paper.box(paper.margin, paper.y, 11, 11)
        if chance.random() < 0.5:
            paper.text(paper.margin + 2, "x", 12)
        paper.text(paper.margin + 22, paper.words(7), 9)
        paper.y -= 22
    paper.y -= 30
    paper.rule()
    paper.line("Place, date, signature", 8)
    return paper.pdf()


def _delivery_note(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.letterhead()
    paper.line("Delivery note", 18, bold=True)
    for line in paper.address():
        paper.line(line)
    paper.y -= 10
    paper.table(("Article", "Packed", "Weight"), chance.randint(4, 14), grid=True)
    paper.y = paper.margin + 90
    half = (paper.right - paper.margin) / 2 - 10
    for k, label in enumerate(("Driver", "Received in good order")):
        paper.box(paper.margin + k * (half + 20), paper.y - 40, half, 60)
        paper.text(paper.margin + k * (half + 20) + 5, label, 8)
    return paper.pdf()


def _resume(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.centered(paper.person(), 20)
    paper.centered(f"{paper.address()[1]}, {chance.choice(_PLACES)}", 9, bold=False)
    for head in ("Experience", "Education", "Skills"):
        paper.line(head, 13, bold=True)
        paper.rule()
        for _ in range(chance.randint(1, 3)):
            paper.text(
                paper.margin, f"{chance.randint(1995, 2020)} to {chance.randint(2020, 2026)}"
            )
            paper.text(paper.margin + 110, paper.words(4), bold=True)
            paper.y -= 15
            paper.paragraph(chance.randint(2, 4), x=paper.margin + 110)
    return paper.pdf()


def _memo(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.line("MEMORANDUM", 18, bold=True)
    for label, value in (
        ("To", paper.person()),
        ("From", paper.person()),
        ("Date", paper.date()),
        ("Subject", paper.words(5)),
    ):
        paper.text(paper.margin, f"{label}:", 11, bold=True)
        paper.text(paper.margin + 70, value, 11)
        paper.y -= 18
    paper.rule()
    for _ in range(chance.randint(2, 4)):
        paper.paragraph(chance.randint(3, 6), size=11)
    return paper.pdf()


def _report(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.centered(paper.words(5).title(), 15)
    paper.centered(paper.person(), 10, bold=False)
    top, width = paper.y, (paper.right - paper.margin) / 2 - 10
    for k in range(2):
        x = paper.margin + k * (width + 20)
        paper.y = top
        while paper.y > paper.margin + 90:
            if chance.random() < 0.35:
                paper.text(x, f"{chance.randint(1, 6)} {paper.words(2).title()}", 11, bold=True)
                paper.y -= 16
            paper.paragraph(chance.randint(4, 6), x=x, width=width, size=9)
    return paper.pdf()


def _payslip(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    width = paper.right - paper.margin
    paper.box(paper.margin - 6, paper.y - 50, width + 12, 64)
    paper.line("Pay statement", 14, bold=True)
    paper.line(f"Employee {paper.person()}    No. {paper.number()}    Month {paper.date()}", 9)
    paper.y -= 34
    top = paper.y
    for k, head in enumerate(("Earnings", "Deductions")):
        x, paper.y = paper.margin + k * width / 2, top
        paper.text(x, head, 11, bold=True)
        for _ in range(chance.randint(5, 9)):
            paper.y -= 16
            paper.text(x, paper.words(2), 9)
            paper.text(x + width / 2 - 70, paper.money(), 9)
    paper.y = top - 190
    paper.rule()
    paper.line(f"Net pay {paper.money()}", 14, bold=True)
    return paper.pdf()


def _certificate(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer, landscape(A4))
    for inset in (24, 32):
        paper.box(inset, inset, paper.width - 2 * inset, paper.height - 2 * inset)
    paper.y -= 70
    paper.centered("Certificate of attendance", 30)
    paper.y -= 20
    paper.centered(paper.person(), 24, bold=False)
    paper.centered(paper.words(8), 12, bold=False)
    paper.y -= 90
    paper.centered(f"{chance.choice(_PLACES)}, {paper.date()}", 11, bold=False)
    return paper.pdf()


def _contract(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.centered("Agreement", 14)
    paper.line(f"between {paper.person()} and {paper.person()}", 9)
    clause = chance.randint(1, 9)
    while paper.y > paper.margin + 70:
        paper.text(paper.margin, f"{clause}.", 9, bold=True)
        paper.paragraph(chance.randint(2, 5), x=paper.margin + 24, size=9)
        clause += 1
    return paper.pdf()


def _timetable(chance: random.Random, issuer: int) -> bytes:
    paper = _Paper(chance, issuer)
    paper.line(f"Timetable, line {chance.randint(1, 40)}", 16, bold=True)
    columns, rows = 8 + issuer, chance.randint(26, 34)
    step = (paper.right - paper.margin - 100) / columns
    for _ in range(rows):
        paper.text(paper.margin, chance.choice(_PLACES), 9)
        for k in range(columns):
            time = f"{chance.randint(5, 23)}:{chance.randint(0, 59):02}"
            paper.text(paper.margin + 100 + k * step, time, 9)
        paper.y -= 5
        paper.canvas.line(paper.margin, paper.y, paper.right, paper.y)
        paper.y -= 13
    return paper.pdf()


TWINS = ("invoice", "credit-note")
KNOWN: dict[str, Callable[[random.Random, int], bytes]] = {
    "invoice": _billing("Invoice"),
    "credit-note": _billing("Credit note"),
    "purchase-order": _purchase_order,
    "letter": _letter,
    "bank-statement": _bank_statement,
    "receipt": _receipt,
    "application-form": _application_form,
    "delivery-note": _delivery_note,
    "resume": _resume,
    "memo": _memo,
    "report": _report,
    "payslip": _payslip,
}
UNKNOWN: dict[str, Callable[[random.Random, int], bytes]] = {
    "certificate": _certificate,
    "contract": _contract,
    "timetable": _timetable,
}


def generate_page(kind: str, number: int, seed: int) -> GeneratedPage:
    """One page: it depends on its kind, number and seed only."""
    digest = hashlib.sha256(f"{seed}/{kind}/{number}".encode()).digest()
    chance = random.Random(int.from_bytes(digest[:8], "big"))
    draw = {**KNOWN, **UNKNOWN}[kind]
    pdf = draw(chance, chance.randrange(ISSUERS))
    return GeneratedPage(f"{kind}-{number:03}", kind, _scan(pdf, chance))


def _scan(pdf: bytes, chance: random.Random) -> Image.Image:
    """A page as scanned: askew, shifted, blurred, on gray paper in uneven light, with noise."""
    image = pdfium.PdfDocument(pdf)[0].render(scale=DPI / 72).to_pil().convert("L")
    shift = [chance.uniform(-0.012, 0.012) * image.width for _ in range(2)]
    image = image.rotate(
        chance.uniform(-0.8, 0.8),
        Image.Resampling.BICUBIC,
        translate=(round(shift[0]), round(shift[1])),
        fillcolor=255,
    )
    image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.2, 0.8)))
    pixels = np.asarray(image, np.float32)
    noise = np.random.default_rng(chance.randrange(2**32))
    light = np.linspace(1.0, 1.0 - chance.uniform(0.0, 0.15), pixels.shape[1])[None, :]
    paper = chance.uniform(0.86, 1.0)
    grain = noise.normal(0, chance.uniform(1.5, 7), pixels.shape)
    data = io.BytesIO()
    scanned = Image.fromarray(np.clip(pixels * light * paper + grain, 0, 255).astype(np.uint8))
    scanned.save(data, "JPEG", quality=chance.randint(45, 85))
    return Image.open(data)
