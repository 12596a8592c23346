"""Four ways to set an invoice. `letter` and `columns` are held out: nothing is tuned on them."""

from collections.abc import Callable, Sequence
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


def draw(invoice: Invoice) -> Sheet:
    """The invoice on a page."""
    sheet = Sheet()
    LAYOUTS[invoice.layout](sheet, invoice)
    return sheet


def _cell(invoice: Invoice, item: Item, row: int, field: str) -> str:
    return {
        "position": str(row + 1),
        "description": item.description,
        "quantity": invoice.count(item.quantity),
        "unit_price": invoice.number_of(item.unit_price),
        "amount": invoice.number_of(item.amount),
    }[field]


def _items(
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


def _classic(sheet: Sheet, invoice: Invoice) -> None:
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
    _items(sheet, invoice, columns, 105.3, 8)
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
    _thanks(sheet, invoice, y + 34)


def _thanks(sheet: Sheet, invoice: Invoice, y: float) -> None:
    texts = {
        "en": "Please quote the invoice number with your payment. Thank you for your order.",
        "de": "Bitte geben Sie bei der Zahlung die Rechnungsnummer an. Vielen Dank.",
    }
    sheet.text(22, y, texts[invoice.language], font=SMALL)


def _band(sheet: Sheet, invoice: Invoice) -> None:
    """A coloured band, both parties side by side, labels above their values, a shaded table."""
    english = invoice.language == "en"
    sheet.fill(0, 0, 210, 30, BAND)
    sheet.text(20, 19, "INVOICE" if english else "RECHNUNG", font=HUGE, colour=white)
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
    y = _items(
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


def _letter(sheet: Sheet, invoice: Invoice) -> None:
    """A business letter: window address, a block of facts, the sums as rows of the table."""
    english, seller, buyer = invoice.language == "en", invoice.seller, invoice.buyer
    sheet.text(105, 22, seller.name, "seller.name", HEAD, align=0.5)
    tiny = Font(size=6.5)
    place = " · ".join(seller.address)
    x = 25 + tiny.width(f"{seller.name} · ")
    sheet.text(25, 45, f"{seller.name} · ", font=tiny)
    sheet.text(x, 45, place, "seller.address", tiny)
    sheet.text(25, 53, buyer.name, "buyer.name")
    sheet.lines(25, 53 + PLAIN.leading, buyer.address, "buyer.address")
    labels = (
        ["Invoice ref.", "Invoice date", "Pay by"]
        if english
        else ["Rechnungs-Nr.", "Datum", "Fälligkeit"]
    )
    date = short_date("de") if not english else long_date("en")
    pairs = [
        (invoice.number, "invoice_number"),
        (date(invoice.day), "invoice_date"),
        (date(invoice.due), "due_date"),
    ]
    for k, (value, path) in enumerate(pairs):
        sheet.text(130, 50 + 5.5 * k, f"{labels[k]}:", font=SMALL)
        sheet.text(160, 50 + 5.5 * k, value, path, SMALL)
    title = "Invoice " if english else "Rechnung "
    sheet.runs(25, 95, (title, None), (invoice.number, "invoice_number"), font=HEAD)
    greeting = (
        ["Dear Sir or Madam,", "we charge for our services and deliveries as follows:"]
        if english
        else ["Sehr geehrte Damen und Herren,", "für unsere Leistungen berechnen wir Ihnen:"]
    )
    sheet.lines(25, 105, greeting)
    headings = (
        ["Qty.", "Details", "Rate", "Amount"]
        if english
        else ["Menge", "Bezeichnung", "E-Preis", "G-Preis"]
    )
    sheet.rule(25, 120, 188, 120)
    y = _items(
        sheet,
        invoice,
        [
            Column(headings[0], "quantity", 36, 1),
            Column(headings[1], "description", 44),
            Column(headings[2], "unit_price", 155, 1),
            Column(headings[3], "amount", 186, 1),
        ],
        125,
        7,
    )
    sheet.rule(25, 127, 188, 127)
    sheet.rule(25, y - 4.6, 188, y - 4.6)
    names = (
        ["Total excl. VAT", "VAT", "Total incl. VAT"]
        if english
        else ["Summe netto", "Umsatzsteuer", "Summe brutto"]
    )
    sheet.text(44, y, names[0])
    sheet.text(186, y, invoice.money(invoice.subtotal), "subtotal", align=1)
    percent = "%" if english else " %"
    sheet.runs(44, y + 7, (f"{names[1]} ", None), (f"{invoice.vat_rate}{percent}", "vat_rate"))
    sheet.text(186, y + 7, invoice.money(invoice.vat), "vat", align=1)
    sheet.text(44, y + 14, names[2], font=BOLD)
    sheet.text(186, y + 14, invoice.money(invoice.total), "total", BOLD, align=1)
    sheet.rule(25, y + 16, 188, y + 16, 1)
    label = "VAT registration no. " if english else "USt-IdNr. "
    sheet.rule(25, 272, 188, 272)
    sheet.runs(25, 277, (label, None), (seller.vat_id, "seller.vat_id"), font=SMALL)
    bank = "Bank: Vale Savings Bank" if english else "Bank: Sparkasse Musterland"
    sheet.text(188, 277, bank, font=SMALL, align=1)


def _columns(sheet: Sheet, invoice: Invoice) -> None:
    """Everything in two columns of `Label: value`, a narrow table with a grid, the sum in a box."""
    english, seller, buyer = invoice.language == "en", invoice.seller, invoice.buyer
    serif, strong = Font("Times-Roman", 10.5), Font("Times-Bold", 10.5)
    sheet.text(105, 24, "Sales Invoice" if english else "Rechnung", None, HUGE, align=0.5)
    heads = (
        ["Supplier", "Customer", "VAT number"]
        if english
        else ["Lieferant", "Kunde", "USt-Identnummer"]
    )
    for role, x, party, head in (
        ("seller", 20.0, seller, heads[0]),
        ("buyer", 110.0, buyer, heads[1]),
    ):
        sheet.text(x, 38, f"{head}:", font=strong)
        sheet.text(x, 44, party.name, f"{role}.name", serif)
        y = sheet.lines(x, 44 + serif.leading, party.address, f"{role}.address", serif)
        sheet.runs(x, y, (f"{heads[2]}: ", None), (party.vat_id, f"{role}.vat_id"), font=serif)
    date = long_date(invoice.language)
    labels = (
        ["Invoice no.", "Date of issue", "Due by", "Currency"]
        if english
        else ["Rechnungsnr.", "Ausstellungsdatum", "Zahlungsziel", "Währung"]
    )
    facts = [
        (20, 76, labels[0], invoice.number, "invoice_number"),
        (110, 76, labels[1], date(invoice.day), "invoice_date"),
        (20, 83, labels[3], invoice.currency, "currency"),
        (110, 83, labels[2], date(invoice.due), "due_date"),
    ]
    for left, y, label, value, path in facts:
        sheet.runs(left, y, (f"{label}: ", None), (value, path), font=serif)
    headings = (
        ["#", "Product", "Units", "Price each", "Line total"]
        if english
        else ["#", "Leistung", "Stück", "Preis/Stück", "Gesamt"]
    )
    bottom = 95 + 7.5 * (len(invoice.items) + 1)
    for k in range(len(invoice.items) + 2):
        sheet.rule(20, 95 + 7.5 * k, 180, 95 + 7.5 * k, 0.4)
    for left in (20, 30, 100, 120, 150, 180):
        sheet.rule(left, 95, left, bottom, 0.4)
    columns = [
        Column(headings[0], "position", 25, 0.5),
        Column(headings[1], "description", 33),
        Column(headings[2], "quantity", 117, 1),
        Column(headings[3], "unit_price", 147, 1),
        Column(headings[4], "amount", 177, 1),
    ]
    _items(sheet, invoice, columns, 100, 7.5)
    names = (
        ["Net total", "VAT", "Total payable"]
        if english
        else ["Netto", "Mehrwertsteuer", "Zu zahlen"]
    )
    rate = f"{invoice.vat_rate}%" if english else f"{invoice.vat_rate} %"
    y = bottom + 10
    sheet.runs(
        20, y, (f"{names[0]}: ", None), (invoice.money(invoice.subtotal), "subtotal"), font=serif
    )
    sheet.runs(
        *(20, y + 6),
        (f"{names[1]} (", None),
        (rate, "vat_rate"),
        ("): ", None),
        (invoice.money(invoice.vat), "vat"),
        font=serif,
    )
    sheet.runs(
        20, y + 14, (f"{names[2]}: ", None), (invoice.money(invoice.total), "total"), font=HEAD
    )
    _thanks(sheet, invoice, 270)


LAYOUTS: dict[str, Callable[[Sheet, Invoice], None]] = {
    "classic": _classic,
    "band": _band,
    "letter": _letter,
    "columns": _columns,
}
