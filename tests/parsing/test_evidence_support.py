"""What counts as evidence and what doesn't: parts of numbers, notations, opposites, currencies;
and the work it takes in long documents."""

import random

import pytest

from llm_ocr.parsing.evidence import find_evidence
from llm_ocr.parsing.loading import load_schema
from llm_ocr.parsing.schema import PageBlocks
from llm_ocr.parsing.schema_fields import field_labels
from llm_ocr.records import Block, Box, FieldEvidence, MatchType
from tests.calls import count_calls

WIDE = Box(100, 100, 900, 130)


def page(*texts: str, number: int = 1) -> PageBlocks:
    return PageBlocks(f"doc/{number}", number, [Block("text", one, WIDE) for one in texts])


def evidence_of(value: object, *texts: str) -> FieldEvidence:
    [found] = find_evidence({"field": value}, [page(*texts)])
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("234.50", "Total: 1,234.50 EUR"),
        ("234,50", "Total: 1.234,50 EUR"),
        ("500", "Total: 1,500 EUR"),
        ("500.00", "Total: 1.500.00 EUR"),
        ("50", "Total: 12.50 EUR"),
        ("12", "Total: 12.50 EUR"),
        ("12.50", "Total: -12.50 EUR"),
        ("12.50", "Total: (12.50) EUR"),
        ("12.50", "Total: 12.50- EUR"),
        ("-12.50", "Total: 12.50 EUR"),
        ("12.50", "12 and 50"),
        ("19", "0.19"),
        ("24", "Invoice 2024-24-7"),
        ("0381", "page 381"),
        ("0381", "Invoice 2024-0381"),
    ],
)
def test_part_of_a_number_is_not_evidence(value: str, text: str) -> None:
    assert evidence_of(value, text).matched is None


@pytest.mark.parametrize(
    ("value", "text", "found", "quote"),
    [
        ("1234.5", "Total: 1,234.50 EUR", MatchType.NORMALIZED, "1,234.50"),
        ("1.234,5", "Total: 1,234.50 EUR", MatchType.NORMALIZED, "1,234.50"),
        ("1.234,50", "Total: 1.234,50 EUR", MatchType.EXACT, "1.234,50"),
        ("12.50", "Total: EUR12.50.", MatchType.EXACT, "12.50"),
        ("-12.50", "Total: (12.50) EUR", MatchType.NORMALIZED, "(12.50)"),
        ("0381", "Order 0381, of May", MatchType.EXACT, "0381"),
        ("0381", "Order INV-0381", MatchType.EXACT, "0381"),
        ("0381", "Order 12 0381", MatchType.EXACT, "0381"),
        ("381", "Invoice 2024-0381 page 381", MatchType.EXACT, "381"),
        ("4711", "No.4711", MatchType.EXACT, "4711"),
    ],
)
def test_a_number_given_as_text_matches_whole_numbers_only(
    value: str, text: str, found: MatchType, quote: str
) -> None:
    one = evidence_of(value, text)
    assert (one.matched, one.quote, one.confidence) == (
        found,
        quote,
        1.0 if found is MatchType.EXACT else 0.95,
    )


def test_wrong_amounts_of_a_built_in_schema_are_unsupported() -> None:
    loaded = load_schema("invoice")
    record = loaded.validate({"total": 234.5, "subtotal": 500, "vat": 50, "lines": []})
    fields = {name: record.fields[name] for name in ("total", "subtotal", "vat")}
    texts = page("Subtotal 1,500.00 EUR", "VAT 12.50 EUR", "Total: 1,234.50 EUR")
    assert [one.matched for one in find_evidence(fields, [texts])] == [None, None, None]


