"""Tables that no detector saw, by how their lines stand, and what only looks like one."""

import pytest

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, hull
from llm_ocr.engines.embedded.regions.borderless_tables import (
    with_aligned_tables,
    with_head_row,
    with_label_column,
)
from llm_ocr.engines.embedded.regions.layout import Region
from tests.engines.embedded.written import FLOOD, PITCH, RECORDS, column, line, rows

TOP, LEFT = 400.0, 100.0
PLACES = (LEFT, 300.0, 420.0)
STATIONS = [
    ("Alder", "12.5", "94"),
    ("Canal", "70.3", "71"),
    ("Harbour", "18.4", "12"),
    ("Quarry", "61.9", "33"),
]
LABELLED = [("Keeper", "Anna Berg"), ("Station", "Upper Alder"), ("Book", "Third of nine")]
# What stands above and below it on the page, too far away to be of it.
TEXT = [*column([FLOOD] * 4, LEFT, 100), *column([RECORDS] * 4, LEFT, 800)]


def around(lines: list[OcrLine]) -> Rect:
    return hull(one.rect for one in lines)


def tables(lines: list[OcrLine]) -> list[Rect]:
    return [one.rect for one in with_aligned_tables([], [*TEXT, *lines]) if one.label == "table"]


def test_rows_of_numbers_below_each_other_are_a_table_without_a_caption() -> None:
    table = rows(STATIONS, PLACES, TOP)
    assert tables(table) == [around(table)]
    assert tables(rows(STATIONS[:3], PLACES, TOP)) == [], "too few to know"
    gappy = rows([("Weir", "11.6", ""), *STATIONS], PLACES, TOP)
    assert tables(gappy) == [around(gappy)], "an empty cell"


@pytest.mark.parametrize("said", ["Table 1: Who kept what", "TABLE IV", "Tab. 3. Keepers"])
def test_labels_with_their_values_are_a_table_only_below_a_caption(said: str) -> None:
    values = rows(LABELLED, PLACES[:2], TOP)
    assert tables([line(said, LEFT, TOP - PITCH), *values]) == [around(values)]
    assert tables([line("Who kept what", LEFT, TOP - PITCH), *values]) == []


BILL = [("Subtotal", "£2,832.60"), ("VAT 20%", "£566.52"), ("Total", "£3,399.12")]


def test_labels_with_their_numbers_are_a_table_without_a_caption() -> None:
    bill = rows(BILL, PLACES[:2], TOP)
    assert tables(bill) == [around(bill)]
    assert tables(rows(BILL[:2], PLACES[:2], TOP)) == []
    dated = [(f"{label} of 1901", value) for label, value in BILL]
    assert tables(rows(dated, (LEFT, 400.0), TOP)) == [], "no labels"


def test_items_and_the_sums_below_their_columns_are_one_table() -> None:
    places = (LEFT, 200.0, 400.0, 620.0)
    items = [("1", "Garden work", "28 h", "CHF 3'360.00"), ("2", "Disposal", "1", "CHF 307.35")]
    sums = [("", "", "Sum", "CHF 3'667.35"), ("", "", "VAT 7.7%", "CHF 282.40")]
    head = ("Item", "Description", "Amount", "Total")
    bill = rows([head, *items, *sums], places, TOP)
    assert tables(bill) == [around(bill)]
    named = [("", "", "Seen by", "Anna Berg"), ("", "", "Paid by", "Third of nine")]
    assert tables(rows([head, *items, *named], places, TOP)) == [], "no sums"


def test_labels_with_their_numbers_are_a_table_beside_an_address() -> None:
    address = ["Arle Trust", "The Old Mill", "Fenwick"]
    places = (LEFT, 500.0, 680.0)
    beside = [(said, *pair) for said, pair in zip(address, BILL, strict=True)]
    lines = rows(beside, places, TOP)
    assert tables(lines) == [around([one for one in lines if one.rect[0] > LEFT])]
    near = rows(beside, (LEFT, 300.0, 680.0), TOP)
    assert tables(near) == [], "as near as a column of the same table"


def test_ranges_with_their_numbers_are_a_table_below_heads_for_both() -> None:
    body = [("20-29", "0.265"), ("30-39", "0.205"), ("40-49", "0.148"), ("50+", "0.382")]
    table = rows([("Age group", "Proportion"), *body], PLACES[:2], TOP)
    assert tables(table) == [around(table)]
    assert tables(rows(body, PLACES[:2], TOP)) == []


def test_a_table_takes_the_place_of_the_text_around_it_and_in_it() -> None:
    table = rows(STATIONS, PLACES, TOP)
    x1, y1, x2, y2 = around(table)
    whole = Region("text", (x1 - 20, y1 - 40, x2 + 20, y2 + 20), 0.8)
    part = Region("text", (x1, y1, x1 + 80, y2), 0.7)
    other = Region("text", around(TEXT[:4]), 0.9)
    found = with_aligned_tables([whole, part, other], [*TEXT, *table])
    assert found == [other, Region("table", (x1, y1, x2, y2), 1.0)]


