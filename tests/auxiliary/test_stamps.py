"""Stamps on generated pages: found with their text, aslant, round and worn, and nothing else is."""

import numpy as np
import pytest

from benchmarks.stamped_pages import DPI, StampedPage, make_page
from llm_ocr.auxiliary.stamps import Scan, find_stamps
from llm_ocr.records import AuxiliaryFinding

# Of the split that the heuristics were made with: the docs show how they do on others.
FRAMED_AND_BARE, ROUND_AND_FRAMED, ROUND, NO_STAMP = 2, 4, 8, 1


def find_on(page: StampedPage, enlarged: float = 1) -> list[AuxiliaryFinding]:
    width, height = (round(side * enlarged) for side in page.image.size)
    image = page.image.resize((width, height))
    return find_stamps(Scan(np.asarray(image), DPI / 25.4 * enlarged))


@pytest.mark.parametrize(
    ("number", "texts"),
    [
        (FRAMED_AND_BARE, ["EINGANG 7.9.2022 ACCOUNTS DEPT", "MAIL ROOM 10/27/2011 BY POST"]),
        (ROUND, ["GREEN VALLEY FARMS CHECKED"]),
        (NO_STAMP, []),
    ],
)
def test_stamps_are_found_where_they_are_with_their_text(number: int, texts: list[str]) -> None:
    page = make_page(number, "develop")
    found = find_on(page)
    assert len(found) == len(texts)
    for finding, text in zip(found, texts, strict=True):
        assert (finding.text or "").startswith(text)
        assert 0.5 < finding.confidence < 1
    boxes = sorted(mark.box for mark in page.marks if mark.kind != "signature")
    for finding, box in zip(sorted(found, key=lambda one: one.box.x1), boxes, strict=True):
        sides = (finding.box.x1, finding.box.y1, finding.box.x2, finding.box.y2)
        assert sides == pytest.approx(box, abs=DPI / 25.4)


def test_the_text_of_stamps_on_text_is_that_of_the_stamps() -> None:
    ring, frame = find_on(make_page(ROUND_AND_FRAMED, "develop"))
    assert frame.text == "CONFIDENTIAL"
    assert (ring.text or "").startswith("MILLER AND S")
    assert (ring.text or "").endswith("CHECKED")


def test_places_are_those_of_the_scan_at_any_resolution() -> None:
    page = make_page(ROUND, "develop")
    (coarse,), (fine,) = find_on(page), find_on(page, 1.5)
    assert fine.box.x1 == pytest.approx(coarse.box.x1 * 1.5, abs=10)
    assert fine.box.y2 == pytest.approx(coarse.box.y2 * 1.5, abs=10)
    assert fine.text == coarse.text
