"""What generated receipts and invoices say, by country and language: names, addresses, labels."""

from dataclasses import dataclass

from llm_ocr.text.normalize import normalized_words

# Characters that recognizers take for one another in a bad print.
CONFUSED = ("5S", "0OD", "1Il", "8B", "MHN", "TJ", "UV", "CG", "EF", "a8", "ec", "rn", "6G", "27Z")


@dataclass(frozen=True)
class Country:
    """How a country writes addresses, companies, dates and amounts.

    In patterns `#` is a digit, `S` a surname, `W` a word, `C` a city, `A` a capital; `|` separates
    the lines of an address.
    """

    addresses: tuple[str, ...]
    cities: tuple[str, ...]
    forms: tuple[str, ...]
    currency: str
    tax: tuple[str, ...]
    comma: bool = False
    month_first: bool = False
    language: str = "en"


_MY = (
    "NO. ##, JALAN W #/#,|TAMAN W,|##### C, W.",
    "LOT #-#, W PLAZA,|JALAN W ##,|##### C",
    "##-G, JALAN W #/##|BANDAR W ##### C",
    "##, LORONG W,|KAWASAN PERINDUSTRIAN W|##### C,|W",
    "LEVEL #, W MALL|NO # LEBUH W|##### C, W",
    "## JALAN W # TAMAN W ##### C",
    "##, JLN W,|C",
)
COUNTRIES = (
    Country(
        _MY,
        ("KUALA LUMPUR", "PETALING JAYA", "IPOH", "MELAKA", "KUCHING", "SEREMBAN", "KLANG"),
        ("SDN BHD", "SDN. BHD.", "S/B", "(M) SDN BHD", "ENTERPRISE", "BHD", "", "TRADING"),
        "RM",
        ("GST ID", "GST REG NO", "SST NO", "GST NO"),
    ),
    Country(
        (
            "### S Street|C, ST #####",
            "#### N W Ave, Suite ###|C, ST #####-####",
            "## S Rd|C ST #####",
            "#### S Blvd.|C, ST",
        ),
        ("Dayton", "Boise", "Fresno", "Tulsa", "Omaha", "Santa Rosa", "Fort Wayne"),
        ("Inc.", "LLC", "Corp.", "Co.", "", "", "& Sons"),
        "$",
        ("Tax ID", "EIN"),
        month_first=True,
    ),
    Country(
        (
            "## S Road|C|AA# #AA",
            "Unit #, W Park,|S Lane, C|AA## #AA",
            "The Old W, S Street|C AA# #AA",
        ),
        ("Leeds", "Norwich", "Derby", "Exeter", "Perth", "Swansea"),
        ("Ltd", "Limited", "PLC", "LLP", "", "& Co"),
        "£",
        ("VAT No", "VAT Reg No"),
    ),
    Country(
        ("Sstraße ##|##### C", "Am W #, ##### C", "Sweg ##a|D-##### C", "S-Platz #|##### C"),
        ("Kassel", "Bremen", "Jena", "Ulm", "Gera", "Bad Homburg", "Köln"),
        ("GmbH", "AG", "GmbH & Co. KG", "e.K.", "OHG", ""),
        "EUR",
        ("USt-IdNr.", "Steuernummer"),
        comma=True,
        language="de",
    ),
    Country(
        ("## rue de S|##### C", "# place W|##### C Cedex", "###, avenue S,|##### C"),
        ("Lyon", "Rouen", "Nantes", "Dijon", "Pau", "Saint-Malo"),
        ("SARL", "SAS", "SA", "EURL", ""),
        "€",
        ("TVA", "SIRET"),
        comma=True,
        language="fr",
    ),
    Country(
        ("Calle S, ##|##### C", "Avda. de W ##, #º A|##### C (W)", "Plaza W #|##### C"),
        ("Vigo", "Burgos", "Granada", "Toledo", "Cuenca"),
        ("S.L.", "S.A.", "SL", ""),
        "€",
        ("NIF", "CIF"),
        comma=True,
        language="es",
    ),
    Country(
        ("Via S, ##|##### C (AA)", "Corso W ##/A|##### C"),
        ("Parma", "Lecce", "Trento", "Verona", "Lucca"),
        ("S.r.l.", "S.p.A.", "SNC", ""),
        "€",
        ("P.IVA", "C.F."),
        comma=True,
        language="it",
    ),
    Country(
        ("Slaan ##|#### AA C", "Sstraat ##-#|#### AA C"),
        ("Breda", "Zwolle", "Delft", "Assen"),
        ("B.V.", "BV", "N.V.", "VOF", ""),
        "€",
        ("BTW nr", "KvK"),
        comma=True,
        language="nl",
    ),
    Country(
        ("No. ##, # Cross, W Nagar|C - ######", "Shop ##, S Marg,|Near W Park,|C ######"),
        ("Pune", "Mysuru", "Surat", "Kochi"),
        ("Pvt. Ltd.", "Private Limited", "& Sons", ""),
        "Rs.",
        ("GSTIN", "GST No"),
    ),
    Country(
        ("## W Street|#0#-## W Tower|Singapore ######", "# S Road #0#-##|S(######)"),
        ("Singapore",),
        ("Pte Ltd", "PTE. LTD.", "LLP", ""),
        "S$",
        ("GST Reg No", "UEN"),
    ),
    Country(
        ("##/# Soi W #,|W Road, W District|C #####", "### Moo #, T.W A.W|C #####"),
        ("Bangkok", "Chiang Mai", "Phuket"),
        ("Co., Ltd.", "Co.,Ltd.", ""),
        "THB",
        ("TAX ID",),
    ),
    Country(
        ("Rua S, ### - W|C - AA|#####-###", "Av. W, #### - C/AA"),
        ("Recife", "Curitiba", "Belem"),
        ("LTDA", "S.A.", "EIRELI", "ME"),
        "R$",
        ("CNPJ", "CPF/CNPJ"),
        comma=True,
        language="pt",
    ),
    Country(
        ("ul. S ##|##-### C", "al. W ##/#|##-### C"),
        ("Gdynia", "Lublin", "Opole"),
        ("Sp. z o.o.", "S.A.", ""),
        "PLN",
        ("NIP",),
        comma=True,
        language="pl",
    ),
    Country(
        ("## S St|C ST ####", "Shop #, W Centre|S Rd, C ST ####"),
        ("Hobart", "Cairns", "Perth", "Geelong"),
        ("Pty Ltd", "Pty. Ltd.", ""),
        "A$",
        ("ABN",),
    ),
)
TRADES = (
    "Restaurant", "Cafe", "Bakery", "Hardware", "Trading", "Mart", "Supermarket", "Pharmacy",
    "Stationery", "Books", "Hotel", "Kitchen", "Electronics", "Motors", "Supplies", "Seafood",
    "Fashion", "Market", "Instruments", "Services", "Foods", "Marketing", "Consulting", "Garden",
    "International", "Health and Beauty", "Design", "Tools", "Sports", "Optik", "Farm Shop",
)  # fmt: skip
SYLLABLES = normalized_words(
    "ba be bi bo da de di do fa fo ga go ha he ka ke ko la le li lo ma me mi mo na ne ni no pa "
    "pe ra re ri ro sa se si so ta te ti to va ve vi wa wi ya zo ber den dor fel gar hal lin "
    "mar mon nor ral sen son tan ter val ven wick wood"
)
SLOGANS = (
    "WELCOME TO OUR STORE", "Quality since 1984", "Thank you for visiting", "The family shop",
    "YOUR ORDER NUMBER IS", "Fresh every day", "Open 24 hours", "*** COPY ***", "Have a nice day",
    "Opening hours 9:00 - 21:00", "MON - SUN 10AM TO 10PM", "Customer copy", "Table service",
)  # fmt: skip
OWNERS = ("FKA", "Operated by", "Owned by")
TITLES = {
    "en": ("TAX INVOICE", "RECEIPT", "INVOICE", "SIMPLIFIED TAX INVOICE", "CASH BILL", "Cash Sale"),
    "de": ("Rechnung", "Quittung", "Kassenbon", "RECHNUNG"),
    "fr": ("FACTURE", "Ticket", "Reçu"),
    "es": ("FACTURA", "Recibo", "FACTURA SIMPLIFICADA"),
    "it": ("FATTURA", "Scontrino", "RICEVUTA"),
    "nl": ("Factuur", "Kassabon"),
    "pt": ("FATURA", "Recibo"),
    "pl": ("FAKTURA", "Paragon"),
}
# Language -> labels of the date, of a number, of the subtotal, tax, total, cash and change.
LABELS = {
    "en": (
        ("Date", "DATE", "Invoice date", "Date of issue", "Bill date", "Trans Date", "BIZDATE"),
        ("Invoice no", "Bill No", "Receipt #", "INV NO.", "Doc No", "Slip no."),
        ("Subtotal", "SUB TOTAL", "Total excl. tax", "Net amount", "Total Excluding GST"),
        ("VAT 20%", "TAX", "GST 6%", "Sales tax", "GST", "SST 6%", "Service Tax"),
        ("TOTAL", "Total", "Grand Total", "NETT TOTAL", "Amount due", "TOTAL SALES", "Total Amount",
         "Total Incl. GST", "Balance due", "TOTAL (RM)", "Rounded Total", "Net Total", "TOTAL DUE",
         "Total Sales (Inclusive of GST)", "Total payable", "Amount", "Bill Total"),
        ("CASH", "Cash", "Amount tendered", "PAID", "VISA CARD", "Payment", "Cash received"),
        ("CHANGE", "Change", "Change due", "CHANGE DUE"),
    ),
    "de": (
        ("Datum", "Rechnungsdatum", "Belegdatum"),
        ("Rechnungsnummer", "Beleg-Nr.", "Rechnung Nr."),
        ("Zwischensumme", "Nettobetrag", "Netto"),
        ("MwSt. 19%", "USt 19 %", "zzgl. 19 % MwSt."),
        ("Summe", "Gesamtbetrag", "Rechnungsbetrag", "SUMME EUR", "Gesamt", "Zu zahlen"),
        ("Bar", "Gegeben", "EC-Karte"),
        ("Rückgeld", "Zurück"),
    ),
    "fr": (
        ("Date", "Date de facture", "Le"), ("Facture n°", "Ticket"), ("Total HT", "Sous-total"),
        ("TVA 20%", "TVA"), ("Total TTC", "Net à payer", "TOTAL", "Montant dû"), ("Espèces", "CB"),
        ("Rendu", "Monnaie"),
    ),
    "es": (
        ("Fecha", "FECHA"), ("Factura nº", "Ticket"), ("Base imponible", "Subtotal"),
        ("IVA 21%", "IVA"), ("TOTAL", "Total a pagar", "Importe total"), ("Efectivo", "Tarjeta"),
        ("Cambio",),
    ),
    "it": (
        ("Data", "Data documento"), ("Fattura n.", "Documento n."), ("Imponibile", "Subtotale"),
        ("IVA 22%", "di cui IVA"), ("TOTALE", "Totale complessivo", "Totale da pagare"),
        ("Contanti", "Pagamento"), ("Resto",),
    ),
    "nl": (
        ("Datum", "Factuurdatum"), ("Factuurnummer", "Bonnr"), ("Subtotaal", "Excl. BTW"),
        ("BTW 21%", "BTW"), ("Totaal", "TOTAAL", "Te betalen"), ("Contant", "PIN"), ("Wisselgeld",),
    ),
    "pt": (
        ("Data", "Data de emissão"), ("Fatura nº", "Nota"), ("Subtotal",), ("IVA", "Impostos"),
        ("TOTAL", "Valor total", "Total a pagar"), ("Dinheiro", "Cartão"), ("Troco",),
    ),
    "pl": (
        ("Data", "Data wystawienia"), ("Faktura nr", "Paragon nr"), ("Wartość netto", "Netto"),
        ("VAT 23%", "PTU"), ("SUMA PLN", "Razem", "Do zapłaty"), ("Gotówka",), ("Reszta",),
    ),
}  # fmt: skip
# Language -> headings of descriptions, quantities, prices and amounts.
COLUMNS = {
    "en": (
        ("Description", "Item", "Product", "Particulars"), ("Quantity", "Qty", "Units", "Hours"),
        ("Unit price", "Price", "Rate", "Unit cost"), ("Amount", "Line total", "Total price"),
    ),
    "de": (
        ("Beschreibung", "Artikel", "Leistung", "Bezeichnung"), ("Menge", "Anzahl", "Stück"),
        ("Einzelpreis", "Preis", "Stückpreis"), ("Betrag", "Gesamtpreis", "Gesamt"),
    ),
}  # fmt: skip
# Where columns of numbers end, as shares of the page's width.
COLUMN_ENDS = ((0.6, 0.8, 1.0), (0.5, 0.7, 0.95), (0.45, 0.75, 1.0))
# Currencies whose smallest coin is 0.05, and what the difference is called.
COINS = ("RM", "A$", "S$")
ROUNDING = ("Rounding", "ROUNDING ADJ", "Rounding Adjustment", "Rounding Adj:", "RND")
OTHER_DATES = ("Due date", "Delivery date", "Valid until", "Expiry", "Order date", "Printed on")
