"""Accents that are read where there are none."""

from itertools import cycle

import pytest

from llm_ocr.engines.embedded.words.accents import has_accents, without_accents
from llm_ocr.engines.embedded.words.boxes import CharPrediction

PAGE = "The gauge at the bridge was read on every Sunday of the year by two old keepers. " * 3


def line(text: str, *scores: float) -> list[CharPrediction]:
    """A line whose letters with accents are read with these confidences in turn."""
    of_accents = cycle(scores or (0.99,))
    return [
        CharPrediction(char, 0.99 if char.isascii() else next(of_accents), k / len(text))
        for k, char in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("text", "scores", "accents"),
    [
        (PAGE, (), False),
        (PAGE + "SETIA ÁLAM", (0.8,), False),
        (PAGE + "Müller", (0.98,), True),
        (PAGE + "Brücke über Flüsse für Gäste", (0.8,), True),
        ("Café", (0.8,), True),
        (PAGE + "北京 Ωμέγα", (), False),
    ],
)
def test_a_page_has_accents_if_some_are_sure_or_many(
    text: str, scores: tuple[float, ...], accents: bool
) -> None:
    assert has_accents([line(text, *scores)]) is accents


def test_only_doubtful_accents_are_dropped() -> None:
    kept = without_accents(line("ÁLAM é ø 北", 0.8, 0.95, 0.8, 0.8))
    assert "".join(one.text for one in kept) == "ALAM é ø 北"
    assert kept[0].score == 0.8
