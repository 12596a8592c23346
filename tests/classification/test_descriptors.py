"""What the descriptors of a page keep, and what they leave out."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from llm_ocr.classification.descriptors import describe_layout, hash_words, top_text
from llm_ocr.records import Block, Box, Outcome, PageLine, PageResult, PageStatus
from tests.classification.drawn_pages import draw_page


def test_a_scan_stays_nearer_to_its_page_than_pages_of_other_kinds() -> None:
    page = draw_page("form", 1)
    scan = page.rotate(0.7, fillcolor=250, translate=(6, -5)).filter(ImageFilter.GaussianBlur(1))
    # Gray paper in light that falls off to one side.
    light = np.linspace(0.95, 0.75, scan.width)[None, :]
    pixels = np.asarray(scan) * light + np.random.default_rng(1).normal(0, 6, (900, 640))
    scan = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    original = describe_layout(page)
    assert np.linalg.norm(original) == pytest.approx(1, abs=1e-5)
    moved = np.linalg.norm(original - describe_layout(scan))
    others = [describe_layout(draw_page(kind, 1)) for kind in ("invoice", "letter", "grid")]
    assert moved < 0.7 * min(float(np.linalg.norm(original - other)) for other in others)


def test_words_are_equal_whatever_their_case_and_the_value_of_numbers() -> None:
    assert (hash_words("INVOICE No. 2391") == hash_words("Invoice no 1804")).all()
    assert (hash_words("Credit note") != hash_words("Invoice")).any()
    # Pairs are those of a line, so that the order of lines doesn't matter.
    assert (hash_words("bill to\nAnn Lee") == hash_words("Ann Lee\nbill to")).all()
    assert (hash_words("to bill") != hash_words("bill to")).any()


def test_the_words_are_those_of_the_top_third() -> None:
    def box(y: float) -> Box:
        return Box(10, y, 300, y + 20)

    def page(**parts: object) -> PageResult:
        return PageResult(Outcome(PageStatus.OK), "a/1", "a", "a", "a", 1, height=900, **parts)  # type: ignore[arg-type]

    lines = tuple(
        PageLine(text, 1.0, False, box(y))
        for text, y in (("below", 400), ("second", 200), ("first", 40))
    )
    assert top_text(page(lines=lines)) == "first\nsecond"
    blocks = (Block("text", "begins above", box(280)), Block("text", "below", box(500)))
    assert top_text(page(blocks=blocks)) == "begins above"
    assert top_text(page(markdown="# all of it")) == "# all of it"
    assert top_text(page()) is None
