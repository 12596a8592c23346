"""Generate the lines of receipts and invoices of many countries, as OCR returns them, with the
values of their fields: `Generator(seed).page()`.

No image is drawn: a line is its text and its box, with the small errors of position that OCR has.
Layouts, wording, notation and what else is in the letterhead change at random.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal

from benchmarks.letterhead_wording import (
    COINS,
    COLUMN_ENDS,
    COLUMNS,
    CONFUSED,
    COUNTRIES,
    LABELS,
    OTHER_DATES,
    OWNERS,
    ROUNDING,
    SLOGANS,
    SYLLABLES,
    TITLES,
    TRADES,
    Country,
)
from llm_ocr.engines.embedded.geometry import OcrLine, Word

Amount = Decimal
CENT, COIN = Decimal("0.01"), Decimal("0.05")
_PLACES = re.compile(r"#|\b[CW]\b|\bS(?=\b|str|weg|laan)|\bST\b|\bAA?\b|\bAA?(?=#)|(?<=#)AA?\b")


@dataclass(frozen=True)
class GeneratedPage:
    """Lines of a page; `fields` maps a path (`company`, `total` ...) to the value printed."""

    kind: str
    lines: tuple[OcrLine, ...]
    fields: dict[str, str]


@dataclass
class _Sheet:
    """Lines placed so far, with boxes in pixels."""

    chance: random.Random
    width: float
    size: float
    y: float = 20.0
    lines: list[OcrLine] = field(default_factory=list)

    def put(self, text: str, x: float, size: float | None = None, align: str = "left") -> None:
        """A text at the current height; words with their own boxes."""
        height = size or self.size
        advance = 0.52 * height
        length = advance * len(text)
        start = x - (length if align == "right" else length / 2 if align == "center" else 0)
        words, at = [], start
        for word in text.split(" "):
            end = at + advance * len(word)
            if word:
                noise = [self.chance.gauss(0, 0.03 * height) for _ in range(4)]
                rect = (
                    at + noise[0],
                    self.y + noise[1],
                    end + noise[2],
                    self.y + height + noise[3],
                )
                words.append(Word(rect, word))
            at = end + advance
        self.lines.append(OcrLine(text, tuple(words), 1.0))

    def feed(self, lines: float = 1.0) -> None:
        self.y += self.size * 1.3 * lines


class Generator:
    """Generates pages; the same seed gives the same pages."""

    def __init__(self, seed: int, bad_prints: float = 0.0) -> None:
        """`bad_prints`: the share of pages that OCR reads with errors."""
        self.chance = random.Random(f"letterheads/{seed}")
        self._bad_prints = bad_prints
        # Details that a receipt has at its end.
        self._late: list[tuple[str, str]] = []

    def invoice(self) -> GeneratedPage:
        """An invoice in one of the languages of the engine's labels, with a table of items."""
        countries = [one for one in COUNTRIES if one.language in COLUMNS]
        return self._invoice(self.chance.choice(countries), has_table=True)

    def page(self) -> GeneratedPage:
        is_receipt = self._maybe(0.6)
        page = self._receipt() if is_receipt else self._invoice(self.chance.choice(COUNTRIES))
        if not self._maybe(self._bad_prints):
            return page
        share = self.chance.uniform(0.0, 0.03)
        return replace(page, lines=tuple(self._misread(line, share) for line in page.lines))

    def _misread(self, line: OcrLine, share: float) -> OcrLine:
        """A line as OCR reads a bad print: some characters are others, some words are joined."""
        words: list[Word] = []
        for word in line.words:
            text = "".join(map(self._confused, word.text)) if self._maybe(8 * share) else word.text
            if words and self._maybe(share):
                first = words.pop()
                x1, y1, _, _ = first.rect
                words.append(Word((x1, y1, *word.rect[2:]), first.text + text))
            else:
                words.append(Word(word.rect, text))
        return replace(line, text=" ".join(word.text for word in words), words=tuple(words))

    def _confused(self, char: str) -> str:
        group = next((some for some in CONFUSED if char in some), char)
        return self._pick(group) if self._maybe(0.3) else char

    def _pick(self, some: Sequence[str]) -> str:
        return self.chance.choice(some)

    def _maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def _word(self) -> str:
        count = self.chance.choice((2, 2, 2, 3, 3, 4))
        return "".join(self._pick(SYLLABLES) for _ in range(count)).capitalize()

    def _filled(self, pattern: str, city: str) -> str:
        """A pattern with its places filled in."""

        def filled(match: re.Match[str]) -> str:
            part = match.group()
            if part == "#":
                return str(self.chance.randint(1, 9))
            if part == "C":
                return city
            if part in ("A", "AA", "ST"):
                return "".join(self.chance.choice("ABCDEGHKLMNPRTW") for _ in part)
            return self._word()

        return _PLACES.sub(filled, pattern)

    def _name(self, country: Country) -> str:
        words = [self._word() for _ in range(self.chance.choice((1, 1, 1, 2, 2, 3)))]
        if self._maybe(0.1):
            words = [".".join(self.chance.choice("ABDGHKMRST") for _ in range(3)) + "."]
        if self._maybe(0.12):
            words.insert(0, str(self.chance.randint(2, 199)))
        if self._maybe(0.15):
            words.insert(1, "&")
            words.insert(2, self._word())
        words += [self._pick(TRADES)] if self._maybe(0.65) else []
        words += [self._pick(country.forms)]
        return " ".join(filter(None, words))

    def _address(self, country: Country) -> list[str]:
        city = self._pick(country.cities)
        lines = self._filled(self._pick(country.addresses), city).split("|")
        if self._maybe(0.15) and len(lines) > 1:
            lines[:2] = [f"{lines[0].rstrip(',')}, {lines[1]}"]
        if self._maybe(0.1):
            lines.append(self._word())
        return lines

    def _date(self, day: date, country: Country) -> str:
        forms: list[str] = ["%d/%m/%Y", "%d/%m/%y", "%d-%m-%Y", "%d-%m-%y", "%d %b %Y", "%Y-%m-%d"]
        forms += ["%d-%b-%y", "%d-%b-%Y", "%Y/%m/%d", "%Y%m%d", "%d %B %Y", "%d.%m.%Y"]
        if country.comma:
            forms = ["%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%Y-%m-%d", "%d-%m-%Y", "%d.%m.%Y"]
        if country.month_first:
            forms = ["%m/%d/%Y", "%m/%d/%y", "%b %d, %Y", "%B %d, %Y", "%Y-%m-%d", "%m-%d-%Y"]
        text = day.strftime(self._pick(forms))
        return text.upper() if self._maybe(0.5) else text

    def _money(self, amount: Amount, country: Country) -> str:
        text = f"{amount:,.2f}"
        return text.translate(str.maketrans(",.", ".,")) if country.comma else text

    def _reference(self) -> str:
        letters = "".join(
            self.chance.choice("ABCDEFGHKLMNPRSTVW") for _ in range(self.chance.randint(0, 3))
        )
        dash = self._pick(("", "-", "")) if letters else ""
        return f"{letters}{dash}{self.chance.randint(1000, 99999999)}"

    def _extra(self, country: Country) -> str:
        number = "".join(str(self.chance.randint(0, 9)) for _ in range(self.chance.randint(8, 12)))
        phone = f"{number[:2]}-{number[2:6]} {number[6:10]}"
        word = self._word().lower()
        return self.chance.choice((
            f"TEL : {phone}", f"Tel: {phone}  Fax: {phone[::-1]}", f"Phone {phone}", phone,
            f"{self._pick(country.tax)} : {number}", f"({self._pick(country.tax)}: {number})",
            f"{self._pick(country.tax)} {number}", f"www.{word}.com", f"E-mail: info@{word}.com",
            f"FAX: {phone}", f"({self._reference()})",
        ))  # fmt: skip

    def _letterhead(self, country: Country) -> tuple[list[tuple[str, str]], str, str]:
        """Lines as `(tag, text)`, the name and the address."""
        name, address = self._name(country), self._address(country)
        upper: Callable[[str], str] = str.upper if self._maybe(0.6) else str
        name, address = upper(name), [upper(line) for line in address]
        printed = [name]
        words = name.split()
        if len(words) > 3 and self._maybe(0.15):
            cut = self.chance.randint(2, len(words) - 1)
            printed = [" ".join(words[:cut]), " ".join(words[cut:])]
        if self._maybe(0.25):
            number = f"{self.chance.randint(10000, 1999999)}-{self.chance.choice('ABDHKMPTUVWX')}"
            behind = self._pick((f" ({number})", f" {number}", f" (CO. REG. NO. {number})"))
            printed[-1] += behind
        head: list[tuple[str, str]] = []
        while self._maybe(0.22):
            brand = f"{self._word()} {self._pick(TRADES)}"
            above = (self._pick(SLOGANS), self._word().upper(), self._reference(), self._word())
            head.append(("", self._pick((*above, brand, upper(brand)))))
        if self._maybe(0.1):
            head.append(("title", self._pick(TITLES[country.language])))
        head += [("name", line) for line in printed]
        while self._maybe(0.28):
            head.append(("", self._pick((
                self._extra(country), f"({self._reference()})", self._reference(),
                self._pick(SLOGANS), f"{self._pick(OWNERS)} {self._name(country)}",
                upper(f"{self._word()} {self._pick(TRADES)}"),
            ))))  # fmt: skip
        if self._maybe(0.06):
            address = []
        lines = list(address)
        if lines and self._maybe(0.05):
            lines[-1] += f"  {self._pick(('TEL: ', 'Tel ', 'GST ID: '))}0{self._reference()}"
        head += [("address", line) for line in lines]
        count = self.chance.randint(0, 4)
        head += [("", self._extra(country)) for _ in range(count)]
        if self._maybe(0.25):
            head.append(
                (
                    "",
                    upper(f"{name.split()[0]} {self._word()} {self._pick(('', 'Branch', 'Mall'))}"),
                )
            )
        if self._maybe(0.7):
            head.append(("title", self._pick(TITLES[country.language])))
        return head, name, " ".join(address)

    def _receipt(self) -> GeneratedPage:
        country, chance = self.chance.choice(COUNTRIES), self.chance
        sheet = _Sheet(chance, chance.uniform(380, 800), chance.uniform(15, 28))
        head, name, address = self._letterhead(country)
        centered, spaced = self._maybe(0.7), chance.uniform(0.85, 1.5)
        scale = chance.choice((1.0, 1.0, 1.0, 1.2, 1.5, 1.9))
        middle = sheet.width / 2 if centered else 0
        for tag, text in head:
            size = sheet.size * (scale if tag == "name" else 1.0)
            size = min(size, sheet.width / (0.52 * max(1, len(text))))
            sheet.put(text, middle, size, "center" if centered else "left")
            sheet.feed(spaced * max(1.0, size / sheet.size) + (0.7 if self._maybe(0.08) else 0.0))
        sheet.feed(chance.uniform(0.0, 1.5))
        fields = {"company": name, **({"address": address} if address else {})}
        labels = LABELS[country.language]
        self._details(sheet, country, labels, fields)
        self._sums(sheet, country, labels, fields)
        return GeneratedPage("receipt", tuple(sheet.lines), fields)

    def _pair(self, sheet: _Sheet, label: str, value: str) -> None:
        """A label and its value, in one of the forms that pages have them."""
        form = self.chance.random()
        if not label:
            sheet.put(value, self.chance.choice((0, 0, sheet.width * 0.6)))
        elif form < 0.45:
            sheet.put(f"{label}{self._pick((': ', ' : ', ' '))}{value}", 0)
        elif form < 0.75:
            sheet.put(label, 0)
            sheet.put(
                f"{self._pick(('', ': '))}{value}", sheet.width * self.chance.uniform(0.35, 0.6)
            )
        else:
            sheet.put(f"{label}:", 0)
            sheet.put(value, sheet.width, align="right")
        sheet.feed()

    def _details(
        self,
        sheet: _Sheet,
        country: Country,
        labels: Sequence[Sequence[str]],
        fields: dict[str, str],
    ) -> None:
        chance = self.chance
        day = date(2014, 1, 1) + timedelta(days=chance.randint(0, 4000))
        fields["date"] = day.isoformat()
        text = self._date(day, country)
        time = f"{chance.randint(7, 22):02}:{chance.randint(0, 59):02}"
        if self._maybe(0.5):
            text += f" {time}{self._pick((':31', '', ' PM'))}"
        pairs = [(self._pick(labels[0]) if self._maybe(0.65) else "", text)]
        if self._maybe(0.8):
            fields["invoice_number"] = self._reference()
            pairs.append((self._pick(labels[1]), fields["invoice_number"]))
        extras = (
            ("Table", "12"),
            ("Cashier", self._word()),
            ("Time", time),
            ("POS", "03"),
            ("Pax", "2"),
        )
        pairs += chance.sample(extras, chance.randint(0, 3))
        if self._maybe(0.15):
            other = day + timedelta(days=chance.randint(1, 60))
            label = self._pick(OTHER_DATES)
            pairs.append((label, self._date(other, country)))
            if label == "Due date":
                fields["due_date"] = other.isoformat()
        chance.shuffle(pairs)
        # Sometimes the date is at the end of a receipt.
        late = [pair for pair in pairs if pair[1] == text and self._maybe(0.15)]
        self._late = late
        now = [pair for pair in pairs if pair not in late]
        if self._maybe(0.2) and all(label for label, _ in now):
            self._strip(sheet, now)
            return
        for label, value in now:
            self._pair(sheet, label, value)

    def _strip(self, sheet: _Sheet, pairs: Sequence[tuple[str, str]]) -> None:
        """Labels in a row above a row of their values."""
        widths = [1.2 * sheet.size * max(4, len(label), len(value)) for label, value in pairs]
        for k in (0, 1):
            for n, pair in enumerate(pairs):
                sheet.put(pair[k], sum(widths[:n]))
            sheet.feed()

    def _sums(
        self,
        sheet: _Sheet,
        country: Country,
        labels: Sequence[Sequence[str]],
        fields: dict[str, str],
        *,
        has_table: bool = False,
    ) -> None:
        chance, money = self.chance, self._money
        prices = [Decimal(chance.randint(50, 9000)) * CENT for _ in range(chance.randint(1, 9))]
        sign = country.currency if self._maybe(0.5) else ""
        gap = self._pick(("", " "))
        if has_table:
            self._items(sheet, country, prices, fields)
        elif self._maybe(0.5):
            sheet.put(self._pick(("Item", "Description", "QTY ITEM")), 0)
            sheet.put(
                self._pick(("Amount", "Price", "TOTAL", f"Amt({country.currency})")),
                sheet.width,
                align="right",
            )
            sheet.feed()
        for k, price in enumerate(() if has_table else prices):
            fields[f"lines.{k}.amount"] = str(price)
            count = chance.choice((1, 1, 1, 2, 3))
            sheet.put(f"{self._word()} {self._word()}", 0)
            if self._maybe(0.3):
                sheet.feed()
                sheet.put(f"{count} x {money((price / count).quantize(CENT), country)}", 20)
            sheet.put(money(price, country), sheet.width, align="right")
            sheet.feed()
        sheet.feed(chance.uniform(0, 1))
        net = sum(prices, Decimal(0))
        rate = chance.choice((0, 6, 10, 20))
        tax = (net * rate / 100).quantize(CENT)
        included = self._maybe(0.4)
        total = net if included else net + tax
        rows: list[tuple[str, Amount]] = []
        if self._maybe(0.2):
            sheet.put(
                f"{self._pick(('Total Qty', 'Items', 'Item count'))} {len(prices)}",
                0,
            )
            sheet.feed()
        if not included or self._maybe(0.3):
            rows.append((self._pick(labels[2]), net - tax if included else net))
            fields["subtotal"] = str(rows[-1][1])
            if rate or self._maybe(0.5):
                rows.append((self._pick(labels[3]), tax))
                fields["vat"] = str(tax)
        if country.currency in COINS and self._maybe(0.6):
            rounded = (total / COIN).to_integral_value() * COIN
            if self._maybe(0.5):
                rows.append((self._pick(labels[4]), total))
            if self._maybe(0.8):
                rows.append((self._pick(ROUNDING), rounded - total))
            total = rounded
        total = total.quantize(CENT)
        rows.append((self._pick(labels[4]), total))
        if self._maybe(0.5):
            paid = total if self._maybe(0.4) else (total // 10 + 1) * 10
            rows.append((self._pick(labels[5]), paid))
            if paid != total or self._maybe(0.6):
                rows.append((self._pick(labels[6]), paid - total))
        if included and rate and self._maybe(0.5):
            if self._maybe(0.5):
                rows.append(
                    (
                        f"{self._pick(('GST Summary', 'SR 6%', 'Taxable', labels[2][0]))}",
                        total - tax,
                    )
                )
            rows.append((self._pick(labels[3]), tax))
            fields["vat"] = str(tax)
        fields["total"] = str(total)
        if sign:
            fields["currency"] = sign.rstrip(".")
        for label, amount in rows:
            value = f"{sign}{gap}{money(amount, country)}" if sign else money(amount, country)
            if self._maybe(0.2):
                label += self._pick((":", " :"))
            if self._maybe(0.12):
                sheet.put(f"{label} {value}", 0)
            elif self._maybe(0.05):
                sheet.put(label, 0)
                sheet.feed()
                sheet.put(value, sheet.width, align="right")
            else:
                big = 1.5 if amount == total and self._maybe(0.15) else 1.0
                sheet.put(label, sheet.width * chance.choice((0.0, 0.0, 0.3)))
                sheet.put(value, sheet.width, sheet.size * big, align="right")
            sheet.feed()
        for label, value in self._late:
            self._pair(sheet, label, value)
        for _ in range(chance.randint(0, 4)):
            sheet.put(
                self._pick(
                    (
                        "Thank you",
                        "Goods sold are not returnable",
                        "Please come again",
                        self._extra(country),
                    )
                ),
                0,
            )
            sheet.feed()

    def _items(
        self, sheet: _Sheet, country: Country, prices: Sequence[Amount], fields: dict[str, str]
    ) -> None:
        """A table with headings: texts at the left of their columns, numbers at the right."""
        headings = [self._pick(some) for some in COLUMNS[country.language]]
        ends = [0.0, *(sheet.width * share for share in self.chance.choice(COLUMN_ENDS))]
        counts = [self.chance.randint(1, 12) for _ in prices]
        rows = [headings]
        for k, (count, each) in enumerate(zip(counts, prices, strict=True)):
            price = (each / count).quantize(CENT)
            text = f"{self._word()} {self._word().lower()}"
            rows.append([text, str(count), self._money(price, country), self._money(each, country)])
            fields |= {
                f"lines.{k}.quantity": str(count),
                f"lines.{k}.unit_price": str(price),
                f"lines.{k}.amount": str(each),
            }
        for row in rows:
            for k, (text, end) in enumerate(zip(row, ends, strict=True)):
                sheet.put(text, end, align="right" if k else "left")
            sheet.feed(self.chance.uniform(1.0, 1.4))

    def _invoice(self, country: Country, *, has_table: bool = False) -> GeneratedPage:
        chance = self.chance
        sheet = _Sheet(chance, chance.uniform(1000, 1500), chance.uniform(16, 24))
        head, name, address = self._letterhead(country)
        fields = {"company": name, **({"address": address} if address else {})}
        scale = chance.choice((1.0, 1.2, 1.5, 2.0))
        align = self._pick(("left", "left", "right", "center"))
        x = {"left": 0.0, "right": sheet.width, "center": sheet.width / 2}[align]
        title = self._pick(TITLES[country.language])
        sender: list[str] = []
        has_sender = bool(address) and self._maybe(0.3)
        if has_sender:
            sender = [text.partition("  ")[0] for tag, text in head if tag == "address"]
            head = [(tag, text) for tag, text in head if tag != "address"]
            fields["sender line"] = "yes"
            if self._maybe(0.5):
                head = [(tag, text) for tag, text in head if tag == "name"]
        top = sheet.y
        beside = align == "left" and self._maybe(0.25)
        is_free = align != "center" and not beside
        for tag, text in head:
            if tag == "title":
                continue
            if beside and tag == "address":
                # The address is at the right of the name, not below it.
                beside, x, align, sheet.y = False, sheet.width, "right", top
            size = sheet.size * (scale if tag == "name" else 1.0)
            sheet.put(text, x, min(size, sheet.width / (0.52 * len(text))), align)
            sheet.feed(max(1.0, size / sheet.size))
        bottom = max(sheet.y, top + 3 * scale * sheet.size)
        sheet.y = bottom
        if is_free and self._maybe(0.5):
            sheet.y = top
            sheet.put(
                title, sheet.width - x, 2 * sheet.size, "right" if align == "left" else "left"
            )
            sheet.y = max(bottom, sheet.y)
        else:
            sheet.feed()
            sheet.put(title, 0, 1.8 * sheet.size)
            sheet.feed(1.5)
        sheet.feed(chance.uniform(1, 3))
        recipient = [self._name(country), *self._address(country)]
        fields |= {"buyer.name": recipient[0], "buyer.address": " ".join(recipient[1:])}
        label = {"de": "Rechnung an", "fr": "Client", "es": "Cliente"}.get(
            country.language, "Bill to"
        )
        lines = [label, *recipient] if self._maybe(0.7) else recipient
        details = _Sheet(chance, 0.45 * sheet.width, sheet.size)
        labels: Sequence[Sequence[str]] = LABELS[country.language]
        if has_table:
            numbers = [one for one in labels[1] if re.search("inv|rechn|bill", one, re.I)]
            labels = (labels[0], numbers, *labels[2:])
        self._details(details, country, labels, fields)
        if has_sender:
            lines = recipient
            mark = self._pick((" · ", " | ", " - ", " • "))
            sheet.put(mark.join([name, *sender]), 0, 0.7 * sheet.size)
            sheet.feed(1.3)
        start = sheet.y
        for text in lines:
            sheet.put(text, 0)
            sheet.feed()
        shift, down = 0.55 * sheet.width, start - 20.0
        for line in details.lines:
            words = tuple(
                Word(
                    (w.rect[0] + shift, w.rect[1] + down, w.rect[2] + shift, w.rect[3] + down),
                    w.text,
                )
                for w in line.words
            )
            sheet.lines.append(OcrLine(line.text, words, line.score))
        sheet.y = max(sheet.y, details.y + down) + 2 * sheet.size
        self._sums(sheet, country, LABELS[country.language], fields, has_table=has_table)
        return GeneratedPage("invoice", tuple(sheet.lines), fields)
