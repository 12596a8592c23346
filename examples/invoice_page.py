"""The example invoice: a craftsman's bill to the trust of the example report. All invented."""

from reportlab.lib.colors import Color, black
from reportlab.lib.pagesizes import A4
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table, TableStyle

ITEMS = [
    ("1", "Radar level sensor RL-80, 26 GHz, with bracket", 1, 1_284.00),
    ("2", "Steel arm, 1.8 m, galvanised, with clamps", 2, 146.50),
    ("3", "Staff gauge plate E-type, 1 m, enamelled", 4, 38.75),
    ("4", "Sealed battery 12 V 45 Ah", 3, 92.20),
    ("5", "Cable LiYCY 4 x 0.5, shielded (per metre)", 60, 1.85),
    ("6", "Installation at Fenwick Bridge, two engineers (hour)", 11, 58.00),
    ("7", "Travel, flat rate", 1, 75.00),
]
VAT = 0.20
WIDTH, HEIGHT = A4
LEFT, RIGHT = 22 * mm, WIDTH - 20 * mm
SHADE = Color(0.9, 0.9, 0.9)


def draw_invoice(canvas: Canvas) -> None:
    _letterhead(canvas)
    _addresses(canvas)
    bottom = _items(canvas, HEIGHT - 128 * mm)
    bottom = _totals(canvas, bottom)
    _terms(canvas, bottom - 16 * mm)
    _stamp(canvas)


def _lines(
    canvas: Canvas, x: float, y: float, lines: list[str], font: str = "Helvetica", size: float = 10
) -> None:
    text = canvas.beginText(x, y)
    text.setFont(font, size, size * 1.38)
    text.textLines(lines)
    canvas.drawText(text)


def _letterhead(canvas: Canvas) -> None:
    canvas.setFillColor(black)
    canvas.rect(LEFT, HEIGHT - 31 * mm, 12 * mm, 12 * mm, fill=1, stroke=0)
    canvas.setFillGray(1)
    canvas.setFont("Helvetica-Bold", 19)
    canvas.drawCentredString(LEFT + 6 * mm, HEIGHT - 27.3 * mm, "O")
    canvas.setFillColor(black)
    canvas.setFont("Helvetica-Bold", 17)
    canvas.drawString(LEFT + 16 * mm, HEIGHT - 24.4 * mm, "Orrin & Daughters Ltd")
    canvas.setFont("Helvetica", 9.5)
    canvas.drawString(LEFT + 16 * mm, HEIGHT - 30 * mm, "Instruments for water and weather")
    right = [
        "14 Tannery Lane",
        "Marlow Green MG4 2QT",
        "Telephone 01632 960 417",
        "VAT no. 312 4567 08",
    ]
    canvas.setFont("Helvetica", 9)
    for k, line in enumerate(right):
        canvas.drawRightString(RIGHT, HEIGHT - (20.5 + 4.4 * k) * mm, line)
    canvas.setLineWidth(1)
    canvas.line(LEFT, HEIGHT - 39 * mm, RIGHT, HEIGHT - 39 * mm)


def _addresses(canvas: Canvas) -> None:
    top = HEIGHT - 54 * mm
    _lines(canvas, LEFT, top, ["Bill to"], "Helvetica-Bold", 9)
    bill = ["Arle Rivers Trust", "Ms Ada Kessler", "The Old Mill", "Fenwick FK1 7AB"]
    _lines(canvas, LEFT, top - 5.5 * mm, bill)
    _lines(canvas, LEFT + 58 * mm, top, ["Deliver to"], "Helvetica-Bold", 9)
    place = ["Gauging station", "Fenwick Bridge, left bank", "Mill Road", "Fenwick FK1 7AD"]
    _lines(canvas, LEFT + 58 * mm, top - 5.5 * mm, place)
    pairs = {
        "Invoice number": "2024-0381",
        "Invoice date": "12 March 2024",
        "Your order": "ART/118 of 4 March",
        "Due date": "11 April 2024",
    }
    for k, (name, value) in enumerate(pairs.items()):
        y = top - 5.5 * k * mm
        _lines(canvas, RIGHT - 60 * mm, y, [name], "Helvetica", 9.5)
        canvas.setFont("Helvetica-Bold", 9.5)
        canvas.drawRightString(RIGHT, y, value)
    canvas.setFont("Helvetica-Bold", 21)
    canvas.drawString(LEFT, HEIGHT - 100 * mm, "INVOICE")
    canvas.setFont("Helvetica", 10)
    words = "For the new level sensor and its installation on 7 and 8 March 2024 we charge:"
    canvas.drawString(LEFT, HEIGHT - 110 * mm, words)


