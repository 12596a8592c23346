"""Documents of one page or several: a journal's paper, a handbook, slides, a newspaper, a form and
a letter with columns of company data.

What recurs on their pages recurs as it does in print: with the page's number, or left and right in
turn.
"""

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pypdfium2 as pdfium

from benchmarks.pages.english import English, begun
from benchmarks.pages.flow import Flow, Frame
from benchmarks.pages.fonts import COURIER, FAMILIES, width
from benchmarks.pages.layouts import (
    body_frame,
    column_frames,
    fill,
    front_matter,
    section,
    text_columns,
)
from benchmarks.pages.parts import bullets, figure, numbered, rules_of, table
from benchmarks.pages.sheet import ASCENT, Sheet, part
from benchmarks.pages.style import drawn
from benchmarks.pages.truth import (
    FOOTER,
    HEADER,
    LETTERHEAD,
    PAGE_NUMBER,
    PARAGRAPH,
    TrueBlock,
    TruePage,
)

Document = list[tuple[TruePage, bytes]]
SLIDE_SIZES = ((720.0, 540.0), (720.0, 405.0))


def journal(name: str, chance: random.Random) -> Document:
    """Two columns with notes; authors above left pages, the title above right ones; the first page
    has the journal's line at its foot instead."""
    style, writer = drawn(chance, 2), English.drawn(chance)
    title, authors = writer.heading(), f"{writer.person()} and {writer.person()}"
    first, count = chance.randint(1, 300), chance.choice((2, 3))
    imprint = f"{begun(writer.matter.name)} Letters {chance.randint(2, 60)} ({writer.year()})"
    spaced = chance.random() < 0.5
    sheets = []
    for k in range(count):
        sheet = Sheet(style)
        whole = body_frame(sheet)
        top = whole.top
        if k == 0:
            top = front_matter(sheet, writer, whole)
        else:
            is_left = (first + k) % 2 == 0
            said = authors if is_left else title.upper() if spaced else title
            head, number = ("right", "left") if is_left else ("left", "right")
            edge_line(sheet, HEADER, said, head, italic=not spaced)
            edge_line(sheet, PAGE_NUMBER, str(first + k), number)
        place = Frame(whole.x, top, whole.wide, whole.bottom - style.size)
        text_columns(sheet, writer, place, chance.choice((0, 1, 2)), 2 * k + 1)
        if k == 0:
            edge_line(sheet, FOOTER, imprint, "left", at_foot=True)
            edge_line(sheet, PAGE_NUMBER, str(first), "center", at_foot=True)
        sheets.append(sheet)
    return _document(sheets, name, "journal", 2)


def handbook(name: str, chance: random.Random) -> Document:
    """One column; every page with the document's name, the chapter's, a number and a revision."""
    style, writer = drawn(chance, 1), English.drawn(chance)
    style = replace(style, margin=max(56.0, style.margin))
    subject, chapter = f"Handbook of {writer.matter.name}", writer.heading()
    code = f"{chance.choice(('QM', 'SOP', 'TR', 'HB'))}-{chance.randint(10, 999)}"
    revision = f"{code} · Rev. {chance.randint(1, 9)} · {writer.date()}"
    count = chance.choice((2, 3, 4))
    at_foot = chance.random() < 0.5
    sheets = []
    for k in range(count):
        sheet = Sheet(style)
        edge_line(sheet, HEADER, subject, "left")
        edge_line(sheet, HEADER, chapter, "right", italic=True)
        flow = Flow(sheet, [body_frame(sheet)])
        if k == 0:
            flow.heading(begun(writer.title()), 1)
        _chapter(flow, writer, k + 1)
        number = f"Page {k + 1} of {count}"
        edge_line(sheet, PAGE_NUMBER, number, "right", at_foot=True)
        if at_foot:
            edge_line(sheet, FOOTER, revision, "left", at_foot=True)
        sheets.append(sheet)
    return _document(sheets, name, "handbook", 1)


