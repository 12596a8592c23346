"""The date and the total of a whole page, with or without their labels."""

import pytest

from tests.engines.embedded.key_value.asking import DATE, NUMBER, TEXT, ask, ask_tokens

HEAD = "Harlow Cafe Sdn Bhd\n12 Jalan Setia 3/4\n43000 Kajang\nTel: 03-8733 1942\n"
ITEMS = "\nTea    4.20\nNoodles    11.80\nCake    6.50\n"


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Date: 23/01/2019", "2019-01-23"),
        ("23/01/2019 14:05", "2019-01-23"),
        ("19-JAN-19    14:05:31", "2019-01-19"),
        ("20190123", "2019-01-23"),
        ("25MAY2017 18:20", "2017-05-25"),
        ("Bizdate : 23.01.2019", "2019-01-23"),
    ],
)
def test_a_date_is_found_as_it_is_printed(printed: str, expected: str) -> None:
    text = f"{HEAD}Receipt no: A-00417\n{printed}\n{ITEMS}Total    22.50\nCash    30.00\n"
    assert ask(text, date=DATE) == expected


def test_a_page_without_a_date_has_none() -> None:
    text = f"{HEAD}Receipt no: 20190123-7\n{ITEMS}Total    22.50\nCash    30.00\n"
    assert ask(text, date=DATE) is None


def test_another_date_is_not_that_of_the_document() -> None:
    text = f"{HEAD}Date: 23/01/2019\nDue date: 22/02/2019\n{ITEMS}Total    22.50\n"
    assert ask(text, date=DATE) == "2019-01-23"


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        ("Total    22.50\nCash    30.00\nChange    7.50", 22.5),
        ("TOTAL    RM22.50\nCASH    RM50.00\nCHANGE    RM27.50", 22.5),
        ("Subtotal    THB22.50\nVAT 7%    THB1.58\nGrand total    THB24.08", 24.08),
        ("Total Sales    22.48\nRounding    0.02\nRounded Total    22.50\nCash    22.50", 22.5),
        ("Total    22.52\nR0undlng    -0.02\nNet    22.50\nCash    50.00\nChange    27.50", 22.5),
        ("Summe    22,50\nBar    30,00\nRückgeld    7,50", 22.5),
    ],
)
def test_the_total_is_not_what_was_paid_or_given_back(sums: str, expected: float) -> None:
    items = ITEMS.replace(".", ",") if "," in sums else ITEMS
    assert ask(f"{HEAD}{items}{sums}\n", total=NUMBER) == expected


def test_a_total_as_text_and_a_date_as_text_are_found() -> None:
    text = f"{HEAD}Date: 23/01/2019\n{ITEMS}Total    22.50\nCash    30.00\n"
    found = ask(text, date=TEXT, total=TEXT)
    assert (found["date"], found["total"]) == ("23/01/2019", "22.50")


def test_agreeing_sums_make_a_total_likelier() -> None:
    agreeing = f"{HEAD}{ITEMS}Total    22.50\nCash    30.00\nChange    7.50\n"
    bare = f"{HEAD}{ITEMS}Amount    19.00\nBalance    22.50\nPoints    31.00\n"
    likely, unlikely = (
        ask_tokens(text, total=NUMBER).get("total", 0.0) for text in (agreeing, bare)
    )
    assert likely > 0.9
    assert unlikely < likely
