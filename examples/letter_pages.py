"""The example letters, a memo and a notice. Persons, places and events are invented."""

from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Frame, Paragraph, Spacer, Table, TableStyle

WIDTH, HEIGHT = A4
LEFT = 26 * mm

TYPED = ParagraphStyle("typed", fontName="Courier", fontSize=11, leading=15.5, spaceAfter=11)
SERIF = ParagraphStyle("serif", fontName="Times-Roman", fontSize=12, leading=17, spaceAfter=10)
SANS = ParagraphStyle("sans", fontName="Helvetica", fontSize=11, leading=16, spaceAfter=8)
POINT = ParagraphStyle("point", parent=SANS, leftIndent=16, bulletIndent=2)
HEAD = ParagraphStyle("head", parent=SANS, fontName="Helvetica-Bold", fontSize=12, spaceBefore=6)
NOTICE_TITLE = ParagraphStyle(
    "title", fontName="Times-Bold", fontSize=28, leading=36, alignment=1, spaceAfter=6
)
NOTICE = ParagraphStyle("notice", parent=SERIF, fontSize=14, leading=21)


def draw_typed_letter(canvas: Canvas) -> None:
    _set(canvas, [
        Paragraph("14 Weir Cottages<br/>Fenwick<br/>3rd October 1978", TYPED),
        Spacer(1, 14),
        Paragraph("The Engineer<br/>Arle River Board<br/>Marlow Green", TYPED),
        Spacer(1, 10),
        Paragraph("Dear Sir,", TYPED),
        Paragraph(
            "I have lived beside the weir for thirty-one years and have written down the height "
            "of the river at the lower gate every Sunday since the flood of 1953. My notebooks "
            "fill one shelf. My daughter tells me that your Board means to build a gauging "
            "station at the bridge, and I wondered whether these figures would be of use.",
            TYPED,
        ),
        Paragraph(
            "I measured from the top of the iron sill with a boat hook marked in inches. The sill "
            "was raised by four inches when the gate was mended in the summer of 1961, and I have "
            "drawn a line in the book at that date. I was ill for five weeks in 1969; those pages "
            "are empty. I did not guess.",
            TYPED,
        ),
        Paragraph(
            "You are welcome to copy them here at any hour, but I should not like them to travel "
            "by post. There is generally tea.",
            TYPED,
        ),
        Paragraph("Yours faithfully,", TYPED),
        _Signature((22, 9, 14, 7, 10, 6, 5)),
        Paragraph("(Mrs) Edith Pallister", TYPED),
    ])  # fmt: skip


def draw_reply(canvas: Canvas) -> None:
    canvas.setFont("Times-Bold", 20)
    canvas.drawCentredString(WIDTH / 2, HEIGHT - 26 * mm, "ARLE RIVER BOARD")
    canvas.setFont("Times-Roman", 11)
    canvas.drawCentredString(
        WIDTH / 2, HEIGHT - 32 * mm, "Engineer’s Office, Corn Street, Marlow Green"
    )
    canvas.line(LEFT, HEIGHT - 36 * mm, WIDTH - LEFT, HEIGHT - 36 * mm)
    _set(canvas, [
        _two_sides("Our reference: G/78/204", "17 October 1978"),
        Spacer(1, 14),
        Paragraph("Mrs E. Pallister<br/>14 Weir Cottages<br/>Fenwick", SERIF),
        Spacer(1, 8),
        Paragraph("Dear Mrs Pallister,", SERIF),
        Paragraph("<b>Gauging station at Fenwick Bridge: your records of the river</b>", SERIF),
        Paragraph(
            "Thank you for your letter of 3 October. I read it twice and then read it aloud to the "
            "drawing office. Twenty-five years of weekly levels, with the change of the sill noted "
            "and the gaps left open, is more than this Board possesses for any point on the Arle.",
            SERIF,
        ),
        Paragraph(
            "If it suits you, Mr Hallam and I will call on Thursday 26 October at two o’clock. We "
            "shall bring a level and find the height of the sill, so that your inches can be "
            "joined to our datum. Mr Hallam writes quickly and has clean hands. The books need not "
            "leave the house.",
            SERIF,
        ),
        Paragraph(
            "The station itself is to be built in the spring. I hope that you will come and start "
            "the recorder.",
            SERIF,
        ),
        Paragraph("Yours sincerely,", SERIF),
        _Signature((26, -12, 20, 6, 24, 5, 6, 4)),
        Paragraph("J. R. Thornbury<br/>Engineer to the Board", SERIF),
    ], top=42 * mm)  # fmt: skip


