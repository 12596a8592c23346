from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, area, overlap
from llm_ocr.engines.embedded.regions.layout import LABELS, Region
from tests.engines.embedded.written import labeled_blocks

WIDTH, HEIGHT = 1000, 1300


def line(text: str, x: float, y: float, right: float = 0.0, height: float = 20.0) -> OcrLine:
    right = right or x + 0.5 * height * len(text)
    return OcrLine(text, (Word((x, y, right, y + height), text),), 0.9)


def moved(one: OcrLine, down: float) -> OcrLine:
    words = tuple(
        Word((word.rect[0], word.rect[1] + down, word.rect[2], word.rect[3] + down), word.text)
        for word in one.words
    )
    return replace(one, words=words)


def prose(y: float, count: int, x: float = 100.0, right: float = 900.0) -> list[OcrLine]:
    """Full lines close below each other."""
    return [line(f"line {k} of a text that goes on", x, y + 26 * k, right) for k in range(count)]


def region(label: str, *rect: float, score: float = 0.9) -> Region:
    x1, y1, x2, y2 = rect
    return Region(label, (x1, y1, x2, y2), score)


def labels(lines: Sequence[OcrLine], *regions: Region) -> dict[str, str]:
    """The label of each block by the text that it begins with."""
    return {block.text[:20]: block.label for block in labeled_blocks(lines, regions, WIDTH, HEIGHT)}


def label_of(one: OcrLine, *regions: Region) -> str:
    """The label of a line's block on a page with a text below the top and above the bottom."""
    body = [*prose(400, 6), *prose(800, 6)]
    found = labeled_blocks([one, *body], regions, WIDTH, HEIGHT)
    return next(block.label for block in found if one in block.lines)


def test_lines_close_below_each_other_are_a_block() -> None:
    first, second = prose(200, 4), prose(400, 3)
    found = labeled_blocks([*reversed(second), *first], (), WIDTH, HEIGHT)
    assert [(block.label, block.lines) for block in found] == [
        ("text", tuple(first)),
        ("text", tuple(second)),
    ]
    assert found[0].rect == (100, 200, 900, 298)


def test_columns_are_blocks_of_their_own() -> None:
    left, right = prose(200, 5, 100, 480), prose(200, 5, 520, 900)
    found = labeled_blocks([*left, *right], (), WIDTH, HEIGHT)
    assert [block.lines for block in found] == [tuple(left), tuple(right)]


def test_regions_hold_the_lines_that_lie_in_them() -> None:
    lines = [*prose(300, 2), line("It ends here.", 100, 352, 900), *prose(378, 3)]
    regions = [region("text", 90, 290, 910, 375), region("text", 90, 376, 910, 460)]
    found = labeled_blocks(lines, regions, WIDTH, HEIGHT)
    assert [block.lines for block in found] == [tuple(lines[:3]), tuple(lines[3:])]


def test_a_sentence_that_a_region_cuts_is_whole() -> None:
    lines = prose(300, 6)
    regions = [region("text", 90, 290, 910, 375), region("text", 90, 376, 910, 460)]
    (block,) = labeled_blocks(lines, regions, WIDTH, HEIGHT)
    assert block.lines == tuple(lines)
    # The detector often takes the first line for a title if it begins in bold.
    regions[0] = region("title", 90, 290, 910, 322)
    assert len(labeled_blocks(lines, regions, WIDTH, HEIGHT)) == 1


def test_a_number_or_bullet_is_one_with_the_text_behind_its_tab() -> None:
    heading = line("5.", 100, 350), line("Instrument Format", 180, 350)
    item = line("\uf0b7", 100, 700, 110), line("a text behind a symbol of a font", 180, 700)
    far = line("7.", 100, 800), line("in a column of its own", 500, 800)
    letter = line("o", 100, 750, 110), line("behind a circle of Courier", 180, 750)
    body = [*prose(100, 6), *prose(400, 6), *prose(500, 6)]
    found = labeled_blocks([*heading, *item, *letter, *far, *body], (), WIDTH, HEIGHT)
    texts = {block.text: block.label for block in found}
    assert texts["5. Instrument Format"] == "title"
    assert texts["• a text behind a symbol of a font"] == "text"
    assert texts["• behind a circle of Courier"] == "text"
    assert "in a column of its own" in texts


