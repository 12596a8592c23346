import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.engines.embedded.structure.paragraphs import (
    Paragraph,
    as_markdown,
    is_list,
    join_lines,
    paragraphs,
)
from llm_ocr.engines.embedded.words.rows import rows_of

FULL = 800.0


def line(
    text: str, y: float, x: float = 50.0, right: float = FULL, height: float = 20.0
) -> OcrLine:
    return OcrLine(text, (Word((x, y, right, y + height), text),), 0.9)


def moved(one: OcrLine, down: float) -> OcrLine:
    x1, y1, x2, _ = one.rect
    return line(one.text, y1 + down, x1, x2)


def block(*texts: str) -> list[OcrLine]:
    """Full lines, each close below the other."""
    return [line(text, 26.0 * k) for k, text in enumerate(texts)]


def texts(lines: list[OcrLine]) -> list[str]:
    return [one.text for one in paragraphs(lines)]


def listed(*found: str) -> bool:
    return is_list([Paragraph(text) for text in found])


def test_full_lines_are_one_paragraph() -> None:
    assert texts(block("The river rises", "every spring and", "falls.")) == [
        "The river rises every spring and falls."
    ]


def test_a_gap_an_indent_and_a_short_last_line_begin_texts() -> None:
    gap = [*block("one", "two", "three"), line("four", 110)]
    assert texts(gap) == ["one two three", "four"]
    indent = [line("one", 0), line("ends here.", 26), line("Two", 52, x=85), line("more", 78)]
    assert texts(indent) == ["one ends here.", "Two more"]
    short = [line("one", 0), line("ends.", 26, right=300), line("Two", 52), line("more", 78)]
    assert texts(short) == ["one ends.", "Two more"]
    quoted = [line("He said,", 0), line("“Stop.”", 26, right=300), line("So it", 52)]
    assert texts(quoted) == ["He said, “Stop.”", "So it"]


def test_texts_that_go_on_further_right_begin_at_the_left() -> None:
    """As those of a bibliography, whose last lines may be full."""
    entries = [
        *(line("Berg, A. The river", 0), line("and its keepers", 26, x=85)),
        *(line("Falk, B. Floods of", 52), line("the north.", 78, x=85, right=300)),
        *(line("Holm, C. Tables", 104, right=400), line("Lind, D. A short one", 130, right=500)),
    ]
    assert texts(entries) == [
        "Berg, A. The river and its keepers",
        "Falk, B. Floods of the north.",
        "Holm, C. Tables",
        "Lind, D. A short one",
    ]
    introduced = [line("Some of the books on", 0), *(moved(one, 26) for one in entries)]
    assert texts(introduced)[0] == "Some of the books on Berg, A. The river and its keepers"
    once = [*entries[:2], line("and this is all", 52)]
    assert texts(once) == ["Berg, A. The river and its keepers and this is all"]


def test_labels_with_their_values_are_a_line_each() -> None:
    labels = [("Invoice no.", "4711"), ("Date", "15 April"), ("Pay by", "15 May")]

    def rows(*, right: float) -> list[OcrLine]:
        return [
            part
            for k, (label, value) in enumerate(labels)
            for part in (line(label, 26 * k, right=right), line(value, 26 * k, x=300))
        ]

    assert texts(rows(right=200)) == ["Invoice no. 4711", "Date 15 April", "Pay by 15 May"]
    assert len(texts(rows(right=290))) == 1, "no further apart than words"


def test_a_ragged_line_without_an_end_goes_on() -> None:
    ragged = [line("one goes", 0), line("on and", 26, right=700), line("on.", 52, right=300)]
    assert texts(ragged) == ["one goes on and on."]


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("a sen-", "tence", "a sentence"),
        ("a sen\u00ad", "tence", "a sentence"),
        ("the Anglo-", "Saxon", "the Anglo-Saxon"),
        ("pages 10-", "20", "pages 10-20"),
        ("in 2024-", "and", "in 2024- and"),
        ("this -", "and that", "this - and that"),
        ("plain", "words", "plain words"),
        ("人口は", "増えた", "人口は増えた"),
        ("増えた。", "人口", "増えた。人口"),
        ("版本（", "新）", "版本（新）"),
        ("uses 日本", "ABC", "uses 日本 ABC"),
    ],
)
def test_lines_are_joined(before: str, after: str, whole: str) -> None:
    assert join_lines(before, after) == whole


def test_each_bullet_is_an_item_and_its_further_lines_are_in_it() -> None:
    lines = [
        line("• the first item that", 0),
        line("goes on", 26, x=75, right=300),
        line("• the second", 52, right=400),
        line("• the third", 78, right=400),
    ]
    items = texts(lines)
    assert items == ["• the first item that goes on", "• the second", "• the third"]
    assert listed(*items)


