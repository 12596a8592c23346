"""Labels of things that the schema doesn't ask for: what stands behind them is theirs."""

import pytest

from tests.engines.embedded.filling.asking import NUMBER, TEXT, Schema, ask


@pytest.mark.parametrize(
    ("name", "schema", "text", "expected"),
    [
        ("subtotal", NUMBER, "Subtotal    100.00    VAT    20.00    Total    120.00", 100.0),
        ("subtotal", NUMBER, "Subtotal    100.00    Handling    20.00", 100.0),
        ("subtotal", NUMBER, "Subtotal    100.00    EUR    120.00", 120.0),
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
