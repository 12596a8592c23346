"""What stands beside a table: its column of labels, or a paragraph of its own; and what is in what
the detector calls a figure: a drawing's labels, or text."""

import pytest

from llm_ocr.engines.embedded.geometry import hull
from llm_ocr.engines.embedded.regions.layout import Region
from tests.engines.embedded.written import FLOOD, RECORDS, column, labeled_blocks, line, rows

LABELS = ["Alder", "Canal", "Harbour", "Quarry", "Meadow", "Tower", "Orchard", "Basin"]
NOTE = ["Read by the", "two keepers", "each Sunday"]


@pytest.mark.parametrize(("beside", "is_of_it"), [(LABELS, True), (NOTE, False)])
def test_only_what_is_about_as_high_as_a_table_is_its_labels(
    beside: list[str], is_of_it: bool
) -> None:
    numbers = rows([("12.5", "94", "70.3")] * len(LABELS), (300, 400, 500), 400)
    side = column(beside, 190, 400)
    regions = [
        Region("table", hull(one.rect for one in numbers), 0.9),
        Region("text", hull(one.rect for one in side), 0.9),
    ]
    blocks = labeled_blocks([*numbers, *side], regions, 1000, 1300)
    (table,) = [one for one in blocks if one.label == "table"]
    assert set(table.lines) == {*numbers, *(side if is_of_it else ())}
    assert [one.label for one in blocks if one is not table] == ["text"] * (not is_of_it)


def test_a_caption_in_a_tables_region_is_no_row_of_it() -> None:
    caption = column([f"Table 2: {FLOOD}", RECORDS], 100, 300)
    numbers = rows([("Alder", "12.5", "94")] * 5, (110, 280, 400), 360)
    region = Region("table", hull(one.rect for one in (*caption, *numbers)), 0.9)
    blocks = labeled_blocks([*caption, *numbers], [region], 1000, 1300)
    assert {one.label: set(one.lines) for one in blocks} == {
        "table_caption": {*caption},
        "table": {*numbers},
    }


@pytest.mark.parametrize(("score", "is_apart"), [(0.6, True), (1.0, False)])
def test_an_address_in_a_tables_region_is_no_row_of_it(score: float, is_apart: bool) -> None:
    """Unless the region is where rules are, whose cells may have room between them."""
    address = column(["Alder Energy Systems", "12 Canal Road", "Harbour"], 110, 300)
    numbers = rows([("Alder", "12.5", "94")] * 5, (110, 280, 400), 440)
    note = [line("Read by the keeper", 110, 640)]
    region = Region("table", hull(one.rect for one in (*address, *numbers, *note)), score)
    text = column([FLOOD] * 3, 100, 1000)
    blocks = labeled_blocks([*address, *numbers, *note, *text], [region], 1000, 1300)
    (table,) = [one for one in blocks if one.label == "table"]
    assert {*table.lines} == {*numbers, *(() if is_apart else (*address, *note))}


def test_a_page_that_the_detector_takes_for_a_figure_keeps_its_table() -> None:
    text = column([FLOOD] * 8, 100, 200)
    numbers = rows([("Alder", "12.5", "94"), ("Canal", "70.3", "71")] * 3, (110, 280, 400), 500)
    figure = Region("figure", (60.0, 160.0, 940.0, 900.0), 0.8)
    blocks = labeled_blocks([*text, *numbers], [figure], 1000, 1300)
    assert {one.label: {*one.lines} for one in blocks} == {"text": {*text}, "table": {*numbers}}


@pytest.mark.parametrize(("at", "label"), [(1180, "footer"), (600, "title")])
def test_what_seems_a_heading_at_the_bottom_of_a_page_is_furniture(at: int, label: str) -> None:
    text = column([FLOOD] * 12, 100, 200)
    name = line("Alder Energy Systems", 100, at)
    regions = [Region("title", name.rect, 0.9), Region("text", hull(one.rect for one in text), 0.9)]
    more = column([FLOOD] * 4, 100, 700) if at < 700 else []
    beside = [line("NETS 2015", 700, at), line("7", 800, 1240)]
    blocks = labeled_blocks([*text, name, *more, *beside], regions, 1000, 1300)
    assert [one.label for one in blocks if name in one.lines] == [label]


def test_text_over_a_background_that_is_cut_in_strips_is_text() -> None:
    slide = [line(text, 200, 260 + 200 * k) for k, text in enumerate(("Costs", "Risks", "Plans"))]
    strips = [(0.0, 325.0 * k, 1000.0, 325.0 * (k + 1)) for k in range(4)]
    blocks = labeled_blocks(slide, [], 1000, 1300, strips)
    assert {one for block in blocks for one in block.lines} == {*slide}
    assert all(block.label != "image" for block in blocks)
    # Two images with a gap between them are two pictures.
    photos = [(100.0, 700.0, 500.0, 1000.0), (510.0, 700.0, 910.0, 1000.0)]
    text = column([FLOOD] * 6, 100, 200)
    drawn = [one for one in labeled_blocks(text, [], 1000, 1300, photos) if one.label == "image"]
    assert [one.rect for one in drawn] == photos
