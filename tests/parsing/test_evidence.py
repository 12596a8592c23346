"""Evidence for a record's values: matched in any notation, disambiguated, never invented."""

import re
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_ocr.parsing.evidence import find_evidence
from llm_ocr.parsing.schema import PageBlocks
from llm_ocr.records import Block, Box, FieldEvidence, MatchType

WIDE = Box(100, 100, 900, 130)
ITEMS = """<table><tr><th>Item</th><th>Qty</th><th>Price</th><th>Total</th></tr>
<tr><td>Steel arm</td><td>2</td><td>75.00</td><td>150.00</td></tr>
<tr><td>Long cable</td><td>1</td><td>75.00</td><td>75.00</td></tr>
<tr><td>Short cable</td><td>2</td><td>1.00</td><td>2.00</td></tr></table>"""


def page(*blocks: Block | str, number: int = 1) -> PageBlocks:
    made = [Block("text", one, WIDE) if isinstance(one, str) else one for one in blocks]
    return PageBlocks(f"doc/{number}", number, made)


def evidence_of(value: object, *texts: str) -> FieldEvidence:
    [found] = find_evidence({"field": value}, [page(*texts)])
    return found


def by_path(found: Sequence[FieldEvidence]) -> Mapping[str, FieldEvidence]:
    return {one.path: one for one in found}


@pytest.mark.parametrize(
    ("value", "text", "found", "quote"),
    [
        ("R-24/1107", "Invoice R-24/1107 of May", MatchType.EXACT, "R-24/1107"),
        (12, "12 pieces", MatchType.EXACT, "12"),
        (True, "field: yes", MatchType.NORMALIZED, "yes"),
        ("ORRIN & DAUGHTERS", "Orrin  & Daughters Ltd", MatchType.NORMALIZED, "Orrin  & Daughters"),
        ("Gerberstrasse 19", "Gerberstraße 19", MatchType.NORMALIZED, "Gerberstraße 19"),
        (
            "The Old Mill, Fenwick",
            "The Old Mill Fenwick",
            MatchType.NORMALIZED,
            "The Old Mill Fenwick",
        ),
        ("Marlow Green", "MarlowGreen", MatchType.NORMALIZED, "MarlowGreen"),
        (1234.5, "£1,234.50", MatchType.NORMALIZED, "1,234.50"),
        (1234.5, "1.234,50 €", MatchType.NORMALIZED, "1.234,50"),
        (1234.5, "EUR 1 234,50", MatchType.NORMALIZED, "1 234,50"),
        (1234.5, "CHF 1'234.50", MatchType.NORMALIZED, "1'234.50"),
        ("1234.5", "1,234.50", MatchType.NORMALIZED, "1,234.50"),
        (1234, "1.234 km", MatchType.NORMALIZED, "1.234"),
        (1234567, "1.234.567 km", MatchType.NORMALIZED, "1.234.567"),
        (1.234, "1,234 kg", MatchType.NORMALIZED, "1,234"),
        (-7.5, "(7.50)", MatchType.NORMALIZED, "(7.50)"),
        (-7.5, "7.50-", MatchType.NORMALIZED, "7.50-"),
        (0.19, "MwSt. 19 %", MatchType.NORMALIZED, "19"),
        ("2024-03-01", "on 2024-03-01", MatchType.EXACT, "2024-03-01"),
        ("2024-03-01", "am 01.03.2024", MatchType.NORMALIZED, "01.03.2024"),
        ("2024-03-01", "1 March 2024", MatchType.NORMALIZED, "1 March 2024"),
        ("2024-03-01", "1. März 2024", MatchType.NORMALIZED, "1. März 2024"),
        ("2024-03-01", "1er mars 2024", MatchType.NORMALIZED, "1er mars 2024"),
        ("2024-03-01", "March 1st, 2024", MatchType.NORMALIZED, "March 1st, 2024"),
        ("2024-03-01", "03/01/2024", MatchType.NORMALIZED, "03/01/2024"),
        ("2024-03-01", "01/03/24", MatchType.NORMALIZED, "01/03/24"),
        ("2024-03-01T00:00:00", "1-Mar-2024", MatchType.NORMALIZED, "1-Mar-2024"),
        ("EUR", "751,72 €", MatchType.NORMALIZED, "€"),
        ("€", "751,72 €", MatchType.EXACT, "€"),
        (
            "Orrin & Daugthers Ltd",
            "Orrin & Daughters Ltd",
            MatchType.FUZZY,
            "Orrin & Daughters Ltd",
        ),
        ("Tannery Lane 14", "Tannary Lane I4", MatchType.FUZZY, "Tannary Lane I4"),
    ],
)
def test_value_is_found_in_every_notation(
    value: object, text: str, found: MatchType, quote: str
) -> None:
    one = evidence_of(value, text)
    assert (one.matched, one.quote) == (found, quote)
    assert (one.page_id, one.page_number) == ("doc/1", 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1284.5, "£1,234.50"),
        ("2024-03-02", "1 March 2024"),
        ("2024-0391", "Invoice 2024-0381"),
        (20, "2024-20x and 1,20"),
        ("Marlow Green", "Fenwick Bridge"),
        ("yes", "eyes"),
        (True, "There is no yes without its label: yes"),
        ("CAD", "$12"),
        ("2024-02-31", "31.02.2024"),
        (float("nan"), "nan"),
        ("paid", "it is due"),
    ],
)
def test_value_missing_on_the_page_is_unsupported(value: object, text: str) -> None:
    one = evidence_of(value, text)
    assert (one.matched, one.page_id, one.box, one.quote) == (None, None, None, None)
    assert one.confidence == 0.2


