import pytest

from llm_ocr.evaluation.table_similarity import match_tables, table_similarity, teds
from llm_ocr.text.table_markup import (
    TableGrid,
    read_html_tables,
    read_markdown_tables,
    read_tables,
)

SPANNED = (
    "<table><thead><tr><th colspan=2>Size</th><th rowspan=2>Price</th></tr>"
    "<tr><td>w</td><td>h</td></tr></thead><tr><td>1</td><td>2</td><td>3</td></tr></table>"
)


def rows(table: TableGrid) -> list[list[str | None]]:
    """The text at each place; None where no cell is."""
    places = [
        [table.at(row, column) for column in range(table.column_count)]
        for row in range(table.row_count)
    ]
    return [[cell.text if cell else None for cell in row] for row in places]


def html_of(cells: list[list[str]]) -> str:
    inner = "".join("<tr>" + "".join(f"<td>{one}</td>" for one in row) + "</tr>" for row in cells)
    return f"<table>{inner}</table>"


def test_cells_are_placed_by_their_spans() -> None:
    (table,) = read_html_tables(SPANNED)
    assert rows(table) == [["Size", "Size", "Price"], ["w", "h", "Price"], ["1", "2", "3"]]
    assert [cell.is_header for cell in table.cells] == [True] * 4 + [False] * 3


def test_tables_with_bars() -> None:
    text = "before\n| a | b |\n|---|---|\n| 1 | x \\| y |\n||last|\n\na | b alone\n\nc | d\ne | f"
    first, second = read_markdown_tables(text)
    assert rows(first) == [["a", "b"], ["1", "x | y"], ["", "last"]]
    assert [cell.is_header for cell in first.cells] == [True, True, False, False, False, False]
    assert rows(second) == [["c", "d"], ["e", "f"]]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<table><tr><td>a<td>b<tr><td>c", [["a", "b"], ["c", None]]),
        ("<table><td>a</td></table>", [["a"]]),
        ("<table><tr><td rowspan=2>a<td>b<tr><td>c", [["a", "b"], ["a", "c"]]),
        ("<table><tr><td rowspan=99>a</td><td>b</td></tr></table>", [["a", "b"]]),
        ("<table><tr><td colspan='x'>a</td><td colspan=0>b</td></tr></table>", [["a", "b"]]),
        ("<table><tr><td>a<br/>b  c</td></tr></table>", [["a\nb c"]]),
        ("<table><tr><td>&lt;5 &amp; more</td></tr></table>", [["<5 & more"]]),
        ("<TABLE><TR><TD><![CDATA[x</TD></TR></TABLE>", [["<![CDATA[x"]]),
    ],
)
def test_malformed_html_tables_are_read(html: str, expected: list[list[str | None]]) -> None:
    (table,) = read_html_tables(html)
    assert rows(table) == expected


def test_no_tables() -> None:
    assert (
        read_tables("") == read_tables("text | with a bar") == read_tables("<table></table>") == []
    )


def test_an_enormous_span_is_bounded() -> None:
    (table,) = read_html_tables(
        "<table><tr><td colspan=999999 rowspan=99999999>a</td></tr></table>"
    )
    assert table.column_count <= 1000


def test_teds_of_equal_tables_is_one_in_every_notation() -> None:
    html = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert teds(html, "| a | b |\n|---|---|\n| 1 | 2 |") == 1.0
    assert teds(html, html.replace("<th>", "<td>").replace("</th>", "</td>")) == 1.0


def test_teds_counts_nodes() -> None:
    truth = html_of([["a", "b"], ["c", "d"]])  # 7 nodes
    assert teds(truth, html_of([["a", "b"], ["c", "x"]])) == pytest.approx(1 - 1 / 7)
    assert teds(truth, html_of([["a", "b"], ["c", "x"]]), structure_only=True) == 1.0
    assert teds(truth, html_of([["a", "b"]])) == pytest.approx(1 - 3 / 7)
    # One row made two: the row goes, two come, the cells stay.
    assert teds(html_of([["a", "b", "c", "d"]]), truth) == pytest.approx(1 - 3 / 7)


def test_teds_sees_spans() -> None:
    flat = "<table><tr><td>a</td></tr></table>"
    assert teds(flat, flat.replace("<td>", "<td colspan=2>"), structure_only=True) < 1.0


def test_a_missing_table_scores_nothing() -> None:
    assert teds(html_of([["a"]]), "no table") == 0.0
    assert teds("no table", html_of([["a"]])) == 0.0
    assert teds("none", "none") == 1.0


def grid(height: int, width: int, sign: str = "") -> list[list[str]]:
    return [[f"{row * width + column}{sign}" for column in range(width)] for row in range(height)]


def test_large_tables_are_scored_without_the_exact_distance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which takes half a minute for a thousand cells."""
    monkeypatch.delattr("llm_ocr.evaluation.table_similarity.APTED")
    truth = grid(50, 20)
    said = [*truth[:10], *truth[11:]]
    said[30] = [*said[30][:5], "wrong", *said[30][6:]]
    score = teds(html_of(truth), html_of(said))
    assert score == pytest.approx(1 - (21 + 1) / 1051, abs=1e-3)


def test_the_bound_of_large_tables_is_near_the_exact_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth, predicted = grid(12, 6), grid(12, 6)
    del predicted[3]
    predicted[5] = ["x", *predicted[5][2:]]
    (one,), (other,) = read_html_tables(html_of(truth)), read_html_tables(html_of(predicted))
    exact = table_similarity(one, other)
    monkeypatch.setattr("llm_ocr.evaluation.table_similarity.MAX_NODE_PAIRS", 0)
    assert table_similarity(one, other) == pytest.approx(exact, abs=1e-9)


def test_tables_are_matched_by_what_they_say() -> None:
    first, second = html_of([["a", "b"], ["1", "2"]]), html_of([["x", "y"], ["8", "9"]])
    truth, predicted = read_tables(first + second), read_tables(second + "\n" + first)
    matches = match_tables(truth, predicted)
    assert [match.teds for match in matches] == [1.0, 1.0]
    assert matches[0].prediction == predicted[1]

    alone = match_tables(truth, predicted[:1])
    assert [(match.teds, match.prediction) for match in alone] == [(0.0, None), (1.0, predicted[0])]
