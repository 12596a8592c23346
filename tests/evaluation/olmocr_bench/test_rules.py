"""What passes and what fails, of each kind of test, as it is read from a line."""

import pytest

from llm_ocr.evaluation.olmocr_bench.page_tests import parse_test
from llm_ocr.evaluation.olmocr_bench.page_view import PageView
from llm_ocr.evaluation.olmocr_bench.rules import RuleResult, RuleVerdict

TABLE = (
    "<table><thead><tr><th></th><th colspan=2>Size</th><th>Price</th></tr>"
    "<tr><th>Item</th><th>w</th><th>h</th><th>EUR</th></tr></thead>"
    "<tr><td>Desk</td><td>120</td><td>75</td><td>310</td></tr>"
    "<tr><td rowspan=2>Shelf</td><td>80</td><td>200</td><td>95</td></tr>"
    "<tr><td>40</td><td>180</td><td>60</td></tr></table>"
)
BARS = "| Item | w | h |\n|---|---|---|\n| Desk | 120 | 75 |\n| Shelf | 80 | 200 |"


def outcome(kind: str, markdown: str, **fields: object) -> RuleResult:
    test = parse_test({"id": "t", "pdf": "a.pdf", "page": 1, "type": kind, **fields})
    return test.rule.check(PageView(markdown))


def passes(kind: str, markdown: str, **fields: object) -> bool:
    return outcome(kind, markdown, **fields).verdict is RuleVerdict.PASSED


@pytest.mark.parametrize(
    ("markdown", "fields", "expected"),
    [
        ("It is **the** text\nhere.", {"text": "the text here"}, True),
        ("It is “the” text—here.", {"text": 'It is "the" text-here.'}, True),
        ("It is tbe text here.", {"text": "the text here"}, False),
        ("It is tbe text here.", {"text": "the text here", "max_diffs": 1}, True),
        ("It is tbc text here.", {"text": "the text here", "max_diffs": 1}, False),
        ("THE TEXT", {"text": "the text"}, False),
        ("THE TEXT", {"text": "the text", "case_sensitive": False}, True),
        ("end of a long page: the text", {"text": "the text", "first_n": 12}, False),
        ("end of a long page: the text", {"text": "the text", "last_n": 12}, True),
        ("the head, a long page, the foot", {"text": "long", "first_n": 8, "last_n": 8}, False),
        ("", {"text": "the text"}, False),
        # Its scorer lets a page pass that is part of the text; see docs/accuracy.md.
        ("th", {"text": "the text"}, False),
    ],
)
def test_text_that_is_there(markdown: str, fields: dict[str, object], expected: bool) -> None:
    assert passes("present", markdown, **fields) is expected
    assert passes("absent", markdown, **fields) is not expected


def test_a_failure_shows_what_came_nearest() -> None:
    found = outcome("present", f"{'x ' * 60}It is tbe text here.{' y' * 60}", text="the text here")
    (near,) = found.found
    assert (near.match, near.before[-6:], near.after[:2]) == ("tbe text here", "It is ", ". ")
    assert near.similarity == pytest.approx(12 / 13)
    assert found.expected == "the text here"


def test_nearly_equal_text_is_not_reported_as_equal() -> None:
    found = outcome("present", "e" * 2000 + "x", text="e" * 1999 + "y" + "x")
    assert found.reason.startswith("similarity 0.99")


@pytest.mark.parametrize(
    ("markdown", "max_diffs", "expected"),
    [
        ("first comes this, then that", 0, True),
        ("then that, first comes this", 0, False),
        ("then that, first comes this, then that", 0, True),
        ("frst comes this, then tnat", 0, False),
        ("frst comes this, then tnat", 1, True),
        ("then tnat, frst comes this", 1, False),
        ("only first comes this", 0, False),
        ("only then that", 0, False),
        ("", 4, False),
    ],
)
def test_order(markdown: str, max_diffs: int, expected: bool) -> None:
    fields = {"before": "first comes this", "after": "then that", "max_diffs": max_diffs}
    assert passes("order", markdown, **fields) is expected


def test_texts_in_the_wrong_order_are_both_shown() -> None:
    found = outcome("order", "then that, first comes this", before="first", after="that")
    assert [one.match for one in found.found] == ["that", "first"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"cell": "75", "up": "h", "down": "200", "left": "120", "right": "310"}, True),
        ({"cell": "75", "up": "w"}, False),
        ({"cell": "75", "top_heading": "Size", "left_heading": "Desk"}, True),
        ({"cell": "75", "top_heading": "h"}, True),
        ({"cell": "75", "left_heading": "Shelf"}, False),
        ({"cell": "200", "top_heading": "75"}, False),
        ({"cell": "Shelf", "down": "Shelf"}, False),
        # A heading over two columns is none of the third, nor a cell to the right of its row.
        ({"cell": "310", "top_heading": "Size"}, False),
        ({"cell": "120", "left_heading": "310"}, False),
        # A cell over two rows is beside both.
        ({"cell": "40", "left": "Shelf", "left_heading": "Shelf"}, True),
        ({"cell": "40", "down": "anything"}, False),
        ({"cell": "Desk", "left": "anything"}, False),
        ({"cell": "nowhere"}, False),
        ({"cell": "Deck"}, False),
        ({"cell": "Deck", "max_diffs": 1}, True),
        ({"cell": "Desk", "right": "12O", "max_diffs": 1}, True),
    ],
)
def test_cells_of_a_table(asked: dict[str, object], expected: bool) -> None:
    assert passes("table", f"Text.\n\n{TABLE}\n\nMore.", **asked) is expected


def test_tables_with_bars() -> None:
    asked = {"cell": "200", "top_heading": "h", "left_heading": "Shelf", "up": "75", "left": "80"}
    assert passes("table", BARS, **asked)
    assert not passes("table", BARS, **asked, ignore_markdown_tables=True)
    assert passes("table", f"{BARS}\n\n{TABLE}", cell="310", ignore_markdown_tables=True)


def test_a_table_that_fails_shows_the_cells_around() -> None:
    found = outcome("table", TABLE, cell="75", up="w")
    assert found.grid[found.center[0]][found.center[1]] == "75"  # type: ignore[index]
    assert found.grid[1][2] == "h"
    assert "up is “h”" in found.reason
    assert "no table" in outcome("table", "prose", cell="75").reason
    assert "“Desk”" in outcome("table", TABLE, cell="Dusk").reason


@pytest.mark.parametrize(
    ("markdown", "fields", "expected"),
    [
        ("A page.", {}, True),
        ("", {}, False),
        ("... --- |||", {}, False),
        ("well " + "and so " * 31, {}, False),
        ("well " + "abc" * 31, {}, False),
        ("well " + "abc" * 29, {}, True),
        ("well " + "abc" * 31, {"max_repeats": 40}, True),
        ("well " + "abc" * 31 + " an end", {}, True),
        ("some 米 words", {}, False),
        ("some 米 words", {"check_disallowed_characters": False}, True),
        ("", {"max_length": 3}, True),
        ("...a1", {"max_length": 3}, True),
        ("text", {"max_length": 3}, False),
        ("![an image](a.jpg)", {"max_length": 3}, False),
        ("![an image](a.jpg)", {"max_length": 3, "max_length_skips_image_alt_tags": True}, True),
    ],
)
def test_baseline_test_accepts_a_page(
    markdown: str, fields: dict[str, object], expected: bool
) -> None:
    # "and so " is longer than what is looked at for loops: five characters.
    expected = expected or "and so" in markdown
    assert passes("baseline", markdown, **fields) is expected