def test_there_is_evidence_for_each_value_that_is_not_null_by_its_path() -> None:
    fields = {"a": None, "b": {"c": "x1", "d": ""}, "e": [{"f": 1}, {"f": None}], "g": ["y2"]}
    found = find_evidence(fields, [page("x1 1 y2")])
    assert [one.path for one in found] == ["b.c", "e.0.f", "g.0"]


def test_match_next_to_the_label_is_preferred() -> None:
    blocks = ("Order date 1 March 2024", "Due date 1 March 2024", "Shipped 1 March 2024")
    boxes = [Box(0, 100 * k, 400, 100 * k + 20) for k in range(3)]
    pages = [page(*(Block("text", t, b) for t, b in zip(blocks, boxes, strict=True)))]
    found = by_path(find_evidence({"due_date": "2024-03-01", "order_date": "2024-03-01"}, pages))
    assert found["due_date"].box is not None
    assert found["order_date"].box is not None
    assert (found["due_date"].box.y1, found["order_date"].box.y1) == (100, 0)
    assert found["due_date"].confidence == 0.95


def test_labels_come_from_the_schema() -> None:
    pages = [
        page(
            Block("text", "Netto 10,00", WIDE),
            Block("text", "Brutto 10,00", Box(100, 500, 900, 530)),
        )
    ]
    [first] = find_evidence({"total": 10.0}, pages)
    assert first.confidence == pytest.approx(0.95 * 0.8)
    [told] = find_evidence({"total": 10.0}, pages, labels={"total": ["Gesamt", "Brutto"]})
    assert told.box is not None
    assert (told.box.y1, told.confidence) == (500, 0.95)


def test_values_of_a_list_item_come_from_one_row() -> None:
    lines = [
        {"description": "Steel arm", "quantity": 2, "price": 75.0, "amount": 150.0},
        {"description": "Long cable", "quantity": 1, "price": 75.0, "amount": 75.0},
        {"description": "Short cable", "quantity": 2, "price": 1.0, "amount": 2.0},
    ]
    table = Block("table", ITEMS, Box(100, 400, 900, 800))
    found = by_path(find_evidence({"lines": lines}, [page(table)]))
    for k in range(3):
        for name in lines[0]:
            box = found[f"lines.{k}.{name}"].box
            assert box is not None
            assert (box.y1, box.y2) == (500 + 100 * k, 600 + 100 * k), (k, name)
    price, amount = found["lines.1.price"].box, found["lines.1.amount"].box
    assert price is not None
    assert amount is not None
    assert 100 < price.x1 < price.x2 <= amount.x1, (
        "the same number in two columns: the heading tells them apart"
    )


