import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from benchmarks.page_scores import score_page, unwrapped
from benchmarks.pages.fonts import FAMILIES, register
from benchmarks.pages.making import DIGITAL, SCANNED, TURNED, make, pages
from benchmarks.pages.scan import as_images
from benchmarks.pages.tables import Cell, Table
from benchmarks.pages.truth import CAPTION, PARAGRAPH, TABLE, TruePage, read_page
from benchmarks.pages.typeset import joined, lines_of, words_of

# Their pages take 20 seconds to draw.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    counts = make(place, seed=3, number=12)
    assert counts == {"digital": 12, "scanned": 12, "turned": 6, "dark": 6}
    return place


def digital(folder: Path) -> Iterator[tuple[TruePage, "pdfium.PdfTextPage"]]:
    paths = sorted((folder / DIGITAL).glob("*.json"))
    assert len(paths) == 12
    for path in paths:
        document = pdfium.PdfDocument(path.with_suffix(".pdf"))
        yield read_page(path), document[0].get_textpage()


def squeezed(text: str) -> str:
    """Letters, digits and signs alone: without spaces, and without hyphens, which may stand at the
    end of a line or not."""
    return re.sub(r"[\s\-\u0002\ufffe]", "", unicodedata.normalize("NFC", text))


def test_the_same_seed_gives_the_same_files_and_another_seed_others(
    folder: Path, tmp_path: Path
) -> None:
    make(tmp_path, seed=3, number=6)
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) == 3 * (6 + 6 + 6 + 6)
    for path in made:
        same = folder / path.relative_to(tmp_path)
        assert path.read_bytes() == same.read_bytes(), path.name
    drawn = {pdf for _, (_, pdf) in islice(pages(seed=4, number=6), 4)}
    assert not drawn & {path.read_bytes() for path in made}


def test_ground_truth_equals_the_text_layer(folder: Path) -> None:
    for page, layer in digital(folder):
        printed = squeezed(layer.get_text_range())
        for block in page.blocks:
            texts = [part.text for part in block.parts] if block.kind == PARAGRAPH else [block.text]
            if block.kind == TABLE:
                texts = re.findall(r"<td[^>]*>([^<]*)</td>", block.html.replace("&amp;", "&"))
            for text in texts if block.kind == TABLE else [*texts, *block.inner]:
                assert _stands_in(text, printed, block.kind), (page.name, text)
        said = [part.text for block in page.blocks for part in block.parts]
        known = sum(len(squeezed(text)) for text in said)
        known += sum(len(squeezed(text)) for block in page.blocks for text in block.inner)
        assert known == pytest.approx(len(printed), abs=3), page.name


def _stands_in(text: str, printed: str, kind: str) -> bool:
    """In one piece; what pdfium may put in another order, word by word."""
    if kind == PARAGRAPH:
        return squeezed(text) in printed
    return all(squeezed(word) in printed for word in text.split())


def test_boxes_contain_their_text_and_are_on_the_page(folder: Path) -> None:
    for page, layer in digital(folder):
        for block in page.blocks:
            for part in block.parts:
                x1, y1, x2, y2 = part.box
                assert 0 <= x1 < x2 <= page.width, (page.name, block)
                assert 0 <= y1 < y2 <= page.height, (page.name, block)
                if block.kind in (PARAGRAPH, CAPTION):
                    within = x1 - 1, page.height - y2 - 1, x2 + 1, page.height - y1 + 1
                    left, bottom, right, top = within
                    text = layer.get_text_bounded(left, bottom, right, top)
                    assert squeezed(text) == squeezed(part.text), (page.name, block)


def test_blocks_do_not_overlap(folder: Path) -> None:
    for page, _ in digital(folder):
        boxes = [part.box for block in page.blocks for part in block.parts]
        for k, one in enumerate(boxes):
            for other in boxes[k + 1 :]:
                wide = min(one[2], other[2]) - max(one[0], other[0])
                high = min(one[3], other[3]) - max(one[1], other[1])
                assert min(wide, high) < 3, (page.name, one, other)


def test_no_paragraph_is_there_twice(folder: Path) -> None:
    long = [
        block.text
        for page, _ in digital(folder)
        for block in page.blocks
        if block.kind == PARAGRAPH and len(block.text) > 60
    ]
    assert len(long) > 60
    assert len(set(long)) == len(long)


def test_every_font_has_every_character_that_is_set_in_it(folder: Path) -> None:
    register()
    by_name = {family.name: family for family in FAMILIES}
    for page, _ in digital(folder):
        text = "".join(block.text + "".join(block.inner) for block in page.blocks)
        for name in page.fonts.values():
            font = pdfmetrics.getFont(by_name[name].regular)
            if isinstance(font, TTFont):
                missing = {
                    one for one in text if one != " " and ord(one) not in font.face.charToGlyph
                }
            else:
                missing = {
                    one
                    for one in text
                    if one not in text.encode("cp1252", "ignore").decode("cp1252")
                }
            assert not missing, (page.name, name, missing)