def _chapter(flow: Flow, writer: English, number: int) -> None:
    section(flow, writer, number)
    flow.paragraph(writer.sentences(3, 6))
    if writer.chance.random() < 0.5:
        bullets(flow, writer, False)
    else:
        numbered(flow, writer)
    once: list[Callable[[], object]] = [
        lambda: section(flow, writer, number, 1),
        lambda: table(flow, writer, rules_of(writer), writer.chance.random() < 0.4),
        lambda: figure(flow, writer, writer.chance.uniform(90, 150)),
    ]
    fill(flow, writer, once)


def slides(name: str, chance: random.Random) -> Document:
    """A few words in large letters, a company's name and a number at the foot of each."""
    writer = English.drawn(chance)
    style = replace(
        drawn(chance, 1),
        paper=chance.choice(SLIDE_SIZES),
        body=chance.choice(FAMILIES[1:4]),
        size=chance.uniform(15, 19),
        leading=chance.uniform(21, 25),
        margin=chance.uniform(40, 60),
        heads=(1.7, 1.2, 1.05),
        justified=False,
        hyphenated=False,
    )
    footer = f"{writer.person().split()[1]} Consulting · {writer.date()}"
    sheets = []
    for k in range(chance.choice((3, 4))):
        sheet = Sheet(style)
        whole = body_frame(sheet)
        head = Flow(sheet, [whole])
        head.heading(writer.heading(), 1)
        head.skip(style.size)
        below = Frame(whole.x, head.y, whole.wide, whole.bottom - style.size)
        halves = column_frames(sheet, below, 2) if chance.random() < 0.4 else [below]
        for frame in halves:
            flow = Flow(sheet, [frame])
            if not bullets(flow, writer, len(halves) == 1 and chance.random() < 0.5):
                flow.paragraph([writer.sentence()])
        edge_line(sheet, FOOTER, footer, "left", at_foot=True)
        edge_line(sheet, PAGE_NUMBER, str(k + 1), "right", at_foot=True)
        sheets.append(sheet)
    return _document(sheets, name, "slides", 1)


def newspaper(name: str, chance: random.Random) -> Document:
    """Four or five narrow columns: an article across the page, below it two beside each other."""
    style, count = drawn(chance, 3), chance.choice((4, 5))
    size = chance.uniform(7.4, 8.4)
    style = replace(
        style,
        size=size,
        leading=size * chance.uniform(1.12, 1.25),
        paper=(700.0, 1000.0),
        margin=40.0,
        gutter=chance.uniform(9, 15),
        hyphenated=True,
        justified=True,
    )
    sheet, writer = Sheet(style), English.drawn(chance)
    whole = body_frame(sheet)
    masthead = f"The {writer.place()} {chance.choice(('Courier', 'Gazette', 'Herald', 'Post'))}"
    y = _centered(sheet, masthead, whole.top + 24, 34)
    issue = f"{writer.date()} · No. {chance.randint(100, 9999)} · {chance.randint(60, 250)} p"
    y = _centered(sheet, issue, y + 14, size) + 8
    sheet.rule(whole.x, y, whole.x + whole.wide, y, 1.0)
    frames = column_frames(sheet, Frame(whole.x, y + 8, whole.wide, whole.bottom), count)
    middle = y + (whole.bottom - y) * chance.uniform(0.4, 0.55)
    _article(sheet, writer, frames, y + 8, middle, chance)
    split = chance.choice((2, count - 2))
    for some in (frames[:split], frames[split:]):
        _article(sheet, English.drawn(chance), some, middle + 14, whole.bottom, chance)
    edge_line(sheet, PAGE_NUMBER, str(chance.randint(1, 40)), "center", at_foot=True)
    return _document([sheet], name, "newspaper", count)


