"""Tables from their words and their page's pixels, against the truth that they were drawn from."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.engines.embedded.tables import ruled_areas, table_html
from llm_ocr.engines.embedded.tables.rules import rules_in
from llm_ocr.engines.embedded.words.recognize import Image
from tests.engines.embedded.tables.drawn import (
    ALL,
    Cell,
    Rows,
    Style,
    area_of,
    draw,
    scanned,
)
from tests.engines.embedded.tables.samples import OPEN, RULED, SHAPES, sample
from tests.engines.embedded.written import line, rows


def cells(table: str | None) -> list[list[tuple[str, str]]]:
    """Rows of (span attributes, text), heads like other cells."""
    assert table is not None
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    return [re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row) for row in rows]


@pytest.mark.parametrize("look", RULED)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_with_rules_around_its_cells_is_read_whole(shape: str, look: str) -> None:
    for seed in range(3):
        drawn = sample(shape, look, seed)
        assert cells(table_html(drawn.lines, drawn.image)) == cells(drawn.html)


@pytest.mark.parametrize("look", OPEN)
@pytest.mark.parametrize("shape", ["plain", "wrapped", "heads", "sections"])
def test_a_table_with_few_rules_or_none_is_read_whole(shape: str, look: str) -> None:
    for seed in range(2):
        drawn = sample(shape, look, seed)
        assert cells(table_html(drawn.lines, drawn.image)) == cells(drawn.html)


@pytest.mark.parametrize("look", [look for look in OPEN if look != "zebra"])
def test_labels_at_the_middle_of_their_rows_span_these(look: str) -> None:
    drawn = sample("groups", look, 1)
    assert cells(table_html(drawn.lines, drawn.image)) == cells(drawn.html)


def test_rules_are_found_through_blur_noise_and_compression() -> None:
    drawn = sample("heads", "gray", 1)
    assert cells(table_html(drawn.lines, scanned(drawn.image))) == cells(drawn.html)


GRID: Rows = [
    [(0, Cell(("Site",), head=True)), (1, Cell(("Depth",), head=True))],
    [(0, Cell(("Upper Alder",))), (1, Cell(("12.5",)))],
    [(0, Cell(("Lower Alder",))), (1, Cell(("7.25",)))],
]


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_a_closed_grid_with_text_in_its_cells_is_a_tables_area(paper: str) -> None:
    drawn = draw(GRID, Style(rules=frozenset({ALL})))
    image = drawn.image if paper == "light" else np.asarray(255 - drawn.image, np.uint8)
    (area,) = ruled_areas(image, drawn.lines)
    inner = area_of(drawn)
    assert area[0] < inner[0] < inner[2] < area[2]
    assert area[1] < inner[1] < inner[3] < area[3]


def box(image: Image, rect: Rect) -> None:
    x1, y1, x2, y2 = (int(value) for value in rect)
    image[y1 : y1 + 2, x1:x2] = image[y2 : y2 + 2, x1:x2] = 0
    image[y1:y2, x1 : x1 + 2] = image[y1 : y2 + 2, x2 : x2 + 2] = 0


def test_a_frame_around_text_and_an_empty_grid_are_no_tables() -> None:
    drawn = draw(GRID, Style())
    assert ruled_areas(drawn.image, drawn.lines) == []
    framed = drawn.image.copy()
    box(framed, area_of(drawn))
    assert ruled_areas(framed, drawn.lines) == []
    chart = np.full((600, 600, 3), 255, dtype=np.uint8)
    for k in range(5):
        box(chart, (100, 100, 100 + 80 * (k + 1), 100 + 80 * (k + 1)))
    ticks = [Word((60, 90 + 80 * k, 90, 110 + 80 * k), str(k)) for k in range(6)]
    assert ruled_areas(chart, [OcrLine(one.text, (one,), 0.9) for one in ticks]) == []


CLOSE_ROWS: Rows = [
    [(at, Cell((head,), head=True)) for at, head in enumerate(("Site", "Depth", "Flow"))],
    *(
        [(0, Cell((f"{which} Alder",))), (1, Cell((f"{k}2.5",))), (2, Cell((f"{k}7.1",)))]
        for k, which in enumerate(("Upper", "Lower", "Middle", "Old"), 1)
    ),
]


def test_rules_are_found_behind_words_with_rectangles_higher_than_their_rows() -> None:
    drawn = draw(CLOSE_ROWS, Style(rules=frozenset({ALL}), row_gap=0.0))
    assert len(ruled_areas(drawn.image, [raised(one, 0.35) for one in drawn.lines])) == 1
    lines = [raised(one, 0.2) for one in drawn.lines]
    assert cells(table_html(lines, drawn.image)) == cells(drawn.html)


def test_rules_beside_and_between_words_are_found_inside_of_their_rectangles() -> None:
    drawn = draw(CLOSE_ROWS, Style(rules=frozenset({ALL}), row_gap=2.0))
    lines = [widened(raised(one, 0.3), 0.65) for one in drawn.lines]
    assert len(ruled_areas(drawn.image, lines)) == 1
    assert cells(table_html(lines, scanned(drawn.image))) == cells(drawn.html)


def widened(one: OcrLine, share: float) -> OcrLine:
    """A line whose last word's rectangle goes on beyond its letters, in its heights."""
    x1, y1, x2, y2 = one.words[-1].rect
    last = replace(one.words[-1], rect=(x1, y1, x2 + share * one.height, y2))
    return replace(one, words=(*one.words[:-1], last))