@pytest.mark.parametrize(
    ("value", "texts", "confidence"),
    [
        ("2024-03-01", ["Due 01/03/2024"], 0.76),
        ("2024-01-03", ["Due 01/03/2024"], 0.76),
        ("2024-03-01", ["Due 01/03/2024", "Sent 25/02/2024"], 0.95),
        ("2024-01-03", ["Due 01/03/2024", "Sent 25/02/2024"], 0.2),
        ("2024-01-03", ["Due 01/03/2024", "Sent 02/25/2024"], 0.95),
        ("2024-01-03", ["Due 01/03/2024", "Sent 02/25/2024", "and 25/02/2024"], 0.76),
        (1.234, ["1.234 EUR"], 0.8),
        (1234, ["1.234 EUR"], 0.76),
        (1234, ["1.234 EUR", "7,50 EUR"], 0.95),
        (1.234, ["1.234 EUR", "7,50 EUR"], 0.2),
        (1.234, ["1.234 EUR", "7.50 EUR"], 1.0),
        (500.0, ["Total 1 500.00 EUR"], 0.76),
        (1500.0, ["Total 1 500.00 EUR"], 0.95),
    ],
)
def test_ambiguous_numbers_follow_the_page_notation_or_are_doubtful(
    value: object, texts: list[str], confidence: float
) -> None:
    assert evidence_of(value, *texts).confidence == pytest.approx(confidence)


def test_page_without_a_notation_uses_that_of_other_pages() -> None:
    pages = [page("Sent 25/02/2024, 1,50 EUR"), page("Due 01/03/2024, 1.234 EUR", number=2)]
    fields = {"a": "2024-03-01", "b": "2024-01-03", "c": 1234, "d": 1.234}
    found = [one.matched is not None for one in find_evidence(fields, pages)]
    assert found == [True, False, True, False]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("including tax", "excluding tax"),
        ("Total excluding all tax", "Total incluling all tax"),
        ("Unpaid order", "Paid order"),
        ("not approved by the board", "approved by the board"),
        ("Invoice amount netto", "Invoice amount brutto"),
        ("with value added tax", "without value added tax"),
    ],
)
def test_opposite_texts_do_not_match(value: str, text: str) -> None:
    assert evidence_of(value, text).matched is None
    assert evidence_of(text, value).matched is not MatchType.FUZZY


def test_misread_words_match() -> None:
    for value, text in [
        ("internal invoice", "nternal invoice"),
        ("invoice for imports", "imvoice for imports"),
        ("including tax", "inciuding tax"),
    ]:
        assert evidence_of(value, text).matched is MatchType.FUZZY, text


@pytest.mark.parametrize(
    ("value", "text", "quote"),
    [
        (True, "Field: no, x", None),
        (True, "Not field: yes", None),
        (True, "Field: not true", None),
        (True, "Field: yes/no", None),
        (False, "Field: yes / no", None),
        (True, "Field: ☐ yes ☒ no", None),
        (False, "Field: ☐ yes ☒ no", "no"),
        (True, "Field (y/n): y", "y"),
        (False, "Field: no, x", "no"),
        (True, "Field ☒", "☒"),
        (True, "Other: no. Field: yes", "yes"),
    ],
)
def test_boolean_matches_the_given_answer(value: bool, text: str, quote: str | None) -> None:
    assert evidence_of(value, text).quote == quote


@pytest.mark.parametrize(
    ("value", "texts", "quote"),
    [
        ("USD", ["Total CA$ 12"], None),
        ("CAD", ["Total CA$ 12"], "CA$"),
        ("AUD", ["Total A$12"], "A$"),
        ("USD", ["Total US$ 12"], "US$"),
        ("USD", ["Total $12", "All amounts in CAD"], None),
        ("USD", ["Total $12"], "$"),
        ("$", ["Total CA$ 12"], None),
        ("JPY", ["¥500", "Prices in CNY"], None),
    ],
)
def test_currency_sign_is_used_unless_another_currency_is_named(
    value: str, texts: list[str], quote: str | None
) -> None:
    assert evidence_of(value, *texts).quote == quote


def test_specific_currency_sign_comes_before_an_ambiguous_one() -> None:
    assert evidence_of("USD", "Total $12, CA$ 15 and US$ 11").quote == "US$"


