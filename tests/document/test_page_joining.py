import pytest

from llm_ocr.document.page_joining import BlockKind, MarkdownBlock, join_pages
from llm_ocr.records import Box


def anchor(number: int) -> MarkdownBlock:
    return MarkdownBlock(BlockKind.ANCHOR, f"<a{number}>")


def text(markdown: str) -> MarkdownBlock:
    return MarkdownBlock(BlockKind.TEXT, markdown)


def block_at(
    markdown: str, x1: float, y1: float, x2: float, y2: float, kind: BlockKind = BlockKind.TEXT
) -> MarkdownBlock:
    """A piece on a page of about 1000 x 1400 pixels."""
    return MarkdownBlock(kind, markdown, Box(x1, y1, x2, y2))


def table(*rows: str) -> MarkdownBlock:
    cells = ["".join(f"<td>{cell}</td>" for cell in row.split("|")) for row in rows]
    return MarkdownBlock(
        BlockKind.TABLE, f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
    )


FIGURE = MarkdownBlock(BlockKind.FLOAT, "![f](figures/f.jpg)")
HEADING = MarkdownBlock(BlockKind.OTHER, "## Next")


# Of more than one line, whatever its column.
HAN = "去年春天河水比往年上涨得更早也更快" * 3


@pytest.mark.parametrize(
    ("before", "after", "joint"),
    [
        ("The river rose", "by a metre.", "The river rose <a2>by a metre."),
        ("The measure-", "ments were", "The measure<a2>ments were"),
        ("in Rome,", "Paris and", "in Rome, <a2>Paris and"),
        (f"{HAN}河流的水位", "上升了", f"{HAN}河流的水位<a2>上升了"),
        ("河流的水位，", "上升了", "河流的水位，<a2>上升了"),
        ("苹果、", "Äpfel", "苹果、<a2>Äpfel"),
    ],
)
def test_paragraph_split_by_a_page_break_is_joined(before: str, after: str, joint: str) -> None:
    assert join_pages([[anchor(1), text(before)], [anchor(2), text(after)]]) == f"<a1>\n\n{joint}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The river rose.", "by a metre"),
        ("The river rose", "By a metre"),
        ("Item 3 -", "4 pieces"),
        (f"{HAN}河流的水位。", "上升了"),
        ("姓名", "王小明"),
    ],
)
def test_finished_paragraphs_stay_separate(before: str, after: str) -> None:
    joined = join_pages([[anchor(1), text(before)], [anchor(2), text(after)]])
    assert joined == f"<a1>\n\n{before}\n\n<a2>\n\n{after}\n"


def test_text_continues_around_figures_at_the_page_break() -> None:
    pages = [[anchor(1), text("It goes"), FIGURE], [anchor(2), FIGURE, text("on."), HEADING]]
    figure = FIGURE.markdown
    whole = f"<a1>\n\nIt goes <a2>on.\n\n{figure}\n\n{figure}\n\n## Next\n"
    assert join_pages(pages) == whole


def test_text_does_not_continue_across_a_heading() -> None:
    pages = [[anchor(1), text("It goes")], [anchor(2), HEADING, text("on.")]]
    assert join_pages(pages) == "<a1>\n\nIt goes\n\n<a2>\n\n## Next\n\non.\n"


def test_a_paragraph_over_three_pages() -> None:
    pages = [[anchor(1), text("one")], [anchor(2), text("two")], [anchor(3), text("three.")]]
    assert join_pages(pages) == "<a1>\n\none <a2>two <a3>three.\n"


def test_table_split_by_a_page_break_is_joined_with_one_header() -> None:
    pages = [
        [anchor(1), table("Year|Level", "2021|3.1")],
        [anchor(2), table("Year|Level", "2022|3.4"), text("After it.")],
    ]
    whole = table("Year|Level", "2021|3.1", "2022|3.4").markdown
    assert join_pages(pages) == f"<a1>\n\n{whole}\n\n<a2>\n\nAfter it.\n"


def test_the_rest_of_a_table_without_a_header_is_appended() -> None:
    pages = [[anchor(1), table("Year|Level", "2021|3.1")], [anchor(2), table("2022|3.4")]]
    assert table("Year|Level", "2021|3.1", "2022|3.4").markdown in join_pages(pages)


def test_tables_with_different_columns_stay_separate() -> None:
    first, second = table("Year|Level"), table("Name|Place|Date")
    joined = join_pages([[anchor(1), first], [anchor(2), second]])
    assert joined == f"<a1>\n\n{first.markdown}\n\n<a2>\n\n{second.markdown}\n"


