"""What of a prompt is the page."""

import json

from llm_ocr.engines.embedded.filling.answer import guided_by_text
from tests.engines.embedded.filling.asking import NUMBER, TEXT, ask, group


def test_a_page_ends_at_the_last_of_its_marks() -> None:
    found = ask("Invoice no: 55-1\nText with </page> in it\nTotal: 5.00", number=TEXT, total=NUMBER)
    assert found["total"] == 5.0
    assert ask("DOC\n<page>inner</page>\nTotal: 5.00", total=NUMBER) == 5.0


def test_what_stands_behind_a_page_is_not_read() -> None:
    prompt = "Color: blue\n<page>\nA </page> B\nSize: 3\n</page>\nColor: red"
    answer = json.loads(guided_by_text(group(color=TEXT, size=TEXT), prompt))
    assert answer == {"color": None, "size": "3"}


def test_pages_may_follow_each_other() -> None:
    prompt = "<page>Color: red</page>\n<page>Size: 3</page>"
    answer = json.loads(guided_by_text(group(color=TEXT, size=TEXT), prompt))
    assert answer == {"color": "red", "size": "3"}
