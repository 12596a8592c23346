"""Six layouts: a report, a paper, a newsletter, statistics, a textbook and a letter.

Each draws one page and leaves nothing to chance but what `chance` decides.
"""

import random
from collections.abc import Callable, Sequence

from benchmarks.pages.correspondence import letter
from benchmarks.pages.english import English
from benchmarks.pages.flow import Flow, Frame
from benchmarks.pages.parts import (
    bullets,
    dark_box,
    draw_notes,
    figure,
    foot,
    furniture,
    marked,
    notes_top,
    numbered,
    rules_of,
    table,
)
from benchmarks.pages.sheet import Sheet, part
from benchmarks.pages.style import drawn
from benchmarks.pages.tongues import GREEK, LATIN_TONGUES
from benchmarks.pages.truth import PARAGRAPH, TrueBlock, TruePage

Page = tuple[TruePage, bytes]
MARKS = "¹²³"


def report(name: str, chance: random.Random, dark: bool = False) -> Page:
    """One column: headings of two levels, lists, a table or figure, notes."""
    sheet, writer = Sheet(drawn(chance, 1, dark=dark)), English.drawn(chance)
    number = chance.randint(2, 180)
    furniture(sheet, writer, number)
    whole = body_frame(sheet)
    notes = chance.choice((0, 0, 1, 2))
    top = notes_top(sheet, whole.bottom, notes)
    flow = Flow(sheet, [Frame(whole.x, whole.top, whole.wide, top)])
    if chance.random() < 0.4:
        flow.heading(writer.title(), 1)
    kinds: tuple[Callable[[], object], ...] = (
        lambda: table(flow, writer, rules_of(writer), chance.random() < 0.4),
        lambda: figure(flow, writer, chance.uniform(110, 170)),
    )
    thing = chance.choice(kinds)
    first = chance.randint(1, 6)
    section(flow, writer, first)
    flow.paragraph(_with_mark(writer, MARKS[0], notes > 0))
    chance.choice((bullets, numbered))(flow, writer, chance.random() < 0.6)
    flow.paragraph(writer.sentences(2, 4))
    thing()
    section(flow, writer, first, 1)
    flow.paragraph(_with_mark(writer, MARKS[1], notes > 1))
    fill(flow, writer, [lambda: section(flow, writer, first + 1)])
    _notes(sheet, writer, Frame(whole.x, top, whole.wide, whole.bottom), notes)
    foot(sheet, writer, number)
    return sheet.page(name, "report", 1), sheet.pdf()


def paper(name: str, chance: random.Random, dark: bool = False) -> Page:
    """Two columns under a title and its authors, with a figure or table across both."""
    sheet, writer = Sheet(drawn(chance, 2, dark=dark)), English.drawn(chance)
    number = chance.randint(1, 400)
    furniture(sheet, writer, number)
    whole = body_frame(sheet)
    top, first = whole.top, chance.randint(1, 5)
    if chance.random() < 0.6:
        top = front_matter(sheet, writer, whole)
    if chance.random() < 0.65:
        break_at = top + (whole.bottom - top) * chance.uniform(0.3, 0.5)
        text_columns(sheet, writer, Frame(whole.x, top, whole.wide, break_at), 0, first)
        across = Flow(sheet, [Frame(whole.x, break_at + 8, whole.wide, whole.bottom)])
        if chance.random() < 0.5:
            figure(across, writer, chance.uniform(100, 150))
        else:
            table(across, writer, rules_of(writer), chance.random() < 0.6, fills=True)
        top = across.y + 4
    below = Frame(whole.x, top, whole.wide, whole.bottom)
    text_columns(sheet, writer, below, chance.choice((0, 1, 2)), first + 2)
    foot(sheet, writer, number)
    return sheet.page(name, "paper", 2), sheet.pdf()


