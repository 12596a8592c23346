"""Regions that the detector calls figures, checked against the ink on the page and the words."""

import numpy as np
import pytest

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.page_regions import page_regions
from llm_ocr.engines.embedded.words.detect import Image
from tests.engines.embedded.written import FLOOD, column, line, rows

TEXT = column([FLOOD] * 8, 100, 700)
NAMES = [line("Alder Energy Systems", 300, 200), line("Canal Road", 300, 260)]
FIGURE = Region("figure", (0.0, 0.0, 900.0, 400.0), 0.8)


@pytest.fixture
def paper() -> Image:
    """A page with ink where its lines stand."""
    image = np.full((1300, 1000, 3), 255, np.uint8)
    for one in (*TEXT, *NAMES):
        x1, y1, x2, y2 = (int(value) for value in one.rect)
        image[y1:y2, x1:x2] = 0
    return image


def figures(image: Image) -> list[Rect]:
    return list(page_regions([*TEXT, *NAMES], [FIGURE], image).figures)


def test_text_alone_is_no_figure(paper: Image) -> None:
    assert figures(paper) == []
    paper[100:160, 400:460] = 0
    assert figures(paper) == [FIGURE.rect], "a logo beside the text"


def test_the_dark_edge_of_a_scan_is_no_figure(paper: Image) -> None:
    paper[:30] = paper[:, :20] = 10
    assert figures(paper) == []
    paper[:180] = 10
    assert figures(paper) == [FIGURE.rect], "a picture that reaches the edge"


@pytest.mark.parametrize(("said", "is_figure"), [("Figure 2: The gauge", True), (FLOOD, False)])
def test_a_large_figure_of_many_words_has_a_caption(
    paper: Image, said: str, is_figure: bool
) -> None:
    paper[100:160, 400:460] = 0
    steps = ["gauge", *["the gauge is"] * 13, "gauge"]
    labels = [line(one, 100 + 53 * (5 * k % 11), 70 + 28 * k) for k, one in enumerate(steps)]
    caption = line(said, 100, 520)
    region = Region("figure", (50.0, 60.0, 950.0, 500.0), 0.8)
    found = page_regions([*TEXT, *labels, caption], [region], paper)
    assert (list(found.figures) == [region.rect]) is is_figure
    assert caption in found.lines


def test_a_figure_that_shows_nothing_hides_no_table() -> None:
    shares = [("Age", "Share"), ("20-29", "0.265"), ("30-39", "0.31"), ("40-49", "0.22")]
    cells = rows(shares, (110, 280), 250)
    paper = np.full((1300, 1000, 3), 255, np.uint8)
    found = page_regions([*TEXT, *cells], [FIGURE], paper)
    assert [set(one.lines) for one in found.tables] == [set(cells)]


def test_a_title_beyond_the_image_of_a_figure_is_text(paper: Image) -> None:
    title = [line("Topic one", 300, 100), line("A check of form", 300, 140)]
    image = (100.0, 180.0, 850.0, 600.0)
    paper[180:600, 100:850] = 90
    region = Region("figure", (100.0, 80.0, 850.0, 620.0), 0.8)
    found = page_regions([*TEXT, *title], [region], paper, [image])
    assert set(title) <= set(found.lines)
    (figure,) = found.figures
    assert figure[1] > title[1].rect[3]
    unknown = page_regions([*TEXT, *title], [region], paper)
    assert not set(title) & set(unknown.lines), "the words may be the figure's"