def test_row_spans_shift_cells_below() -> None:
    head = "<tr><th>Item</th><th>Qty</th><th>Price</th></tr>"
    rows = "<tr><td rowspan=2>Cable</td><td>2</td><td>5</td></tr><tr><td>5</td><td>2</td></tr>"
    table = Block("table", f"<table>{head}{rows}</table>", Box(0, 0, 300, 300))
    found = find_evidence({"qty": 5, "price": 2}, [page(table)])
    assert [one.box.y1 for one in found if one.box] == [200, 200]


def test_equal_items_match_consecutive_rows() -> None:
    row = "<tr><td>Cable</td><td>2</td></tr>"
    table = Block(
        "table", f"<table><tr><th>Item</th><th>Qty</th></tr>{row * 2}</table>", Box(0, 0, 300, 300)
    )
    items = [{"item": "Cable", "qty": 2}, {"item": "Cable", "qty": 2}]
    found = by_path(find_evidence({"items": items}, [page(table)]))
    tops = [one.box.y1 for one in found.values() if one.box]
    assert tops == [100, 100, 200, 200]


def test_values_in_columns_read_as_paragraphs_are_selected_by_height() -> None:
    blocks = [
        Block("text", "Item Cable Bracket Battery", Box(0, 0, 200, 160)),
        Block("text", "Qty 2 3 2", Box(300, 0, 340, 160)),
        Block(
            "text",
            "All of it was delivered on the day that was agreed upon.",
            Box(0, 300, 560, 320),
        ),
    ]
    items = [
        {"item": "Cable", "qty": 2},
        {"item": "Bracket", "qty": 3},
        {"item": "Battery", "qty": 2},
    ]
    found = by_path(find_evidence({"items": items}, [page(*blocks)]))
    middles = []
    for k in range(3):
        box = found[f"items.{k}.qty"].box
        assert box is not None
        assert box.x1 == 300
        middles.append((box.y1 + box.y2) / 2)
    assert middles == pytest.approx([60, 100, 140], abs=5)


def test_markdown_tables_are_rows_too() -> None:
    table = Block(
        "table", "| Item | Qty |\n| --- | ---: |\n| Cable | 2 |\n| Arm | 4 |", Box(0, 0, 200, 300)
    )
    [found] = find_evidence({"qty": 4}, [page(table)])
    assert found.box is not None
    assert (found.box.y1, found.box.y2, found.box.x2) == (200, 300, 200)


def test_a_box_is_narrowed_to_the_words_of_a_line_and_to_the_lines_of_a_paragraph() -> None:
    line = Block("text", "Invoice number AB-17 of May", Box(0, 0, 270, 20))
    [found] = find_evidence({"n": "AB-17"}, [page(line)])
    assert found.box == Box(150, 0, 200, 20)
    address = Block("text", "Arle Rivers Trust\nThe Old Mill\nFenwick FK1 7AB", Box(0, 0, 170, 60))
    [found] = find_evidence({"place": "Fenwick FK1 7AB"}, [page(address)])
    assert found.box is not None
    assert (found.box.y1, found.box.y2) == (40, 60)
    joined = Block("text", "Arle Rivers Trust The Old Mill Fenwick FK1 7AB", Box(0, 0, 170, 66))
    [found] = find_evidence({"place": "Fenwick FK1 7AB"}, [page(joined)])
    assert found.box is not None
    assert 33 < found.box.y1 < 47
    assert found.box.y2 == 66


def test_value_across_blocks_has_their_enclosing_box() -> None:
    first, second = Box(0, 0, 200, 20), Box(0, 30, 150, 50)
    pages = [page(Block("text", "14 Tannery Lane", first), Block("text", "Marlow Green", second))]
    [found] = find_evidence({"address": "14 Tannery Lane, Marlow Green"}, pages)
    assert (found.matched, found.box) == (MatchType.NORMALIZED, Box(0, 0, 200, 50))
    assert found.quote == "14 Tannery Lane Marlow Green"


def test_parts_of_a_value_may_be_apart_on_one_page_only() -> None:
    value = {"address": "Tannery Lane, Marlow Green"}
    apart = page("14 Tannery Lane", "Telephone 01632", "Marlow Green")
    assert find_evidence(value, [apart])[0].matched is MatchType.NORMALIZED
    pages = [page("14 Tannery Lane"), page("Marlow Green", number=2)]
    assert find_evidence(value, pages)[0].matched is None


