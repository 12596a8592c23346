"""Answers of yes and no, and similar texts with opposite meanings."""

import pytest

from llm_ocr.text.negation import boolean_mentions, contradict, is_negated, unselected_options


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("including tax", "excluding tax"),
        ("total net", "total gross"),
        ("paid", "unpaid"),
        ("imports", "exports"),
        ("with tax", "without tax"),
        ("paid", "not paid"),
    ],
)
def test_opposites_contradict_in_both_directions(text: str, other: str) -> None:
    assert contradict(text.split(), other.split())
    assert contradict(other.split(), text.split())


def test_similar_texts_do_not_contradict() -> None:
    assert not contradict(["total", "amount"], ["totel", "amount"])


def test_options_are_no_answers() -> None:
    assert unselected_options("yes/no") == {0, 4}
    assert list(boolean_mentions("paid: yes / no", True)) == []
    assert list(boolean_mentions("paid: ☐ yes", True)) == []
    assert list(boolean_mentions("paid: yes", True)) == [(6, 9)]
    assert list(boolean_mentions("paid ☑", True)) == [(5, 6)]


def test_a_negation_before_a_label_or_another_answer_after_it_negates() -> None:
    assert is_negated(True, ["not"], [])
    assert is_negated(True, [], ["no"])
    assert not is_negated(True, [], ["yes"])
