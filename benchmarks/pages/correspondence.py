"""A letter with its letterhead, and a form with labelled fields."""

import random

from benchmarks.pages.english import English
from benchmarks.pages.flow import Flow, Frame
from benchmarks.pages.fonts import width
from benchmarks.pages.parts import bullets, foot, rules_of, table
from benchmarks.pages.sheet import ASCENT, Sheet, part
from benchmarks.pages.style import drawn
from benchmarks.pages.truth import LETTERHEAD, PARAGRAPH, TrueBlock, TruePage


def letter(name: str, chance: random.Random, dark: bool = False) -> tuple[TruePage, bytes]:
    """Letterhead, address, date, body, list or table, signature; or a form."""
    sheet, writer = Sheet(drawn(chance, 1, dark=dark)), English.drawn(chance)
    margin = sheet.style.margin
    top = _letterhead(sheet, writer)
    frame = Frame(margin, top, sheet.width - 2 * margin, sheet.height - margin - 6)
    flow = Flow(sheet, [frame])
    if chance.random() < 0.5:
        _letter(flow, writer)
    else:
        _form(flow, writer)
    foot(sheet, writer, chance.randint(1, 4))
    return sheet.page(name, "letter", 1), sheet.pdf()


def _letterhead(sheet: Sheet, writer: English) -> float:
    """A company's name and address at the top; returns where the letter begins."""
    style, chance = sheet.style, writer.chance
    name = f"{writer.person().split()[1]} & {writer.person().split()[1]} Ltd."
    address = f"{chance.randint(2, 180)} Station Road · {writer.place()} · Tel. {_phone(chance)}"
    big, small = style.size * 1.6, style.size * 0.85
    wide = sheet.width - 2 * style.margin
    centred = chance.random() < 0.5
    y = style.margin * 0.7 + big
    for text, font, size in (
        (name, style.head.bold, big),
        (address, style.head.regular, small),
    ):
        x = style.margin + ((wide - width(text, font, size)) / 2 if centred else 0)
        box = sheet.text(text, x, y, font, size)
        sheet.add(TrueBlock(LETTERHEAD, text, (part(text, [box]),)))
        y += small * 1.7
    if chance.random() < 0.6:
        sheet.rule(style.margin, y - small * 0.8, style.margin + wide, y - small * 0.8, 0.7)
    return y + style.size * 2


def _phone(chance: random.Random) -> str:
    return f"0{chance.randint(111, 999)} {chance.randint(100000, 999999)}"


def _letter(flow: Flow, writer: English) -> None:
    chance = writer.chance
    person = writer.person()
    _short_lines(
        flow,
        [
            person,
            f"{chance.randint(1, 140)} {chance.choice(_STREETS)}",
            f"{writer.place()} {chance.choice('BEGLNSW')}{chance.randint(1, 19)} "
            f"{chance.randint(1, 9)}{chance.choice('ABDEFGHJLNPQ')}{chance.choice('ABDEFGHJLN')}",
        ],
    )
    flow.skip(flow.style.leading)
    flow.paragraph([writer.date()])
    flow.paragraph([f"Our reference: {chance.choice('ABDKR')}{chance.randint(1000, 9999)}/"
                    f"{chance.randint(1, 99):02}"])  # fmt: skip
    flow.skip(flow.style.leading * 0.6)
    flow.heading(f"Your {writer.thing()} {writer.matter.where[0]}", 3)
    flow.paragraph([f"Dear {person},"])
    for _ in range(chance.randint(2, 4)):
        flow.paragraph(writer.sentences(3, 6))
    if chance.random() < 0.5:
        bullets(flow, writer, False)
    else:
        table(flow, writer, rules_of(writer), False)
    flow.paragraph(writer.sentences(2, 4))
    flow.skip(flow.style.leading * 0.5)
    flow.paragraph(["Yours sincerely,"])
    flow.skip(flow.style.leading * 2)
    _short_lines(flow, [writer.person(), chance.choice(("Managing Director", "Head of Accounts"))])


def _short_lines(flow: Flow, lines: list[str]) -> None:
    """Lines that end where they end, as one paragraph."""
    style, boxes = flow.style, []
    for text in lines:
        base = flow.y + ASCENT * style.size
        boxes.append(flow.sheet.text(text, flow.frame.x, base, style.body.regular, style.size))
        flow.skip(style.leading)
    text = " ".join(lines)
    flow.sheet.add(TrueBlock(PARAGRAPH, text, (part(text, boxes),)))
    flow.skip(style.between)


def _form(flow: Flow, writer: English) -> None:
    """A heading, fields in one or two to a row, a text, a table and a declaration."""
    chance = writer.chance
    flow.heading(f"Application for {writer.matter.name} in {writer.place()}", 1)
    flow.paragraph(writer.sentences(1, 2))
    flow.skip(flow.style.size * 0.6)
    framed = chance.random() < 0.5
    fields = chance.sample(_FIELDS, 8)
    for left, right in zip(fields[::2], fields[1::2], strict=True):
        _fields(flow, [(name, _value(writer, name)) for name in (left, right)], framed)
    flow.skip(flow.style.size * 0.8)
    flow.heading(writer.heading(), 2)
    flow.paragraph(writer.sentences(2, 4))
    table(flow, writer, rules_of(writer), chance.random() < 0.4)
    flow.paragraph(["I declare that what I have stated is true.", *writer.sentences(1, 2)])


_STREETS = ("Mill Lane", "High Street", "Bridge Road")
_FIELDS = (
    "Surname", "First name", "Date of birth", "Place", "Telephone", "Reference", "Nationality",
    "Occupation", "Postcode", "E-mail", "Account", "Department",
)  # fmt: skip


def _value(writer: English, name: str) -> str:
    chance = writer.chance
    first, last = writer.person().split()
    number = str(chance.randint(10000, 999999))
    return {
        "Surname": last,
        "First name": first,
        "Date of birth": f"{chance.randint(1, 28):02}.{chance.randint(1, 12):02}.{writer.year()}",
        "Place": writer.place(),
        "Telephone": _phone(chance),
        "Nationality": chance.choice(("British", "Polish", "Danish", "Portuguese")),
        "Occupation": chance.choice(("Surveyor", "Teacher", "Fitter", "Beekeeper")),
        "E-mail": f"{first[0].lower()}.office{chance.randint(1, 99)}@example.org",
    }.get(name, number)


def _fields(flow: Flow, fields: list[tuple[str, str]], framed: bool) -> None:
    """Fields beside each other: in frames with a small label above, or with a colon."""
    sheet, style = flow.sheet, flow.style
    wide = flow.frame.wide / len(fields)
    high = style.size * 2.7 if framed else style.leading
    for k, (label, value) in enumerate(fields):
        x = flow.frame.x + k * wide
        if framed:
            sheet.frame((x, flow.y, x + wide, flow.y + high), 0.6)
            small = style.size * 0.72
            above = sheet.text(label, x + 4, flow.y + small * 1.2, style.body.regular, small)
            base = flow.y + high - style.size * 0.45
            below = sheet.text(value, x + 4, base, style.body.regular, style.size)
            text, boxes = f"{label} {value}", [above, below]
        else:
            text = f"{label}: {value}"
            base = flow.y + ASCENT * style.size
            boxes = [sheet.text(text, x, base, style.body.regular, style.size)]
        sheet.add(TrueBlock(PARAGRAPH, text, (part(text, boxes),)))
    flow.skip(high)
