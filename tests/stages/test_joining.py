import pytest

from llm_ocr.stages.joining import Kind, Piece, join_pages


def anchor(number: int) -> Piece:
    return Piece(Kind.ANCHOR, f"<a{number}>")


def text(markdown: str) -> Piece:
    return Piece(Kind.TEXT, markdown)


def table(*rows: str) -> Piece:
    cells = ["".join(f"<td>{cell}</td>" for cell in row.split("|")) for row in rows]
    return Piece(Kind.TABLE, f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>")


FIGURE = Piece(Kind.FLOAT, "![f](figures/f.jpg)")
HEADING = Piece(Kind.OTHER, "## Next")


@pytest.mark.parametrize(
    ("before", "after", "joint"),
    [
        ("The river rose", "by a metre.", "The river rose <a2>by a metre."),
        ("The measure-", "ments were", "The measure<a2>ments were"),
        ("in Rome,", "Paris and", "in Rome, <a2>Paris and"),
        ("河流的水位", "上升了", "河流的水位<a2>上升了"),
    ],
)
def test_a_paragraph_that_a_page_break_cut_is_whole_again(
    before: str, after: str, joint: str
) -> None:
    assert join_pages([[anchor(1), text(before)], [anchor(2), text(after)]]) == f"<a1>\n\n{joint}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The river rose.", "by a metre"),
        ("The river rose", "By a metre"),
        ("Item 3 -", "4 pieces"),
        ("河流的水位。", "上升了"),
    ],
)
def test_paragraphs_that_ended_stay_apart(before: str, after: str) -> None:
    joined = join_pages([[anchor(1), text(before)], [anchor(2), text(after)]])
    assert joined == f"<a1>\n\n{before}\n\n<a2>\n\n{after}\n"


def test_text_goes_on_around_figures_at_the_break() -> None:
    pages = [[anchor(1), text("It goes"), FIGURE], [anchor(2), FIGURE, text("on."), HEADING]]
    figure = FIGURE.markdown
    whole = f"<a1>\n\nIt goes <a2>on.\n\n{figure}\n\n{figure}\n\n## Next\n"
    assert join_pages(pages) == whole


def test_text_does_not_go_on_across_a_heading() -> None:
    pages = [[anchor(1), text("It goes")], [anchor(2), HEADING, text("on.")]]
    assert join_pages(pages) == "<a1>\n\nIt goes\n\n<a2>\n\n## Next\n\non.\n"


def test_a_paragraph_over_three_pages() -> None:
    pages = [[anchor(1), text("one")], [anchor(2), text("two")], [anchor(3), text("three.")]]
    assert join_pages(pages) == "<a1>\n\none <a2>two <a3>three.\n"


def test_a_table_that_a_page_break_cut_is_one_without_its_header_twice() -> None:
    pages = [
        [anchor(1), table("Year|Level", "2021|3.1")],
        [anchor(2), table("Year|Level", "2022|3.4"), text("After it.")],
    ]
    whole = table("Year|Level", "2021|3.1", "2022|3.4").markdown
    assert join_pages(pages) == f"<a1>\n\n{whole}\n\n<a2>\n\nAfter it.\n"


def test_the_rest_of_a_table_without_a_header_is_appended() -> None:
    pages = [[anchor(1), table("Year|Level", "2021|3.1")], [anchor(2), table("2022|3.4")]]
    assert table("Year|Level", "2021|3.1", "2022|3.4").markdown in join_pages(pages)


def test_tables_with_other_columns_stay_apart() -> None:
    first, second = table("Year|Level"), table("Name|Place|Date")
    joined = join_pages([[anchor(1), first], [anchor(2), second]])
    assert joined == f"<a1>\n\n{first.markdown}\n\n<a2>\n\n{second.markdown}\n"


def test_columns_are_counted_with_their_spans() -> None:
    wide = Piece(Kind.TABLE, '<table><tr><td colspan="2">Both</td></tr></table>')
    joined = join_pages([[anchor(1), table("a|b")], [anchor(2), wide]])
    assert '<td>b</td></tr><tr><td colspan="2">' in joined


def test_empty_pages_leave_their_anchors() -> None:
    assert join_pages([[anchor(1)], [anchor(2)], [anchor(3), text("x")]]) == (
        "<a1>\n\n<a2>\n\n<a3>\n\nx\n"
    )


def test_a_paragraph_that_goes_on_in_the_next_column_is_whole() -> None:
    page = [anchor(1), text("The river"), text("rose."), text("It fell.")]
    assert join_pages([page]) == "<a1>\n\nThe river rose.\n\nIt fell.\n"


def test_a_header_of_two_rows_is_dropped_whole_and_equal_data_rows_are_kept() -> None:
    head = "<tr><th>Level</th></tr><tr><th>m</th></tr>"
    data = "<tr><td>3</td></tr>"
    one = Piece(Kind.TABLE, f"<table>{head}{data}</table>")
    joined = join_pages([[anchor(1), one], [anchor(2), one]])
    assert joined == f"<a1>\n\n<table>{head}{data}{data}</table>\n\n<a2>\n"


def test_a_paragraph_goes_on_behind_a_figure_on_its_page() -> None:
    page = [anchor(1), text("The river"), FIGURE, text("rose."), FIGURE, text("It fell.")]
    figure = FIGURE.markdown
    assert join_pages([page]) == f"<a1>\n\nThe river rose.\n\n{figure}\n\n{figure}\n\nIt fell.\n"
    apart = [anchor(1), text("The river"), HEADING, text("rose.")]
    assert join_pages([apart]) == "<a1>\n\nThe river\n\n## Next\n\nrose.\n"
