"""Words between a label and its value: those that make it another label, and those that don't."""

import pytest

from tests.engines.embedded.key_value.asking import DATE, DECIMAL, NUMBER, TEXT, Schema, ask


@pytest.mark.parametrize(
    ("name", "schema", "text"),
    [
        ("vat", NUMBER, "VAT Reg No 894.22"),
        ("vat", DECIMAL, "VAT Reg No GB 218456093"),
        ("vat", DECIMAL, "VAT number: 218.45"),
        ("vat", NUMBER, "USt-IdNr.: 894,22"),
        ("total", NUMBER, "Total excl. VAT: 5.00"),
        ("total", NUMBER, "Total excl. VAT    5.00"),
        ("total", NUMBER, "Total tax: 5.00"),
        ("total", NUMBER, "Total hours: 12.50"),
        ("total", NUMBER, "Total 2023: 83"),
        ("population", NUMBER, "Population 2023: 83 million"),
        ("vat", NUMBER, "MwSt-Klasse    4,00"),
        ("weight", NUMBER, "Weight class: 12"),
        ("date", DATE, "Date of birth: 01.02.1990"),
        ("invoice_number", TEXT, "Invoice No Date 12.03.2024"),
    ],
)
def test_a_label_that_goes_on_is_another_one(name: str, schema: Schema, text: str) -> None:
    assert ask(text, **{name: schema}) is None


@pytest.mark.parametrize(
    ("name", "schema", "text", "expected"),
    [
        ("vat", NUMBER, "VAT @ 20%: 5.00", 5.0),
        ("vat", NUMBER, "VAT (20% of £2,646.60): £529.32", 529.32),
        ("vat", NUMBER, "VAT 20% on £2,646.60    £529.32", 529.32),
        ("vat", NUMBER, "zzgl. 19 % MwSt. auf 660,00    125,40 EUR", 125.4),
        ("vat", NUMBER, "VAT amount (20%) in GBP    5.00", 5.0),
        ("total", NUMBER, "Total (EUR)    12.50", 12.5),
        ("total", NUMBER, "Total/Gesamtbetrag: 12,50", 12.5),
        ("total", NUMBER, "Total amount payable incl. VAT: 5.00", 5.0),
        ("total", NUMBER, "Amount due by 12 March 2024: £500.00", 500.0),
        ("total", NUMBER, "Total £5.00 (VAT: £1.00)", 5.0),
        ("weight", NUMBER, "Weight (kg)    12.5", 12.5),
        ("vat_rate", NUMBER, "VAT (20%): £78.96", 20),
        ("date", DATE, "Date: Friday, 1 March 2024", "2024-03-01"),
        ("due_date", DATE, "Due date (dd/mm/yyyy): 13/04/2024", "2024-04-13"),
        ("invoice_number", TEXT, "Invoice no. INV 2041", "INV 2041"),
    ],
)
def test_words_that_say_the_same_change_nothing(
    name: str, schema: Schema, text: str, expected: object
) -> None:
    assert ask(text, **{name: schema}) == expected
