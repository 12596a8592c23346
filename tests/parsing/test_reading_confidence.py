"""How surely the characters of a value were read."""

import pytest

from llm_ocr.parsing.reading_confidence import reading_confidence
from llm_ocr.records import Box, PageLine, TextWord


def line(top: float, *words: tuple[str, float | None], confidence: float = 0.95) -> PageLine:
    boxes = [Box(100 * k, top, 100 * k + 90, top + 20) for k in range(len(words))]
    parts = tuple(TextWord(text, box, sure) for (text, sure), box in zip(words, boxes, strict=True))
    text = " ".join(text for text, _ in words)
    return PageLine(text, confidence, False, Box(0, top, 100 * len(words), top + 20), parts)


LINES = [
    line(0, ("Total", 0.99), ("12.50", 0.6), ("EUR", 0.9)),
    line(40, ("Tax", 0.99), ("12.50", 0.8), ("EUR", 0.7)),
    line(80, ("Own", None), ("text", None), confidence=1.0),
]


@pytest.mark.parametrize(
    ("quote", "box", "confidence"),
    [
        ("12.50", Box(100, 0, 190, 20), 0.6),
        ("12.50", Box(100, 40, 190, 60), 0.8),
        ("12.50 EUR", Box(100, 0, 290, 20), 0.6),
        ("Total 12.50 EUR Tax", Box(0, 0, 300, 60), 0.6),
        ("EUR Tax", Box(0, 30, 300, 60), 0.7),
        ("own text", Box(0, 80, 200, 100), 1.0),
        ("12.51", Box(100, 0, 190, 20), None),
        ("12.50", Box(100, 200, 190, 220), None),
        ("12.50", None, None),
        (None, Box(100, 0, 190, 20), None),
    ],
)
def test_the_least_sure_word_of_a_value_counts(
    quote: str | None, box: Box | None, confidence: float | None
) -> None:
    assert reading_confidence(quote, box, LINES) == confidence


def test_a_page_without_lines_says_nothing() -> None:
    assert reading_confidence("12.50", Box(100, 0, 190, 20), None) is None


def test_a_line_without_words_has_one_confidence() -> None:
    whole = PageLine("Total 12.50", 0.7, False, Box(0, 0, 300, 20))
    assert reading_confidence("12.50", Box(100, 0, 190, 20), [whole]) == 0.7
