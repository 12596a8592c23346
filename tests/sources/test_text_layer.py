"""A PDF's own text: where it stands on the page as drawn, what is told of it, and its trust."""

import io
from pathlib import Path

import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from llm_ocr.records import Box, ImagePolicy, TextLayer
from llm_ocr.sources.text_layer_quality import garbled_share
from tests.documents import marked_pdf, misspelt_pdf, pdf_of
from tests.sources.drawn import color, drawn

LINES = ImagePolicy(longest_side=800, with_lines=True)
PROSE = ("The gauge at the bridge was read", "every Sunday by two keepers", "of the water mill.")
SIZE = (600, 800)


class Sheet:
    """A page of 600 x 800 points, so that a point is a pixel of it as `LINES` draws it."""

    def __init__(self, path: Path, size: tuple[int, int] = SIZE) -> None:
        self.path, self.canvas = path, Canvas(str(path), pagesize=size)

    def write(self, x: float, y: float, text: str, font: str = "Helvetica", mode: int = 0) -> None:
        """Text with its baseline `y` points below the upper edge."""
        line = self.canvas.beginText(x, SIZE[1] - y)
        line.setFont(font, 20)
        line.setTextRenderMode(mode)
        line.textOut(text)
        self.canvas.drawText(line)

    def prose(self, mode: int = 0) -> None:
        for k, line in enumerate(PROSE):
            self.write(60, 100 + 40 * k, line, mode=mode)

    def picture(self, x: float, y: float, width: float, height: float) -> None:
        sink = io.BytesIO()
        Image.new("RGB", (40, 40), (200, 220, 240)).save(sink, "PNG")
        self.canvas.drawImage(ImageReader(sink), x, SIZE[1] - y - height, width, height)

    def layer(self) -> TextLayer:
        self.canvas.save()
        found = drawn(self.path, LINES).text_layer
        assert found is not None
        return found


@pytest.fixture
def sheet(tmp_path: Path) -> Sheet:
    return Sheet(tmp_path / "page.pdf")


def near(box: Box, x1: float, y1: float, x2: float, y2: float, off: float = 3.0) -> bool:
    told = (box.x1, box.y1, box.x2, box.y2)
    return told == pytest.approx((x1, y1, x2, y2), abs=off)


def test_lines_have_their_words_where_they_are_drawn(sheet: Sheet) -> None:
    sheet.write(60, 100, "Water rises")
    sheet.write(60, 160, "Heading", font="Helvetica-Bold")
    layer = sheet.layer()
    assert [line.text for line in layer.lines] == ["Water rises", "Heading"]
    water, rises = layer.lines[0].words
    width = sheet.canvas.stringWidth
    begins = 60 + width("Water ", "Helvetica", 20)
    assert (water.text, rises.text) == ("Water", "rises")
    assert near(water.box, 60, 82, 60 + width("Water", "Helvetica", 20), 104)
    assert near(rises.box, begins, 82, begins + width("rises", "Helvetica", 20), 104)
    assert [line.bold for line in layer.lines] == [False, True]


def test_page_all_in_bold_has_no_bold_lines(sheet: Sheet) -> None:
    for k, line in enumerate(PROSE):
        sheet.write(60, 100 + 40 * k, line, font="Helvetica-Bold")
    lines = sheet.layer().lines
    assert len(lines) == len(PROSE)
    assert not any(line.bold for line in lines)


def test_narrow_spaces_separate_words_in_tightly_set_text(sheet: Sheet) -> None:
    text = sheet.canvas.beginText(60, SIZE[1] - 100)
    text.setFont("Helvetica", 20)
    text.setCharSpace(-2.4)
    # A space that is no character, as typesetters move on by.
    for word in ("neither", "printed", "nor", "drawn"):
        text.textOut(word)
        text.moveCursor(sheet.canvas.stringWidth(word, "Helvetica", 20) - 2.4 * len(word) + 3.5, 0)
    sheet.canvas.drawText(text)
    assert [line.text for line in sheet.layer().lines] == ["neither printed nor drawn"]


def test_lines_are_read_only_on_request(tmp_path: Path) -> None:
    sheet = Sheet(tmp_path / "a.pdf")
    sheet.prose()
    sheet.canvas.save()
    layer = drawn(sheet.path).text_layer
    assert layer is not None
    assert layer.lines == ()
    assert "two keepers" in layer.text


def test_columns_are_lines_of_their_own(sheet: Sheet) -> None:
    sheet.write(60, 100, "on the left")
    sheet.write(330, 100, "on the right")
    assert [line.text for line in sheet.layer().lines] == ["on the left", "on the right"]