def questionnaire(name: str, chance: random.Random) -> Document:
    """Numbered questions, with boxes to tick or rules to write on."""
    style, writer = drawn(chance, 1), English.drawn(chance)
    sheet = Sheet(replace(style, indent=0.0, hyphenated=False))
    edge_line(sheet, HEADER, f"Form {chance.choice('ABCDE')}{chance.randint(10, 99)}", "right")
    flow = Flow(sheet, [body_frame(sheet)])
    flow.heading(f"Questions on {writer.matter.name} in {writer.place()}", 1)
    flow.paragraph(writer.sentences(2, 3))
    letters = iter("ABCDEFGH")
    number = 1
    while flow.room > 9 * style.leading:
        flow.skip(style.leading * 0.6)
        flow.heading(f"Part {next(letters)}: {writer.heading()}", 2)
        for _ in range(chance.randint(2, 4)):
            if flow.room > 6 * style.leading:
                _question(flow, writer, number)
                number += 1
    edge_line(sheet, PAGE_NUMBER, "1", "center", at_foot=True)
    return _document([sheet], name, "questionnaire", 1)


def business_letter(name: str, chance: random.Random) -> Document:
    """The sender in a column at the right, a row of references, company data at the foot."""
    style, writer = drawn(chance, 1), English.drawn(chance)
    body = chance.choice((*FAMILIES[:2], COURIER))
    style = replace(style, body=body, head=body, indent=0.0, between=style.size * 0.7)
    if body is COURIER:
        style = replace(style, size=9.6, leading=12.0, hyphenated=False)
    sheet = Sheet(style)
    firm = f"{writer.person().split()[1]} {chance.choice(('GmbH', 'Ltd.', 'S.A.', 'Inc.'))}"
    street = f"{chance.randint(1, 180)} {writer.place()} Street"
    whole = body_frame(sheet)
    right = whole.x + whole.wide * 0.66
    sender = [firm, street, writer.place(), f"Tel. 0{chance.randint(100000, 999999)}"]
    _lines(sheet, LETTERHEAD, sender, right, whole.top)
    address = [writer.person(), f"{chance.randint(1, 99)} Mill Lane", writer.place()]
    y = _lines(sheet, PARAGRAPH, address, whole.x, whole.top + 5 * style.leading)
    y += 2 * style.leading
    names = ("Your reference", "Our reference", "Date")
    values = (f"{chance.randint(100, 999)}/a", f"{chance.choice('KMR')}-17", writer.date())
    for k, (label, value) in enumerate(zip(names, values, strict=True)):
        _lines(sheet, PARAGRAPH, [label, value], whole.x + k * whole.wide / 3, y)
    top = y + 4 * style.leading
    flow = Flow(sheet, [Frame(whole.x, top, whole.wide, whole.bottom - 4 * style.leading)])
    flow.heading(begun(f"{writer.thing()} {writer.matter.where[0]}"), 3)
    flow.paragraph([f"Dear {address[0]},"])
    for _ in range(chance.randint(2, 3)):
        flow.paragraph(writer.sentences(3, 5))
    flow.paragraph(["Yours sincerely,"])
    flow.skip(style.leading)
    flow.paragraph([writer.person()])
    small = replace(style, size=6.8, leading=8.2)
    data = (
        [firm, street, "Registered in England"],
        [f"Bank {chance.randint(10, 99)}-{chance.randint(10, 99)}", "Account 0012345"],
        [f"VAT {chance.randint(100000, 999999)}", f"www.{writer.matter.name}.example"],
    )
    sheet.style = small
    for k, some in enumerate(data):
        _lines(sheet, FOOTER, some, whole.x + k * whole.wide / 3, whole.bottom - 14)
    sheet.style = style
    return _document([sheet], name, "business letter", 1)


DOCUMENTS: dict[str, Callable[[str, random.Random], Document]] = {
    "journal": journal,
    "handbook": handbook,
    "slides": slides,
    "newspaper": newspaper,
    "questionnaire": questionnaire,
    "business-letter": business_letter,
}


