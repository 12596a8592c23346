"""Lines to sign on: signed, not signed, with a printed name, and lines of other kinds."""

import random

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.stamped_pages import DPI, HEIGHT, WIDTH, draw_signature, load_font, mm
from llm_ocr.auxiliary.signatures import find_signatures
from llm_ocr.auxiliary.stamps import SOURCE, Scan
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind

LEFT, RIGHT, LEVEL = mm(60), mm(115), mm(150)


def field(label: str = "Signature", *, is_left: bool = False) -> Image.Image:
    """A page with a line and its label, below it or on its left."""
    page = Image.new("RGB", (WIDTH, HEIGHT), (250, 250, 246))
    draw, font = ImageDraw.Draw(page), load_font(random.Random(1), 2.2)
    draw.line((LEFT, LEVEL, RIGHT, LEVEL), fill=(40, 40, 40), width=2)
    below, left = (LEFT + 10, LEVEL + mm(1.5)), (LEFT - mm(26), LEVEL - mm(3))
    draw.text(left if is_left else below, label, fill=(30, 30, 30), font=font)
    return page


def sign(page: Image.Image) -> Image.Image:
    draw_signature(page, random.Random(7), LEFT + mm(5), LEVEL - mm(5))
    return page


def find_on(page: Image.Image, *stamps: AuxiliaryFinding) -> list[tuple[str | None, str | None]]:
    found = find_signatures(Scan(np.asarray(page), DPI / 25.4), stamps)
    for finding in found:
        assert finding.kind is FindingKind.SIGNATURE
        assert LEFT - 20 < finding.box.x1 < finding.box.x2 < RIGHT + mm(6)
        assert finding.box.y1 < LEVEL < finding.box.y2
    return [(finding.value, finding.text) for finding in found]


def test_a_line_is_signed_or_not() -> None:
    assert find_on(field()) == [("absent", "Signature")]
    assert find_on(sign(field())) == [("present", "Signature")]
    assert find_on(field("Signed by:", is_left=True)) == [("absent", "Signed by:")]


def test_a_printed_name_is_no_signature() -> None:
    page = field("Unterschrift")
    font = load_font(random.Random(2), 2.2)
    ImageDraw.Draw(page).text(
        (LEFT + 20, LEVEL - mm(4)), "Dr. Jane Porter", fill=(30, 30, 30), font=font
    )
    assert find_on(page) == [("absent", "Unterschrift")]
    assert find_on(sign(page)) == [("present", "Unterschrift")]


def test_a_tick_or_a_stamp_makes_it_unsure() -> None:
    page = field()
    ticked = page.copy()
    start = (LEFT + 80, LEVEL - mm(4))
    tick = [
        start,
        (start[0] + mm(2), LEVEL - mm(2)),
        (start[0] + mm(6.5), LEVEL - mm(7)),
    ]
    ImageDraw.Draw(ticked).line(tick, fill=(30, 40, 140), width=6)
    assert find_on(ticked) == [("unsure", "Signature")]
    box = Box(LEFT + 50, LEVEL - mm(10), RIGHT, LEVEL)
    stamp = AuxiliaryFinding(FindingKind.STAMP, "PAID", box, 0.9, SOURCE)
    assert find_on(sign(page), stamp) == [("unsure", "Signature")]


def test_lines_with_other_labels_and_those_of_tables_are_not_signed_on() -> None:
    assert find_on(sign(field("Place, date"))) == []
    page = field()
    draw = ImageDraw.Draw(page)
    for x in (LEFT, RIGHT):
        draw.line((x, LEVEL - mm(12), x, LEVEL + mm(12)), fill=(40, 40, 40), width=2)
    assert find_on(page) == []
