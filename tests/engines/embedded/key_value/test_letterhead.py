"""Who issued a document: name and address of the letterhead, without labels."""

import json

import pytest

from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.key_value.answer import guided_by_lines
from tests.engines.embedded.key_value.asking import TEXT, ask, ask_tokens, group

BODY = """
Receipt no: 00417
Date: 03/05/2024

Paper clips        2.50
Envelopes          7.50
TOTAL             10.00
CASH              10.00
Thank you
"""


@pytest.mark.parametrize(
    ("head", "company", "address"),
    [
        (
            "KEDAI BUKU MERANTI SDN BHD (481927-K)\nNO 12, JALAN SETIA 3/4,\nTAMAN SETIA,\n"
            "43000 KAJANG, SELANGOR\nTEL : 03-8733 1942\nGST ID : 000481726354",
            "KEDAI BUKU MERANTI SDN BHD",
            "NO 12, JALAN SETIA 3/4, TAMAN SETIA, 43000 KAJANG, SELANGOR",
        ),
        (
            "Harlow Hardware Inc.\n1420 Cedar Ave, Suite 200\nDayton, OH 45402\n(937) 555-0142",
            "Harlow Hardware Inc.",
            "1420 Cedar Ave, Suite 200 Dayton, OH 45402",
        ),
        (
            "Gasthaus Lindner GmbH\nMühlenstraße 7\n34117 Kassel\nTel: 0561 774120",
            "Gasthaus Lindner GmbH",
            "Mühlenstraße 7 34117 Kassel",
        ),
        (
            "KEDAI BUKU MERANTI SDN BHD Reg No: 481927-K\nNO 12, JALANSETIA 3/4,\n"
            "43000 KAJANG, SELANGOR TEL : 03-8733 1942\nGST ID : 000481726354",
            "KEDAI BUKU MERANTI SDN BHD",
            "NO 12, JALANSETIA 3/4, 43000 KAJANG, SELANGOR",
        ),
        (
            "WELCOME TO OUR STORE\nLIBRERIA MORALES S.L.\n(B-48219365)\nCalle Mayor, 14\n"
            "28013 Madrid\nNIF: B48219365",
            "LIBRERIA MORALES S.L.",
            "Calle Mayor, 14 28013 Madrid",
        ),
        (
            "Meranti Kitchen Ltd\nROC NO. 887993-B\n77 MARLE ROAD\nEXETER RH4 6LG 044-5643 6301",
            "Meranti Kitchen Ltd",
            "77 MARLE ROAD EXETER RH4 6LG",
        ),
        (
            "KEDAI MERANTI SDN BHD\n(481927-K) NO 12, JALAN SETIA 3/4,\nKAJANG TEL/FAX: 0387331942",
            "KEDAI MERANTI SDN BHD",
            "NO 12, JALAN SETIA 3/4, KAJANG",
        ),
        (
            "Meranti Foods LLP\nA division of Lindner Design LLP\nHead Office : 28 Cedar St\n"
            "Perth GP 5944\nCairns Branch",
            "Meranti Foods LLP",
            "28 Cedar St Perth GP 5944",
        ),
        (
            "Meranti Corp.\n1420 Cedar Ave, Suite 200\nTulsa, CO 81234-1234\n(937) 555-0142",
            "Meranti Corp.",
            "1420 Cedar Ave, Suite 200 Tulsa, CO 81234-1234",
        ),
    ],
)
def test_a_flat_schema_gets_the_issuer(head: str, company: str, address: str) -> None:
    found = ask(head + "\n" + BODY, company=TEXT, address=TEXT)
    assert found == {"company": company, "address": address}


def test_a_salesperson_is_not_the_issuer() -> None:
    head = "Gasthaus Lindner GmbH\nMühlenstraße 7\n34117 Kassel\nTel: 0561 774120\n"
    sold = "Sold by: BD1187 Jane Doe\nTAX INVOICE\nModel\n"
    found = ask(head + sold + BODY, company=TEXT, address=TEXT)
    assert found == {"company": "Gasthaus Lindner GmbH", "address": "Mühlenstraße 7 34117 Kassel"}


