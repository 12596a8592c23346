"""The layout of a page: which lines belong to which block, and where word boxes come from."""

from llm_ocr.export.layout import FIGURE_TEXT, WordSource, page_layout
from llm_ocr.records import Box
from tests.export.pages import HEBREW, LAYER, model_page, page, read_page


def test_lines_are_in_the_block_that_contains_them() -> None:
    layout = page_layout(read_page())
    found = [(block.label, [line.text for line in block.lines]) for block in layout.blocks]
    assert found == [
        ("title", ["The report"]),
        ("text", ["First line", 'second a<b & "c"']),
        ("table", ["Item", "Price", "Rope", "12"]),
        ("image", []),
        (FIGURE_TEXT, ["in the figure"]),
        ("image_caption", ["Figure 1"]),
        ("text", [" ".join(HEBREW)]),
        ("text", ["beside all"]),
    ]
    assert layout.dpi == 100


def test_a_line_says_where_its_word_boxes_come_from() -> None:
    sources = {line.text: line.source for line in page_layout(read_page()).lines}
    assert sources["First line"] is WordSource.ENGINE
    # Its words are not known, and those of the table neither.
    assert sources['second a<b & "c"'] is WordSource.ESTIMATED
    assert sources["Rope"] is WordSource.ESTIMATED
    assert page_layout(read_page()).word_sources == (WordSource.ENGINE, WordSource.ESTIMATED)


def test_the_text_layer_gives_words_where_the_engine_has_no_lines() -> None:
    layout = page_layout(model_page(), LAYER)
    text, table, unplaced = layout.blocks
    assert [line.source for line in (*text.lines, *table.lines)] == [WordSource.TEXT_LAYER] * 2
    assert {line.source for line in unplaced.lines} == {WordSource.ESTIMATED}
    assert text.lines[0].words == LAYER[0].words


def test_estimated_words_have_all_of_the_text_and_stay_in_their_box() -> None:
    layout = page_layout(model_page())
    text, table, unplaced = layout.blocks
    said = " ".join(line.text for line in text.lines)
    assert said == model_page().blocks[0].text
    assert 3 <= len(text.lines) <= 6
    assert {line.confidence for line in text.lines} == {0.7}
    for line in (*text.lines, *table.lines):
        block = text if line in text.lines else table
        assert all(_is_within(word.box, block.box) for word in line.words)
    assert [line.text for line in table.lines] == ["Item", "Price", "Rope", "12"]
    rope, twelve = table.lines[2:]
    assert rope.box.x2 <= twelve.box.x1
    assert rope.box.y1 == twelve.box.y1 > table.lines[0].box.y2
    assert _is_within(unplaced.box, Box(0, 0, 800, 1000))


def test_a_page_without_blocks_has_its_lines() -> None:
    assert [block.label for block in page_layout(page(lines=read_page().lines)).blocks] == [
        "text"
    ] * 6
    assert page_layout(page()).blocks == ()


def _is_within(inner: Box, outer: Box) -> bool:
    across = outer.x1 - 0.01 <= inner.x1 <= inner.x2 <= outer.x2 + 0.01
    return across and outer.y1 - 0.01 <= inner.y1 <= inner.y2 <= outer.y2 + 0.01