def newsletter(name: str, chance: random.Random, dark: bool = False) -> Page:
    """Three columns: a headline across, pictures, dark boxes, another story below."""
    sheet, writer = Sheet(drawn(chance, 3, dark=dark)), English.drawn(chance)
    number = chance.randint(2, 40)
    furniture(sheet, writer, number)
    whole = body_frame(sheet)
    head = Flow(sheet, [whole])
    if chance.random() < 0.7:
        head.heading(writer.heading(), 1)
    if chance.random() < 0.5:
        across = Flow(sheet, [Frame(whole.x, head.y, whole.wide, whole.bottom)])
        figure(across, writer, chance.uniform(120, 180))
        head.y = across.y
    split = chance.random() < 0.5
    room = whole.bottom - head.y
    middle = head.y + room * chance.uniform(0.45, 0.6) if split else whole.bottom
    _stories(sheet, writer, Frame(whole.x, head.y, whole.wide, middle))
    if split:
        lower = Flow(sheet, [Frame(whole.x, middle + 10, whole.wide, whole.bottom)])
        sheet.rule(whole.x, middle + 4, whole.x + whole.wide, middle + 4, 0.8)
        lower.heading(writer.heading(), 2)
        _stories(sheet, English.drawn(chance), Frame(whole.x, lower.y, whole.wide, whole.bottom))
    foot(sheet, writer, number)
    return sheet.page(name, "newsletter", 3), sheet.pdf()


def statistics(name: str, chance: random.Random, dark: bool = False) -> Page:
    """Tables with words between them, in one column or two."""
    columns = chance.choice((1, 1, 2))
    sheet, writer = Sheet(drawn(chance, columns, dark=dark)), English.drawn(chance)
    number = chance.randint(1, 90)
    furniture(sheet, writer, number)
    flow = Flow(sheet, column_frames(sheet, body_frame(sheet), columns))
    first = chance.randint(1, 8)
    section(flow, writer, first)
    for merged in chance.sample((True, True, False, False), 4):
        flow.paragraph(writer.sentences(1, 3))
        table(flow, writer, rules_of(writer), merged, fills=chance.random() < 0.5)
        if chance.random() < 0.4:
            section(flow, writer, first, chance.randint(1, 4))
    fill(flow, writer, [])
    foot(sheet, writer, number)
    return sheet.page(name, "statistics", columns), sheet.pdf()


def textbook(name: str, chance: random.Random, dark: bool = False) -> Page:
    """Dark boxes, exercises, and readings in another language."""
    columns, greek = chance.choice((1, 2)), chance.random() < 0.3
    sheet = Sheet(drawn(chance, columns, greek, dark))
    writer = English.drawn(chance)
    number = chance.randint(10, 600)
    furniture(sheet, writer, number)
    flow = Flow(sheet, column_frames(sheet, body_frame(sheet), columns))
    tongue = GREEK if greek else chance.choice(LATIN_TONGUES)
    first = chance.randint(1, 12)
    section(flow, writer, first)
    flow.paragraph(writer.sentences(2, 4))
    bullets(flow, writer, True)
    dark_box(flow, writer, chance.randint(2, 3))
    flow.heading(chance.choice(tongue.headings), 2)
    for _ in range(chance.randint(2, 3)):
        flow.paragraph([tongue.sentence(chance) for _ in range(chance.randint(3, 5))])
    section(flow, writer, first, 1)
    flow.paragraph(writer.sentences(1, 2))
    numbered(flow, writer, chance.randint(1, 60), sentences=True)
    fill(flow, writer, [lambda: figure(flow, writer, chance.uniform(80, 120))])
    foot(sheet, writer, number)
    return sheet.page(name, "textbook", columns), sheet.pdf()


LAYOUTS: dict[str, Callable[..., Page]] = {
    "report": report,
    "paper": paper,
    "newsletter": newsletter,
    "statistics": statistics,
    "textbook": textbook,
    "letter": letter,
}


def body_frame(sheet: Sheet) -> Frame:
    """The page's place between the margins."""
    margin = sheet.style.margin
    return Frame(margin, margin + 8, sheet.width - 2 * margin, sheet.height - margin - 4)


def column_frames(sheet: Sheet, whole: Frame, number: int) -> list[Frame]:
    """Columns with gutters, and a rule between them where the style has it."""
    gutter = sheet.style.gutter
    wide = (whole.wide - gutter * (number - 1)) / number
    frames = [
        Frame(whole.x + k * (wide + gutter), whole.top, wide, whole.bottom) for k in range(number)
    ]
    if sheet.style.column_rule:
        for one in frames[1:]:
            x = one.x - gutter / 2
            sheet.rule(x, one.top, x, one.bottom, 0.4)
    return frames


