"""report.pdf: three born-digital pages of a river station's yearly report.

It has what makes documents hard to read by machine: two columns, headings by level, a running
header and footer, captions, merged cells, and a paragraph and a table that page breaks cut.
"""

import re
from io import BytesIO
from pathlib import Path

from reportlab import rl_config
from reportlab.lib.colors import HexColor, white
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    CondPageBreak,
    Flowable,
    Frame,
    FrameBreak,
    Image,
    NextPageTemplate,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)
from river_figures import flow_chart, river_photo
from river_words import CAPTIONS, MONTHS, PAGE_1, PAGE_2, PAGE_3, SUBTITLE, TITLE, Piece

MARGIN, GUTTER, TOP, FOOT = 54.0, 20.0, 66.0, 58.0
PAGE_WIDTH, PAGE_HEIGHT = A4
FULL = PAGE_WIDTH - 2 * MARGIN
COLUMN = (FULL - GUTTER) / 2
INK, TEAL, GRAY = HexColor("#1f262d"), HexColor("#17566b"), HexColor("#69737c")
# Vera comes with reportlab, may be embedded freely, and looks the same in every viewer.
BODY, BOLD, ITALIC = "Vera", "VeraBd", "VeraIt"

_text = ParagraphStyle(
    "text", fontName=BODY, fontSize=9, leading=13.4, textColor=INK, spaceAfter=6,
    alignment=TA_JUSTIFY, allowWidows=0, allowOrphans=0,
)  # fmt: skip
_heading = ParagraphStyle("heading", _text, fontName=BOLD, textColor=TEAL, alignment=0)
STYLES = {
    "text": _text,
    "title": ParagraphStyle("title", _heading, fontSize=19, leading=24, spaceAfter=4),
    "subtitle": ParagraphStyle("subtitle", _text, fontSize=10, leading=14, textColor=GRAY),
    "h1": ParagraphStyle("h1", _heading, fontSize=12, leading=15, spaceBefore=8, spaceAfter=4),
    "h2": ParagraphStyle(
        "h2", _heading, fontSize=9.8, leading=13, textColor=INK, spaceBefore=4, spaceAfter=3
    ),
    "caption": ParagraphStyle(
        "caption", _text, fontName=ITALIC, fontSize=7.4, leading=10, alignment=0, spaceAfter=8
    ),
    "note": ParagraphStyle("note", _text, fontSize=7.2, leading=10, textColor=GRAY, alignment=0),
}


def write_report(path: Path) -> None:
    """The same bytes at every run: reportlab's invariant mode drops the time and the random id."""
    rl_config.invariant = 1
    for name in (BODY, BOLD, ITALIC):
        pdfmetrics.registerFont(TTFont(name, f"{name}.ttf"))
    document = BaseDocTemplate(
        str(path), pagesize=A4, title=TITLE, author="Arle Rivers Trust", subject=SUBTITLE, lang="en"
    )
    document.addPageTemplates(_page_templates())
    document.build([*_first_page(), *_second_page(), *_third_page()])


def _page_templates() -> list[PageTemplate]:
    high = PAGE_HEIGHT - TOP - FOOT
    title, columns = 60.0, 236.0
    return [
        PageTemplate(
            "first",
            [_frame(FOOT + high - title, title, FULL, 0), *_columns(FOOT, high - title - 6)],
            onPage=_furniture,
        ),
        PageTemplate(
            "mixed",
            [*_columns(FOOT + high - columns, columns), _frame(FOOT, high - columns - 8, FULL, 0)],
            onPage=_furniture,
        ),
        PageTemplate("wide", [_frame(FOOT, high, FULL, 0)], onPage=_furniture),
    ]


def _frame(bottom: float, height: float, width: float, shift: float) -> Frame:
    return Frame(
        MARGIN + shift, bottom, width, height,
        leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0,
    )  # fmt: skip


def _columns(bottom: float, height: float) -> list[Frame]:
    return [_frame(bottom, height, COLUMN, shift) for shift in (0, COLUMN + GUTTER)]


def _furniture(canvas: Canvas, document: BaseDocTemplate) -> None:
    """The running header, the footer and the page number."""
    canvas.saveState()
    canvas.setStrokeColor(HexColor("#c3cbd1"))
    canvas.setLineWidth(0.6)
    canvas.line(MARGIN, PAGE_HEIGHT - 48, PAGE_WIDTH - MARGIN, PAGE_HEIGHT - 48)
    canvas.line(MARGIN, 44, PAGE_WIDTH - MARGIN, 44)
    canvas.setFillColor(GRAY)
    canvas.setFont(BODY, 7.4)
    canvas.drawString(MARGIN, PAGE_HEIGHT - 42, "Arle Rivers Trust")
    canvas.drawRightString(PAGE_WIDTH - MARGIN, PAGE_HEIGHT - 42, "Fenwick Bridge: report for 2024")
    canvas.drawString(MARGIN, 32, "Hydrometry series, no. 17")
    canvas.drawRightString(PAGE_WIDTH - MARGIN, 32, f"Page {document.page} of 3")
    canvas.restoreState()


