import pytest

from llm_ocr.evaluation.reading_order import (
    find_paragraphs,
    measure_reading_order,
    neighbors_in_order,
    order_distance,
)

PARAGRAPHS = [f"The {word} paragraph speaks of {word} things only." for word in
              ("first", "second", "third", "fourth", "fifth")]  # fmt: skip


def text(*order: int) -> str:
    return "\n\n".join(PARAGRAPHS[k] for k in order)


def test_the_same_order() -> None:
    assert order_distance(text(0, 1, 2, 3, 4), text(0, 1, 2, 3, 4)) == 0.0
    assert neighbors_in_order(text(0, 1, 2, 3, 4), text(0, 1, 2, 3, 4)) == 1.0


def test_a_paragraph_that_moved() -> None:
    found = measure_reading_order(PARAGRAPHS, text(1, 2, 3, 4, 0))
    assert found.distance == pytest.approx(2 / 5)
    assert found.neighbors == pytest.approx(3 / 4)


def test_columns_read_across() -> None:
    found = measure_reading_order(PARAGRAPHS, text(4, 3, 2, 1, 0))
    assert found.neighbors == 0.0
    assert found.distance > 0.7


def test_a_missing_paragraph_is_told() -> None:
    found = measure_reading_order(PARAGRAPHS, text(0, 1, 3, 4))
    assert found.missing == (2,)
    assert found.distance == pytest.approx(1 / 5)
    assert found.neighbors == pytest.approx(2 / 4)


def test_misread_paragraphs_and_markup_are_matched() -> None:
    said = text(0, 1, 2, 3, 4).replace("paragraph", "par agraqh").replace("The", "**The**", 2)
    assert measure_reading_order(PARAGRAPHS, said).distance == 0.0


def test_equal_paragraphs_are_matched_separately() -> None:
    said = "Signed by both parties.\n\nSome words between them.\n\nSigned by both parties."
    assert measure_reading_order(find_paragraphs(said), said).distance == 0.0


def test_nothing_to_order() -> None:
    assert find_paragraphs("") == find_paragraphs(
        "12\n\n<table><tr><td>cells of a table</td></tr></table>"
    )
    assert measure_reading_order([], "text").distance == 0.0
    assert neighbors_in_order("one paragraph is no pair", "one paragraph is no pair") is None
    assert order_distance(text(0, 1), "") == 1.0