def _items(canvas: Canvas, top: float) -> float:
    rows = [["No.", "Description", "Quantity", "Unit price", "Amount"]]
    for number, words, count, price in ITEMS:
        rows.append([number, words, f"{count}", f"£{price:,.2f}", f"£{count * price:,.2f}"])
    width = RIGHT - LEFT
    table = Table(rows, [width * share for share in (0.08, 0.49, 0.12, 0.15, 0.16)], 7.4 * mm)
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 9.5),
                ("FONT", (0, 1), (-1, -1), "Helvetica", 9.5),
                ("BACKGROUND", (0, 0), (-1, 0), SHADE),
                ("GRID", (0, 0), (-1, -1), 0.6, black),
                ("ALIGN", (2, 0), (-1, -1), "RIGHT"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    height = table.wrapOn(canvas, width, HEIGHT)[1]
    bottom: float = top + 10 * mm - height
    table.drawOn(canvas, LEFT, bottom)
    return bottom


def _totals(canvas: Canvas, bottom: float) -> float:
    subtotal = sum(count * price for _, _, count, price in ITEMS)
    vat = round(subtotal * VAT, 2)
    lines = [
        ("Subtotal", subtotal, "Helvetica"),
        (f"VAT {VAT:.0%}", vat, "Helvetica"),
        ("Total", subtotal + vat, "Helvetica-Bold"),
    ]
    y: float = bottom - 8 * mm
    for name, amount, font in lines:
        if name == "Total":
            canvas.line(RIGHT - 62 * mm, y + 5.2 * mm, RIGHT, y + 5.2 * mm)
        canvas.setFont(font, 11 if name == "Total" else 10)
        canvas.drawString(RIGHT - 60 * mm, y, name)
        canvas.drawRightString(RIGHT - 2 * mm, y, f"£{amount:,.2f}")
        y -= 7 * mm
    canvas.line(RIGHT - 62 * mm, y + 4 * mm, RIGHT, y + 4 * mm)
    canvas.line(RIGHT - 62 * mm, y + 3.3 * mm, RIGHT, y + 3.3 * mm)
    return y


def _terms(canvas: Canvas, top: float) -> None:
    _lines(
        canvas,
        LEFT,
        top,
        [
            "Payment within 30 days without deduction, please, quoting the invoice number.",
            "Bank: Vale Savings Bank, sort code 00-00-00, account 0123 4567.",
            "Goods remain our property until paid for. The sensor has a warranty of three years.",
        ],
        size=9.5,
    )
    _lines(canvas, LEFT, top - 22 * mm, ["Thank you for your order."], "Times-Italic", 13)
    canvas.setLineWidth(0.5)
    canvas.line(LEFT, 22 * mm, RIGHT, 22 * mm)
    canvas.setFont("Helvetica", 8)
    canvas.drawCentredString(
        WIDTH / 2,
        17 * mm,
        "Orrin & Daughters Ltd · registered in Marlow Green, no. 0718 220 · page 1 of 1",
    )


def _stamp(canvas: Canvas) -> None:
    """A rubber stamp, set a little askew."""
    canvas.saveState()
    canvas.translate(RIGHT - 56 * mm, 33 * mm)
    canvas.rotate(7)
    canvas.setStrokeGray(0.35)
    canvas.setFillGray(0.35)
    canvas.setLineWidth(1.6)
    canvas.roundRect(0, 0, 48 * mm, 19 * mm, 5)
    canvas.setFont("Helvetica-Bold", 15)
    canvas.drawCentredString(24 * mm, 11 * mm, "RECEIVED")
    canvas.setFont("Courier-Bold", 12)
    canvas.drawCentredString(24 * mm, 4.5 * mm, "14 MAR 2024")
    canvas.restoreState()