def item(mark: str, text: str, x: float, left: float, right: float) -> OcrLine:
    """A mark at `x` with its text from `left` to `right`."""
    words = Word((x, 0, left - 10, 20), mark), Word((left, 0, right, 20), text)
    return OcrLine(f"{mark} {text}", words, 0.9)


def test_an_item_goes_on_where_its_text_begins_after_a_short_row() -> None:
    first = item("•", "keeps the", 50, 75, 600)
    rest = [line("gauge,", 26, x=75, right=300), line("• reads it every day of", 52)]
    rest += [line("the", 78, x=75, right=300), line("• and more of it again", 104)]
    assert texts([first, *rest]) == [
        "• keeps the gauge,",
        "• reads it every day of the",
        "• and more of it again",
    ]


def test_what_begins_left_of_an_items_further_rows_is_not_of_it() -> None:
    lines = [
        item("(1)", "The keeper of the", 60, 95, 790),
        line("gauge is away and so", 26, x=95),
        line("How the river rose", 52, x=72),
        line("nobody knows", 78),
        line("by now", 104),
    ]
    assert texts(lines) == [
        "(1) The keeper of the gauge is away and so",
        "How the river rose nobody knows by now",
    ]


def test_a_dash_read_for_itself_begins_an_item() -> None:
    lines = [line("• one pump for the keepers", 0, right=700)]
    lines += [line("–", 26, x=75, right=85), line("11 pumps at full load", 26, x=100, right=400)]
    assert texts([*lines, line("• the third", 52)]) == [
        "• one pump for the keepers",
        "– 11 pumps at full load",
        "• the third",
    ]


@pytest.mark.parametrize("marks", [("1.", "2."), ("(1)", "(2)"), ("a)", "b)"), ("-", "-")])
def test_numbered_items_are_a_list(marks: tuple[str, str]) -> None:
    one, two = (f"{mark} something" for mark in marks)
    items = texts([line(one, 0, right=400), line(two, 26, right=400)])
    assert items == [one, two]
    assert listed(*items)


def test_a_number_at_a_lines_start_is_no_bullet() -> None:
    lines = block("the water rose by", "1.4 m and then by", "2.5 m within", "a day")
    assert texts(lines) == ["the water rose by 1.4 m and then by 2.5 m within a day"]
    assert not listed("1.4 m of water", "2.5 m of snow")


@pytest.mark.parametrize("text", ["-5 degrees", "*strong*", "a word", "10 apples", "–", "2024. "])
def test_what_only_looks_like_a_bullet(text: str) -> None:
    assert not listed(text, text)


def test_one_item_is_no_list() -> None:
    assert not listed("• alone")
    assert not listed()
    assert not listed("• one", "then prose")


def test_parts_of_one_line_stand_in_a_row() -> None:
    parts = [line("right", 1, x=400), line("left", 0, right=300), line("below", 26)]
    assert [[one.text for one in row] for row in rows_of(parts)] == [["left", "right"], ["below"]]
    assert texts(parts) == ["left right below"]


def test_a_lists_items_are_lines_and_those_of_a_list_within_are_indented() -> None:
    lines = [
        line("What there is:", 0, right=300),
        line("• rivers", 26, x=70, right=200),
        line("– the Rhine", 52, x=95, right=250),
        line("– the Elbe", 78, x=95, right=250),
        line("• lakes", 104, x=70, right=200),
        line("And that is all that there is to be said of it", 130, x=50),
    ]
    assert as_markdown(paragraphs(lines)) == (
        "What there is:\n\n- rivers\n   - the Rhine\n   - the Elbe\n- lakes\n\n"
        "And that is all that there is to be said of it"
    )


def test_a_paragraph_that_begins_with_a_number_is_no_list() -> None:
    assert as_markdown([Paragraph("3. Some text")]) == "3\\. Some text"
    assert as_markdown([Paragraph("• alone")]) == "- alone"


SIZES = st.tuples(st.floats(0, 900), st.floats(0, 900), st.floats(1, 400), st.floats(1, 60))


@given(st.lists(SIZES, min_size=1, max_size=25))
def test_no_line_is_lost(sizes: list[tuple[float, float, float, float]]) -> None:
    rects: list[Rect] = [(x, y, x + width, y + height) for x, y, width, height in sizes]
    lines = [OcrLine(f"w{k}", (Word(rect, f"w{k}"),), 0.9) for k, rect in enumerate(rects)]
    said = " ".join(texts(lines)).split()
    assert sorted(said) == sorted(one.text for one in lines)
