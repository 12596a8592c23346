"""What stands beside a table: its column of labels, or a paragraph of its own."""

import pytest

from llm_ocr.engines.embedded.blocks import page_blocks
from llm_ocr.engines.embedded.geometry import hull
from llm_ocr.engines.embedded.layout import Region
from tests.engines.embedded.written import column, rows

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
