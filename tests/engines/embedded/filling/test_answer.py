"""What of a prompt is the page."""

import json

from llm_ocr.engines.embedded.filling.answer import guided_by_text
from tests.engines.embedded.filling.asking import NUMBER, TEXT, ask, ask_tokens, group


def test_a_page_ends_at_the_last_of_its_marks() -> None:
    found = ask("Invoice no: 55-1\nText with </page> in it\nTotal: 5.00", number=TEXT, total=NUMBER)
    assert found["total"] == 5.0
    assert ask("DOC\n<page>inner</page>\nTotal: 5.00", total=NUMBER) == 5.0


def test_what_stands_behind_a_page_is_not_read() -> None:
    prompt = "Color: blue\n<page>\nA </page> B\nSize: 3\n</page>\nColor: red"
    answer = json.loads(guided_by_text(group(color=TEXT, size=TEXT), prompt).text)
    assert answer == {"color": None, "size": "3"}


def test_pages_may_follow_each_other() -> None:
    prompt = "<page>Color: red</page>\n<page>Size: 3</page>"
    answer = json.loads(guided_by_text(group(color=TEXT, size=TEXT), prompt).text)
    assert answer == {"color": "red", "size": "3"}


def test_each_value_is_a_token_with_its_probability() -> None:
    fields = group(company=TEXT, total=NUMBER, color=TEXT, seller=group(name=TEXT))
    answer = guided_by_text(fields, "Acme Ltd\nTotal: 5.00")
    assert json.loads(answer.text) == json.loads("".join(token for token, _ in answer.tokens))
    assert all(0 < chance <= 1 for _, chance in answer.tokens)
    known = dict(answer.tokens)
    assert known["5.00"] < 1
    assert known["null"] == 1


def test_what_a_label_says_is_likelier_than_what_stands_below_something_like_it() -> None:
    labeled = ask_tokens("Invoice number: 55-1", invoice_number=TEXT)
    vague = ask_tokens("Reference of the bill\n55-1", number={**TEXT, "description": "bill"})
    assert labeled["invoice_number"] > vague.get("number", 0.0)
