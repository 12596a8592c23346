"""What stands beside a table: its column of labels, or a paragraph of its own; and what is in what
the detector calls a figure: a drawing's labels, or text."""

import pytest

from llm_ocr.engines.embedded.blocks import page_blocks
from llm_ocr.engines.embedded.geometry import Line, hull
from llm_ocr.engines.embedded.layout import Region
from tests.engines.embedded.written import FLOOD, column, line, rows

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
    blocks = page_blocks([*numbers, *side], regions, 1000, 1300)
    (table,) = [one for one in blocks if one.label == "table"]
    assert set(table.lines) == {*numbers, *(side if is_of_it else ())}
    assert [one.label for one in blocks if one is not table] == ["text"] * (not is_of_it)


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        (rows([("Subtotal", "£12.50"), ("Total", "£14.00")], (200, 500), 400), {"text"}),
        (rows([("1901", "1911"), ("1921", "1931")], (200, 500), 400), {"image"}),
        (rows([("Alder", "£12.50"), ("Canal", "£14.00")], (200, 500), 400)[2:], {"image"}),
        ([*rows([("Alder", "94")], (200, 500), 400), line("Year", 300, 600)], {"image"}),
    ],
    ids=["a sum", "numbers alone", "one row", "labels of a chart"],
)
def test_labels_with_their_values_are_no_figure(lines: list[Line], labels: set[str]) -> None:
    around = hull(one.rect for one in lines)
    figure = Region("figure", (150.0, around[1] - 100, 700.0, around[3] + 100), 0.9)
    text = column([FLOOD] * 3, 100, 1000)
    blocks = page_blocks([*lines, *text], [figure], 1000, 1300)
    above = [one for one in blocks if one.rect[1] < 900]
    assert {one.label for one in above} == labels
