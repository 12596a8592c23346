"""The twelve invoices of `invoices/`: who bills whom for what. All of it is invented."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
}
SIGNS = {"EUR": "€", "GBP": "£", "USD": "$", "CHF": "CHF"}


@dataclass(frozen=True)
class Party:
    name: str
    address: tuple[str, ...]
    vat_id: str


@dataclass(frozen=True)
class Item:
    description: str
    quantity: Decimal
    unit_price: Decimal

    @property
    def amount(self) -> Decimal:
        return (self.quantity * self.unit_price).quantize(Decimal("0.01"))


@dataclass(frozen=True)
class Invoice:
    """`look` is pdf, scan or photo; `layout` is one of `make_invoices.py`."""

    layout: str
    look: str
    language: str
    number: str
    day: date
    due: date
    seller: Party
    buyer: Party
    currency: str
    items: tuple[Item, ...]
    vat_rate: int

    @property
    def name(self) -> str:
        return f"{self.layout}-{self.language}-{self.look}"

    @property
    def subtotal(self) -> Decimal:
        return sum((item.amount for item in self.items), Decimal(0))

    @property
    def vat(self) -> Decimal:
        return (self.subtotal * self.vat_rate / 100).quantize(Decimal("0.01"))

    @property
    def total(self) -> Decimal:
        return self.subtotal + self.vat

    def number_of(self, value: Decimal) -> str:
        """With two decimals, as the invoice's language writes it."""
        text = f"{value:,.2f}"
        return text if self.language == "en" else text.translate(str.maketrans(",.", ".,"))

    def count(self, value: Decimal) -> str:
        text = f"{value.normalize():f}"
        return text if self.language == "en" else text.replace(".", ",")

    def money(self, value: Decimal) -> str:
        """With the currency's sign, where the language puts it."""
        sign, number = SIGNS[self.currency], self.number_of(value)
        if self.language == "de":
            return f"{number} {sign}"
        return f"{sign} {number}" if len(sign) > 1 else f"{sign}{number}"

    def fields(self, shows: frozenset[str]) -> dict[str, object]:
        """The truth: what a reader of the page finds, by the fields of the schema `invoice`.

        `shows` has the paths that the layout prints; others are None.
        """
        parties = {"seller": self.seller, "buyer": self.buyer}
        found: dict[str, object] = {
            "invoice_number": self.number,
            "invoice_date": self.day.isoformat(),
            "due_date": self.due.isoformat(),
            **{
                role: {
                    "name": party.name,
                    "address": ", ".join(party.address),
                    "vat_id": party.vat_id if f"{role}.vat_id" in shows else None,
                }
                for role, party in parties.items()
            },
            "currency": self.currency,
            "lines": [
                {
                    "description": item.description,
                    "quantity": float(item.quantity),
                    "unit_price": float(item.unit_price),
                    "amount": float(item.amount),
                }
                for item in self.items
            ],
            "subtotal": float(self.subtotal),
            "vat_rate": float(self.vat_rate),
            "vat": float(self.vat),
            "total": float(self.total),
        }
        return found


def long_date(language: str) -> Callable[[date], str]:
    """12 March 2024, 12. März 2024."""
    months = MONTHS[language].split()
    dot = "." if language == "de" else ""
    return lambda day: f"{day.day}{dot} {months[day.month - 1]} {day.year}"


def short_date(language: str) -> Callable[[date], str]:
    """2024-03-12, 12.03.2024."""
    form = "%Y-%m-%d" if language == "en" else "%d.%m.%Y"
    return lambda day: day.strftime(form)


def _items(text: str) -> tuple[Item, ...]:
    rows = (line.rsplit("|", 2) for line in text.strip().splitlines())
    return tuple(
        Item(words.strip(), Decimal(n.strip()), Decimal(p.strip())) for words, n, p in rows
    )


ORRIN = Party(
    "Orrin & Daughters Ltd", ("14 Tannery Lane", "Marlow Green MG4 2QT"), "GB 312 4567 08"
)
TRUST = Party("Arle Rivers Trust", ("The Old Mill", "Fenwick FK1 7AB"), "GB 118 2093 51")
HARROW = Party("Harrow Print Works", ("3 Dock Street", "Tidewell TW2 9LN"), "GB 774 0912 36")
CASPAR = Party("Caspar Tool Hire", ("88 Foundry Road", "Stonebeck SB7 4EE"), "GB 405 6621 97")
PINE = Party("Pinecrest Orchards", ("Low Farm", "Applewick AW3 5JD"), "GB 660 1742 28")
BRANDT = Party("Brandt Messtechnik GmbH", ("Am Alten Hafen 7", "20457 Hamburg"), "DE 218 456 093")
SEEBACH = Party("Gemeinde Seebach", ("Rathausplatz 2", "87654 Seebach"), "DE 301 772 645")
LINDNER = Party("Lindner Bürobedarf KG", ("Gerberstraße 19", "04105 Leipzig"), "DE 155 907 318")
MUEHLE = Party("Hofladen Alte Mühle", ("Mühlweg 4", "35285 Gemünden"), "DE 266 083 541")
KELLER = Party(
    "Keller & Söhne Elektro", ("Industriestraße 51", "70565 Stuttgart"), "DE 190 344 872"
)
VOSS = Party("Praxis Dr. Voss", ("Lange Gasse 11", "90403 Nürnberg"), "DE 247 615 309")