def joined(pdfs: Sequence[bytes]) -> bytes:
    """PDFs as one, page after page."""
    whole, data = pdfium.PdfDocument.new(), io.BytesIO()
    for pdf in pdfs:
        whole.import_pages(pdfium.PdfDocument(pdf))
    whole.save(data)
    return data.getvalue()


def edge_line(
    sheet: Sheet, kind: str, text: str, place: str, *, at_foot: bool = False, italic: bool = False
) -> None:
    """Furniture at the head or foot: left, center or right."""
    style = sheet.style
    size = min(9.0, style.size * 0.85)
    font = style.body.italic if italic else style.body.regular
    spare = sheet.width - 2 * style.margin - width(text, font, size)
    x = style.margin + spare * {"left": 0.0, "center": 0.5, "right": 1.0}[place]
    y = sheet.height - style.margin * 0.45 if at_foot else style.margin * 0.62
    sheet.add(TrueBlock(kind, text, (part(text, [sheet.text(text, x, y, font, size)]),)))


def _document(sheets: Sequence[Sheet], name: str, layout: str, columns: int) -> Document:
    return [
        (sheet.page(f"{name}_pg{k}", layout, columns), sheet.pdf())
        for k, sheet in enumerate(sheets, 1)
    ]


def _centered(sheet: Sheet, text: str, y: float, size: float) -> float:
    font = sheet.style.head.bold if size > 12 else sheet.style.body.regular
    x = (sheet.width - width(text, font, size)) / 2
    sheet.add(TrueBlock(LETTERHEAD, text, (part(text, [sheet.text(text, x, y, font, size)]),)))
    return y


def _article(
    sheet: Sheet,
    writer: English,
    columns: Sequence[Frame],
    top: float,
    bottom: float,
    chance: random.Random,
) -> None:
    """A headline across some columns, with the text in them."""
    first, last = columns[0], columns[-1]
    wide = last.x + last.wide - first.x
    head = Flow(sheet, [Frame(first.x, top, wide, bottom)])
    head.heading(writer.heading(), 1)
    flow = Flow(sheet, [Frame(one.x, head.y, one.wide, bottom) for one in columns])
    once: list[Callable[[], object]] = []
    if chance.random() < 0.5:
        once.append(lambda: figure(flow, writer, chance.uniform(60, 90)))
    fill(flow, writer, once)


def _lines(sheet: Sheet, kind: str, lines: Sequence[str], x: float, top: float) -> float:
    """Lines that end where they end, as one block; returns where the next begins."""
    style, boxes, y = sheet.style, [], top
    for text in lines:
        boxes.append(sheet.text(text, x, y + ASCENT * style.size, style.body.regular, style.size))
        y += style.leading
    text = " ".join(lines)
    sheet.add(TrueBlock(kind, text, (part(text, boxes),)))
    return y


def _question(flow: Flow, writer: English, number: int) -> None:
    sheet, style, chance = flow.sheet, flow.style, writer.chance
    flow.paragraph([f"{number}. How many {writer.things()} {chance.choice(writer.matter.where)}?"])
    if chance.random() < 0.5:
        answers = chance.sample(("Yes", "No", "Not known", "None", "Often", "Never"), 3)
        x = flow.frame.x + 12
        for answer in answers:
            side = style.size * 0.8
            sheet.frame((x, flow.y + 2, x + side, flow.y + 2 + side), 0.7)
            base = flow.y + ASCENT * style.size
            box = sheet.text(answer, x + side + 5, base, style.body.regular, style.size)
            sheet.add(TrueBlock(PARAGRAPH, answer, (part(answer, [box]),)))
            x = box[2] + 28
    else:
        y = flow.y + style.size * 1.1
        sheet.rule(flow.frame.x + 12, y, flow.frame.x + flow.frame.wide, y, 0.5)
    flow.skip(style.leading * 1.7)