def test_an_equations_number_is_no_mark_of_the_text_in_the_next_column() -> None:
    left, right = prose(300, 12, 100, 480), prose(300, 12, 520, 900)
    left[6] = line("(3)", 440, 300 + 26 * 6, 480)
    found = labeled_blocks([*left, *right], (), WIDTH, HEIGHT)
    assert tuple(right) in [block.lines for block in found]


def test_headings_on_a_text_layer_are_told_by_the_room_around_them() -> None:
    """A heading in italics is neither larger nor bolder than the text."""
    body = [line("It goes on and on in full lines.", 100, 430 + 26 * k, 900) for k in range(5)]
    lines = [
        replace(one, is_exact=True)
        for one in (*body, line("The lower river", 100, 590), *(moved(one, 200) for one in body))
    ]
    found = labeled_blocks(lines, (), WIDTH, HEIGHT)
    assert [block.label for block in found if block.text == "The lower river"] == ["title"]


def test_authors_below_a_title_are_no_heading() -> None:
    title = line("From cellars to facades", 100, 200, height=40)
    authors = line("Zoe Blackwood, Anton Novak", 100, 285)
    body = [line("It goes on and on in full lines.", 100, 330 + 26 * k, 900) for k in range(6)]
    lines = [replace(one, is_exact=True) for one in (title, authors, *body)]
    found = labels(lines, region("title", 90, 190, 560, 250))
    assert found["From cellars to faca"] == "title"
    assert found["Zoe Blackwood, Anton"] == "text"


def test_a_page_number_is_told_by_its_look_and_place() -> None:
    assert label_of(line("17", 500, 1250)) == "page_number"
    assert label_of(line("– 17 –", 480, 1250)) == "page_number"
    assert label_of(line("Page 3 of 20", 450, 1250)) == "page_number"
    assert label_of(line("xiv", 500, 30)) == "page_number"
    assert label_of(line("17", 500, 620)) == "text"
    assert label_of(line("17", 500, 1250), region("footer", 480, 1240, 540, 1280)) == "page_number"


def test_running_headers_and_footers_stand_alone_at_an_edge() -> None:
    assert label_of(line("Journal of Rivers, Vol. 4", 100, 40)) == "header"
    assert label_of(line("https://example.org/rivers", 100, 1250)) == "footer"
    assert label_of(line("Rivers", 100, 40), region("header", 90, 30, 300, 70)) == "header"
    assert label_of(line("Rivers", 100, 620), region("header", 90, 610, 300, 650)) == "text"


def test_a_text_that_only_reaches_the_edge_is_no_footer() -> None:
    lines = prose(700, 21)
    found = labeled_blocks(lines, (), WIDTH, HEIGHT)
    assert [block.label for block in found] == ["text"]


def test_captions_are_told_by_how_they_begin() -> None:
    assert label_of(line("Table 2: Lengths of rivers", 100, 620)) == "table_caption"
    assert label_of(line("Figure 3. The Rhine", 100, 620)) == "image_caption"
    assert label_of(line("Abbildung 4: Die Elbe", 100, 620)) == "image_caption"
    assert label_of(line("Tables are useful", 100, 620)) == "text"
    assert label_of(line("Figures of speech", 100, 620)) == "text"
    beside = region("figure_caption", 90, 610, 500, 650)
    assert label_of(line("A view of the town.", 100, 620), beside) == "text"
    figure = region("figure", 100, 660, 500, 780)
    assert label_of(line("A view of the town.", 100, 620), beside, figure) == "image_caption"


def test_headings_are_told_by_the_detector_by_their_size_or_by_their_number() -> None:
    assert label_of(line("The rivers", 100, 620), region("title", 90, 610, 400, 650)) == "title"
    assert label_of(line("The rivers", 100, 600, height=34)) == "title"
    assert label_of(line("3.1 Rivers", 100, 620)) == "title"
    assert label_of(line("3.1 m of water", 100, 620)) == "text"
    assert label_of(line("A sentence, set large.", 100, 600, height=34)) == "text"
    assert label_of(line("1 234", 100, 600, height=34)) == "text"


def test_a_title_of_many_lines_is_text() -> None:
    lines = [*prose(300, 6), *prose(600, 6)]
    assert labels(lines, region("title", 90, 290, 910, 460))["line 0 of a text that"[:20]] == "text"


