"""What several layouts have: furniture, figures and tables with captions, dark boxes, notes."""

from collections.abc import Sequence

from benchmarks.pages.english import English, begun
from benchmarks.pages.flow import Flow, Frame, inked
from benchmarks.pages.fonts import width
from benchmarks.pages.pictures import figure as draw_figure
from benchmarks.pages.sheet import Sheet, part
from benchmarks.pages.style import BOOKTABS, GRID, HORIZONTAL, PLAIN, Style
from benchmarks.pages.table_drawing import draw, placed
from benchmarks.pages.tables import drawn as drawn_table
from benchmarks.pages.truth import (
    CAPTION,
    FIGURE,
    FOOTER,
    FOOTNOTE,
    HEADER,
    PAGE_NUMBER,
    Item,
    TrueBlock,
)
from benchmarks.pages.typeset import lines_of, words_of

FURNITURE_SIZE = 0.82
MARKS = "¹²³"


def furniture(sheet: Sheet, writer: English, number: int) -> None:
    """The running header; what stands at the foot is drawn by `foot`."""
    style, size = sheet.style, sheet.style.size * FURNITURE_SIZE
    y = style.margin * 0.62
    left, right = style.margin, sheet.width - style.margin
    title = writer.heading()
    said = title.upper() if writer.chance.random() < 0.3 else title
    italic = writer.chance.random() < 0.4
    font = style.body.italic if italic else style.body.regular
    said_number = number_said(style, number)
    at = {"left": left, "centre": (left + right - width(said, font, size)) / 2}
    place = writer.chance.choice(("left", "centre"))
    box = sheet.text(said, at[place], y, font, size)
    sheet.add(TrueBlock(HEADER, said, (part(said, [box]),)))
    if style.number_place == "header":
        x = right - width(said_number, style.body.regular, size)
        box = sheet.text(said_number, x, y, style.body.regular, size)
        sheet.add(TrueBlock(PAGE_NUMBER, said_number, (part(said_number, [box]),)))
    elif place == "left" and writer.chance.random() < 0.5:
        date = writer.date()
        box = sheet.text(date, right - width(date, font, size), y, font, size)
        sheet.add(TrueBlock(HEADER, date, (part(date, [box]),)))
    if style.header_rule:
        sheet.rule(left, y + size * 0.6, right, y + size * 0.6, 0.5)


def number_said(style: Style, number: int) -> str:
    """A page's number as this style prints it."""
    return style.number_form.format(number, last=number + 12 + number % 7)


def foot(sheet: Sheet, writer: English, number: int) -> None:
    """A line of the publisher's, or none, and the page's number unless the header has it."""
    style, size = sheet.style, sheet.style.size * FURNITURE_SIZE
    y = sheet.height - style.margin * 0.5
    left, right = style.margin, sheet.width - style.margin
    font = style.body.regular
    said = number_said(style, number)
    place = style.number_place
    if writer.chance.random() < 0.5 and place != "centre":
        line = writer.chance.choice(
            (
                f"© {writer.chance.randint(1995, 2025)} {writer.place()} University Press",
                f"www.{writer.matter.name}-review.org",
                f"{writer.matter.name.capitalize()} Quarterly, Vol. {number % 40 + 1}",
            )
        )
        x = left if place != "left" else right - width(line, font, size)
        sheet.add(TrueBlock(FOOTER, line, (part(line, [sheet.text(line, x, y, font, size)]),)))
    if place != "header":
        wide = width(said, font, size)
        x = {"left": left, "right": right - wide, "centre": (left + right - wide) / 2}[place]
        box = sheet.text(said, x, y, font, size)
        sheet.add(TrueBlock(PAGE_NUMBER, said, (part(said, [box]),)))


def figure(flow: Flow, writer: English, high: float) -> bool:
    """A figure with its caption below it."""
    sheet, style = flow.sheet, flow.style
    if not flow.needs(high + 5 * style.small):
        return False
    flow.skip(0 if flow.is_at_top else style.size * 0.6)
    x, wide = flow.frame.x, flow.frame.wide
    box = (x, flow.y, x + wide, flow.y + high)
    inner = draw_figure(sheet, writer, box)
    sheet.add(TrueBlock(FIGURE, "", (part("", [box]),), inner=inner))
    flow.skip(high + style.size * 0.5)
    label = f"{style.figure_word} {sheet.count('figure')}{style.caption_end}"
    flow.caption(CAPTION, writer.sentence(), label, centred=True)
    flow.skip(style.size * 0.9)
    return True