def test_what_the_edge_cuts_is_no_longer_than_what_is_seen_of_it() -> None:
    image = np.full((200, 400, 3), 255, dtype=np.uint8)
    image[90:, 40:360:40] = image[90:, 41:360:40] = 0
    assert rules_in(image, (0, 0, 400, 100), [], 20, is_exact=False).down == ()
    assert len(rules_in(image, (0, 0, 400, 120), [], 20, is_exact=False).down) == 8


@pytest.mark.parametrize(("gap", "is_rule"), [(0, True), (5, False)])
def test_short_pieces_above_each_other_are_letters_and_no_rule(gap: int, is_rule: bool) -> None:
    image = np.full((100, 400, 3), 255, dtype=np.uint8)
    image[40:61, 200:202] = 0
    image[48 : 48 + gap, 200:202] = 255
    assert bool(rules_in(image, (0, 0, 400, 100), [], 20, is_exact=False).down) == is_rule


def test_rules_down_as_short_as_a_row_are_found() -> None:
    named: Rows = [
        [(0, Cell((f"{which} districts",), columns=3, align="middle"))] for which in "AB"
    ]
    rows: Rows = [CLOSE_ROWS[0], named[0], CLOSE_ROWS[1], named[1], *CLOSE_ROWS[2:]]
    drawn = draw(rows, Style(rules=frozenset({ALL}), row_gap=2.0))
    lines = [raised(one, 0.3) for one in drawn.lines]
    assert cells(table_html(lines, drawn.image)) == cells(drawn.html)


def raised(one: OcrLine, share: float) -> OcrLine:
    """A line as a recognizer gives it: with room above and below its letters, in its heights."""
    room = share * one.height
    words = [
        replace(word, rect=(word.rect[0], word.rect[1] - room, word.rect[2], word.rect[3] + room))
        for word in one.words
    ]
    return replace(one, words=tuple(words), is_exact=False)


def test_columns_of_numbers_that_no_rule_parts_are_read_by_their_gaps() -> None:
    texts = [("Alder", "12.5", "94", "7.1"), ("Canal", "70.3", "71", "8.4")] * 2
    image = np.full((220, 600, 3), 255, dtype=np.uint8)
    for k in range(len(texts)):
        box(image, (10, 50 + 26 * k, 190, 76 + 26 * k))
        box(image, (190, 50 + 26 * k, 520, 76 + 26 * k))
    read = cells(table_html(rows(texts, (20, 220, 340, 460), 53), image))
    assert read == [[("", text) for text in row] for row in texts]


TIDES = [("Saturday", "9.30"), ("Sunday", "10.00"), ("Monday", "11.30")] * 2


def two_words(x: float, y: float) -> list[OcrLine]:
    """Words with a space between them that is a little wider than usual."""
    return [line("Low", x, y), line("water", x + 40, y)]


def test_a_column_much_wider_than_its_words_ends_at_the_frame() -> None:
    image = np.full((320, 800, 3), 255, dtype=np.uint8)
    lines = []
    for k, (day, time) in enumerate(TIDES):
        for left, right in ((10, 200), (200, 340), (340, 640)):
            box(image, (left, 40 + 40 * k, right, 80 + 40 * k))
        y = 50 + 40 * k
        lines += [line(day, 20, y), line(time, 220, y), *two_words(360, y)]
    read = cells(table_html(lines, image))
    assert read == [[("", day), ("", time), ("", "Low water")] for day, time in TIDES]


