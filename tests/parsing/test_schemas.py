"""The built-in schemas: correct records pass, sums that don't add up are reported."""

import copy
from typing import Any

import pytest

from llm_ocr.parsing.loading import BUILT_IN, load_schema

RIGHT: dict[str, dict[str, Any]] = {
    "invoice": {
        "invoice_number": "2026-0042",
        "invoice_date": "2026-03-01",
        "due_date": "2026-03-31",
        "order_number": None,
        "seller": {"name": "Nordlicht GmbH", "address": "Hafenstraße 12", "vat_id": "DE123456789"},
        "buyer": {"name": "Ada Lindgren", "address": None, "vat_id": None},
        "currency": "€",
        "lines": [
            {"description": "Paper", "quantity": "3", "unit_price": "4.50", "amount": "13.50"},
            {"description": "Hours", "quantity": "2.5", "unit_price": "34.60", "amount": "86.50"},
        ],
        "subtotal": "100.00",
        "vat_rate": "19",
        "vat": "19.00",
        "total": "119.00",
    },
    "receipt": {
        "merchant": {"name": "Kiosk", "address": None, "vat_id": None},
        "receipt_number": "000417",
        "receipt_date": "2026-03-01",
        "receipt_time": "14:05:00",
        "currency": "EUR",
        "lines": [
            {"description": "Tea", "quantity": None, "unit_price": None, "amount": "2.50"},
            {"description": "Bread", "quantity": None, "unit_price": None, "amount": "3.90"},
        ],
        "subtotal": "5.98",
        "vat": "0.42",
        "tip": None,
        "total": "6.40",
        "payment_method": "Visa",
    },
    "bank_statement": {
        "bank": "Sparkasse",
        "account_holder": "Ada Lindgren",
        "account_number": None,
        "iban": "DE89 3704 0044 0532 0130 00",
        "bic": None,
        "statement_number": "3/2026",
        "period_start": "2026-03-01",
        "period_end": "2026-03-31",
        "currency": "EUR",
        "opening_balance": "1000.00",
        "closing_balance": "1150.00",
        "movements": [
            {
                "booking_date": "2026-03-02",
                "value_date": None,
                "description": "Rent",
                "amount": "-850.00",
                "balance": "150.00",
            },
            {
                "booking_date": "2026-03-30",
                "value_date": None,
                "description": "Pay",
                "amount": "1000.00",
                "balance": "1150.00",
            },
        ],
    },
    "purchase_order": {
        "order_number": "PO-7781",
        "order_date": "2026-02-12",
        "delivery_date": "2026-03-01",
        "buyer": {"name": "Nordlicht GmbH", "address": None, "vat_id": None},
        "supplier": {"name": "Papier AG", "address": None, "vat_id": None},
        "ship_to": "Tor 3",
        "payment_terms": "30 days net",
        "currency": "EUR",
        "lines": [
            {
                "description": "Paper",
                "quantity": "10",
                "unit_price": "10",
                "amount": "100",
                "item_number": "A-1",
            }
        ],
        "subtotal": "100",
        "vat": "19",
        "total": "119",
    },
    "id_card": {
        "document_type": "identity card",
        "document_number": "L01X00T47",
        "surname": "Lindgren",
        "given_names": "Ada Marie",
        "date_of_birth": "1988-08-12",
        "place_of_birth": "Bremen",
        "sex": "F",
        "nationality": "DEUTSCH",
        "issue_date": "2021-11-02",
        "expiry_date": "2031-11-01",
        "authority": "Stadt Bremen",
        "address": None,
    },
    "resume": {
        "name": "Ada Lindgren",
        "headline": "Data engineer",
        "email": "ada@example.org",
        "phone": None,
        "address": None,
        "links": ["example.org/ada"],
        "summary": None,
        "experience": [
            {
                "start": "04/2019",
                "end": "to date",
                "title": "Engineer",
                "organization": "Nordlicht",
                "location": None,
                "description": None,
            }
        ],
        "education": [
            {"start": "2012", "end": "2015", "degree": "MSc", "subject": None, "school": "Bremen"}
        ],
        "skills": ["Python"],
        "languages": [{"language": "German", "level": "native"}],
    },
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_valid_record_passes_unchanged(name: str) -> None:
    found = load_schema(name).validate(RIGHT[name])
    assert found.errors == ()
    assert found.fields == RIGHT[name]


@pytest.mark.parametrize(
    ("name", "path", "value", "where", "said"),
    [
        ("invoice", "total", "119.02", "", "subtotal + VAT = total: 100.00 + 19.00 is 119.00"),
        ("invoice", "vat", "18", "", "19% VAT of 100.00"),
        ("invoice", "due_date", "2026-02-28", "", "the due date 2026-02-28 is before"),
        ("invoice", "lines.0.amount", "14.50", "lines.0", "3 × unit price 4.50 is 13.50"),
        ("invoice", "lines.0.amount", "14.50", "", "the lines add up to 101.00"),
        ("receipt", "lines.1.amount", "4.90", "", "the lines add up to 7.40"),
        ("receipt", "tip", "1", "", "subtotal + VAT + tip = total"),
        ("bank_statement", "closing_balance", "1151", "", "movements = closing balance"),
        ("bank_statement", "movements.0.balance", "105", "", "the balance after movement 1"),
        ("bank_statement", "period_end", "2026-02-01", "", "before it starts"),
        ("purchase_order", "delivery_date", "2026-01-01", "", "the delivery date"),
        ("purchase_order", "subtotal", "99", "", "subtotal + VAT = total"),
        ("id_card", "issue_date", "1980-01-01", "", "the date of issue 1980-01-01 is before"),
        ("resume", "education.0.end", "2010", "education.0", "it ends 2010, before it starts"),
        ("resume", "email", "ada at example", "email", "no e-mail address"),
    ],
)  # fmt: skip
def test_sums_that_do_not_add_up_are_reported(
    name: str, path: str, value: str, where: str, said: str
) -> None:
    raw = copy.deepcopy(RIGHT[name])
    *way, last = path.split(".")
    inner: Any = raw
    for part in way:
        inner = inner[int(part)] if part.isdecimal() else inner[part]
    inner[last] = value
    found = load_schema(name).validate(raw)
    assert any(error.path == where and said in error.reason for error in found.errors)
    if where != path:
        assert found.fields == raw  # a check costs no field


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_field_has_a_title_and_a_paper_may_lack_it(name: str) -> None:
    schema = load_schema(name)
    for field, node in schema.json_schema["properties"].items():
        assert node["title"], field
    assert schema.validate({}).errors == ()


def test_rounding_and_tax_in_lines_are_tolerated() -> None:
    schema = load_schema("invoice")
    assert schema.validate({**RIGHT["invoice"], "total": "119.01"}).errors == ()
    lines = [{"description": "All", "amount": "119.00"}]
    assert schema.validate({**RIGHT["invoice"], "lines": lines}).errors == ()
    hourly = [{"quantity": "7", "unit_price": "14.29", "amount": "100.00"}]  # 100.03, of 14.2857
    assert schema.validate({**RIGHT["invoice"], "lines": hourly}).errors == ()
