"""Letters of a PDF's own text that it draws in pieces: ligatures, marks and accents."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from reportlab.pdfbase.pdfmetrics import stringWidth

from llm_ocr.records import ImagePolicy, TextLayer
from llm_ocr.sources.text_glyphs import may_need_repair
from tests.documents import pdf_of
from tests.sources.drawn import drawn

LINES = ImagePolicy(longest_side=800, with_lines=True)
SIZE = 20.0
# Standard fonts have these, at codes that no letter of theirs has here. All are 333 wide.
ACCENTS = {
    "\u0300": "grave",
    "\u0301": "acute",
    "\u0302": "circumflex",
    "\u0303": "tilde",
    "\u0304": "macron",
    "\u0306": "breve",
    "\u0307": "dotaccent",
    "\u0308": "dieresis",
    "\u030a": "ring",
    "\u030b": "hungarumlaut",
    "\u030c": "caron",
    "\u0327": "cedilla",
    "\u0328": "ogonek",
}
CODES = {mark: 1 + k for k, mark in enumerate(ACCENTS)}
DOTLESS, ACCENT_WIDTH = 20, 333
NAMES = " ".join(f"/{name}" for name in ACCENTS.values())
FONT = (
    f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding "
    f"/BaseEncoding /WinAnsiEncoding /Differences [1 {NAMES} {DOTLESS} /dotlessi] >> >>"
).encode()


def page_of(path: Path, draw: str, font: bytes, *more: bytes) -> TextLayer:
    pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw.encode()),
        font,
        *more,
    )
    layer = drawn(path, LINES).text_layer
    assert layer is not None
    return layer


def tex(text: str, x: float, y: float, *, behind: bool = False) -> str:
    """`text` as TeX draws it with an old font: accents over letters, as signs of their own."""
    out = []
    for char in text:
        letter, mark = char, ""
        if not char.isascii():
            letter, mark = tuple(unicodedata.normalize("NFD", char))
        is_dotless = letter == "i" and mark and mark not in "\u0327\u0328"
        width = stringWidth(letter, "Helvetica", SIZE)
        code = f"<{DOTLESS:02x}>" if is_dotless else f"({letter})"
        drawing = [f"1 0 0 1 {x:.2f} {y:.2f} Tm {code} Tj"] if letter != " " else []
        if mark:
            at = x + (width - ACCENT_WIDTH / 1000 * SIZE) / 2
            # Capitals are higher.
            up = y + (0.2 * SIZE if letter.isupper() and mark not in "\u0327\u0328" else 0)
            drawing.insert(
                1 if behind else 0, f"1 0 0 1 {at:.2f} {up:.2f} Tm <{CODES[mark]:02x}> Tj"
            )
        out += drawing
        x += width
    return "\n".join(out)


def texts(layer: TextLayer) -> Sequence[str]:
    return [line.text for line in layer.lines]


NAMED = (
    *("Ján Mináč and Basić met Škoda", "à la façon de Noël, tête-à-tête", "El Niño, São, Ōtsu"),
    *("Erdős, Ångström, Černý, Żaba", "ğ İ ű ş ţ ą ę į ų ň ř ž", "naïve, Zoë, í, ì, î, ñ, õ"),
    *("ÁÉÍÓÚ ÀÈÌÒÙ ÂÊÎÔÛ ÄËÏÖÜ ÃÑÕ", "Dvořák's Č. Ž. and É. Ű."),
)


@pytest.mark.parametrize("behind", [False, True])
def test_separate_accents_are_joined_to_their_letters(tmp_path: Path, behind: bool) -> None:
    lines = [tex(text, 60, 700 - 60 * k, behind=behind) for k, text in enumerate(NAMED)]
    layer = page_of(tmp_path / "a.pdf", f"BT /F1 {SIZE} Tf\n{' '.join(lines)}\nET", FONT)
    assert texts(layer) == list(NAMED)
    assert layer.text.split() == " ".join(NAMED).split()
    words = [word.text for line in layer.lines for word in line.words]
    assert words == " ".join(NAMED).split()


def test_accents_next_to_letters_are_kept(tmp_path: Path) -> None:
    text = "2 ^ 3, ~5, a ` b, x^y"
    layer = page_of(tmp_path / "a.pdf", f"BT /F1 20 Tf 60 700 Td ({text} 20\\260C) Tj ET", FONT)
    assert texts(layer) == [f"{text} 20°C"]
    assert layer.text.strip() == f"{text} 20°C"


# A font of black squares. Its glyphs mean what `TO_UNICODE` says.
SQUARES = (
    b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1000 1000] /FontMatrix [0.001 0 0 0.001 0 0] "
    b"/FirstChar 1 /LastChar 9 /Widths [600 600 600 600 600 600 600 600 0] "
    b"/CharProcs << /s 6 0 R /m 7 0 R >> /ToUnicode 8 0 R "
    b"/Encoding << /Type /Encoding /Differences [1 /s /s /s /s /s /s /s /s /m] >> >>"
)


def stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def arabic(path: Path, letters: Sequence[str], draw: str) -> TextLayer:
    """Glyph 1 means the first of `letters`, and so on; they are drawn from the left."""
    pairs = "\n".join(
        f"<{k:02x}> <{one.encode('utf-16-be').hex()}>" for k, one in enumerate(letters, 1)
    )
    meaning = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def "
        "1 begincodespacerange <00> <ff> endcodespacerange "
        f"{len(letters)} beginbfchar\n{pairs}\nendbfchar endcmap end end"
    )
    return page_of(
        path,
        draw,
        SQUARES,
        stream(b"600 0 0 0 600 700 d1 0 0 600 700 re f"),
        stream(b"0 0 -400 750 -200 900 d1 -400 750 200 150 re f"),
        stream(meaning.encode()),
    )


@pytest.mark.parametrize(
    ("letters", "word"),
    [
        (["م", "لا", "س"], "سلام"),
        (["ة", "لإ", "و", "ا"], "اولإة"),
        # Three letters in one glyph, and the one word that is a glyph of its own.
        (["ن", "لما", "ا"], "المان"),
        (["ه", "لل", "ا"], "الله"),
        (["م", "الله", "ب"], "باللهم"),
        # A font that names the ligature's own character.
        (["م", "\ufefb", "س"], "سلام"),
    ],
)
def test_ligatures_of_text_that_runs_to_the_left_have_their_letters_in_order(
    tmp_path: Path, letters: Sequence[str], word: str
) -> None:
    codes = "".join(f"{k:02x}" for k in range(1, len(letters) + 1))
    layer = arabic(tmp_path / "a.pdf", letters, f"BT /F1 20 Tf 60 700 Td <{codes}> Tj ET")
    assert texts(layer) == [word]
    assert layer.text.strip() == word


def test_marks_stand_behind_the_letters_that_they_are_drawn_over(tmp_path: Path) -> None:
    letters = ["ا", "ض", "ي", "أ", *"كلمت", "ً"]
    mark, move = "<09>", "1 0 0 1 {} 700 Tm".format
    draw = f"BT /F1 20 Tf {move(60)} <0102> Tj {move(83)} {mark} Tj {move(84)} <0304> Tj ET"
    layer = arabic(tmp_path / "a.pdf", letters, draw)
    assert texts(layer) == ["أيضًا"]


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("Basiˇ c", True),
        ("Min ´ a´c", True),
        ("A° ngström", True),
        ("at 5 °C, 5°, ~20 m, 2^10 (°F)", False),
        ("plain words", False),
    ],
)
def test_signs_beside_numbers_are_no_accents_to_look_for(text: str, may_be: bool) -> None:
    assert may_need_repair(text) is may_be
