import html
import re
from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.tables import table_html
from llm_ocr.text.table_markup import read_html_tables

HEIGHT, LETTER, COLUMN = 20.0, 10.0, 200.0


def word(text: str, x: float, y: float) -> Word:
    return Word((x, y, x + LETTER * len(text), y + HEIGHT), text)


def phrase(text: str, x: float, y: float) -> OcrLine:
    """Words beside each other with narrow spaces, from `x` on."""
    words: list[Word] = []
    for part in text.split():
        words.append(word(part, x, y))
        x = words[-1].rect[2] + 5
    return OcrLine(text, tuple(words), 0.9)


def grid(*rows: Sequence[str], pitch: float = 40.0) -> list[OcrLine]:
    """A line for each cell with text, in columns that are all as wide."""
    return [
        phrase(text, COLUMN * column, pitch * at)
        for at, row in enumerate(rows)
        for column, text in enumerate(row)
        if text
    ]


def row_texts(table: str | None) -> list[list[str]]:
    assert table is not None
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return [[html.unescape(cell) for cell in row] for row in cells]


def test_words_in_columns_are_a_table_with_a_header_row() -> None:
    table = table_html(grid(("River", "Length"), ("Rhine", "1233"), ("Upper Elbe", "1,094.5")))
    assert table == (
        "<table><tr><th>River</th><th>Length</th></tr>"
        "<tr><td>Rhine</td><td>1233</td></tr>"
        "<tr><td>Upper Elbe</td><td>1,094.5</td></tr></table>"
    )


def test_a_lone_cell_in_the_middle_is_a_title_unless_its_column_begins_there() -> None:
    rows = [("Reign", "n" * 60), ("Spouse", "s" * 58), ("", "w" * 40), ("Father", "f" * 55)]
    lines = grid(*rows)
    assert row_texts(table_html(lines))[2] == ["", "w" * 40]
    title = phrase("t" * 30, 250, 160)
    assert row_texts(table_html([*lines, title, *moved(lines, 200)]))[4] == ["t" * 30]


def moved(lines: Sequence[OcrLine], down: float) -> list[OcrLine]:
    return [phrase(one.text, one.rect[0], one.rect[1] + down) for one in lines]


def test_rows_above_the_first_numbers_are_header_rows() -> None:
    table = table_html(
        grid(
            ("Place", "Year", "Year"),
            ("", "2023", "2024"),
            ("Bonn", "17", "18%"),
            ("Köln", "$ 21.0", "(22)"),
        )
    )
    assert table is not None
    assert table.count("<tr><th>") == 2
    assert row_texts(table)[1:] == [
        ["", "2023", "2024"],
        ["Bonn", "17", "18%"],
        ["Köln", "$ 21.0", "(22)"],
    ]


def test_without_any_number_the_first_row_alone_is_the_header() -> None:
    table = table_html(grid(("Colour", "Fruit"), ("red", "apple"), ("blue", "plum")))
    assert table is not None
    assert re.findall(r"<tr><(t.)>", table) == ["th", "td", "td"]


def test_empty_cells_keep_their_columns() -> None:
    rows = [
        ["Name", "North", "South", "West"],
        ["Rain", "", "12", ""],
        ["", "7", "", "9"],
        ["Snow", "1", "2", "3"],
    ]
    assert row_texts(table_html(grid(*rows))) == rows


def test_a_cell_across_columns_spans_them() -> None:
    # Row of one wide phrase over the second and third column.
    wide = phrase("Measurements of the seventh summer", COLUMN, 0)
    below = [
        phrase(text, x, y)
        for y, row in ((40, ("Place", "June", "July")), (80, ("Bonn", "17", "18")))
        for text, x in zip(row, (0, COLUMN, 2 * COLUMN), strict=True)
    ]
    table = table_html([wide, *below])
    assert table is not None
    assert table.startswith(
        '<table><tr><th></th><th colspan="2">Measurements of the seventh summer</th></tr>'
    )
    assert row_texts(table)[1:] == [["Place", "June", "July"], ["Bonn", "17", "18"]]


def test_a_lone_cell_close_below_another_goes_on_with_it() -> None:
    lines = grid(("Item", "Note"), ("Oak", "strong"), ("Elm", "soft and"), pitch=60)
    lines += [phrase("easily bent", COLUMN, 144), phrase("Fir", 0, 204), phrase("x", COLUMN, 204)]
    lines += [phrase("Yew", 0, 264), phrase("y", COLUMN, 264)]
    assert row_texts(table_html(lines)) == [
        ["Item", "Note"],
        ["Oak", "strong"],
        ["Elm", "soft and easily bent"],
        ["Fir", "x"],
        ["Yew", "y"],
    ]


