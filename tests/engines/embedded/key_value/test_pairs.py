"""Labels of things that the schema doesn't ask for: what stands behind them is theirs."""

import pytest

from tests.engines.embedded.key_value.asking import DATE, NUMBER, TEXT, Schema, ask, group


@pytest.mark.parametrize(
    ("name", "schema", "text", "expected"),
    [
        ("subtotal", NUMBER, "Subtotal    100.00    VAT    20.00    Total    120.00", 100.0),
        ("subtotal", NUMBER, "Subtotal    100.00    Handling    20.00", 100.0),
        ("subtotal", NUMBER, "Subtotal    100.00    EUR    120.00", 120.0),
        ("due_date", DATE, "Due date    by    3 May 2024", "2024-05-03"),
        ("subtotal", NUMBER, "Subtotal\nHandling\n5.00", None),
        ("customer", TEXT, "Customer    Date\nJohn Doe    1.2.2024", "John Doe"),
        ("customer", TEXT, "Customer\nPhone: 0113 496 0000", None),
        ("notes", TEXT, "Notes:\nTotal: 5", None),
        ("payment_method", TEXT, "Payment method    Bank", "Bank"),
        ("invoice_no", TEXT, "Invoice No    Room    7", None),
    ],
)
def test_a_value_behind_another_label_is_not_taken(
    name: str, schema: Schema, text: str, expected: object
) -> None:
    assert ask(text, **{name: schema}) == expected


def test_a_row_of_labels_stands_above_a_row_of_as_many_values() -> None:
    found = ask(
        "Net    VAT    Gross\n£100.00    £20.00    £120.00", net=NUMBER, vat=NUMBER, total=NUMBER
    )
    assert found == {"net": 100.0, "vat": 20.0, "total": 120.0}
    text = "Invoice No    Date    Due date\nINVOICE-555    01.02.2024    03.02.2024"
    assert ask(text, due_date=DATE) == "2024-02-03"
    assert ask(text, invoice_number=TEXT) == "INVOICE-555"


def test_a_value_beside_its_label_comes_before_what_stands_below() -> None:
    text = "Bill to    Invoice no    AB-21658\nArle Trust    Pax: 2\nFenwick FK1 7AB"
    party = group(name=TEXT, address=TEXT)
    assert ask(text, invoice_number=TEXT, buyer=party)["invoice_number"] == "AB-21658"


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"delivery_note_number": TEXT}, "Delivery note no.: DN-88213", "DN-88213"),
        ({"order_no": TEXT}, "Order number: S-9931", "S-9931"),
        ({"arrival_date": DATE}, "Arrival    06/07/2025", "2025-07-06"),
        ({"arrival_date": DATE}, "Arrival    by train", None),
        ({"meter": group(number=TEXT)}, "Meter number: Z15E-44102", {"number": "Z15E-44102"}),
        ({"loan": group(amount=NUMBER)}, "Loan amount: £12,000.00", {"amount": 12000.0}),
        ({"loan": group(amount=NUMBER)}, "Grant amount: £12,000.00", {"amount": None}),
    ],
)
def test_a_label_may_have_other_words_for_a_number_or_the_words_of_the_group(
    schema: dict[str, Schema], text: str, expected: object
) -> None:
    assert ask(text, **schema) == expected
