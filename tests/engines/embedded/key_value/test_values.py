"""Choices, telephone numbers, IBANs and identifiers: only what is one."""

import pytest

from tests.engines.embedded.key_value.asking import DATE, TEXT, Schema, ask, choice

REST = "\n".join(f"Line {k}" for k in range(8))
PAID = choice("paid", "unpaid")


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (PAID, "Status: not paid", None),
        (PAID, "Status: never paid", None),
        (PAID, "Status: paid? no", None),
        (PAID, "Status: paid / unpaid", None),
        (PAID, "Status: paid late", None),
        (PAID, "Status    unpaid", "unpaid"),
        (PAID, "Status\nPaid", "paid"),
        (PAID, "Status: paid on 3 May 2024", "paid"),
        (PAID, "Status: Paid (card)", "paid"),
        (choice("paid", "not paid"), "Status: not paid", "not paid"),
        (choice("small", "large"), "Status: extra large", None),
        (choice("cash", "credit card"), "Status: paid by credit card", "credit card"),
        (choice(1, 2), "Status: 1.5", None),
    ],
)
def test_a_choice_is_all_that_is_said(schema: Schema, text: str, expected: object) -> None:
    assert ask(text, status=schema) == expected


def test_a_choice_without_its_label_is_no_value() -> None:
    marital = choice("single", "married")
    assert ask("Room types\nsingle\nWi-Fi", marital_status=marital) is None
    assert ask(f"single\n{REST}", marital_status=marital) is None
    assert ask("Marital status\nsingle", marital_status=marital) == "single"


def test_the_type_of_a_document_is_its_title() -> None:
    types = choice("identity card", "passport")
    assert ask(f"IDENTITY CARD\n{REST}", document_type=types) == "identity card"
    assert ask(f"Passport    needed\n{REST}", document_type=types) is None
    assert ask(f"{REST}\nPassport", document_type=types) is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("phone", "Phone: see website 24/7", None),
        ("phone", "Phone: 08.00-18.00", None),
        ("phone", "Phone: since 01.02.2024", None),
        ("phone", "Phone: +44 20 7946 0958 (office)", "+44 20 7946 0958"),
        ("phone", "Tel. 0171-1234567 Fax: 0171-7654321", "0171-1234567"),
        ("iban", "IBAN: see page 2", None),
        ("iban", "IBAN: BE68 5390 0754 7034 BIC KREDBEBB", "BE68 5390 0754 7034"),
        ("invoice_number", "Invoice no: see page 2", None),
        ("invoice_number", "Invoice no: 55-1 dated 3 May", "55-1"),
    ],
)
def test_prose_is_no_number_of_anything(name: str, text: str, expected: object) -> None:
    assert ask(text, **{name: TEXT}) == expected


def test_a_date_that_another_is_reckoned_from_is_not_it() -> None:
    assert ask("Due date: 30 days after 1 March 2024", due_date=DATE) is None