def test_words_between_two_rules_are_one_cell_though_their_spaces_are_below_each_other() -> None:
    image = np.full((260, 800, 3), 255, dtype=np.uint8)
    image[30:230, 210:212] = image[30:230, 560:562] = 0
    lines = []
    for k, (day, time) in enumerate(TIDES):
        y = 40 + 30 * k
        lines += [line(day, 20, y), *two_words(240, y), line(time, 600, y)]
    found = [[text for _, text in row] for row in cells(table_html(lines, image))]
    assert found == [[day, "Low water", time] for day, time in TIDES]


def test_lines_between_rules_are_one_row_though_others_hold_several() -> None:
    lines = [line("Site", 40, 30), line("name", 40, 60), line("What was seen", 260, 45)]
    lines.append(line("Depth", 560, 45))
    seen = (("Alder", "Low water in the", "dry summer"), ("Basin", "Ice until the", "end of May"))
    for y, (site, first, second) in zip((110, 190), seen, strict=True):
        lines += [line(site, 40, y), line(first, 260, y), line(second, 260, y + 30)]
        lines.append(line("2.5", 560, y))
    lines += [line("Canal", 40, 270), line("Nothing", 260, 270), line("3.5", 560, 270)]
    for site, y in (("Delta", 330), ("Estuary", 360)):
        lines += [line(site, 40, y), line("7.5", 560, y)]
    image = np.full((420, 700, 3), 255, dtype=np.uint8)
    for y in (20, 95, 175, 255, 315, 395):
        image[y : y + 2, 30:660] = 0
    found = [[text for _, text in row] for row in cells(table_html(lines, image))]
    assert found == [
        ["Site name", "What was seen", "Depth"],
        ["Alder", "Low water in the dry summer", "2.5"],
        ["Basin", "Ice until the end of May", "2.5"],
        ["Canal", "Nothing", "3.5"],
        ["Delta", "", "7.5"],
        ["Estuary", "", "7.5"],
    ]


def test_labels_that_no_rules_part_keep_their_rows() -> None:
    places, count = (40, 160, 340), 6
    lines = [line(text, x, 30) for text, x in zip(("Cost", "Total", "Share"), places, strict=True)]
    for k in range(1, count):
        texts = (f"Item {'abcdef'[k]}", f"{k}1.5", f"{k}2.5")
        lines += [line(text, x, 30 + 40 * k) for text, x in zip(texts, places, strict=True)]
    image = np.full((320, 560, 3), 255, dtype=np.uint8)
    for k in range(count + 1):
        y = 20 + 40 * k
        image[y : y + 2, 120:480] = 0
    found = [[text for _, text in row] for row in cells(table_html(lines, image))]
    assert found[1:] == [[f"Item {'abcdef'[k]}", f"{k}1.5", f"{k}2.5"] for k in range(1, count)]


def test_a_list_is_no_table() -> None:
    item = "the flood of that year was the highest since"
    marks = [line(text, x, 26 * k) for k in range(5) for text, x in ((f"{k}.", 0), (item, 60))]
    assert table_html(marks) is None


NUMBERS = st.floats(0, 700, allow_nan=False)
WORDS = st.builds(
    lambda text, x, y: Word((x, y, x + 10 * len(text), y + 20), text),
    st.text("ab1±$", min_size=1, max_size=8),
    NUMBERS,
    NUMBERS,
)
BOXES = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS).map(
    lambda r: (min(r[0], r[2]), min(r[1], r[3]), max(r[0], r[2]), max(r[1], r[3]))
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=40), st.lists(BOXES, max_size=8), st.sampled_from([0.0, 0.01]))
def test_every_word_is_in_the_table_once_whatever_the_rules(
    words: list[Word], boxes: list[Rect], slope: float
) -> None:
    image = np.full((760, 800, 3), 255, dtype=np.uint8)
    for rect in boxes:
        box(image, rect)
    table = table_html([OcrLine(one.text, (one,), 0.9, slope) for one in words], image)
    if table is None:
        return
    texts = [html.unescape(text) for row in cells(table) for _, text in row]
    assert sorted(" ".join(texts).split()) == sorted(one.text for one in words)
    assert widths(table) == {max(widths(table))}


def widths(table: str) -> set[int]:
    """How many columns each row has, those that hang into it from above included."""
    found: list[int] = []
    hanging: list[tuple[int, int]] = []
    for row in cells(table):
        spans = [
            tuple(int((re.search(rf'{name}="(\d+)"', one) or [0, 1])[1]) for name in ("row", "col"))
            for one, _ in ((attributes.replace("span", ""), text) for attributes, text in row)
        ]
        found.append(sum(columns for _, columns in spans) + sum(c for _, c in hanging))
        hanging = [(rows - 1, c) for rows, c in [*hanging, *spans] if rows > 1]
    return set(found)
