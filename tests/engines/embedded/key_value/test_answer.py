"""What of a prompt is the page."""

import json
import math
from collections.abc import Mapping

from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.key_value.answer import guided_by_lines, guided_by_text
from llm_ocr.parsing.confidence import logprob_confidences
from tests.engines.embedded.key_value.asking import NUMBER, TEXT, ask, ask_tokens, group


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


def read_with(confidence: float) -> Mapping[str, float]:
    """The probabilities of the values that lines of a recognizer's confidence give."""
    texts = ("Gasthaus Lindner GmbH", "Mühlenstraße 7", "34117 Kassel", "Tel: 0561 774120")
    sums = ("Date: 03.05.2024", "Tea 2.50", "Cake 7.50", "TOTAL 10.00", "Thank you")
    lines = [
        OcrLine(text, (Word((100, 40 * k, 100 + 12 * len(text), 40 * k + 24), text),), confidence)
        for k, text in enumerate((*texts, "", *sums))
        if text
    ]
    answer = guided_by_lines(group(company=TEXT, total=NUMBER), lines)
    known = logprob_confidences(answer.text, [(one, math.log(p)) for one, p in answer.tokens])
    values = json.loads(answer.text)
    return {path: known[path] for path in values if values[path] is not None}


def test_a_value_is_as_likely_as_its_characters_and_else_null() -> None:
    exact, sure, unsure = (read_with(confidence) for confidence in (1.0, 0.999, 0.97))
    assert exact["company"] > sure["company"] > unsure["company"]
    assert exact["total"] > sure["total"]
    assert read_with(0.6) == {}