def test_lines_in_a_figure_belong_to_it() -> None:
    inner = [line("May", 300, 420), line("June", 500, 420)]
    figure = region("figure", 200, 300, 800, 600)
    found = labeled_blocks([*inner, *prose(700, 4)], [figure], WIDTH, HEIGHT)
    assert [(block.label, block.rect) for block in found] == [
        ("text", (100, 700, 900, 798)),
        ("image", figure.rect),
    ]


def test_a_table_takes_its_lines_and_a_column_of_labels_beside_it() -> None:
    cells = [line(f"{k}", 400 + 150 * (k % 3), 300 + 40 * (k // 3), height=18) for k in range(9)]
    names = [line(f"name{k}", 280, 300 + 40 * k, height=18) for k in range(3)]
    table, side = region("table", 390, 290, 800, 410), region("text", 270, 290, 370, 405)
    found = labeled_blocks([*cells, *names, *prose(600, 4)], [table, side], WIDTH, HEIGHT)
    held = {block.label: block.lines for block in found}
    assert set(held) == {"table", "text"}
    assert set(held["table"]) == {*cells, *names}


def test_a_handwritten_page_that_the_detector_takes_for_a_figure_keeps_its_text() -> None:
    lines = [line("some words by hand", 100, 100 + 60 * k, 800, 40) for k in range(12)]
    found = labeled_blocks(lines, [region("figure", 20, 20, 980, 1280)], WIDTH, HEIGHT)
    assert all(block.label != "image" for block in found)
    assert {one for block in found for one in block.lines} == set(lines)


def test_a_page_without_text_is_its_figures() -> None:
    small = region("figure", 10, 10, 30, 30)
    figure = region("figure", 100, 100, 800, 900)
    found = labeled_blocks((), [small, figure, region("text", 1, 1, 900, 900)], WIDTH, HEIGHT)
    assert found == [PageBlock("image", (), figure.rect)]
    assert labeled_blocks((), (), WIDTH, HEIGHT) == []


def test_specks_are_not_text() -> None:
    assert labeled_blocks([line("—", 100, 100), line("..", 700, 900)], (), WIDTH, HEIGHT) == []


X, Y = st.floats(0, WIDTH - 100), st.floats(0, HEIGHT - 40)
LINES = st.builds(
    line,
    st.sampled_from(["word", "17", "Figure 2", "Table 1: x", "some words in it", "3.1 Rivers"]),
    X,
    Y,
    st.just(0.0),
    st.floats(8, 60),
)
REGIONS = st.builds(
    lambda label, x, y, width, height: region(label, x, y, x + width, y + height),
    st.sampled_from(LABELS),
    X,
    Y,
    st.floats(1, WIDTH),
    st.floats(1, HEIGHT),
)


def in_a(rects: Sequence[Rect], one: OcrLine) -> bool:
    return any(overlap(one.rect, rect) > 0.5 * area(one.rect) for rect in rects)


@settings(deadline=None)
@given(st.lists(LINES, max_size=25), st.lists(REGIONS, max_size=8))
def test_every_line_is_in_one_block_or_in_a_figure(
    lines: list[OcrLine], regions: list[Region]
) -> None:
    found = labeled_blocks(lines, regions, WIDTH, HEIGHT)
    figures = [block.rect for block in found if block.label == "image"]
    # Lines are told apart by identity: two may say the same at the same place.
    held = Counter(id(one) for block in found for one in block.lines)
    assert set(held.values()) <= {1}
    for one in lines:
        assert id(one) in held or in_a(figures, one)
    for block in found:
        assert block.label == "image" or block.lines
        for one in block.lines:
            assert overlap(block.rect, one.rect) == area(one.rect)


def exact(text: str, y: float, right: float, *, bold: bool = False) -> OcrLine:
    """A line of a text layer."""
    return replace(line(text, 100, y, right), is_exact=True, bold=bold)


def test_a_line_in_bold_within_a_sentence_divides_no_paragraph() -> None:
    bold = exact("The keepers must send it in by the end of August to be", 426, 900, bold=True)
    lines = [
        exact("It is written by June so that it can be read in time.", 400, 900),
        bold,
        *(
            exact("included in the book of the year that all of them", 452 + 26 * k, 900)
            for k in range(3)
        ),
    ]
    around = region("text", 100, 400, 900, 530)
    assert labels(lines, around) == {"It is written by Jun": "text"}
    head = [replace(bold, text="The keepers", words=(Word((100, 426, 250, 446), "The keepers"),))]
    found = labels([lines[0], *head, *lines[2:]], around)
    assert found["The keepers"] == "title"


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("Applied Engineering in Agri-", "text"),
        ("8.3 The keepers. They wrote down what the river did each day:", "text"),
        ("IV.2. The keepers", "title"),
        ("A.1 The keepers", "title"),
    ],
)
def test_what_reads_as_a_heading(said: str, label: str) -> None:
    one = exact(said, 700, 100 + 10.0 * len(said), bold=True)
    assert label_of(one, region("title", *one.rect)) == label


def test_an_equations_number_is_read_with_the_equation_left_of_it() -> None:
    text = [*prose(300, 4), *prose(500, 4), *prose(700, 4)]
    equations = [line("E = m c", 400, 440), line("(2)", 860, 440)]
    more = [line("F = m a", 400, 640), line("(3)", 860, 640)]
    found = labeled_blocks([*text, *equations, *more], (), WIDTH, HEIGHT)
    assert {"E = m c (2)", "F = m a (3)"} <= {block.text for block in found}


def test_code_in_small_print_at_the_foot_is_no_footnote() -> None:
    def label(said: str) -> str:
        lines = [line(said, 100, 1050, height=15), line("set of the keepers", 100, 1070, height=15)]
        blocks = labeled_blocks([*prose(700, 12), *lines], (), WIDTH, HEIGHT)
        return next(block.label for block in blocks if lines[0] in block.lines)

    assert label("The keepers read it each day") == "footnote"
    assert label(r"\\setlength of the keepers here") == "text"


def test_a_region_around_several_others_holds_no_lines() -> None:
    first = line("The keepers say:", 100, 400)
    left = [line("First name", 100, 440 + 26 * k) for k in range(4)]
    right = [line("Occupation", 600, 440 + 26 * k) for k in range(4)]
    around = region("text", 99, 398, 720, 545, score=0.95)
    inner = region("text", 99, 439, 200, 543), region("text", 599, 439, 700, 543)
    blocks = labeled_blocks([first, *left, *right, *prose(800, 6)], [around, *inner], WIDTH, HEIGHT)
    assert {frozenset(map(id, one.lines)) for one in blocks} >= {
        frozenset({id(first)}),
        frozenset(map(id, left)),
        frozenset(map(id, right)),
    }


@pytest.mark.parametrize(
    ("terms", "shift", "is_list"),
    [
        (("x", "at", "side"), 0, True),
        (("x", "at"), 0, False),
        (("x", "at", "side"), 13, False),
        (("the first of all", "the second of all", "the third of all"), 0, False),
        (("Anna Berg", "12 Canal Road", "Harbour"), 0, False),
        (("Name: Berg", "Code: 505", "Place: Alder"), 0, True),
    ],
)
def test_terms_level_with_their_definitions_are_read_row_by_row(
    terms: tuple[str, ...], shift: float, is_list: bool
) -> None:
    text = [line(f"the text says what {k} means", 300, 400 + 26 * k, 880) for k in range(6)]
    beside = [line(term, 110, 400 + 52 * k + shift) for k, term in enumerate(terms)]
    found = labeled_blocks([*text, *beside, *prose(900, 6)], (), WIDTH, HEIGHT)
    block = next(one for one in found if text[0] in one.lines)
    assert ({*beside} <= {*block.lines}) is is_list


def test_a_region_of_text_above_and_below_a_table_is_two_blocks() -> None:
    above, below = prose(300, 3), prose(600, 3)
    numbers = [line(str(7 * k), 120 + 90 * (k % 4), 420 + 26 * (k // 4)) for k in range(16)]
    regions = region("text", 95, 295, 905, 680, score=0.6), region("table", 110, 415, 480, 520)
    found = labeled_blocks([*above, *numbers, *below], regions, WIDTH, HEIGHT)
    assert {frozenset(map(id, one.lines)) for one in found} == {
        frozenset(map(id, part)) for part in (above, numbers, below)
    }


@pytest.mark.parametrize(("width", "label"), [(1600, "title"), (1000, "header")])
def test_what_seems_a_header_on_a_slide_is_its_title(width: int, label: str) -> None:
    head = line("How rivers rise", 100, 60, height=28)
    text = [line(f"a point {k} of the talk", 100, 400 + 60 * k, height=24) for k in range(5)]
    regions = [region("header", *head.rect)]
    found = labeled_blocks([head, *text], regions, width, HEIGHT)
    assert next(one.label for one in found if head in one.lines) == label
