import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.qwen_vl import RESIZING_2_5, parse_qwen2_5, parse_qwen3
from llm_ocr.records import Box

PIECES = ['<p data-bbox="1 2 300 400">', "</p>", '<div class="image" data-bbox="9 9 99 99">']
PIECES += [
    "</div>",
    '<img data-bbox="1 1 9 9"/>',
    '<table data-bbox="0 0 5 5">',
    "<tr><td>",
    "&lt;",
]
PIECES += ["</table>", "<h1", 'data-bbox="', ">", "words", "<br>", '<div data-bbox="1 2 3 4">']
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))

PAGE = """```html
<html><body>
<h1 data-bbox="100 50 900 100">A  paper</h1>
<h3 data-bbox="100 110 900 140">Part</h3>
<p data-bbox="100 150 900 300">Words, <b>bold</b> &lt;5<br/>next line</p>
<div class="image" data-bbox="100 310 500 600"><img data-bbox="100 310 500 600"/></div>
<ul data-bbox="1 610 900 640"><li data-bbox="1 610 900 620">one</li><li>two</li></ul>
<table data-bbox="100 650 900 800"><tr><td data-bbox="1 1 2 2">1</td></tr></table>
<div class="formula" data-bbox="1 810 900 850"><img data-bbox="1 810 9 9"/><div>$$x$$</div></div>
</body></html>
```"""


def test_a_page() -> None:
    parsed = parse_qwen3(PAGE, 500, 2000)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("title", "# A paper"),
        ("sub_title", "### Part"),
        ("text", "Words, **bold** <5\nnext line"),
        ("image", ""),
        ("list", "- one\n- two"),
        ("table", "<table><tr><td>1</td></tr></table>"),
        ("equation", "$$x$$"),
    ]
    assert parsed.blocks[0].box == Box(50, 100, 450, 200)
    assert parsed.notes == ()


def test_qwen2_5_boxes_are_in_the_resized_images_pixels() -> None:
    assert RESIZING_2_5.size(1000, 1400) == (1008, 1400)
    parsed = parse_qwen2_5('<p data-bbox="0 0 1008 700">a</p>', 1000, 1400)
    assert parsed.blocks[0].box == Box(0, 0, 1000, 700)


def test_a_cut_answer_keeps_its_text() -> None:
    parsed = parse_qwen3(
        '<p data-bbox="0 0 9 9">one</p><table data-bbox="0 9 9 99"><tr><td>1', 9, 9
    )
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("text", "one"),
        ("table", "<table><tr><td>1</table>"),
    ]
    parsed = parse_qwen3('<p data-bbox="0 0 9 9">one<p data-bbox="0 9 9 99">two', 9, 9)
    assert [block.text for block in parsed.blocks] == ["one", "two"]


def test_text_outside_the_boxes_is_kept() -> None:
    parsed = parse_qwen3('Before <p data-bbox="0 0 9 9">in</p> behind', 9, 9)
    assert [block.text for block in parsed.blocks] == ["Before", "in", "behind"]


def test_a_container_element_is_no_block() -> None:
    parsed = parse_qwen3(
        '<div data-bbox="0 0 90 90"><p data-bbox="0 0 9 9">a</p><p data-bbox="0 9 9 9">b</p></div>',
        1000,
        1000,
    )
    assert [block.text for block in parsed.blocks] == ["a", "b"]


def test_an_answer_without_boxes_is_markdown() -> None:
    parsed = parse_qwen3("# Title\n\ntext", 9, 9)
    assert [block.label for block in parsed.blocks] == ["title", "text"]
    assert parsed.notes == ("no boxes in the answer",)


@given(st.lists(pieces, max_size=40).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for parse in (parse_qwen2_5, parse_qwen3):
        blocks = parse(answer, width, height).blocks
        assert blocks or not answer.strip()
        for block in blocks:
            assert block.text.strip() or block.box is not None
            assert block.text.encode() is not None
            if block.box is not None:
                assert 0 <= block.box.x1 < block.box.x2 <= width
                assert 0 <= block.box.y1 < block.box.y2 <= height


words = st.from_regex(r"\A[a-z]{1,8}( [a-z]{1,8}){0,3}\Z")


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "h1", "h4", "div", "li", "footer"]), words), max_size=8
    )
)
def test_every_word_is_kept(elements: list[tuple[str, str]]) -> None:
    answer = "".join(f'<{name} data-bbox="1 2 30 40">{text}</{name}>' for name, text in elements)
    kept = [block.text.lstrip("#- ") for block in parse_qwen3(answer, 800, 600).blocks]
    assert kept == [text for _, text in elements]


@pytest.mark.parametrize(
    "part",
    ['<p data-bbox="1 2 3 4">', "<div ", "<", "data-bbox='", '<p data-bbox="', "   ", "<li>"],
)
def test_a_repetitive_answer_is_parsed_in_time(part: str) -> None:
    start = time.perf_counter()
    parse_qwen3('<p data-bbox="1 2 3 4">' + part * 3000, 280, 280)
    assert time.perf_counter() - start < 5


def test_html_text_is_escaped_in_markdown() -> None:
    answer = (
        '<p data-bbox="1 2 300 400">27. Mai 2024: *all* &lt;b&gt; $x_1$<br># 5</p>'
        '<ul data-bbox="1 2 300 400"><li>27. <b>x*</b></li></ul>'
        '<div class="formula" data-bbox="1 2 300 400">a_1 * b_2 * c</div>- outside'
    )
    assert [block.text for block in parse_qwen3(answer, 500, 2000).blocks] == [
        "27\\. Mai 2024: \\*all\\* \\<b> $x_1$\n\\# 5",
        "- 27\\. **x\\***",
        "$$\na_1 * b_2 * c\n$$",
        "\\- outside",
    ]