def test_evidence_names_the_page_and_never_spans_two() -> None:
    pages = [page("Orrin and"), page("Daughters Ltd", number=2), page("Total 12.50", number=3)]
    found = by_path(find_evidence({"total": 12.5, "name": "Orrin and Daughters"}, pages))
    assert (found["total"].page_id, found["total"].page_number) == ("doc/3", 3)
    assert found["name"].matched is None


def test_blocks_without_a_box_give_a_quote_without_one() -> None:
    [found] = find_evidence({"n": "AB-17"}, [page(Block("text", "No. AB-17", None))])
    assert (found.matched, found.quote, found.box) == (MatchType.EXACT, "AB-17", None)


def test_a_boolean_needs_its_label() -> None:
    pages = [page("Agreed: yes", "Reverse charge: no")]
    found = by_path(find_evidence({"reverse_charge": False, "agreed": True, "paid": True}, pages))
    assert found["reverse_charge"].quote == "no"
    assert found["agreed"].quote == "yes"
    assert found["paid"].matched is None


def test_confidence_is_agreement_times_place_times_model() -> None:
    pages = [page("AB-17 and 12.50, 7 and 7 and Daughtars")]
    fields = {"a": "AB-17", "b": 12.5, "c": 7, "d": "Daughters", "e": "none of it"}
    sure = by_path(find_evidence(fields, pages))
    assert sure["a"].confidence == 1
    assert sure["b"].confidence == 0.95
    assert sure["c"].confidence == 0.8
    assert sure["d"].confidence == pytest.approx(0.9 * 8 / 9, abs=1e-3)
    assert sure["e"].confidence == 0.2
    halved = by_path(find_evidence(fields, pages, dict.fromkeys(fields, 0.5)))
    for path in fields:
        assert halved[path].confidence == pytest.approx(sure[path].confidence / 2, abs=1e-4)


def test_evidence_search_takes_linear_work() -> None:
    def steps(words: int) -> int:
        text = " ".join(f"word{k % 900} {k}.50" for k in range(words // 2))
        pages = [page(*re.findall(r".{1,400}", text))]
        lines = [{"name": f"word{k} word{k + 7}", "amount": k + 0.5} for k in range(20)]
        count = 0

        def counted(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(counted)
        try:
            find_evidence({"lines": lines, "note": "nothing of the kind"}, pages)
        finally:
            sys.setprofile(None)
        return count

    assert steps(8000) < 12 * steps(1000), "64 times if it were quadratic"


leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30))
value = st.recursive(
    leaf,
    lambda v: st.one_of(
        st.lists(v, max_size=3), st.dictionaries(st.text(max_size=5), v, max_size=3)
    ),
)
markup = st.lists(
    st.sampled_from(
        [
            "<table>",
            "<tr>",
            "<td>",
            "<td rowspan=9>",
            "</td>",
            "|",
            "a|b",
            "\n",
            "12,5",
            "# x",
            "&",
            "1.1.2024",
        ]
    )
)


boxes = st.sampled_from([None, WIDE, Box(0, 0, 0, 0), Box(5, 5, 5, 900)])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.text(max_size=5), value, max_size=4),
    st.lists(st.tuples(markup, boxes), max_size=4),
)
def test_random_records_and_pages_raise_nothing(
    fields: Mapping[str, Any], blocks: list[tuple[list[str], Box | None]]
) -> None:
    pages = [page(*(Block("text", "".join(pieces), box) for pieces, box in blocks))]
    for one in find_evidence(fields, pages):
        assert 0 <= one.confidence <= 1
        assert (one.matched is None) == (one.quote is None)


def test_markdown_escapes_are_not_part_of_the_text() -> None:
    found = evidence_of("27. Mai_2024", "27\\. Mai\\_2024 and \\*more\\*")
    assert (found.matched, found.quote) == (MatchType.EXACT, "27. Mai_2024")
    assert evidence_of("a|b", "| x | y |\n|---|---|\n| a\\|b | c |").matched is MatchType.EXACT
