"""Two ways to set an invoice, and what all ways share."""

from collections.abc import Sequence
from dataclasses import dataclass

from invoice_contents import Invoice, Item, long_date, short_date
from invoice_sheet import BOLD, PLAIN, Font, Sheet
from reportlab.lib.colors import Color, white

SHADE, BAND, FAINT = Color(0.9, 0.9, 0.9), Color(0.12, 0.28, 0.42), Color(0.95, 0.96, 0.98)
SMALL, HEAD, HUGE = Font(size=8), Font("Helvetica-Bold", 15), Font("Helvetica-Bold", 22)


@dataclass(frozen=True)
class Column:
    """A column of the items: its heading, the field it shows (or none), where, how aligned."""

    heading: str
    field: str
    x: float
    align: float = 0


def _cell(invoice: Invoice, item: Item, row: int, field: str) -> str:
    return {
        "position": str(row + 1),
        "description": item.description,
        "quantity": invoice.count(item.quantity),
        "unit_price": invoice.number_of(item.unit_price),
        "amount": invoice.number_of(item.amount),
    }[field]


def items(
    sheet: Sheet, invoice: Invoice, columns: Sequence[Column], y: float, pitch: float
) -> float:
    """Headings at the base line `y`, a row for each item; gives the base line of the next row."""
    for column in columns:
        sheet.text(column.x, y, column.heading, font=BOLD, align=column.align)
    for row, item in enumerate(invoice.items):
        y += pitch
        for column in columns:
            path = None if column.field == "position" else f"lines.{row}.{column.field}"
            text = _cell(invoice, item, row, column.field)
            sheet.text(column.x, y, text, path, align=column.align)
    return y + pitch


def classic(sheet: Sheet, invoice: Invoice) -> None:
    """A letterhead, labels left of their values, a ruled table, sums at its right."""
    english = invoice.language == "en"
    words = (
        ["Bill to", "Invoice number", "Invoice date", "Due date", "VAT no.", "INVOICE"]
        if english
        else [
            "Rechnung an",
            "Rechnungsnummer",
            "Rechnungsdatum",
            "Fällig am",
            "USt-IdNr.",
            "RECHNUNG",
        ]
    )
    seller, buyer = invoice.seller, invoice.buyer
    sheet.text(22, 25, seller.name, "seller.name", HEAD)
    y = sheet.lines(190, 21, seller.address, "seller.address", SMALL, align=1)
    width = SMALL.width(f"{words[4]} {seller.vat_id}")
    sheet.runs(190 - width, y, (f"{words[4]} ", None), (seller.vat_id, "seller.vat_id"), font=SMALL)
    sheet.rule(22, 38, 190, 38, 1)
    sheet.text(22, 54, words[0], font=BOLD)
    sheet.text(22, 60, buyer.name, "buyer.name")
    sheet.lines(22, 60 + PLAIN.leading, buyer.address, "buyer.address")
    date = long_date(invoice.language)
    pairs = [
        (words[1], invoice.number, "invoice_number"),
        (words[2], date(invoice.day), "invoice_date"),
        (words[3], date(invoice.due), "due_date"),
    ]
    for k, (label, value, path) in enumerate(pairs):
        sheet.text(128, 54 + 6 * k, label)
        sheet.text(190, 54 + 6 * k, value, path, BOLD, align=1)
    sheet.text(22, 92, words[5], font=HUGE)
    headings = (
        ["No.", "Description", "Quantity", "Unit price", "Amount"]
        if english
        else ["Pos.", "Beschreibung", "Menge", "Einzelpreis", "Betrag"]
    )
    columns = [
        Column(headings[0], "position", 24),
        Column(headings[1], "description", 38),
        Column(headings[2], "quantity", 132, 1),
        Column(headings[3], "unit_price", 160, 1),
        Column(headings[4], "amount", 188, 1),
    ]
    bottom = 100 + 8 * (len(invoice.items) + 1)
    sheet.fill(22, 100, 190, 108, SHADE)
    for k in range(len(invoice.items) + 2):
        sheet.rule(22, 100 + 8 * k, 190, 100 + 8 * k)
    for x in (22, 35, 115, 135, 163, 190):
        sheet.rule(x, 100, x, bottom)
    items(sheet, invoice, columns, 105.3, 8)
    labels = ["Subtotal", "VAT", "Total"] if english else ["Zwischensumme", "MwSt.", "Gesamtbetrag"]
    y = bottom + 9
    sheet.text(130, y, labels[0])
    sheet.text(188, y, invoice.money(invoice.subtotal), "subtotal", align=1)
    percent = "" if english else " "
    sheet.runs(130, y + 7, (f"{labels[1]} ", None), (f"{invoice.vat_rate}{percent}%", "vat_rate"))
    sheet.text(188, y + 7, invoice.money(invoice.vat), "vat", align=1)
    sheet.rule(128, y + 9.5, 190, y + 9.5)
    sheet.text(130, y + 14, labels[2], font=BOLD)
    sheet.text(188, y + 14, invoice.money(invoice.total), "total", BOLD, align=1)
    thanks(sheet, invoice, y + 34)