def test_a_lone_cell_at_a_rows_distance_is_a_row() -> None:
    rows = [["Group", "Count"], ["Trees", ""], ["Oak", "3"], ["Elm", "4"]]
    assert row_texts(table_html(grid(*rows))) == rows


def test_numbers_beside_a_label_of_two_lines_are_of_its_row() -> None:
    lines = grid(("Measure", "2001", "2002"), ("Income", "17", "18"), pitch=60)
    for y, first, second in ((120, "Years lost", "to illness"), (180, "Activity", "index")):
        lines += [phrase(first, 0, y), phrase(second, 0, y + 24)]
        lines += [phrase(text, x, y + 12) for text, x in (("7.1", COLUMN), ("6.9", 2 * COLUMN))]
    assert row_texts(table_html(lines)) == [
        ["Measure", "2001", "2002"],
        ["Income", "17", "18"],
        ["Years lost to illness", "7.1", "6.9"],
        ["Activity index", "7.1", "6.9"],
    ]


def test_lines_of_a_head_below_each_other_are_one_cell() -> None:
    heads = ("Item", "Number", "Percent"), ("Format", "Of Items", "Of Items")
    body = ("Total", "135", "100"), ("Open", "61", "45"), ("Closed", "74", "55")
    assert row_texts(table_html(grid(*heads, *body, pitch=30))) == [
        ["Item Format", "Number Of Items", "Percent Of Items"],
        *map(list, body),
    ]


def test_a_label_in_the_middle_stands_over_all_columns() -> None:
    rows = [("Series", "Share", "Weight", "Total"), ("Ferries", "17", "18", "19")]
    lines = grid(*rows, ("", "", "", ""), ("Canals", "27", "28", "29"), ("Floods", "3", "4", "5"))
    right = max(line.rect[2] for line in lines)
    label = "Reliable districts"
    table = table_html([*lines, phrase(label, (right - LETTER * len(label)) / 2, 80)])
    assert table is not None
    assert f'<tr><td colspan="4">{label}</td></tr>' in table
    assert row_texts(table)[3] == ["Canals", "27", "28", "29"]


def test_bullets_belong_to_the_text_after_them() -> None:
    lines = grid(("Property", "Reason"), ("Range", ""), ("Recall", ""), ("Order", ""))
    for k, reason in enumerate(("High percent", "Short period", "Both ends")):
        y = 40 * (k + 1)
        lines += [phrase("•", COLUMN, y), phrase(reason, COLUMN + 40, y)]
    assert row_texts(table_html(lines))[1:] == [
        ["Range", "• High percent"],
        ["Recall", "• Short period"],
        ["Order", "• Both ends"],
    ]


def test_dots_that_lead_to_a_value_are_no_text() -> None:
    rows = [["Proportion", "Size"], ["0.99", "800"], ["0.95", "160"], ["0.90", "80"]]
    lines = grid(*rows) + [phrase("........", 70, 40 * k) for k in (1, 2, 3)]
    assert row_texts(table_html(lines)) == rows


def test_words_without_columns_are_no_table() -> None:
    prose = ["The quick brown fox jumps over", "the lazy dog and then it", "rests a while under"]
    assert table_html([phrase(text, 0, 30 * k) for k, text in enumerate(prose)]) is None
    assert table_html([]) is None
    assert table_html(grid(("only", "three"), ("words", ""))) is None


def test_text_is_escaped() -> None:
    rows = [["a<b", "R&D"], ["</td>", "5"], ["x", '"6"']]
    table = table_html(grid(*rows))
    assert table is not None
    assert "<td>&lt;/td&gt;</td>" in table
    assert "<th>a&lt;b</th><th>R&amp;D</th>" in table
    assert row_texts(table) == rows


NUMBERS = st.floats(0, 900, allow_nan=False)
WORDS = st.builds(word, st.text("ab1", min_size=1, max_size=8), NUMBERS, NUMBERS)


@given(st.lists(WORDS, max_size=30))
def test_no_word_is_lost_and_every_row_has_all_columns(words: list[Word]) -> None:
    table = table_html([OcrLine(one.text, (one,), 0.9) for one in words])
    if table is None:
        return
    texts = [text for row in row_texts(table) for text in row]
    assert sorted(" ".join(texts).split()) == sorted(one.text for one in words)
    (cells,) = read_html_tables(table)
    places = product(range(cells.row_count), range(cells.column_count))
    assert all(cells.at(row, column) is not None for row, column in places)