def test_font_change_does_not_split_a_line(sheet: Sheet) -> None:
    sheet.write(60, 100, "The ")
    wide = sheet.canvas.stringWidth
    at = 60 + wide("The ", "Helvetica", 20)
    sheet.write(at, 100, "whole", font="Helvetica-Oblique")
    sheet.write(at + wide("whole ", "Helvetica-Oblique", 20), 100, "line")
    assert [line.text for line in sheet.layer().lines] == ["The whole line"]


def test_lines_of_one_size_are_equally_high_in_all_fonts(sheet: Sheet) -> None:
    """Fonts declare different ascents: a change of font within a paragraph makes no heading."""
    sheet.write(60, 100, "The water rises and falls")
    sheet.write(60, 160, "with the level of the lock", font="Courier")
    sheet.write(60, 220, "\u2713 \u2714 \u2716 \u2718 \u2726", font="ZapfDingbats")
    boxes = [line.words[0].box for line in sheet.layer().lines]
    assert len(boxes) == 3
    heights = [box.y2 - box.y1 for box in boxes]
    assert heights == pytest.approx([heights[0]] * 3, rel=0.02)
    tops = [box.y1 for box in boxes]
    assert tops == pytest.approx([tops[0], tops[0] + 60, tops[0] + 120], abs=0.5)


_ASCII = b"95 beginbfchar\n%sendbfchar\n" % b"".join(
    b"<%02x> <00%02x>\n" % (code, code) for code in range(32, 127)
)


def mapped_pdf(path: Path, shown: bytes, mapping: bytes) -> Path:
    """A line in Helvetica, whose characters a converter has mapped to Unicode."""
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
        b"/CMapName /Adobe-Identity-UCS def /CMapType 2 def\n"
        b"1 begincodespacerange\n<00> <ff>\nendcodespacerange\n%s"
        b"endcmap CMapName currentdict /CMap defineresource pop end end" % mapping
    )
    draw = b"BT /F1 20 Tf 20 100 Td (%s) Tj ET" % shown
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 700 200] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding "
        b"/Differences [149 /bullet 174 /fi] >> /ToUnicode 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap),
    )


def test_line_that_only_begins_in_bold_is_not_bold(sheet: Sheet) -> None:
    start = "A sentence that leads into a text."
    sheet.write(60, 100, f"{start} ", font="Helvetica-Bold")
    end = sheet.canvas.stringWidth(f"{start} ", "Helvetica-Bold", 20)
    sheet.write(60 + end, 100, "The")
    for k in range(4):
        sheet.write(60, 140 + 30 * k, "gauge at the bridge was read")
    first, *_ = sheet.layer().lines
    assert first.text == f"{start} The"
    assert not first.bold


def test_words_of_which_only_the_initials_are_bold_are_not_bold(sheet: Sheet) -> None:
    x = 60.0
    for word in ("Gauges", "Along", "The", "River"):
        for part, font in ((word[0], "Helvetica-Bold"), (f"{word[1:]} ", "Helvetica")):
            sheet.write(x, 100, part, font=font)
            x += sheet.canvas.stringWidth(part, font, 20)
    for k in range(4):
        sheet.write(60, 140 + 30 * k, "gauge at the bridge was read")
    first, *_ = sheet.layer().lines
    assert first.text == "Gauges Along The River"
    assert not first.bold


def test_ligature_mapped_to_its_last_letter_is_restored(tmp_path: Path) -> None:
    """Ghostscript maps the glyph fi to i alone."""
    shown = b"\xaeve of the signi\xaecant lilies in the inlet of the mill rise in April"
    mapping = b"1 beginbfchar\n<ae> <0069>\nendbfchar\n" + _ASCII
    path = mapped_pdf(tmp_path / "a.pdf", shown, mapping)
    layer = drawn(path, LINES).text_layer
    assert layer is not None
    (line,) = layer.lines
    assert line.text == "five of the significant lilies in the inlet of the mill rise in April"


def test_ligature_mapped_to_all_its_letters_is_left_alone(tmp_path: Path) -> None:
    """pdfTeX maps the glyph fi to both letters, and each of them gets the glyph's whole width."""
    shown = b"\xaeve of the signi\xaecant lilies far off the inlet of the firm mill rise in fall"
    mapping = b"1 beginbfchar\n<ae> <00660069>\nendbfchar\n" + _ASCII
    path = mapped_pdf(tmp_path / "a.pdf", shown, mapping)
    layer = drawn(path, LINES).text_layer
    assert layer is not None
    (line,) = layer.lines
    assert (
        line.text
        == "five of the significant lilies far off the inlet of the firm mill rise in fall"
    )