def thanks(sheet: Sheet, invoice: Invoice, y: float) -> None:
    texts = {
        "en": "Please quote the invoice number with your payment. Thank you for your order.",
        "de": "Bitte geben Sie bei der Zahlung die Rechnungsnummer an. Vielen Dank.",
    }
    sheet.text(22, y, texts[invoice.language], font=SMALL)


def band(sheet: Sheet, invoice: Invoice) -> None:
    """A colored band, both parties side by side, labels above their values, a shaded table."""
    english = invoice.language == "en"
    sheet.fill(0, 0, 210, 30, BAND)
    sheet.text(20, 19, "INVOICE" if english else "RECHNUNG", font=HUGE, color=white)
    columns = (("seller", 20.0, invoice.seller), ("buyer", 112.0, invoice.buyer))
    heads = {"seller": "From", "buyer": "To"} if english else {"seller": "Von", "buyer": "An"}
    for role, x, party in columns:
        sheet.text(x, 44, heads[role], font=SMALL)
        sheet.text(x, 50, party.name, f"{role}.name", BOLD)
        y = sheet.lines(x, 50 + BOLD.leading, party.address, f"{role}.address")
        label = "VAT ID: " if english else "USt-ID: "
        sheet.runs(x, y, (label, None), (party.vat_id, f"{role}.vat_id"))
    labels = (
        ["Invoice No", "Date", "Payment due", "Amount due"]
        if english
        else ["Rechnung Nr.", "Datum", "Zahlbar bis", "Betrag"]
    )
    date = short_date(invoice.language)
    values = [
        (invoice.number, "invoice_number"),
        (date(invoice.day), "invoice_date"),
        (date(invoice.due), "due_date"),
        (invoice.money(invoice.total), "total"),
    ]
    sheet.fill(16, 78, 194, 94, FAINT)
    for k, (value, path) in enumerate(values):
        sheet.text(20 + 46 * k, 84, labels[k], font=SMALL)
        sheet.text(20 + 46 * k, 90, value, path, BOLD)
    headings = (
        ["Item", "Qty", "Price", "Total"] if english else ["Artikel", "Anzahl", "Preis", "Summe"]
    )
    for k in range(0, len(invoice.items), 2):
        sheet.fill(16, 111 + 8.5 * k, 194, 119.5 + 8.5 * k, FAINT)
    y = items(
        sheet,
        invoice,
        [
            Column(headings[0], "description", 20),
            Column(headings[1], "quantity", 122, 1),
            Column(headings[2], "unit_price", 155, 1),
            Column(headings[3], "amount", 190, 1),
        ],
        108,
        8.5,
    )
    sheet.rule(16, y - 3, 194, y - 3, 0.8)
    names = (
        ["Net amount", "VAT at", "Grand total"]
        if english
        else ["Nettobetrag", "zzgl. MwSt.", "Rechnungsbetrag"]
    )
    rate = f"{invoice.vat_rate}%" if english else f"{invoice.vat_rate} %"
    sheet.text(125, y + 6, names[0])
    sheet.text(190, y + 6, invoice.money(invoice.subtotal), "subtotal", align=1)
    sheet.runs(125, y + 13, (f"{names[1]} ", None), (rate, "vat_rate"))
    sheet.text(190, y + 13, invoice.money(invoice.vat), "vat", align=1)
    sheet.text(125, y + 21, names[2], font=BOLD)
    sheet.text(190, y + 21, invoice.money(invoice.total), "total", BOLD, align=1)
