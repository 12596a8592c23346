"""Levels of headings, which one page alone can't tell."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

import llm_ocr
from llm_ocr.document.heading_levels import document_heading_levels
from llm_ocr.records import Block, Box, Outcome, PageLine, PageResult, PageStatus

TITLE, SECTION, SUBSECTION, BODY = 26, 17, 13, 10
PAGES = [
    [("Rivers of the North", TITLE), ("Floods", SECTION), ("The flood of spring", SUBSECTION)],
    [("The flood of autumn", SUBSECTION)],
    [("Bridges", SECTION), ("Old ones", SUBSECTION)],
]


def draw(path: Path) -> Path:
    sheet = Canvas(str(path), pagesize=(420, 595))
    for headings in PAGES:
        y = 540.0
        for text, size in headings:
            sheet.setFont("Helvetica-Bold", size)
            sheet.drawString(50, y, text)
            y -= 24
            sheet.setFont("Helvetica", BODY)
            for _ in range(5):
                sheet.drawString(50, y, "The water rose for days and went down again in a week,")
                y -= 13
            y -= 24
        sheet.showPage()
    sheet.save()
    return path


def test_a_page_that_begins_with_a_subsection_has_no_section(tmp_path: Path) -> None:
    result = llm_ocr.convert(draw(tmp_path / "rivers.pdf"))
    found = [line for line in result.markdown.splitlines() if line.startswith("#")]
    assert found == [
        "# Rivers of the North",
        "## Floods",
        "### The flood of spring",
        "### The flood of autumn",
        "## Bridges",
        "### Old ones",
    ]
    # A page for itself has its own levels.
    assert not result.pages[1].markdown.startswith("###")


def page(number: int, *headings: tuple[str, float], confidence: float = 1.0) -> PageResult:
    """A page of 1000 x 1000 pixels with headings (Markdown, height in pixels) below each other."""
    boxes = [Box(0, 100 * k, 500, 100 * k + size) for k, (_, size) in enumerate(headings)]
    return PageResult(
        outcome=Outcome(PageStatus.OK),
        page_id=f"d/{number}",
        doc_id="d",
        source_uri="d.pdf",
        name="d",
        page_number=number,
        width=1000,
        height=1000,
        blocks=tuple(
            Block("title", text, box) for (text, _), box in zip(headings, boxes, strict=True)
        ),
        lines=tuple(
            PageLine(text, confidence, doubtful=False, box=box)
            for (text, _), box in zip(headings, boxes, strict=True)
        ),
    )


def levels(*pages: PageResult) -> Sequence[int]:
    return list(document_heading_levels(pages).values())


@pytest.mark.parametrize(
    ("headings", "expected"),
    [
        # Numbers count more than sizes, and give those of their size their level.
        ([("## 2 Results", 20), ("## 2.1 Rivers", 20), ("## 3 Bridges", 20)], [2, 3, 2]),
        ([("## 2.1 Rivers", 16), ("## Lakes", 16), ("## Ponds", 12)], [3, 3, 4]),
        ([("## 2\\. Results", 20), ("## Annex", 20)], [2, 2]),
        # Only the largest of what single pages take for titles is one.
        ([("# Rivers", 40), ("# Floods", 24), ("## Spring", 16)], [1, 2, 3]),
        ([("# Rivers", 40), ("# Lakes", 40)], [1, 1]),
        # There is nothing between two levels, and nothing is deeper than four.
        ([(f"## Head {k}", 40 - 6 * k) for k in range(5)], [2, 3, 4, 4, 4]),
    ],
)
def test_levels_follow_from_numbers_and_sizes_of_all_pages(
    headings: Sequence[tuple[str, float]], expected: Sequence[int]
) -> None:
    assert levels(*(page(k, heading) for k, heading in enumerate(headings, 1))) == expected


def test_sizes_measured_on_images_are_not_compared() -> None:
    headings = [("## Floods", 20.0), ("## Spring", 14.0)]
    assert levels(*(page(k, one) for k, one in enumerate(headings))) == [2, 3]
    assert levels(*(page(k, one, confidence=0.9) for k, one in enumerate(headings))) == []


def test_pages_of_different_resolutions_are_compared_by_size() -> None:
    large = page(1, ("## Floods", 20), ("### Spring", 14))
    small = page(2, ("## Autumn", 7))
    small = replace(small, width=500, height=500)
    assert levels(large, small) == [2, 3, 3]


def test_one_page_of_headings_has_their_levels_already() -> None:
    headings = ("## Floods", 20.0), ("## Spring", 14.0)
    assert levels(page(1, *headings), page(2)) == []
    # Of one level there, they are of one level everywhere.
    assert levels(page(1, *headings), page(2, ("## Autumn", 9))) == [2, 2, 3]


def test_levels_stay_as_they_are_without_lines() -> None:
    known = page(1, ("## Floods", 20))
    assert levels(known, replace(known, lines=None, page_number=2)) == []
