import html
import re

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.paddleocr_vl import parse, table_html

TOKENS = ["<fcel>", "<ecel>", "<lcel>", "<ucel>", "<xcel>", "<nl>", "<", ">", "words", "\n\n"]
pieces = st.one_of(st.sampled_from(TOKENS), st.text(max_size=8))


def test_lines_are_text() -> None:
    parsed = parse("First line\nsecond line\n\nAnother part", 100, 100)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("text", "First line\nsecond line"),
        ("text", "Another part"),
    ]


def test_continued_cells_become_spans() -> None:
    assert table_html(
        "<fcel>Year<fcel>Sales<lcel><nl><ucel><fcel>a < b<ecel><nl><fcel>X<lcel><fcel>1<nl>"
        "<ucel><xcel><fcel>2<nl>"
    ) == (
        '<table><tr><td rowspan="2">Year</td><td colspan="2">Sales</td></tr>'
        "<tr><td>a &lt; b</td><td></td></tr>"
        '<tr><td colspan="2" rowspan="2">X</td><td>1</td></tr><tr><td>2</td></tr></table>'
    )


def test_line_breaks_in_cells_are_none_of_their_letters() -> None:
    table = r"<fcel>Net\nprofit<fcel>\(\nu \neq 1\)\nand $\nabla$<nl>"
    assert table_html(table) == (
        r"<table><tr><td>Net<br>profit</td><td>\(\nu \neq 1\)<br>and $\nabla$</td></tr></table>"
    )


def test_text_around_a_table_is_kept() -> None:
    parsed = parse("Table 1\n\n<fcel>a<fcel>b<nl>\n\nA note.", 100, 100)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("text", "Table 1"),
        ("table", "<table><tr><td>a</td><td>b</td></tr></table>"),
        ("text", "A note."),
    ]


def test_a_cut_table_keeps_its_last_row() -> None:
    parsed = parse("<fcel>a<fcel>b<nl><fcel>c<fcel>d", 100, 100)
    assert [block.text for block in parsed.blocks] == [
        "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
    ]


@given(st.lists(pieces, max_size=30).map("".join))
def test_any_answer_is_parsed_and_every_word_is_kept(answer: str) -> None:
    text = "".join(block.text for block in parse(answer, 100, 100).blocks)
    text = html.unescape(re.sub(r"</?(?:table|tr|td|th|br)[^<>]*>", " ", text))
    for token in re.findall(r"[a-z]{3,}", re.sub(r"<(?:[a-z]cel|nl)>|\\n", " ", answer)):
        assert token in text
