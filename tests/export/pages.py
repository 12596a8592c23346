"""Pages with everything that a layout can have."""

from llm_ocr.records import (
    Block,
    Box,
    Outcome,
    PageLine,
    PageResult,
    PageStatus,
    TextLine,
    TextWord,
)

TABLE = "<table><tr><th>Item</th><th>Price</th></tr><tr><td>Rope</td><td>12</td></tr></table>"
HEBREW = ("שלום", "עולם")
# The last character is no character of XML.
NASTY = 'a<b & "c"\x0b'


def words(text: str, x: float, y: float) -> tuple[TextWord, ...]:
    """Words of 10 pixels a letter, 20 pixels high."""
    found = []
    for word in text.split(" "):
        found.append(TextWord(word, Box(x, y, x + 10 * len(word), y + 20), 0.5))
        x += 10 * len(word) + 10
    return tuple(found)


def line(text: str, x: float, y: float, *, with_words: bool = True) -> PageLine:
    box = Box(x, y, x + 10 * len(text), y + 20)
    return PageLine(text, 0.9, False, box, words(text, x, y) if with_words else ())


def hebrew_line(y: float) -> PageLine:
    """A line that runs from right to left."""
    first, second = HEBREW
    found = (
        TextWord(first, Box(700, y, 780, y + 20), 0.5),
        TextWord(second, Box(600, y, 690, y + 20), 0.5),
    )
    return PageLine(" ".join(HEBREW), 0.9, False, Box(600, y, 780, y + 20), found)


def page(number: int = 1, **changes: object) -> PageResult:
    """A page of 800 x 1,000 pixels at 100 dpi."""
    plain: dict[str, object] = {
        "outcome": Outcome(PageStatus.OK),
        "page_id": f"d/{number}",
        "doc_id": "d",
        "source_uri": "/in/a.pdf",
        "name": "a",
        "page_number": number,
        "width": 800,
        "height": 1000,
        "width_pt": 576.0,
        "height_pt": 720.0,
        "rotation": 0,
    }
    return PageResult(**{**plain, **changes})  # type: ignore[arg-type]


def read_page(number: int = 1) -> PageResult:
    """A page as the embedded engine reads it."""
    blocks = (
        Block("title", "# The report", Box(50, 40, 400, 70)),
        Block("text", f"First line second {NASTY}", Box(50, 100, 400, 160)),
        Block("table", TABLE, Box(50, 200, 400, 260)),
        Block("image", "", Box(50, 300, 400, 500)),
        Block("image_caption", "<center>Figure 1 </center>", Box(50, 510, 400, 540)),
        Block("text", " ".join(HEBREW), Box(590, 600, 790, 630)),
    )
    lines = (
        line("The report", 60, 45),
        line("First line", 60, 105),
        line(f"second {NASTY}", 60, 135, with_words=False),
        line("Figure 1", 60, 515),
        hebrew_line(605),
        line("in the figure", 100, 400),
        line("beside all", 500, 900),
    )
    return page(number, blocks=blocks, lines=lines)


def model_page(number: int = 1) -> PageResult:
    """A page as a model without lines reads it; its last block has no box."""
    long = "A paragraph of a number of words that takes several lines in its narrow box."
    blocks = (
        Block("text", long, Box(50, 100, 300, 200), 0.7),
        Block("table", TABLE, Box(50, 300, 400, 400)),
        Block("text", "Without a box", None),
    )
    return page(number, blocks=blocks, text_layer=1.0)


LAYER = (
    TextLine("A paragraph", words("A paragraph", 60, 110)),
    TextLine("Rope 12", words("Rope 12", 60, 350)),
)