def test_a_scan_has_no_text_and_its_boxes_follow_the_skew(folder: Path) -> None:
    moved = 0
    for path in sorted((folder / SCANNED).glob("*.pdf")):
        scan = read_page(path.with_suffix(".json"))
        clean = read_page(folder / DIGITAL / f"{path.stem}.json")
        page = pdfium.PdfDocument(path)[0]
        assert page.get_textpage().count_chars() == 0
        assert page.get_size() == pytest.approx((clean.width, clean.height), abs=0.1)
        assert scan.markdown == clean.markdown
        for one, other in zip(scan.blocks, clean.blocks, strict=True):
            for part, still in zip(one.parts, other.parts, strict=True):
                assert part.box == pytest.approx(still.box, abs=9)
                moved += part.box != still.box
    assert moved > 100


def test_turned_pages_have_a_rotation(folder: Path) -> None:
    paths = sorted((folder / TURNED).glob("*.pdf"))
    assert len(paths) == 6
    for path in paths:
        page = read_page(path.with_suffix(".json"))
        assert page.turned in (90, 180, 270)
        shown = pdfium.PdfDocument(path)[0]
        assert shown.get_rotation() == page.turned


def test_perfect_answer_gets_full_score(folder: Path) -> None:
    headings = tables = 0
    for page, _ in digital(folder):
        score = score_page(page, page.markdown)
        assert (score.characters, score.words, score.in_order) == (1, 1, 1), page.name
        assert score.neighbors in (1, None)
        assert score.is_clean is not False
        assert score.headings.expected == score.headings.matched == score.headings.predicted
        assert score.headings.same_level == score.headings.matched
        assert {*score.ruled, *score.unruled} <= {1.0}
        assert score.inner_out in (1, None)
        headings += score.headings.matched
        tables += len(score.ruled) + len(score.unruled)
    assert headings > 20
    assert tables > 8


def test_errors_lower_their_own_score(folder: Path) -> None:
    page = read_page(folder / DIGITAL / "paper-00.json")
    good = score_page(page, page.markdown)
    furniture = "\n\n".join(block.text for block in page.blocks if not block.is_body)
    littered = score_page(page, f"{furniture}\n\n{page.markdown}")
    assert (good.is_clean, littered.is_clean) == (True, False)
    assert littered.characters == good.characters == 1
    flat = re.sub(r"^#+ ", "", page.markdown, flags=re.MULTILINE)
    assert score_page(page, flat).headings.predicted == 0
    pieces = page.markdown.split("\n\n")
    backwards = score_page(page, "\n\n".join(reversed(pieces)))
    assert backwards.neighbors is not None
    assert backwards.neighbors < 0.2
    assert backwards.characters == good.characters > backwards.in_order
    assert score_page(page, page.markdown.replace("e", "c")).characters < 0.95
    assert score_page(page, "").characters == 0


def test_words_that_were_cut_at_the_ends_of_lines_are_whole_again() -> None:
    words = words_of("an observatory of remarkable foundations", "Helvetica")
    lines = lines_of(words, 10, 62, hyphenated=True)
    assert any(line.cut for line in lines)
    assert joined(lines) == "an observatory of remarkable foundations"
    drawn = "\n".join(line.text for line in lines)
    assert " ".join(unwrapped(drawn).split()) == "an observatory of remarkable foundations"
    assert unwrapped("a well-\nknown\n- list\nA-\nB") == "a wellknown\n- list\nA-\nB"


def test_tables_are_written_with_their_spans() -> None:
    cells = (
        Cell("a", 0, 0, rows=2),
        Cell("b & c", 0, 1, columns=2),
        Cell("1", 1, 1),
        Cell("2", 1, 2),
    )
    assert Table(cells, 2, 3, 1).html == (
        '<table><tr><td rowspan="2">a</td><td colspan="2">b &amp; c</td></tr>'
        "<tr><td>1</td><td>2</td></tr></table>"
    )


def test_pages_as_images_keep_their_size_and_their_look_but_no_text(tmp_path: Path) -> None:
    small = tmp_path / "small.pdf"
    canvas = Canvas(str(small), pagesize=(120, 200))
    canvas.drawString(10, 100, "A small page")
    canvas.showPage()
    canvas.setPageSize((300, 150))
    canvas.rect(30, 30, 60, 60, fill=1)
    canvas.save()
    (tmp_path / "images.pdf").write_bytes(as_images(small))
    before, after = pdfium.PdfDocument(small), pdfium.PdfDocument(tmp_path / "images.pdf")
    assert len(after) == 2
    for one, other in zip(before, after, strict=True):
        assert other.get_size() == one.get_size()
        assert other.get_textpage().count_chars() == 0
        image = next(other.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE]))
        assert max(image.get_px_size()) >= 2400
        gray = [page.render(scale=2).to_numpy().mean() for page in (one, other)]
        assert gray[0] == pytest.approx(gray[1], abs=0.5)