def table(flow: Flow, writer: English, rules: str, merged: bool, fills: bool = False) -> bool:
    """A table with its caption above it."""
    sheet, style = flow.sheet, flow.style
    content = drawn_table(writer, flow.frame.wide, merged)
    try:
        one = placed(content, style, flow.frame.wide, fills)
    except ValueError:
        return False
    if not flow.needs(one.high + 6.5 * style.small):
        return False
    flow.skip(0 if flow.is_at_top else style.size * 0.7)
    label = f"{style.table_word} {sheet.count('table')}{style.caption_end}"
    flow.caption(CAPTION, f"{begun(writer.phrase())}.", label, centred=True)
    flow.skip(style.size * 0.4)
    draw(flow, one, rules)
    flow.skip(style.size * 1.1)
    return True


def rules_of(writer: English) -> str:
    return writer.chance.choice((GRID, GRID, BOOKTABS, BOOKTABS, HORIZONTAL, PLAIN))


def dark_box(flow: Flow, writer: English, sentences: int) -> bool:
    """Light text on a dark ground, with a heading of its own."""
    sheet, style = flow.sheet, flow.style
    said, wide = writer.sentences(sentences, sentences), flow.frame.wide
    heading = writer.heading()
    words = words_of(f"{heading} {' '.join(said)}", style.head.bold)
    lines = lines_of(words, style.size, wide - 16)
    high = max(5.0, len(lines) + 1.6) * style.leading + 14
    if not flow.needs(high + 2 * style.size):
        return False
    flow.skip(0 if flow.is_at_top else style.size * 0.8)
    x = flow.frame.x
    colour = writer.chance.choice(((0.1, 0.2, 0.35), (0.3, 0.08, 0.1), (0.12, 0.25, 0.18)))
    sheet.fill((x, flow.y, x + wide, flow.y + high), colour)
    inside = Frame(x + 8, flow.y + 8, wide - 16, flow.y + high)
    boxed = Flow(sheet, [inside], inked(style, (0.98, 0.98, 0.95)))
    boxed.heading(heading, 3)
    boxed.paragraph(said, font=style.head.regular)
    flow.skip(high + style.size)
    return True


def notes_top(sheet: Sheet, bottom: float, number: int) -> float:
    """Where notes of at most two lines each begin, so that they end at the bottom."""
    size = sheet.style.small - 0.6
    return bottom - number * size * 1.2 * 2 - size * 1.2 if number else bottom


def draw_notes(sheet: Sheet, writer: English, frame: Frame, number: int) -> None:
    """Notes under a short rule, each at most two lines."""
    style = sheet.style
    size = style.small - 0.6
    flow = Flow(sheet, [frame])
    sheet.rule(frame.x, frame.top, frame.x + min(90.0, frame.wide / 2), frame.top, 0.5)
    flow.skip(size * 0.6)
    for mark in MARKS[:number]:
        text = f"{mark} {_note(writer)}"
        words = words_of(text, style.body.regular)
        flow.small(FOOTNOTE, words, size)


def _note(writer: English) -> str:
    chance = writer.chance
    return chance.choice(
        (
            f"See {writer.person()}, {writer.heading()}, {writer.place()} {writer.year()}, "
            f"p. {chance.randint(3, 480)}.",
            f"Letter of {writer.date()}, kept at {writer.place()}.",
            f"Personal communication, {writer.person()}, {writer.date()}.",
        )
    )


def marked(sentences: Sequence[str], mark: str) -> list[str]:
    """The sentences, the first with a note's mark behind it."""
    return [sentences[0] + mark, *sentences[1:]]


def bullets(flow: Flow, writer: English, nested: bool) -> bool:
    """A bulleted list; some with points below points."""
    mark = flow.style.bullet
    items = []
    for _ in range(writer.chance.randint(3, 5)):
        items.append(Item(mark, begun(writer.phrase())))
        if nested and writer.chance.random() < 0.5:
            inner = "–" if mark != "–" else "•"
            below = range(writer.chance.randint(1, 3))
            items += [Item(inner, writer.phrase(), 1) for _ in below]
    return flow.list(items)


def numbered(flow: Flow, writer: English, first: int = 1, sentences: bool = False) -> bool:
    """A numbered list."""
    form = writer.chance.choice(("{}.", "{})", "{}.", "({})"))
    number = writer.chance.randint(3, 5)
    say = writer.sentence if sentences else lambda: begun(writer.phrase())
    return flow.list([Item(form.format(k), say()) for k in range(first, first + number)])