@pytest.mark.parametrize(("score", "form"), [(0.99, "S/B"), (1.0, "5/B")])
def test_letters_of_a_legal_form_that_ocr_took_for_digits_are_letters(
    score: float, form: str
) -> None:
    texts = ["42 MERANTI MART 5/B (481927-K)", "NO 12, JALAN SETIA 3/4,", "43000 KAJANG, SELANGOR"]
    texts += ["TEL : 03-8733 1942", *filter(None, BODY.splitlines())]
    lines = [
        OcrLine(text, (Word((0.0, 30.0 * k, 12.0 * len(text), 30.0 * k + 20), text),), score)
        for k, text in enumerate(texts)
    ]
    answer = json.loads(guided_by_lines(group(company=TEXT), lines).text)
    assert answer == {"company": f"42 MERANTI MART {form}"}


def test_a_group_gets_the_issuer_with_the_address_in_one_line() -> None:
    head = "Gasthaus Lindner GmbH\nMühlenstraße 7\n34117 Kassel\nTel: 0561 774120\n"
    party = group(name=TEXT, address=TEXT)
    assert ask(head + BODY, merchant=party) == {
        "name": "Gasthaus Lindner GmbH",
        "address": "Mühlenstraße 7, 34117 Kassel",
    }


def test_the_address_of_the_recipient_is_not_the_issuers() -> None:
    text = "Harlow Hardware Inc.\n\nBill to\nJane Doe\n88 Elm St\nBoise, ID 83702\n" + BODY
    assert ask(text, company=TEXT, address=TEXT) == {
        "company": "Harlow Hardware Inc.",
        "address": None,
    }


def test_a_sender_line_above_the_recipient_has_the_address() -> None:
    text = (
        "Lindner Messtechnik GmbH\nSensoren und mehr\n\n\n"
        "Lindner Messtechnik GmbH · Mühlenstraße 7 · 34117 Kassel\nPraxis Dr. Voss\n"
        "Lange Gasse 11\n90403 Nürnberg\n" + BODY
    )
    party = group(name=TEXT, address=TEXT)
    assert ask(text, seller=party)["address"] == "Mühlenstraße 7, 34117 Kassel"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("Zotanmo SARL", ("93 rue de Marito", "26687 Pau")),
        ("Foboson Pty. Ltd.", ("Shop 2, Boka Centre", "Cairns QLD 4870")),
        ("Wipa Bakery Ltd", ("Halve Street", "Perth PE7 7LQ")),
        ("Norte Ltda", ("Rua Sete, 120", "80010-150 Curitiba")),
    ],
)
def test_a_recipient_without_a_label_is_the_block_above_a_postal_code(
    name: str, lines: tuple[str, ...]
) -> None:
    head = "Gasthaus Lindner GmbH\nMühlenstraße 7\n34117 Kassel\nTel: 0561 774120\nFax 1234 7789\n"
    block = "\n".join((name, *lines))
    party = group(name=TEXT, address=TEXT)
    found = ask(f"{head}\n\n{block}\n\nRECEIPT\n{BODY}", seller=party, buyer=party)
    assert found["seller"]["name"] == "Gasthaus Lindner GmbH"
    assert found["buyer"] == {"name": name, "address": ", ".join(lines)}


def test_the_issuer_and_a_title_are_no_recipient() -> None:
    head = "Gasthaus Lindner GmbH\nMühlenstraße 7\n34117 Kassel\nTel: 0561 774120\n"
    party = group(name=TEXT, address=TEXT)
    for other in ("", "\n\nOur work\nSensors and more\n"):
        assert ask(head + other + BODY, seller=party, buyer=party)["buyer"]["name"] is None
    block = "Deliver to:\nZotanmo SARL\n93 rue de Marito\n26687 Pau\n"
    found = ask(f"{head}\n\nFacture\n{block}{BODY}", seller=party, buyer=party)
    assert found["buyer"] == {"name": "Zotanmo SARL", "address": "93 rue de Marito, 26687 Pau"}


def test_a_name_that_stands_among_others_is_less_likely() -> None:
    clear = "Gasthaus Lindner GmbH\nMühlenstraße 7\n34117 Kassel\nTel: 0561 774120\n"
    vague = "Lindner\nMeridian\nWork in progress\n"
    likely, unlikely = (
        ask_tokens(head + BODY, company=TEXT).get("company", 0.0) for head in (clear, vague)
    )
    assert likely > 0.9
    assert unlikely < likely