def section(flow: Flow, writer: English, first: int, below: int = 0) -> bool:
    """A section's heading, or that of its subsection, with its number where the style has it."""
    form = flow.style.numbers
    number = f"{first}.{below}" if below else str(first)
    text = writer.heading()
    return flow.heading(f"{form.format(number)} {text}" if form else text, 3 if below else 2)


def fill(flow: Flow, writer: English, once: Sequence[Callable[[], object]]) -> None:
    """Paragraphs to the end of the last column, with what is to come once among them."""
    waiting = list(once)
    while flow.paragraph(writer.sentences(2, 6), emphasis=_emphasis(writer)):
        if waiting and writer.chance.random() < 0.5:
            waiting.pop(0)()


def _emphasis(writer: English) -> tuple[int, int]:
    if writer.chance.random() < 0.7:
        return 0, 0
    start = writer.chance.randint(0, 20)
    return start, start + writer.chance.randint(1, 4)


def _with_mark(writer: English, mark: str, wanted: bool) -> list[str]:
    sentences = writer.sentences(3, 6)
    return marked(sentences, mark) if wanted else sentences


def front_matter(sheet: Sheet, writer: English, whole: Frame) -> float:
    """A paper's title, its authors and a summary across the page; returns where it ends."""
    flow = Flow(sheet, [whole])
    flow.heading(writer.title(), 1)
    names = ", ".join(writer.person() for _ in range(writer.chance.randint(1, 4)))
    size = sheet.style.size
    box = sheet.text(names, whole.x, flow.y + size, sheet.style.body.italic, size)
    sheet.add(TrueBlock(PARAGRAPH, names, (part(names, [box]),)))
    flow.skip(size * 2)
    if writer.chance.random() < 0.7:
        inset = Frame(whole.x + 24, flow.y, whole.wide - 48, whole.bottom)
        summary = Flow(sheet, [inset])
        summary.paragraph(writer.sentences(3, 5), size=sheet.style.small, splits=False)
        flow.y = summary.y
    flow.skip(size)
    return flow.y


def text_columns(sheet: Sheet, writer: English, place: Frame, notes: int, first: int) -> None:
    """Sections, lists, and a small table or figure in columns; notes below the last."""
    chance = writer.chance
    frames = column_frames(sheet, place, 2)
    last = frames[-1]
    top = notes_top(sheet, last.bottom, notes)
    frames[-1] = Frame(last.x, last.top, last.wide, top)
    flow = Flow(sheet, frames)
    once: list[Callable[[], object]] = [
        lambda: section(flow, writer, first, 1),
        lambda: flow.paragraph(_with_mark(writer, MARKS[0], notes > 0)),
        lambda: numbered(flow, writer) if chance.random() < 0.5 else bullets(flow, writer, False),
        lambda: flow.paragraph(_with_mark(writer, MARKS[1], notes > 1)),
        lambda: section(flow, writer, first + 1),
    ]
    if place.bottom - place.top > 420:
        once.insert(2, lambda: figure(flow, writer, chance.uniform(85, 130)))
        once.insert(4, lambda: table(flow, writer, rules_of(writer), chance.random() < 0.3))
    if chance.random() < 0.6:
        section(flow, writer, first)
    fill(flow, writer, once)
    _notes(sheet, writer, Frame(last.x, top, last.wide, last.bottom), notes)


def _stories(sheet: Sheet, writer: English, place: Frame) -> None:
    """Three columns of short sections with a picture and a dark box."""
    chance = writer.chance
    flow = Flow(sheet, column_frames(sheet, place, 3))
    once: list[Callable[[], object]] = [
        lambda: flow.heading(writer.heading(), 3),
        lambda: figure(flow, writer, chance.uniform(75, 110)),
        lambda: flow.heading(writer.heading(), 3),
        lambda: bullets(flow, writer, False),
        lambda: dark_box(flow, writer, 2),
    ]
    chance.shuffle(once)
    fill(flow, writer, once[: chance.randint(2, 5)])


def _notes(sheet: Sheet, writer: English, frame: Frame, number: int) -> None:
    if number:
        draw_notes(sheet, writer, frame, number)