@pytest.mark.parametrize(
    "text",
    [
        "<table><![foo[<tr><td>AB-17</td></tr></table>",
        "<table><tr><![if x]><td>AB-17",
        f"<table><tr><td colspan={'9' * 5000}>AB-17</td></tr></table>",
    ],
)
def test_malformed_tables_are_read_as_rows(text: str) -> None:
    assert evidence_of("AB-17", text).matched is MatchType.EXACT


def test_item_matches_the_row_with_all_its_values() -> None:
    rows = "".join(f"<tr><td>Part {k}</td><td>1</td><td>{k % 7}.50</td></tr>" for k in range(200))
    pages = [page(f"<table><tr><th>Item</th><th>Qty</th><th>Price</th></tr>{rows}</table>")]
    items = [{"item": f"Part {k}", "qty": 1, "price": k % 7 + 0.5} for k in range(200)]
    found = {one.path: one for one in find_evidence({"lines": items}, pages)}
    for k in range(200):
        boxes = [found[f"lines.{k}.{name}"].box for name in ("item", "qty", "price")]
        assert len({(box.y1, box.y2) for box in boxes if box}) == 1
        assert found[f"lines.{k}.price"].confidence == 0.95, "no other in its row"


def test_item_matches_the_row_with_most_values() -> None:
    cells = [("1", "7.50"), ("2", "7.50"), ("2", "8.50"), ("3", "8.50")]
    rows = "".join(f"<tr><td>{qty}</td><td>{price}</td></tr>" for qty, price in cells)
    pages = [page("All parts are of AB-17", f"<table>{rows}</table>")]
    item = {"part": "AB-17", "qty": 2, "price": 7.5}
    found = {one.path: one for one in find_evidence({"lines": [item]}, pages)}
    qty, price = found["lines.0.qty"].box, found["lines.0.price"].box
    assert qty is not None
    assert price is not None
    assert qty.y1 == price.y1 > WIDE.y1


def test_equal_values_of_a_long_list_match_different_places() -> None:
    pages = [page(*["EUR"] * 300)]
    found = find_evidence({"tags": ["EUR"] * 300}, pages)
    assert all(one.matched is MatchType.EXACT for one in found)
    pages = [
        PageBlocks("doc/1", 1, [Block("text", "EUR", Box(0, k, 9, k + 1)) for k in range(300)])
    ]
    boxes = [one.box for one in find_evidence({"tags": ["EUR"] * 300}, pages)]
    assert len({box.y1 for box in boxes if box}) == 300


@pytest.mark.parametrize("kind", ["found", "missing"])
def test_matching_takes_linear_work(kind: str) -> None:
    def steps(count: int) -> int:
        chance = random.Random(1)

        def word() -> str:
            return "".join(chance.choices("abcdefghijklmnop", k=chance.randint(5, 9)))

        pages, items = [], []
        for number in range(count):
            rows = ""
            for _ in range(4):
                name, price = f"{word()} {word()}", f"{chance.randint(1, 9)}.00"
                rows += f"<tr><td>{name}</td><td>1</td><td>{price}</td></tr>"
                said = name if kind == "found" else f"{word()} {word()}"
                items.append({"name": said, "quantity": "1", "price": price, "fee": "EUR"})
            prose = " ".join(word() for _ in range(60))
            pages.append(page(f"{prose} EUR", f"<table>{rows}</table>", number=number + 1))
        return count_calls(lambda: find_evidence({"lines": items}, pages))

    assert steps(80) < 2.6 * steps(40), "4 times if it were quadratic"


def test_mutually_recursive_types_have_labels_in_bounded_work() -> None:
    names = [f"type{k}" for k in range(8)]
    fields = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    types = {
        name: {"type": "object", "properties": {**fields, "due": {"type": "string"}}}
        for name in names
    }
    schema = {"$defs": types, "$ref": "#/$defs/type0"}
    assert count_calls(lambda: field_labels(schema)) < 2_000_000, (
        "8 ** 6 types, a hundred calls for each"
    )
    labels = field_labels(schema)
    assert "due" in labels["type1.due"]
    assert count_calls(lambda: field_labels(schema)) < 100, "known"