INVOICES = (
    Invoice(
        *("classic", "pdf", "en", "2024-0381", date(2024, 3, 12), date(2024, 4, 11)),
        *(ORRIN, TRUST, "GBP"),
        _items(
            """Radar level sensor RL-80 with bracket | 1 | 1284.00
            Steel arm, galvanised, 1.8 m | 2 | 146.50
            Staff gauge plate E-type | 4 | 38.75
            Sealed battery 12 V 45 Ah | 3 | 92.20
            Installation, two engineers | 11 | 58.00"""
        ),
        20,
    ),
    Invoice(
        *("classic", "scan", "de", "R-24/1107", date(2024, 5, 27), date(2024, 6, 26)),
        *(BRANDT, SEEBACH, "EUR"),
        _items(
            """Pegelsonde mit Kabel 25 m | 2 | 1149.00
            Schaltschrank, verzinkt | 1 | 1862.40
            Montage vor Ort | 6.5 | 84.00"""
        ),
        19,
    ),
    Invoice(
        *("classic", "photo", "en", "OD-5521", date(2024, 9, 3), date(2024, 10, 3)),
        *(ORRIN, PINE, "GBP"),
        _items(
            """Rain gauge with data logger | 2 | 418.00
            Replacement funnel | 2 | 36.40
            Calibration on site | 1 | 165.00
            Travel, flat rate | 1 | 75.00"""
        ),
        20,
    ),
    Invoice(
        *("band", "pdf", "de", "2024-2093", date(2024, 2, 8), date(2024, 2, 22)),
        *(LINDNER, VOSS, "EUR"),
        _items(
            """Kopierpapier A4, 80 g, 500 Blatt | 40 | 4.95
            Tonerkartusche schwarz | 3 | 78.50
            Ordner breit, sortiert | 24 | 2.85
            Schreibtischlampe LED | 2 | 64.90"""
        ),
        19,
    ),
    Invoice(
        *("band", "scan", "en", "INV-20418", date(2024, 7, 19), date(2024, 8, 18)),
        *(HARROW, TRUST, "GBP"),
        _items(
            """Annual report, 48 pages, stapled | 600 | 2.35
            Poster A2, coated paper | 150 | 1.80
            Design and layout | 9.5 | 62.00"""
        ),
        20,
    ),
    Invoice(
        *("band", "photo", "de", "2024-2188", date(2024, 11, 4), date(2024, 11, 18)),
        *(LINDNER, MUEHLE, "EUR"),
        _items(
            """Kassenrollen, 50 Stück | 6 | 24.30
            Etiketten weiß, 5000 Stück | 2 | 41.75
            Quittungsblock A6 | 12 | 3.15"""
        ),
        19,
    ),
    Invoice(
        *("letter", "pdf", "de", "4711-24", date(2024, 4, 15), date(2024, 5, 15)),
        *(KELLER, VOSS, "EUR"),
        _items(
            """Deckenleuchte LED 40 W | 8 | 119.00
            Installationsmaterial | 1 | 263.80
            Elektriker, Arbeitszeit | 14.5 | 68.00
            Anfahrt | 2 | 35.00"""
        ),
        19,
    ),
    Invoice(
        *("letter", "scan", "en", "CT/8830", date(2024, 6, 10), date(2024, 6, 24)),
        *(CASPAR, PINE, "GBP"),
        _items(
            """Mini excavator 1.7 t, per day | 3 | 145.00
            Trench rammer, per day | 3 | 48.50
            Delivery and collection | 1 | 90.00"""
        ),
        20,
    ),
    Invoice(
        *("letter", "photo", "de", "4790-24", date(2024, 8, 29), date(2024, 9, 28)),
        *(KELLER, SEEBACH, "EUR"),
        _items(
            """Wallbox 11 kW mit Ladekabel | 2 | 689.00
            Zuleitung NYM 5 x 6 | 35 | 7.90
            Inbetriebnahme und Prüfung | 1 | 240.00"""
        ),
        19,
    ),
    Invoice(
        *("columns", "pdf", "en", "70145", date(2024, 1, 23), date(2024, 2, 22)),
        *(PINE, HARROW, "GBP"),
        _items(
            """Apple juice, cloudy, 1 litre | 48 | 2.40
            Cider vinegar, 500 ml | 24 | 3.15
            Gift box, six bottles | 10 | 18.90
            Pallet deposit | 1 | 15.00"""
        ),
        20,
    ),
    Invoice(
        *("columns", "scan", "de", "HM-2024-067", date(2024, 10, 14), date(2024, 10, 28)),
        *(MUEHLE, BRANDT, "EUR"),
        _items(
            """Präsentkorb Herbst | 15 | 42.50
            Apfelmost naturtrüb, 1 Liter | 60 | 2.95
            Lieferung nach Hamburg | 1 | 89.00"""
        ),
        7,
    ),
    Invoice(
        *("columns", "photo", "en", "70312", date(2024, 12, 2), date(2025, 1, 1)),
        *(PINE, ORRIN, "GBP"),
        _items(
            """Mulled apple juice, 5 litres | 12 | 11.80
            Christmas hamper, large | 9 | 54.00
            Delivery | 1 | 22.50"""
        ),
        20,
    ),
)
HELD_OUT = frozenset({"letter", "columns"})
