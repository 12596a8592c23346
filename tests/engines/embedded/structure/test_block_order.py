from collections.abc import Sequence

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.engines.embedded.structure.reading_order import in_order


def block(label: str, name: str, *rect: float) -> PageBlock:
    x1, y1, x2, y2 = rect
    place: Rect = (x1, y1, x2, y2)
    lines = () if label == "image" else (OcrLine(name, (Word((x1, y1, x2, y1 + 20), name),), 0.9),)
    return PageBlock(label, lines, place)


def names(blocks: Sequence[PageBlock]) -> list[str]:
    return [one.text or one.label for one in in_order(blocks)]


COLUMNS = [
    block("text", "l1", 50, 100, 480, 300),
    block("text", "l2", 50, 320, 480, 800),
    block("text", "r1", 520, 100, 950, 500),
]


def test_notes_come_behind_the_body_and_furniture_around_it() -> None:
    page = [
        block("page_number", "7", 500, 20, 520, 40),
        block("footer", "foot", 50, 1250, 950, 1270),
        block("header", "head", 50, 20, 300, 40),
        block("footnote", "note", 50, 900, 480, 920),
        *COLUMNS,
    ]
    assert names(page) == ["head", "7", "l1", "l2", "r1", "note", "foot"]


def test_a_caption_stands_behind_the_figure_above_it_and_before_the_table_below() -> None:
    page = [
        block("image_caption", "Figure 1", 520, 760, 700, 780),
        block("image", "", 520, 510, 950, 750),
        block("table_caption", "Table 1", 300, 850, 600, 870),
        block("table", "cells", 50, 880, 950, 1000),
        *COLUMNS,
    ]
    assert names(page) == ["l1", "l2", "r1", "image", "Figure 1", "Table 1", "cells"]


def test_a_caption_far_from_any_figure_keeps_its_place() -> None:
    page = [
        block("image_caption", "Figure 1", 50, 60, 480, 80),
        block("image", "", 520, 510, 950, 750),
        *COLUMNS,
    ]
    assert names(page)[0] == "Figure 1"


def test_a_heading_in_the_middle_ends_columns() -> None:
    page = [
        block("title", "Next", 460, 830, 540, 860),
        block("text", "l3", 50, 880, 480, 1200),
        block("text", "r3", 520, 900, 950, 1200),
        *COLUMNS,
    ]
    assert names(page) == ["l1", "l2", "r1", "Next", "l3", "r3"]


def test_a_heading_at_the_left_that_columns_begin_under_ends_those_above() -> None:
    page = [
        block("title", "Next", 50, 830, 200, 860),
        block("text", "l3", 50, 880, 480, 1200),
        block("text", "r3", 520, 880, 950, 1200),
        *COLUMNS,
    ]
    assert names(page) == ["l1", "l2", "r1", "Next", "l3", "r3"]


def test_a_heading_beside_a_gap_of_the_other_column_ends_no_columns() -> None:
    left = [
        block("text", "l1", 50, 100, 480, 190),
        block("title", "Chapter", 50, 235, 300, 260),
        block("text", "l2", 50, 290, 480, 800),
    ]
    right = [
        block("text", "r1", 520, 100, 950, 150),
        block("title", "Section", 520, 193, 800, 215),
        block("text", "r2", 520, 230, 950, 800),
    ]
    assert names([*left, *right]) == ["l1", "Chapter", "l2", "r1", "Section", "r2"]
    mirrored = [
        block(one.label, one.text, x1 + shift, y1, x2 + shift, y2)
        for part, shift in ((left, 470), (right, -470))
        for one in part
        for x1, y1, x2, y2 in [one.rect]
    ]
    assert names(mirrored) == ["r1", "Section", "r2", "l1", "Chapter", "l2"]


def test_boxes_with_headings_side_by_side_are_read_row_by_row() -> None:
    page = [
        block("title", name, x, y, x + 200, y + 30)
        for name, x, y in (("1", 50, 100), ("2", 520, 102), ("3", 50, 600), ("4", 520, 600))
    ]
    page += [
        block(
            "text",
            f"t{one.text}",
            one.rect[0],
            one.rect[1] + 50,
            one.rect[0] + 400,
            one.rect[1] + 250,
        )
        for one in page
    ]
    assert names(page) == ["1", "t1", "2", "t2", "3", "t3", "4", "t4"]


def test_a_heading_at_the_end_of_a_column_heads_the_block_below_both() -> None:
    page = [
        block("text", "l", 50, 100, 480, 500),
        block("title", "Steps", 50, 520, 200, 545),
        block("text", "r", 520, 100, 950, 545),
        block("text", "list", 50, 560, 950, 800),
    ]
    assert names(page) == ["l", "r", "Steps", "list"]
    far = [*page[:2], page[2], block("text", "list", 50, 760, 950, 900)]
    assert names(far) == ["l", "Steps", "r", "list"]
