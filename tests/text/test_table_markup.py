"""Tables in HTML and Markdown."""

import pytest

from llm_ocr.text.table_markup import (
    MAX_SPAN,
    TableCell,
    first_table,
    html_cell,
    html_table,
    is_markdown_row,
    read_html_rows,
    read_markdown_rows,
    split_at_tables,
)


def test_cells_have_their_columns_below_cells_that_span_rows() -> None:
    rows = read_html_rows(
        "<table><tr><td rowspan=2>a</td><td colspan=2>b</td></tr><tr><td>c</td></tr></table>"
    )
    assert [[(cell.column, cell.columns, cell.rows) for cell in row] for row in rows] == [
        [(0, 1, 2), (1, 2, 1)],
        [(1, 1, 1)],
    ]


def test_a_cell_from_above_keeps_its_columns_below_a_cell_that_overlaps_it() -> None:
    rows = read_html_rows(
        "<table><tr><td>a<td rowspan=3>b<tr><td colspan=2>c<tr><td>d<td>e</table>"
    )
    assert [[cell.column for cell in row] for row in rows] == [[0, 1], [0], [0, 2]]


def test_unclosed_tags_and_huge_spans_are_read() -> None:
    rows = read_html_rows("<table><tr><td>a<td colspan=99999>b<tr><td>c &amp; d")
    assert [[cell.text for cell in row] for row in rows] == [["a", "b"], ["c & d"]]
    assert rows[0][1].columns == MAX_SPAN


def test_spaces_between_digits_are_kept_in_rows() -> None:
    (row,) = read_html_rows("<table><tr><td> 1\u00a0234,50  EUR </td></tr></table>")
    assert row[0].text == "1\u00a0234,50 EUR"


def test_empty_rows_are_left_out() -> None:
    text = "<table><tr></tr><tr><td>a</td></tr></table>"
    assert [[cell.text for cell in row] for row in read_html_rows(text)] == [["a"]]


def test_a_markdown_table_is_read_without_its_ruler() -> None:
    lines = ["| a | b |", "| --- | :-: |", "| 1 | 2 |"]
    assert all(map(is_markdown_row, lines))
    assert [[cell.text for cell in row] for row in read_markdown_rows(lines)] == [
        ["a", "b"],
        ["1", "2"],
    ]


def test_a_text_is_split_at_its_html_tables() -> None:
    text = "before <table><tr><td>a</td></tr></table> between <TABLE>unclosed"
    assert [(is_table, part.strip()) for is_table, part in split_at_tables(text)] == [
        (False, "before"),
        (True, "<table><tr><td>a</td></tr></table>"),
        (False, "between"),
        (True, "<TABLE>unclosed"),
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("<table><tr><th>a<th>b<tr><td>1</table>", [["a", "b"], ["1", ""]]),
        ("a | b\n--|--\n1 | 2", [["a", "b"], ["1", "2"]]),
        ("| a | b |", None),
        ("no table", None),
    ],
)
def test_the_first_table_of_a_text(text: str, rows: list[list[str]] | None) -> None:
    assert first_table(text) == rows


def test_a_written_table_is_read_back() -> None:
    text = html_table(
        [[html_cell("th", "a < b", colspan=2)], [html_cell("td", "1"), html_cell("td", "2")]]
    )
    assert text == (
        '<table><tr><th colspan="2">a &lt; b</th></tr><tr><td>1</td><td>2</td></tr></table>'
    )
    assert read_html_rows(text)[0] == [TableCell(0, 0, "a < b", 1, 2, is_header=True)]
