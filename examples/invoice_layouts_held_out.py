"""Two more ways to set an invoice, which are held out: nothing is tuned on them."""

from invoice_contents import Invoice, long_date, short_date
from invoice_layouts import HEAD, HUGE, SMALL, Column, items, thanks
from invoice_sheet import BOLD, PLAIN, Font, Sheet


def letter(sheet: Sheet, invoice: Invoice) -> None:
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
    y = items(
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


def columns(sheet: Sheet, invoice: Invoice) -> None:
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
    table = [
        Column(headings[0], "position", 25, 0.5),
        Column(headings[1], "description", 33),
        Column(headings[2], "quantity", 117, 1),
        Column(headings[3], "unit_price", 147, 1),
        Column(headings[4], "amount", 177, 1),
    ]
    items(sheet, invoice, table, 100, 7.5)
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
    thanks(sheet, invoice, 270)
