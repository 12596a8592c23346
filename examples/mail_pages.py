"""Draws the pages of scanned mail with random contents, and says what is on them.

Cover sheets have a barcode and a date stamp; claim forms of two pages and changes of address have
fields; invoices have the layouts of `invoice_layouts.py`. Letters have no fields. Certificates and
timetables belong to no class. The same `random.Random` gives the same pages.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pypdfium2 as pdfium
from invoice_contents import CASPAR, HARROW, ORRIN, PINE, TRUST, Invoice, Item
from invoice_layouts import band, classic
from invoice_layouts_held_out import columns, letter
from invoice_sheet import BOLD, HEIGHT, PLAIN, WIDTH, Font, Sheet
from PIL import Image, ImageChops, ImageFilter
from reportlab.graphics.barcode.code128 import Code128
from reportlab.lib.colors import Color
from reportlab.lib.units import mm

DPI = 200
TITLE, SMALL, VALUE = Font("Helvetica-Bold", 17), Font(size=8), Font("Courier", 11.5)
STAMP_INKS = (Color(0.1, 0.2, 0.6), Color(0.65, 0.1, 0.15), Color(0.3, 0.15, 0.5))
PARTIES = (ORRIN, HARROW, CASPAR, PINE, TRUST)
GOODS = (
    *("Garden shears, steel", "Folding table, oak", "Rain barrel, 200 l", "Work gloves, leather"),
    *("Extension cable, 10 m", "Paint roller set", "Bookcase, five shelves", "Door mat, coconut"),
    *("Desk lamp, black", "Storage box with lid"),
)
FIRST = ("Anna", "Bruno", "Clara", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas")
LAST = ("Abel", "Brandt", "Castro", "Dubois", "Eriksen", "Fontana", "Gruber", "Hughes", "Moreau")
STREETS = ("Mill Lane", "Station Road", "Harbor Street", "Church Walk", "Market Square")
TOWNS = ("Leeds", "Porto", "Graz", "Lyon", "Ghent", "Turku", "Parma", "Cork", "Bergen", "Gdansk")
TEXT = """
the of and in to for with on at from by as be this that we our their have has been will would
project order meeting delivery committee region result period review schedule material customer
contract office report water energy station survey service public local annual further early small
"""
WORDS = TEXT.split()
# Classes of pages, and kinds that are of none.
CLASSES = ("cover", "claim-form", "address-form", "invoice", "letter")
STRANGERS = ("certificate", "timetable")


@dataclass(frozen=True)
class MailPage:
    """A page as it was printed, as a PDF, with the class that it should get (None: of no class)."""

    class_name: str | None
    pdf: bytes


@dataclass(frozen=True)
class TrueRecord:
    """The fields on consecutive pages of a class. `pages` count from 1."""

    class_name: str
    pages: Sequence[int]
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Mail:
    """The pages of one scan, and what is on them."""

    pages: Sequence[MailPage]
    barcode: str
    received: date
    records: Sequence[TrueRecord]


@dataclass
class _MailWriter:
    pages: list[MailPage] = field(default_factory=list)
    records: list[TrueRecord] = field(default_factory=list)

    def add(
        self, class_name: str | None, *pdfs: bytes, fields: Mapping[str, Any] | None = None
    ) -> None:
        first = len(self.pages) + 1
        self.pages += [MailPage(class_name, pdf) for pdf in pdfs]
        if class_name is not None and fields is not None:
            pages = range(first, len(self.pages) + 1)
            self.records.append(TrueRecord(class_name, list(pages), fields))


def make_mail(chance: random.Random) -> Mail:
    """Eight pages: a cover sheet, and in any order a claim of two pages, a change of address, an
    invoice, a letter of two pages and a page of no class."""
    writer = _MailWriter()
    barcode, received = f"BX-{chance.randint(0, 999_999):06}", _day(chance)
    writer.add("cover", draw_cover(chance, barcode, received))
    parts = ["claim-form", "address-form", "invoice", "letter", chance.choice(STRANGERS)]
    chance.shuffle(parts)
    for part in parts:
        if part == "claim-form":
            pages, fields = draw_claim(chance)
            writer.add(part, *pages, fields=fields)
        elif part == "address-form":
            page, fields = draw_address_form(chance)
            writer.add(part, page, fields=fields)
        elif part == "invoice":
            page, fields = draw_invoice(chance)
            writer.add(part, page, fields=fields)
        elif part == "letter":
            writer.add(part, draw_letter(chance), draw_letter(chance))
        else:
            writer.add(None, draw_stranger(chance, part))
    return Mail(writer.pages, barcode, received, writer.records)


def make_examples(class_name: str, chance: random.Random) -> Sequence[bytes]:
    """The pages of one document of a class: examples for a classifier."""
    if class_name == "cover":
        return [draw_cover(chance, f"BX-{chance.randint(0, 999_999):06}", _day(chance))]
    if class_name == "claim-form":
        return draw_claim(chance)[0]
    if class_name == "address-form":
        return [draw_address_form(chance)[0]]
    if class_name == "invoice":
        return [draw_invoice(chance)[0]]
    return [draw_letter(chance)]


def scan(pdf: bytes, chance: random.Random) -> Image.Image:
    """A page as a scanner sees it, in color: askew, soft, in uneven light, with grain."""
    with pdfium.PdfDocument(pdf) as document:
        page = document[0].render(scale=DPI / 72).to_pil().convert("RGB")
    angle = chance.choice((-1, 1)) * chance.uniform(0.1, 0.7)
    shift = (chance.randint(-12, 12), chance.randint(-12, 12))
    page = page.rotate(angle, Image.Resampling.BILINEAR, translate=shift, fillcolor="white")
    page = page.filter(ImageFilter.BoxBlur(chance.uniform(0.3, 0.7)))
    light = Image.frombytes("L", (4, 6), bytes(chance.randrange(228, 256) for _ in range(24)))
    light = light.resize(page.size, Image.Resampling.BICUBIC)
    noise = chance.randint(6, 12)
    grain = Image.frombytes("L", page.size, chance.randbytes(page.width * page.height))
    grain = grain.filter(ImageFilter.BoxBlur(0.6))
    grain = grain.point(lambda value: 128 + (value - 128) * noise // 64)
    page = ImageChops.multiply(page, Image.merge("RGB", [light] * 3))
    # Grain is centered on gray 128: adding it and taking 128 off again keeps the mean.
    return ImageChops.add(page, Image.merge("RGB", [grain] * 3), offset=-128)


def draw_cover(chance: random.Random, barcode: str, received: date) -> bytes:
    """A cover sheet: a heading, a barcode, and a date stamp somewhere in the lower half."""
    sheet = Sheet()
    sheet.text(25, 35, "Mail room: cover sheet", font=TITLE)
    sheet.lines(25, 46, ["Put this sheet in front of each batch.", "Don't fold the barcode."])
    sheet.text(25, 75, "Scanned by", font=BOLD)
    sheet.text(70, 75, _person(chance))
    sheet.text(25, 83, "Scanner", font=BOLD)
    sheet.text(70, 83, f"MR-{chance.randint(1, 9)}")
    code = Code128(barcode, barWidth=0.5 * mm, barHeight=20 * mm)
    code.drawOn(sheet.canvas, 25 * mm, (HEIGHT - 130) * mm)
    sheet.text(60, 137, barcode, font=SMALL)
    sheet.rule(25, 150, WIDTH - 25, 150)
    _draw_stamp(sheet, chance, received)
    return sheet.pdf()


def _draw_stamp(sheet: Sheet, chance: random.Random, received: date) -> None:
    """RECEIVED and a date in a frame, set askew."""
    canvas = sheet.canvas
    canvas.saveState()
    place = (chance.uniform(40, 110), chance.uniform(60, 120))
    canvas.translate(place[0] * mm, place[1] * mm)
    canvas.rotate(chance.uniform(-9, 9))
    ink = chance.choice(STAMP_INKS)
    canvas.setStrokeColor(ink)
    canvas.setFillColor(ink)
    canvas.setLineWidth(1.8)
    canvas.roundRect(0, 0, 54 * mm, 21 * mm, 5)
    canvas.setFont("Helvetica-Bold", 15)
    canvas.drawCentredString(27 * mm, 12.5 * mm, "RECEIVED")
    canvas.setFont("Courier-Bold", 13)
    canvas.drawCentredString(27 * mm, 4.8 * mm, received.strftime("%d %b %Y").upper())
    canvas.restoreState()


def draw_claim(chance: random.Random) -> tuple[Sequence[bytes], Mapping[str, Any]]:
    """A claim form of two pages, and its fields."""
    loss, amount = _day(chance), Decimal(chance.randint(5_000, 900_000)) / 100
    fields = {
        "policy_number": f"P{chance.randint(1_000_000, 9_999_999)}",
        "claimant": _person(chance),
        "date_of_loss": loss.isoformat(),
        "place_of_loss": chance.choice(TOWNS),
        "amount_claimed": float(amount),
        "account_number": str(chance.randint(10_000_000, 99_999_999)),
    }
    first, second = Sheet(), Sheet()
    first.text(25, 32, "Claim form", font=TITLE)
    first.text(WIDTH - 25, 32, "page 1 of 2", font=SMALL, align=1)
    rows = [
        ("Policy number", fields["policy_number"]),
        ("Claimant", fields["claimant"]),
        ("Date of loss", loss.strftime("%d %B %Y").lstrip("0")),
        ("Place of loss", fields["place_of_loss"]),
    ]
    y = _rows(first, 52, rows)
    first.text(25, y + 10, "What happened?", font=BOLD)
    first.fill(25, y + 14, WIDTH - 25, y + 15, Color(0.6, 0.6, 0.6))
    _paragraph(first, chance, y + 22, 7)
    second.text(25, 32, "Claim form", font=TITLE)
    second.text(WIDTH - 25, 32, "page 2 of 2", font=SMALL, align=1)
    rows = [
        ("Amount claimed", f"{amount:,.2f}"),
        ("Account number", fields["account_number"]),
    ]
    y = _rows(second, 52, rows)
    for k, words in enumerate(("I have no other insurance", "The police were informed")):
        second.rule(25, y + 10 + 9 * k, 29, y + 10 + 9 * k)
        second.text(33, y + 10 + 9 * k, words)
    second.rule(25, 230, 100, 230)
    second.text(25, 235, "Date and signature", font=SMALL)
    return [first.pdf(), second.pdf()], fields


def draw_address_form(chance: random.Random) -> tuple[bytes, Mapping[str, Any]]:
    """A change of address, and its fields."""
    valid_from = _day(chance)
    fields = {
        "customer_number": str(chance.randint(100_000, 999_999)),
        "full_name": _person(chance),
        "new_street": f"{chance.randint(1, 180)} {chance.choice(STREETS)}",
        "new_town": chance.choice(TOWNS),
        "postal_code": str(chance.randint(1000, 9999)),
        "valid_from": valid_from.isoformat(),
    }
    sheet = Sheet()
    sheet.fill(20, 20, WIDTH - 20, 38, Color(0.88, 0.88, 0.88))
    sheet.text(WIDTH / 2, 31, "CHANGE OF ADDRESS", font=TITLE, align=0.5)
    sheet.text(25, 48, "Please write clearly, and send this form to our customer service.")
    rows = [
        ("Customer number", fields["customer_number"]),
        ("Full name", fields["full_name"]),
        ("New street", fields["new_street"]),
        ("New town", fields["new_town"]),
        ("Postal code", fields["postal_code"]),
        ("Valid from", valid_from.strftime("%d %B %Y").lstrip("0")),
    ]
    y = _rows(sheet, 66, rows, step=17)
    sheet.rule(110, y + 25, WIDTH - 25, y + 25)
    sheet.text(110, y + 30, "Signature of the customer", font=SMALL)
    return sheet.pdf(), fields


def draw_invoice(chance: random.Random) -> tuple[bytes, Mapping[str, Any]]:
    """An invoice in one of four layouts, and its fields."""
    seller, buyer = chance.sample(PARTIES, 2)
    day = _day(chance)
    bought = tuple(
        Item(
            description,
            Decimal(chance.randint(1, 20)),
            Decimal(chance.randint(199, 24_000)) / 100,
        )
        for description in chance.sample(GOODS, chance.randint(2, 6))
    )
    layout = chance.choice((classic, band, letter, columns))
    number = f"{day.year}-{chance.randint(1, 9999):04}"
    due = day + timedelta(days=30)
    invoice = Invoice(
        *(layout.__name__, "scan", "en", number, day, due, seller, buyer, "GBP"), bought, 20
    )
    sheet = Sheet()
    layout(sheet, invoice)
    return sheet.pdf(), invoice.fields(frozenset(sheet.boxes))


def draw_letter(chance: random.Random) -> bytes:
    """A page of running text below an address."""
    sheet = Sheet()
    lines = [_person(chance), f"{chance.randint(1, 99)} {chance.choice(STREETS)}"]
    sheet.lines(25, 40, [*lines, chance.choice(TOWNS)])
    sheet.text(WIDTH - 25, 70, _day(chance).strftime("%d %B %Y").lstrip("0"), align=1)
    sheet.text(25, 85, f"Dear {_person(chance)},")
    y = 96.0
    for _ in range(chance.randint(3, 5)):
        y = _paragraph(sheet, chance, y, chance.randint(3, 7)) + 3
    sheet.text(25, y + 4, "Yours sincerely,")
    sheet.text(25, y + 22, _person(chance))
    return sheet.pdf()


def draw_stranger(chance: random.Random, kind: str) -> bytes:
    """A page of a kind that the classifier has no examples of."""
    sheet = Sheet()
    if kind == "certificate":
        for inset in (12.0, 15.0):
            edges = (inset, inset, WIDTH - inset, HEIGHT - inset)
            for x1, y1, x2, y2 in _sides(*edges):
                sheet.rule(x1, y1, x2, y2, 1.4)
        for y, words, size in (
            (95, "Certificate of attendance", 27),
            (125, _person(chance), 22),
            (140, f"has attended the {chance.choice(WORDS)} {chance.choice(WORDS)} course", 12),
            (205, f"{chance.choice(TOWNS)}, {_day(chance).isoformat()}", 11),
        ):
            sheet.text(WIDTH / 2, y, words, font=Font("Times-Roman", size), align=0.5)
        return sheet.pdf()
    sheet.text(22, 30, f"Timetable, line {chance.randint(1, 60)}", font=TITLE)
    for row in range(30):
        level = 44 + 7.5 * row
        sheet.text(22, level, chance.choice(TOWNS), font=SMALL)
        for column in range(9):
            time = f"{chance.randint(5, 23)}:{chance.randint(0, 59):02}"
            sheet.text(60 + 15 * column, level, time, font=SMALL)
        sheet.rule(22, level + 2, WIDTH - 22, level + 2, 0.3)
    return sheet.pdf()


def _rows(sheet: Sheet, y: float, rows: Sequence[tuple[str, object]], step: float = 15) -> float:
    """Labels with boxes beside them in which the values are; gives the line after the last."""
    for label, value in rows:
        sheet.text(25, y, label, font=BOLD)
        for x1, y1, x2, y2 in _sides(75, y - 7, WIDTH - 25, y + 4):
            sheet.rule(x1, y1, x2, y2)
        sheet.text(79, y, str(value), font=VALUE)
        y += step
    return y


def _sides(x1: float, y1: float, x2: float, y2: float) -> Sequence[tuple[float, ...]]:
    return [(x1, y1, x2, y1), (x1, y2, x2, y2), (x1, y1, x1, y2), (x2, y1, x2, y2)]


def _paragraph(sheet: Sheet, chance: random.Random, y: float, lines: int) -> float:
    """Lines of random words; gives the line after the last."""
    for number in range(lines):
        text, room = "", (WIDTH - 50) * (0.6 if number == lines - 1 else 1)
        while PLAIN.width(text) < room - 22:
            text += f"{chance.choice(WORDS)} "
        sheet.text(25, y, text.strip())
        y += PLAIN.leading
    return y


def _person(chance: random.Random) -> str:
    return f"{chance.choice(FIRST)} {chance.choice(LAST)}"


def _day(chance: random.Random) -> date:
    return date(2025, 1, 1) + timedelta(days=chance.randrange(600))