def test_columns_are_counted_with_their_spans() -> None:
    wide = MarkdownBlock(BlockKind.TABLE, '<table><tr><td colspan="2">Both</td></tr></table>')
    joined = join_pages([[anchor(1), table("a|b")], [anchor(2), wide]])
    assert '<td>b</td></tr><tr><td colspan="2">' in joined


def test_empty_pages_leave_their_anchors() -> None:
    assert join_pages([[anchor(1)], [anchor(2)], [anchor(3), text("x")]]) == (
        "<a1>\n\n<a2>\n\n<a3>\n\nx\n"
    )


LINE = "The river at the old bridge of the town"


def two_columns(*, right: float = 480) -> list[MarkdownBlock]:
    """A page of two columns, the first of which ends with a text up to `right`."""
    return [
        anchor(1),
        block_at("A paragraph that fills its column.", 50, 100, 490, 600),
        block_at(LINE, 50, 620, right, 900),
        block_at("rose.", 520, 100, 640, 130),
        block_at("It fell.", 520, 140, 960, 900),
    ]


def test_paragraph_continued_in_the_next_column_is_joined() -> None:
    assert f"\n\n{LINE} rose.\n\nIt fell.\n" in join_pages([two_columns()])


def test_text_ending_before_the_column_edge_does_not_continue() -> None:
    assert f"\n\n{LINE}\n\nrose.\n\n" in join_pages([two_columns(right=300)])


@pytest.mark.parametrize(
    "page",
    [
        # Items of a list, one below the other and in two columns.
        [("2 cups flour", 50, 100, 200, 120), ("olive oil", 50, 130, 180, 150)],
        [
            *[(f"{k} pieces of it", 50, 60 * k, 250, 60 * k + 20) for k in range(1, 9)],
            ("olive oil", 500, 60, 620, 80),
        ],
        # A label, its value, the next label; the same below each other.
        [("姓名", 50, 100, 120, 130), ("王小明", 300, 100, 400, 130), ("地址", 50, 150, 120, 180)],
        [("姓名", 50, 100, 120, 130), ("王小明", 50, 150, 160, 180), ("地址", 50, 200, 120, 230)],
        # Paragraphs in the same column with nothing between them.
        [(LINE, 50, 100, 950, 300), ("rose, as some keepers of it say", 50, 320, 950, 500)],
        [("他在一九二一年的春天记录了水位，", 50, 100, 950, 300), ("水位很高", 50, 320, 950, 500)],
    ],
)
def test_separate_texts_of_a_page_stay_separate(
    page: list[tuple[str, float, float, float, float]],
) -> None:
    texts = "\n\n".join(one[0] for one in page)
    assert join_pages([[anchor(1), *(block_at(*one) for one in page)]]) == f"<a1>\n\n{texts}\n"


def test_han_text_continues_only_from_the_column_edge() -> None:
    first = block_at("这一页的第一段文字写满了它的整个栏目宽度。", 50, 100, 950, 300)
    last = "钥匙放在桥边的磨坊主人家里由他保管着"
    for right, glue in ((940, "<a2>"), (500, "\n\n<a2>\n\n")):
        page = [anchor(1), first, block_at(last, 50, 320, right, 350)]
        assert join_pages([page, [anchor(2), text("每年春天")]]).endswith(f"{last}{glue}每年春天\n")


def test_a_header_of_two_rows_is_dropped_whole_and_equal_data_rows_are_kept() -> None:
    head = "<tr><th>Level</th></tr><tr><th>m</th></tr>"
    data = "<tr><td>3</td></tr>"
    one = MarkdownBlock(BlockKind.TABLE, f"<table>{head}{data}</table>")
    joined = join_pages([[anchor(1), one], [anchor(2), one]])
    assert joined == f"<a1>\n\n<table>{head}{data}{data}</table>\n\n<a2>\n"


def test_paragraph_continues_after_a_figure() -> None:
    full, short = block_at(LINE, 50, 100, 950, 300), block_at(LINE, 50, 100, 400, 300)
    rest = block_at("rose.", 50, 700, 140, 730)
    end = block_at("It fell, as it did in each of the years before.", 50, 900, 950, 1000)
    figure = FIGURE.markdown
    page = [anchor(1), full, FIGURE, rest, FIGURE, end]
    assert join_pages([page]) == (
        f"<a1>\n\n{LINE} rose.\n\n{figure}\n\n{figure}\n\n{end.markdown}\n"
    )
    assert f"{LINE}\n\n{figure}\n\nrose." in join_pages([[anchor(1), short, FIGURE, rest, end]])
    assert f"{LINE}\n\n## Next\n\nrose." in join_pages([[anchor(1), full, HEADING, rest, end]])
