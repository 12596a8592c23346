"""Headings on a scan, of which only the pixels are known."""

import pytest

from llm_ocr.engines.embedded.block import block_of
from llm_ocr.engines.embedded.geometry import OcrLine
from llm_ocr.engines.embedded.structure.headings import as_heading, heads
from tests.engines.embedded.written import FLOOD, HEIGHT, PITCH, RECORDS, column, line

PLAIN, BOLD = 3.0, 4.0


def headed(head: str, thickness: float) -> list[OcrLine]:
    """A line as close to the text around it as the text's lines are to each other."""
    above, below = ([FLOOD.capitalize()] * 3 for _ in range(2))
    lines = [*column(above, 100, 0, PLAIN), *column(below, 100, 4 * PITCH, PLAIN)]
    return [*lines, line(head, 100, 3 * PITCH, thickness)]


def labels(lines: list[OcrLine]) -> list[tuple[str, int]]:
    block = block_of("text", lines)
    return [(one.label, len(one.lines)) for one in block.divide(heads(block))]


def test_a_bold_line_within_a_text_heads_what_is_below() -> None:
    assert labels(headed("The keepers", BOLD)) == [("text", 3), ("title", 1), ("text", 3)]
    assert labels(headed("The keepers", PLAIN)) == [("text", 7)]


@pytest.mark.parametrize("said", ["The keepers wrote,", "and so the keepers", "War"])
def test_a_bold_line_that_does_not_read_like_a_heading_is_none(said: str) -> None:
    assert labels(headed(said, BOLD)) == [("text", 7)]


def test_a_row_of_parts_above_a_text_is_no_heading() -> None:
    """It may be the head of a table."""
    below = block_of("text", column([FLOOD.capitalize()] * 4, 100, 6 * PITCH, PLAIN))
    head = [line("Goods shed", 100, 4 * PITCH), line("Remarks", 300, 4 * PITCH)]
    for parts, is_head in ((head[:1], True), (head, False)):
        block = block_of("text", parts)
        assert (as_heading(block, [block, below], HEIGHT).label == "title") is is_head


@pytest.mark.parametrize(("thickness", "heads"), [(BOLD, True), (PLAIN, False), (0.0, False)])
def test_a_bold_line_heads_the_text_below_whatever_is_above(thickness: float, heads: bool) -> None:
    """The text above it stands as near, and has no end."""
    above = block_of("text", column([RECORDS] * 4, 100, 0, PLAIN))
    head = block_of("text", [line("The keepers", 100, 4 * PITCH, thickness)])
    below = block_of("text", column([FLOOD.capitalize()] * 4, 100, 5 * PITCH, PLAIN))
    assert (as_heading(head, [above, head, below], HEIGHT).label == "title") is heads
