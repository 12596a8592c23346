"""Figures, prose that is no table, headings on scans and their levels."""

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.structure.headings import heading_levels
from tests.engines.embedded.written import labeled_blocks

WIDTH, HEIGHT = 1000, 1300


def line(
    text: str,
    x: float,
    y: float,
    right: float = 0.0,
    height: float = 20.0,
    bold: bool | None = None,
) -> OcrLine:
    right = right or x + 0.5 * height * len(text)
    word = Word((x, y, right, y + height), text)
    return OcrLine(text, (word,), 0.9, is_exact=bold is not None, bold=bool(bold))


def prose(y: float, count: int, x: float = 100.0, right: float = 900.0) -> list[OcrLine]:
    return [line(f"line {k} of a text that goes on.", x, y + 26 * k, right) for k in range(count)]


def blocks(lines: list[OcrLine], *regions: Region) -> list[PageBlock]:
    return labeled_blocks(lines, regions, WIDTH, HEIGHT)


def labels(lines: list[OcrLine], *regions: Region) -> dict[str, str]:
    return {block.text: block.label for block in blocks(lines, *regions)}


def test_a_list_below_a_chart_is_no_part_of_it() -> None:
    ticks = [line(str(k), 200 + 60 * k, 500) for k in range(9)]
    items = [
        line("a. Use the graph of the function to find out", 150, 540),
        line("b. Sketch the graph of the velocity", 150, 566),
    ]
    page = [*ticks, *items, *prose(700, 8)]
    found = blocks(page, Region("figure", (100, 250, 850, 600), 0.9))
    image = next(block for block in found if block.label == "image")
    assert image.rect[1] == 250
    assert 520 <= image.rect[3] <= 540
    assert any(set(items) <= set(block.lines) for block in found)
    assert not any(tick in block.lines for block in found for tick in ticks)


def test_a_box_of_aligned_lines_is_no_figure() -> None:
    box = [
        line(text, 100, 900 + 24 * k)
        for k, text in enumerate(("To:", "Dr Rhine", "Main St", "Bonn"))
    ]
    found = blocks([*box, *prose(300, 8)], Region("figure", (90, 890, 400, 1010), 0.6))
    assert "image" not in {block.label for block in found}


def test_a_list_that_the_detector_takes_for_a_figure_is_text() -> None:
    """Its bullets are lines of their own, left of those that continue an item."""
    lines = []
    for k in range(4):
        lines += [
            line("–", 100, 300 + 52 * k, 112),
            line("one damaged mirror for", 140, 300 + 52 * k),
        ]
        lines += [line("opticians", 140, 326 + 52 * k)]
    figure = Region("figure", (90, 290, 400, 510), 0.9)
    assert "image" not in labels(lines, figure).values()


def test_columns_of_prose_beside_a_chart_are_no_part_of_it() -> None:
    left, right = prose(300, 8, 100, 360), prose(300, 8, 660, 900)
    ticks = [line(str(k), 400 + 40 * k, 470) for k in range(5)]
    page = [*left, *ticks, *right, *prose(700, 8)]
    found = blocks(page, Region("figure", (95, 290, 905, 500), 0.9))
    image = next(block for block in found if block.label == "image")
    assert 360 < image.rect[0] < 400
    assert 600 < image.rect[2] < 660
    for column in (left, right):
        assert any(set(column) <= set(block.lines) for block in found)


def test_columns_of_prose_in_a_table_region_are_text() -> None:
    columns = [*prose(200, 8, 100, 480), *prose(200, 8, 520, 900)]
    found = blocks(columns, Region("table", (90, 190, 910, 420), 0.7))
    assert [block.label for block in found] == ["text", "text"]


def test_a_figure_of_cells_in_rows_is_a_table() -> None:
    cells = [line(f"cell {k}{j}", 150 + 200 * j, 300 + 40 * k) for k in range(4) for j in range(3)]
    found = blocks([*cells, *prose(700, 6)], Region("figure", (100, 280, 800, 470), 0.8))
    assert {block.label for block in found} == {"table", "text"}


def test_a_region_over_two_columns_is_two_blocks() -> None:
    left, right = prose(200, 5, 100, 480), prose(200, 5, 520, 900)
    found = blocks([*left, *right], Region("text", (90, 190, 910, 340), 0.8))
    assert sorted(len(block.lines) for block in found) == [5, 5]