def draw_memo(canvas: Canvas) -> None:
    lines = [("To", "Field staff"), ("From", "Ada Kessler"), ("Date", "8 January 2024"),
             ("Subject", "Weekly visits: what changes this year")]  # fmt: skip
    table = Table(lines, [26 * mm, 120 * mm], 7 * mm, hAlign="LEFT")
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (0, -1), "Helvetica-Bold", 11),
                ("FONT", (1, 0), (1, -1), "Helvetica", 11),
                ("LEFTPADDING", (0, 0), (0, -1), 0),
                ("LINEBELOW", (0, -1), (-1, -1), 1, "black"),
            ]
        )
    )
    points = [
        "Read the staff gauge before you open the hut, to the nearest 5 mm, and note the time.",
        "Photograph the gauge. A reading without a picture no longer counts as a check.",
        "Clean the sonde with the soft brush only. Two windows were scratched last year.",
        "Note the battery voltage under load. Below 11.8 V, change it on the spot.",
    ]
    after = [
        "Look for drift caught on the gauge and on the sensor arm.",
        "Mark the highest trace on the pier with chalk and date it.",
        "Do not go down the left bank alone when the level is above 2.6 m.",
    ]
    _set(canvas, [
        Paragraph("<font size=18><b>MEMORANDUM</b></font>", SANS),
        Spacer(1, 8),
        table,
        Spacer(1, 14),
        Paragraph(
            "Last year we lost eleven days of data, nine of them for reasons that a visit could "
            "have prevented. From Monday on, please do the following at each station.",
            SANS,
        ),
        Paragraph("On every visit", HEAD),
        *[Paragraph(words, POINT, bulletText=f"{k}.") for k, words in enumerate(points, 1)],
        Paragraph("After high water", HEAD),
        *[Paragraph(words, POINT, bulletText="•") for words in after],
        Spacer(1, 6),
        Paragraph(
            "Forms are in the green folder in the van. If something on them makes no sense, tell "
            "me and I will change the form.",
            SANS,
        ),
        Paragraph("A. K.", SANS),
    ])  # fmt: skip


def draw_notice(canvas: Canvas) -> None:
    canvas.setLineWidth(2)
    canvas.rect(16 * mm, 18 * mm, WIDTH - 32 * mm, HEIGHT - 36 * mm)
    _set(canvas, [
        Paragraph("Trees for the Arle", NOTICE_TITLE),
        Paragraph("<i>Volunteers wanted for three mornings in November</i>",
                  ParagraphStyle("subtitle", NOTICE, alignment=1, fontSize=15)),
        Spacer(1, 16),
        Paragraph(
            "The river between Marlow Green and Fenwick Bridge has lost its shade. On hot days the "
            "water warms by three degrees on its way through the open meadows, and trout do not "
            "thank us for it. We are going to plant 1,400 alders and willows along the banks.",
            NOTICE,
        ),
        Paragraph(
            "You need boots, gloves and something warm to drink. Spades and saplings will be "
            "there. Children are welcome with an adult. No experience is needed: a tree takes four "
            "minutes to plant, and the first one takes ten.",
            NOTICE,
        ),
        Spacer(1, 8),
        _dates(),
        Spacer(1, 18),
        Paragraph("<b><font size=17>What to expect</font></b>", NOTICE),
        Paragraph("We meet at the gate and walk over together.", NOTICE, bulletText="–"),
        Paragraph("If the river stands above 2.2 m, we wait a week.", NOTICE, bulletText="–"),
        Paragraph("Soup at one o’clock in the Old Mill.", NOTICE, bulletText="–"),
        Spacer(1, 12),
        Paragraph(
            "Please tell us by 1 November how many of you are coming: telephone 01632 960 233, or "
            "leave a note in the box at the mill door.",
            NOTICE,
        ),
        Spacer(1, 10),
        Paragraph("<b>Arle Rivers Trust</b>", ParagraphStyle("end", parent=NOTICE, alignment=1)),
    ])  # fmt: skip


def _dates() -> Table:
    rows = [
        ["Date", "Time", "Place"],
        ["Saturday 9 November", "9.30 to 13.00", "Meadow below the works"],
        ["Sunday 10 November", "10.00 to 14.00", "Right bank, by the footbridge"],
        ["Saturday 16 November", "9.30 to 13.00", "Harrow Weir"],
    ]
    table = Table(rows, [46 * mm, 36 * mm, 64 * mm], 9 * mm)
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, 0), "Times-Bold", 12),
                ("FONT", (0, 1), (-1, -1), "Times-Roman", 12),
                ("GRID", (0, 0), (-1, -1), 0.8, "black"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    return table


def _set(canvas: Canvas, flowables: list[Flowable], top: float = 26 * mm) -> None:
    """Sets `flowables` below `top`; what does not fit on the page is an error, not a loss."""
    frame = Frame(LEFT - 6, 20 * mm, WIDTH - 2 * LEFT + 12, HEIGHT - top - 20 * mm)
    frame.addFromList(flowables, canvas)
    if flowables:
        raise ValueError(f"the page is full; left over: {flowables[0]!r:.80}")


def _two_sides(left: str, right: str) -> Table:
    table = Table([[left, right]], [(WIDTH - 2 * LEFT) / 2] * 2)
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, -1), "Times-Roman", 12),
                ("ALIGN", (1, 0), (1, 0), "RIGHT"),
                ("LEFTPADDING", (0, 0), (-1, -1), 0),
                ("RIGHTPADDING", (0, 0), (-1, -1), 0),
            ]
        )
    )
    return table


class _Signature(Flowable):  # type: ignore[misc]
    """A pen stroke that nobody can read, of `rises` (points)."""

    def __init__(self, rises: tuple[float, ...]) -> None:
        super().__init__()
        self.rises = rises

    def wrap(self, _width: float, _height: float) -> tuple[float, float]:
        return 120.0, 34.0

    def draw(self) -> None:
        x, y, step = 4.0, 10.0, 12.0
        self.canv.setLineWidth(1.3)
        stroke = self.canv.beginPath()
        stroke.moveTo(x, y)
        for rise in self.rises:
            stroke.curveTo(x + 4, y + rise, x + step * 0.9, y + rise, x + step * 0.6, y - 2)
            x += step * 0.75
            step *= 0.94
        stroke.curveTo(x + 20, y - 4, x + 40, y + 6, x + 62, y + 4)
        self.canv.drawPath(stroke)
