"""The font of invisible text, read by fontTools."""

import io

from fontTools.ttLib import TTFont

from llm_ocr.export.invisible_font import WIDTH, InvisibleFont, font_program
from llm_ocr.export.pdf_writer import PdfWriter


def test_the_program_is_a_font_of_one_width() -> None:
    font = TTFont(io.BytesIO(font_program()), checkChecksums=2)
    assert font["head"].unitsPerEm == 1000
    assert {width for width, _ in font["hmtx"].metrics.values()} == {WIDTH}
    glyph = font["glyf"][font.getGlyphOrder()[1]]
    assert (glyph.xMax, glyph.yMax) == (WIDTH, 1000)


def test_each_character_has_a_code() -> None:
    font = InvisibleFont(PdfWriter())
    assert font.encode("aß漢") == b"<006100df6f22>"
    emoji, private = font.encode("😀"), font.encode("\ue000")
    assert font.encode("😀") == emoji
    assert emoji != private
    assert font.encode("\ud800") == b"<fffd>"