def _first_page() -> list[Flowable]:
    photo = Image(BytesIO(river_photo()), width=COLUMN, height=COLUMN * 2 / 3)
    picture = [Spacer(1, 2), photo, Spacer(1, 4), _paragraph("caption", CAPTIONS["photo"])]
    return [
        _paragraph("title", TITLE),
        _paragraph("subtitle", SUBTITLE),
        FrameBreak(),
        NextPageTemplate("mixed"),
        *_flow(PAGE_1, {"photo": picture}),
    ]


def _second_page() -> list[Flowable]:
    chart = flow_chart(
        [row[0] for row in MONTHS],
        [row[1] for row in MONTHS],
        [row[4] for row in MONTHS],
        FULL,
        BODY,
    )
    figure = [chart, Spacer(1, 2), _paragraph("caption", CAPTIONS["chart"])]
    table = [_paragraph("caption", CAPTIONS["table"]), _monthly_table()]
    wide = _flow(PAGE_2, {"chart": figure, "table": table, "columns_end": [FrameBreak()]})
    return [*wide[:-1], NextPageTemplate("wide"), wide[-1]]


def _third_page() -> list[Flowable]:
    return [
        Spacer(1, 5),
        *_flow(PAGE_3, {"quality": [_paragraph("caption", CAPTIONS["quality"]), _quality_table()]}),
    ]


def _flow(pieces: list[Piece], insets: dict[str, list[Flowable]]) -> list[Flowable]:
    """Flowables for `(style, words)` pieces; `inset` takes what stands under that name."""
    flowables: list[Flowable] = []
    for style, words in pieces:
        if style in ("h1", "h2"):
            # Room for a heading and three lines. `keepWithNext` would keep the whole paragraph with
            # its heading, and no page break would cut one.
            flowables.append(CondPageBreak(64))
        flowables += insets[words] if style == "inset" else [_paragraph(style, words)]
    return flowables


def _paragraph(style: str, words: str) -> Paragraph:
    """Numbers stay on one line with their units."""
    units = r"(?<=\d) (?=(?:mm|cm|m|km|km²|m³/s|mg/l|°C|per cent)\b)"
    return Paragraph(re.sub(units, "\u00a0", words), STYLES[style])


def _monthly_table() -> Table:
    """Twelve months and the year; its two header rows are repeated where the page break cuts it."""
    head = [
        ["Month", "Discharge (m³/s)", "", "", "Rainfall\n(mm)", "Water temp.\n(°C)"],
        ["", "mean", "highest", "lowest", "", ""],
    ]
    rows = [
        [row[0], *(f"{v:.1f}" for v in row[1:4]), f"{row[4]}", f"{row[5]:.1f}"] for row in MONTHS
    ]
    count = len(MONTHS)
    year = [
        "Year 2024",
        f"{sum(row[1] for row in MONTHS) / count:.1f}",
        f"{max(row[2] for row in MONTHS):.1f}",
        f"{min(row[3] for row in MONTHS):.1f}",
        f"{sum(row[4] for row in MONTHS)}",
        f"{sum(row[5] for row in MONTHS) / count:.1f}",
    ]
    merged = [("SPAN", (0, 0), (0, 1)), ("SPAN", (1, 0), (3, 0))]
    merged += [("SPAN", (4, 0), (4, 1)), ("SPAN", (5, 0), (5, 1))]
    widths = [FULL * share for share in (0.22, 0.14, 0.14, 0.14, 0.18, 0.18)]
    style = [*merged, *_table_look(head_rows=2), ("FONT", (0, -1), (-1, -1), BOLD, 8)]
    table = Table([*head, *rows, year], widths, [16, 15] + [17.5] * 13, repeatRows=2)
    table.setStyle(TableStyle(style))
    return table


def _quality_table() -> Table:
    rows = [
        ["Determinand", "Unit", "Samples", "Median", "95th percentile", "Target met"],
        ["Nitrate as N", "mg/l", "26", "5.8", "8.4", "yes"],
        ["Phosphate as P", "mg/l", "26", "0.07", "0.15", "no"],
        ["Dissolved oxygen", "% sat.", "26", "94", "71 (5th)", "yes"],
        ["Suspended solids", "mg/l", "24", "11", "63", "yes"],
    ]
    widths = [FULL * share for share in (0.26, 0.12, 0.14, 0.14, 0.2, 0.14)]
    table = Table(rows, widths, 17, spaceAfter=10)
    table.setStyle(TableStyle(_table_look(head_rows=1)))
    return table


def _table_look(head_rows: int) -> list[tuple[object, ...]]:
    last = head_rows - 1
    return [
        ("FONT", (0, 0), (-1, -1), BODY, 8),
        ("TEXTCOLOR", (0, 0), (-1, -1), INK),
        ("FONT", (0, 0), (-1, last), BOLD, 7.6),
        ("BACKGROUND", (0, 0), (-1, last), TEAL),
        ("TEXTCOLOR", (0, 0), (-1, last), white),
        ("INNERGRID", (0, 0), (-1, last), 0.4, HexColor("#6f9aa8")),
        ("LINEBELOW", (0, head_rows), (-1, -1), 0.4, HexColor("#c9d1d6")),
        ("ALIGN", (1, 0), (-1, -1), "CENTER"),
        ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
        ("LEADING", (0, 0), (-1, -1), 9),
    ]
