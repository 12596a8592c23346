"""Whose an e-mail address, an IBAN or a number is: a recipient gets none of the issuer's."""

from tests.engines.embedded.key_value.asking import TEXT, ask, group

IBAN = "DE89 3704 0044 0532 0130 00"
HEAD = "ACME Ltd\nMain Street 1\n"
BUYER = "Bill to\nJohn Doe\n5 High Street\n"
PARTY = group(name=TEXT, email=TEXT, iban=TEXT)


def both(text: str) -> list[tuple[object, object]]:
    found = ask(text, seller=PARTY, buyer=PARTY)
    assert (found["seller"]["name"], found["buyer"]["name"]) == ("ACME Ltd", "John Doe")
    return [(found[one]["email"], found[one]["iban"]) for one in ("seller", "buyer")]


def test_the_only_address_on_a_page_is_the_issuers() -> None:
    assert both(f"{HEAD}info@acme.com\n\n{BUYER}") == [("info@acme.com", None), (None, None)]
    assert both(f"{HEAD}E-mail: info@acme.com\n\n{BUYER}") == [
        ("info@acme.com", None),
        (None, None),
    ]


def test_what_stands_right_below_the_recipient_is_theirs() -> None:
    text = f"{HEAD}\n{BUYER}john@doe.org\n\nIBAN {IBAN}"
    assert both(text) == [(None, IBAN), ("john@doe.org", None)]
    assert both(f"{HEAD}\n{BUYER}\nIBAN {IBAN}") == [(None, IBAN), (None, None)]
    text = f"{HEAD}info@acme.com\n\n{BUYER}john@doe.org"
    assert both(text) == [("info@acme.com", None), ("john@doe.org", None)]


def test_columns_are_parties_apart() -> None:
    left = ("ACME Ltd", "Main Street 1", "info@acme.com")
    right = ("Bill to", "John Doe", "5 High Street")
    text = "\n".join(f"{one:<30}{other}" for one, other in zip(left, right, strict=True))
    assert both(text) == [("info@acme.com", None), (None, None)]


def test_fields_of_one_level_are_told_apart_by_their_names() -> None:
    text = f"{HEAD}info@acme.com\nIBAN {IBAN}\nBill to: John Doe"
    assert ask(text, buyer_iban=TEXT) is None
    assert ask(text, iban=TEXT) == IBAN
    found = ask(text, customer_email=TEXT, supplier_email=TEXT)
    assert found == {"customer_email": None, "supplier_email": "info@acme.com"}
    assert ask(f"{HEAD}Customer email: john@doe.org", customer_email=TEXT) == "john@doe.org"
    below = f"{HEAD}info@acme.com\n\n{BUYER}john@doe.org"
    assert ask(below, customer_email=TEXT) == "john@doe.org"
    titled = {**TEXT, "title": "Email"}
    assert ask(f"{HEAD}Email: info@acme.com\n\n{BUYER}", customer_email=titled) is None


def test_a_recipient_alone_in_the_schema_gets_none_of_the_issuers() -> None:
    text = f"{HEAD}VAT no. GB 312 4567 08\nEmail: info@acme.com\n\n{BUYER}"
    assert ask(text, buyer=group(email=TEXT, vat_id=TEXT)) == {"email": None, "vat_id": None}
    named = group(name=TEXT, vat_id=TEXT)
    assert ask(text, buyer=named) == {"name": "John Doe", "vat_id": None}
    titled = group(name=TEXT, vat_id={**TEXT, "title": "Customer VAT no"})
    assert ask(f"Customer VAT no: GB 1\n\n\n{text}", buyer=titled)["vat_id"] == "GB 1"
    below = f"{text}VAT no. GB 1"
    assert ask(below, buyer=named) == {"name": "John Doe", "vat_id": "GB 1"}


def test_what_two_fields_could_have_or_someone_else_has_is_neithers() -> None:
    found = ask("Write to a@b.org", email=TEXT, contact_email=TEXT)
    assert found == {"email": None, "contact_email": None}
    assert ask("ACME Ltd\ninfo@acme.com", guarantor_email=TEXT) is None
    assert ask("Write to a@b.org", contact=group(email=TEXT)) == {"email": "a@b.org"}


def test_an_address_ends_where_a_table_begins() -> None:
    table = "| Item | Qty | Amount |\n| --- | --- | --- |\n| Bolt | 2 | 5.00 |"
    rows = {"type": "array", "items": group(item=TEXT, quantity=TEXT, amount=TEXT)}
    found = ask(
        f"Supplier: ACME Ltd\nBuyer: Big Corp\n{table}",
        buyer=group(name=TEXT, address=TEXT),
        lines=rows,
    )
    assert found["buyer"] == {"name": "Big Corp", "address": None}
