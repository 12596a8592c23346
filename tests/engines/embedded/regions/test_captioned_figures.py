"""Figures by their captions: labels that stand above one, and text that doesn't belong to any."""

import numpy as np
import pytest

from llm_ocr.engines.embedded.geometry import OcrLine, hull
from llm_ocr.engines.embedded.regions.figures import with_captioned_figures
from llm_ocr.engines.embedded.regions.layout import Region
from tests.engines.embedded.written import FLOOD, PITCH, RECORDS, column, line

LEFT, TOP = 100.0, 400.0
CAPTION_TOP = TOP + 220
TEXT = [*column([FLOOD] * 4, LEFT, 100), *column([RECORDS] * 4, LEFT, 800)]
CAPTION = line("Fig. 2. The water of the year", LEFT, CAPTION_TOP)
LABELS = [
    line("100", 120, TOP),
    line("50", 120, TOP + 80),
    line("1901 1911 1921 1931 1941 1951", 120, TOP + 150),
    line("Year", 250, TOP + 180),
]


def figures(lines: list[OcrLine], *seen: Region) -> list[Region]:
    drawn = np.indices((1300, 1000, 3))[0].astype(np.uint8)
    found = with_captioned_figures(seen, [*TEXT, *lines], drawn)
    return [one for one in found if one.label == "figure"]


@pytest.mark.parametrize(
    "said",
    [
        *("Fig. 2. The water", "Figure 3: Water", "Abb. 1 Das Wasser", "Figure 2-1 Water"),
        *("Fig. A-3. The water", "Figure IV. Water", "Fig. 3.4a Water", "Figure S1: Water"),
    ],
)
def test_labels_above_a_caption_are_a_figure_that_no_detector_saw(said: str) -> None:
    caption = line(said, LEFT, CAPTION_TOP)
    (figure,) = figures([*LABELS, caption])
    inside = hull(one.rect for one in LABELS)
    assert figure.rect == (LEFT, inside[1], max(inside[2], caption.rect[2]), inside[3])


def test_without_a_caption_or_with_few_labels_there_is_no_figure() -> None:
    assert figures(LABELS) == []
    assert figures([*LABELS, line("The Fig. 2 of the year", LEFT, CAPTION_TOP)]) == []
    assert figures([LABELS[0], LABELS[3], CAPTION]) == []
    low = [line("50", 120 + 90 * k, CAPTION_TOP - PITCH) for k in range(4)]
    assert figures([*low, CAPTION]) == []


def test_a_figure_reaches_down_to_the_labels_above_its_caption() -> None:
    drawn = Region("figure", (LEFT, 300.0, 500.0, TOP + 140), 0.9)
    (figure,) = figures([*LABELS, CAPTION], drawn)
    assert figure.rect == hull((drawn.rect, LABELS[2].rect, LABELS[3].rect))


def test_text_above_a_caption_is_of_no_figure() -> None:
    sentence = line("the keepers wrote it down", 120, TOP + 190)
    assert figures([*LABELS, sentence, CAPTION]) == []
    heading = line("The water", LEFT, TOP - PITCH)
    (figure,) = figures([heading, *LABELS, CAPTION])
    assert figure.rect[1] == TOP


@pytest.mark.parametrize("other", [-320, 520])
def test_a_caption_in_a_column_says_nothing_of_the_one_beside_it(other: float) -> None:
    beside = column([FLOOD, RECORDS] * 9, other, TOP - 40)
    own = column([FLOOD, RECORDS, FLOOD], LEFT, CAPTION_TOP + 2 * PITCH)
    above = column([FLOOD, RECORDS, FLOOD], LEFT, TOP - 4 * PITCH)
    (figure,) = figures([*above, *LABELS, CAPTION, *own, *beside])
    assert LEFT <= figure.rect[0] < figure.rect[2] < 520
    assert figure.rect[1] == TOP


def test_a_drawing_without_labels_right_above_a_caption_is_a_figure() -> None:
    paper = np.full((1300, 1000, 3), 255, np.uint8)
    paper[450:560, 150:300] = 90
    (figure,) = with_captioned_figures([], [*TEXT, CAPTION], paper)
    assert figure.rect == (150, 450, 300, 560)
    seen = Region("figure", (140.0, 440.0, 310.0, 570.0), 0.9)
    assert with_captioned_figures([seen], [*TEXT, CAPTION], paper) == [seen]
    beside = column([FLOOD] * 4, 120, 450)
    assert with_captioned_figures([], [*TEXT, *beside, CAPTION], paper) == [], "text is there"