def test_text_in_another_direction_is_kept(sheet: Sheet) -> None:
    sheet.prose()
    sheet.canvas.saveState()
    sheet.canvas.translate(30, 100)
    sheet.canvas.rotate(90)
    sheet.canvas.drawString(0, 0, "up the margin")
    sheet.canvas.restoreState()
    sheet.canvas.translate(300, 300)
    sheet.canvas.rotate(45)
    sheet.canvas.drawString(0, 0, "a slanted heading")
    lines = {line.text: line for line in sheet.layer().lines}
    assert set(lines) == {*PROSE, "up the margin", "a slanted heading"}
    assert [text for text, line in lines.items() if line.vertical] == ["up the margin"]
    margin = lines["up the margin"].words[0].box
    assert near(margin, 12, 578, 34, 700)
    foot = lines["a slanted heading"].words[0].box
    assert near(foot, 287, 479, 311, 503)


def test_invisible_text_of_a_form_is_not_trusted(tmp_path: Path) -> None:
    sheet = Sheet(tmp_path / "a.pdf")
    sheet.canvas.beginForm("stamp")
    sheet.prose(mode=3)
    sheet.canvas.endForm()
    sheet.canvas.doForm("stamp")
    assert sheet.layer().trust == 0.0


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_page_rotation_is_applied_to_boxes(tmp_path: Path, rotation: int) -> None:
    """Text that is upright only because of /Rotate is where it is seen."""
    turns = {90: "0 1 -1 0 400 100", 180: "-1 0 0 -1 500 400", 270: "0 -1 1 0 100 700"}
    draw = f"BT /F1 20 Tf {turns[rotation]} Tm (A gauge at the bridge of stones) Tj ET".encode()
    path = pdf_of(
        tmp_path / "a.pdf",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Rotate %d /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>" % rotation,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    image = drawn(path, LINES)
    layer = image.text_layer
    assert layer is not None
    assert image.rotation == rotation
    (line,) = layer.lines
    assert line.text == "A gauge at the bridge of stones"
    xs = [word.box.x1 for word in line.words]
    assert xs == sorted(xs)
    assert all(color_inside(image.jpeg, word.box) for word in line.words)


def color_inside(jpeg: bytes, box: Box) -> bool:
    """Whether something is drawn there."""
    with Image.open(io.BytesIO(jpeg)) as page:
        inside = page.convert("L").crop((box.x1, box.y1, box.x2, box.y2))
    return min(inside.tobytes()) < 100


@pytest.mark.parametrize(("turn", "angle"), [(90, 90), (180, 180), (270, 270)])
def test_page_is_rendered_with_its_text_upright(tmp_path: Path, turn: int, angle: int) -> None:
    sheet = Sheet(tmp_path / "a.pdf")
    sheet.canvas.translate(300, 400)
    sheet.canvas.rotate(angle)
    sheet.canvas.translate(-200, -400)
    sheet.prose()
    sheet.canvas.setFillColorRGB(1, 0, 0)
    sheet.canvas.rect(60, 720, 40, 40, stroke=0, fill=1)
    layer = sheet.layer()
    image = drawn(sheet.path, LINES)
    assert image.rotation == turn
    assert image.width_pt == (800 if turn % 180 else 600)
    down = sorted(layer.lines, key=lambda line: line.words[0].box.y1)
    assert [line.text for line in down] == list(PROSE)


def test_few_upright_words_do_not_keep_a_page_from_being_turned(tmp_path: Path) -> None:
    sheet = Sheet(tmp_path / "a.pdf")
    sheet.write(60, 40, "page 7 of 9")
    sheet.canvas.translate(300, 400)
    sheet.canvas.rotate(90)
    sheet.canvas.translate(-200, -400)
    sheet.prose()
    sheet.canvas.save()
    assert drawn(sheet.path, LINES).rotation == 90


def test_crops_are_taken_from_the_page_as_it_is_turned(tmp_path: Path) -> None:
    from tests.sources.drawn import cut

    sheet = Sheet(tmp_path / "a.pdf")
    sheet.canvas.translate(300, 400)
    sheet.canvas.rotate(90)
    sheet.canvas.translate(-300, -300)
    sheet.prose()
    sheet.canvas.setFillColorRGB(1, 0, 0)
    sheet.canvas.rect(200, 300, 120, 80, stroke=0, fill=1)
    sheet.canvas.save()
    image = drawn(sheet.path, LINES)
    with Image.open(io.BytesIO(image.jpeg)) as page:
        red = page.convert("RGB").split()
        mask = Image.eval(red[1], lambda value: 255 if value < 90 else 0)
        bright = Image.eval(red[0], lambda value: 255 if value > 180 else 0)
        found = Image.composite(mask, Image.new("L", mask.size), bright).getbbox()
    assert found is not None
    x1, y1, x2, y2 = found
    (crop,) = cut(sheet.path, [Box(x1, y1, x2, y2)], policy=LINES)
    assert (x2 - x1) > (y2 - y1)
    assert crop.width > crop.height
    assert {color(crop, x, y) for x in (0.1, 0.9) for y in (0.1, 0.9)} == {"red"}


def test_text_printed_twice_is_read_once(sheet: Sheet) -> None:
    sheet.prose()
    sheet.canvas.translate(0.8, -0.8)
    sheet.prose()
    layer = sheet.layer()
    assert [line.text for line in layer.lines] == list(PROSE)
    assert layer.trust == 1.0


def test_plain_text_is_trusted(sheet: Sheet) -> None:
    sheet.prose()
    layer = sheet.layer()
    assert (layer.trust, layer.doubts, layer.is_trusted) == (1.0, (), True)


def test_an_earlier_ocr_under_a_scan_is_not_trusted(sheet: Sheet) -> None:
    sheet.picture(0, 0, 600, 800)
    sheet.prose(mode=3)
    layer = sheet.layer()
    assert layer.under_image
    assert layer.is_usable
    assert not layer.is_trusted
    assert any("invisible" in doubt for doubt in layer.doubts)


def test_text_hidden_by_an_image_is_not_trusted(sheet: Sheet) -> None:
    sheet.prose()
    sheet.picture(0, 0, 600, 800)
    layer = sheet.layer()
    assert layer.under_image
    assert not layer.is_trusted


def test_text_over_a_page_image_is_the_pages_own(sheet: Sheet) -> None:
    sheet.picture(0, 0, 600, 800)
    sheet.prose()
    layer = sheet.layer()
    assert not layer.under_image
    assert layer.is_trusted


def test_overlapping_texts_are_not_trusted(sheet: Sheet) -> None:
    sheet.prose()
    for k, line in enumerate(reversed(PROSE)):
        sheet.write(60, 100 + 40 * k, line[::-1])
    layer = sheet.layer()
    assert not layer.is_trusted
    assert any("other text" in doubt for doubt in layer.doubts)


def test_pictures_are_listed(sheet: Sheet) -> None:
    sheet.prose()
    sheet.picture(100, 400, 300, 200)
    sheet.picture(10, 780, 8, 8)
    (picture,) = sheet.layer().pictures
    assert near(picture, 100, 400, 400, 600)


def test_wrong_character_map_is_read_as_it_says(tmp_path: Path) -> None:
    """What is wrong about it only the page can tell."""
    layer = drawn(
        misspelt_pdf(tmp_path / "a.pdf", ["Water rises in the spring", "of the year"]), LINES
    ).text_layer
    assert layer is not None
    assert layer.lines[0].text == "Xbufs sjtft jo uif tqsjoh"
    assert layer.is_trusted


def test_a_page_without_text_has_no_layer(tmp_path: Path) -> None:
    assert drawn(marked_pdf(tmp_path / "a.pdf", (300, 400)), LINES).text_layer is None


@pytest.mark.parametrize("bad", ["\ue012", "\ufffd", "\x01"])
def test_meaningless_characters_are_damage(bad: str) -> None:
    """As from a font without a character map."""
    assert garbled_share(bad * 40) == 1.0
    assert garbled_share(f"{bad} nine more") == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    "text", ["Straße — 50 %, naïve…", "机器学习模型", "mea\ufffesured, mea\x02sure"]
)
def test_words_and_pdfium_hyphens_are_not_damage(text: str) -> None:
    assert garbled_share(text) == 0.0


def test_damaged_or_short_text_layer_is_not_usable() -> None:
    assert TextLayer("Water rises in the spring of the year", under_image=False).is_usable
    assert not TextLayer("Page 3 of 12", under_image=False).is_usable
    assert not TextLayer("Water rises in the spring " * 9, under_image=False, damage=0.06).is_usable