@pytest.mark.parametrize("label", ["table", "figure"])
def test_what_the_detector_saw_is_not_found_again(label: str) -> None:
    table = rows(STATIONS, PLACES, TOP)
    seen = [Region(label, around(table), 0.9)]
    assert with_aligned_tables(seen, [*TEXT, *table]) == seen


def test_a_label_alone_in_its_row_is_of_the_table_and_a_sentence_is_not() -> None:
    inner = [*STATIONS[:2], ("In the valley", "", ""), *STATIONS[2:]]
    table = rows(inner, PLACES, TOP)
    sentence = line(FLOOD, LEFT, TOP + len(inner) * PITCH)
    assert tables([*table, sentence]) == [around(table)]
    assert tables(rows([*STATIONS[:2], (FLOOD, "", ""), *STATIONS[2:]], PLACES, TOP)) == []


def test_columns_of_text_and_lists_are_no_tables() -> None:
    caption = line("Table 2: Of what the keepers wrote", LEFT, TOP - PITCH)
    narrow = ["the flood of that", "year was the highest"] * 3
    assert tables([caption, *column(narrow, LEFT, TOP), *column(narrow, LEFT + 320, TOP)]) == []
    ragged = [FLOOD, "and it took the old bridge", RECORDS, "of the town in the early spring"]
    assert tables([caption, *column(ragged, LEFT, TOP), *column(ragged, LEFT + 480, TOP)]) == []
    items = [(f"{k}.", FLOOD) for k in range(1, 7)]
    assert tables(rows(items, (LEFT, LEFT + 60), TOP)) == []


def test_numbers_that_stand_anywhere_are_no_table() -> None:
    scattered = [
        one
        for k, row in enumerate(STATIONS)
        for one in rows([row], [place + 37 * k for place in PLACES], TOP + k * PITCH)
    ]
    assert tables(scattered) == []


NAMES = rows([row[:1] for row in STATIONS], PLACES[:1], TOP)
NUMBERS = rows([row[1:] for row in STATIONS], PLACES[1:], TOP)


def test_a_table_has_the_column_of_labels_that_the_detector_left_out() -> None:
    lines = [*NAMES, *NUMBERS]
    text = [line(FLOOD[:24], 60, y) for y in (TOP - 3 * PITCH, TOP + 7 * PITCH)]
    assert with_label_column(around(NUMBERS), [*text, *lines]) == around(lines)


@pytest.mark.parametrize(
    "beside",
    [
        NAMES[:2],
        [*NAMES[:3], line(FLOOD[:24], 60, TOP + 3 * PITCH)],
        rows([("Alder",)] * 4, (PLACES[1] - 400,), TOP),
        [
            line(text, x, TOP + PITCH * k)
            for k, (text, x) in enumerate(zip("abcd", (210, 120, 250, 160), strict=True))
        ],
        column(["Upper", "Lower", "Old", "New"], 100, TOP + 5 * PITCH),
    ],
    ids=["few of them", "a sentence too", "far away", "not aligned", "below it"],
)
def test_what_stands_left_of_a_table_is_mostly_no_column_of_it(beside: list[OcrLine]) -> None:
    assert with_label_column(around(NUMBERS), [*beside, *NUMBERS]) == around(NUMBERS)


def test_years_and_what_was_done_in_them_are_a_table() -> None:
    done = [("1998–2000", FLOOD), ("2001–", RECORDS), ("2007–", FLOOD)]
    table = rows(done, PLACES[:2], TOP)
    assert tables(table) == [around(table)]
    numbered = [(str(k), text) for k, (_, text) in enumerate(done)]
    assert tables(rows(numbered, PLACES[:2], TOP)) == [], "a list"


@pytest.mark.parametrize(
    ("head", "places", "is_head"),
    [
        (("Station", "Water", "Days"), PLACES, True),
        (("", "Water", "Days"), PLACES, True),
        (("Station", "", ""), PLACES, False),
        (("Read by the keeper of each station",), (LEFT,), False),
    ],
)
def test_a_row_of_words_over_the_columns_is_a_tables_head(
    head: tuple[str, ...], places: tuple[float, ...], is_head: bool
) -> None:
    table = rows(STATIONS, PLACES, TOP)
    row = rows([head], places, TOP - PITCH)
    found = with_head_row(around(table), [*TEXT, *row, *table])
    assert found == around([*table, *(row if is_head else [])])
    far = rows([head], places, TOP - 3 * PITCH)
    assert with_head_row(around(table), [*TEXT, *far, *table]) == around(table)