def test_a_short_line_apart_within_text_is_a_heading() -> None:
    below = [line("It goes on and on in full lines.", 100, 460 + 26 * k, 900) for k in range(5)]
    page = [*prose(300, 4), line("The lower river", 100, 430), *below]
    region = Region("text", (90, 290, 910, 600), 0.9)
    assert labels(page, region)["The lower river"] == "title"
    close = [*prose(300, 4), line("The lower river", 100, 404), *prose(430, 5)]
    assert "title" not in labels(close, region).values()


def test_a_bold_line_above_text_is_a_heading_and_bold_run_ins_are_none() -> None:
    text = [
        line(f"line {k} of a text that goes on.", 100, 330 + 26 * k, 900, bold=False)
        for k in range(5)
    ]
    assert labels([line("Rivers", 100, 304, bold=True), *text])["Rivers"] == "title"
    sentence = line("Rivers are long and wide, and.", 100, 304, bold=True)
    assert labels([sentence, *text])[sentence.text] == "text"


def test_a_caption_within_a_text_is_a_block_of_its_own() -> None:
    page = [*prose(300, 4), line("Table 1: Lengths of rivers", 300, 420), *prose(460, 4)]
    region = Region("text", (90, 290, 910, 560), 0.9)
    assert labels(page, region)["Table 1: Lengths of rivers"] == "table_caption"


def test_notes_in_small_print_at_the_foot_are_footnotes() -> None:
    note = line("1 See the report, page 8.", 100, 1100, height=15)
    assert labels([*prose(300, 28), note])[note.text] == "footnote"


def test_small_print_at_the_foot_is_a_footnote_even_without_a_mark() -> None:
    small = [
        line(f"Permission to copy part {k} of this", 100, 1040 + 18 * k, 440, 14) for k in range(4)
    ]
    left, right = prose(300, 27, 100, 480), prose(300, 30, 520, 900)
    found = blocks([*left, *small, *right])
    assert [block.label for block in found if block.lines[0] in small] == ["footnote"]
    # Of a reference list that goes on in the next column the heading is large, and no text.
    heads = [line("References", 100, 940, bold=True)]
    refs = [line(f"A. Author, a work of part {k}", 100, 970 + 18 * k, 480, 14) for k in range(8)]
    found = blocks([*prose(300, 20, 100, 480), *heads, *refs, *right])
    assert "footnote" not in {block.label for block in found}


def test_an_index_that_sticks_out_below_a_column_is_no_footnote() -> None:
    assert labels([*prose(300, 28), line("s", 400, 1040, height=12)])["s"] == "text"


def test_a_note_in_the_region_of_the_text_above_it_is_a_block_of_its_own() -> None:
    note = [line("2This was said by the keeper", 100, 1032, 900, 15)]
    note += [line("of the lock at the bridge.", 100, 1051, height=15)]
    page = [*prose(300, 28), *note]
    found = labels(page, Region("text", (90, 290, 910, 1080), 0.9))
    assert found["2This was said by the keeper of the lock at the bridge."] == "footnote"


def test_a_caption_far_from_any_figure_is_one_by_how_it_begins() -> None:
    """The detector calls captions of tables, too, those of figures."""
    caption = line("TABLE I. Lengths of rivers", 100, 500)
    page = [*prose(200, 6), caption, *prose(600, 6)]
    region = Region("figure_caption", (90, 490, 500, 530), 0.9)
    assert labels(page, region)[caption.text] == "table_caption"


def test_a_caption_of_a_few_rows_may_have_many_parts() -> None:
    rows = [line("Figure 1. Levels of the rivers,", 100, 600, 380)]
    rows += [line("and what the keepers said", 100, 626 + 26 * k, 380) for k in range(4)]
    beside = [line("of them all and more", 390, 600 + 26 * k, 620) for k in range(5)]
    page = [*prose(200, 6), *rows, *beside, *prose(900, 6)]
    found = blocks(page, Region("text", (90, 590, 640, 740), 0.9))
    assert [one.label for one in found if one.text.startswith("Figure")] == ["image_caption"]


def heading(text: str, height: float, y: float = 100.0) -> PageBlock:
    one = line(text, 100, y, height=height)
    return PageBlock("title", (one,), one.rect)


def test_levels_of_headings() -> None:
    lines = prose(400, 20)
    body = PageBlock("text", tuple(lines), (100, 400, 900, 920))
    page = [heading("A title", 40), body, heading("Part", 28), body, heading("2.1 Rivers", 28)]
    assert heading_levels(page) == {0: 1, 2: 2, 4: 3}
    # Without a title, sections are of the second level.
    assert heading_levels([heading("Part", 28), body, heading("Other", 28)]) == {0: 2, 2: 2}
    assert heading_levels([body]) == {}
