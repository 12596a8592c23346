"""The examples follow the prompts of datalab-to/chandra and datalab-to/surya; answers of Chandra
are in `test_recorded_answers.py`."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.datalab_html import LABELS, parse, to_markdown
from llm_ocr.records import Box

PIECES = ['<div data-bbox="1 2 300 400" data-label="Text">', "</div>", "<div>", "<p>", "</p>", "<"]
PIECES += ['<div data-label="Weird-Block" data-bbox="9000 -1 x">', "<table><tr><td>", "</table>"]
PIECES += ["<math>", "</math>", "<ul>", "<li>", "</ol>", "<h2>", "<input type='checkbox'", "&lt;"]
PIECES += ["words", "\n", "\0", "<!-- ", "<div data-bbox='", "<pre>", "<img alt='x>", "```html\n"]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))
words = st.text("abcdefg", min_size=2, max_size=8)
corners = st.lists(st.integers(-50, 1200), min_size=3, max_size=5)
labels = st.sampled_from([*LABELS, "Complex-Block", "Form", "Never-Seen"])


def div(label: str, inside: str, box: str = "0 0 500 1000") -> str:
    return f'<div data-bbox="{box}" data-label="{label}">{inside}</div>\n'


def test_a_page() -> None:
    answer = (
        div("Page-Header", "Annual report", "0 0 1000 50")
        + div("Section-Header", "<h1>Title</h1>")
        + div("Text", "<p>One <b>bold</b> word, <math>x_1</math>.</p><p>1. is no list</p>")
        + div("Table", '<table border="1"><tr data-bbox="1 2 3 4"><td>1</td></tr></table>')
        + div("Caption", "Table 1")
        + div("Footnote", "Source: us")
        + div("Image", '<img alt="A cat"/> sits.')
        + div("Caption", "Fig. 1")
        + div("Equation-Block", '<math display="block">E=mc^2</math>')
        + div("Table-Of-Contents", "Intro 1")
        + div("Blank-Page", "")
    )
    parsed = parse(answer, 1000, 500)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("header", "Annual report"),
        ("title", "# Title"),
        ("text", "One **bold** word, $x_1$.\n\n1\\. is no list"),
        ("table", '<table border="1"><tr><td>1</td></tr></table>'),
        ("table_caption", "Table 1"),
        ("footnote", "Source: us"),
        ("image", "A cat sits."),
        ("image_caption", "Fig. 1"),
        ("equation", "$$\nE=mc^2\n$$"),
        ("table_of_contents", "Intro 1"),
    ]
    assert parsed.blocks[0].box == Box(0, 0, 1000, 25)
    assert parsed.blocks[1].box == Box(0, 0, 500, 500)
    assert parsed.notes == ()


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("<ul><li>one<ol><li>a</li><li>b</li></ol></li><li><p>two</p></li></ul>", "- one"),
        ("<ul><li>one<ol><li>a</li><li>b</li></ol></li><li><p>two</p></li></ul>", "   2. b"),
        ("<ul><li>• one</li><li><p>• two • 2</p></li></ul>", "- one\n- two • 2"),
        ("<p>• no item</p>", "• no item"),
        ('<input type="checkbox" checked> Yes', "[x]  Yes"),
        ("<input type='radio'/>No", "[ ] No"),
        ("<pre><code>if a &lt; b:\n    c()</code></pre>", "```\nif a < b:\n    c()\n```"),
        ("<chem>CC(=O)O</chem> is vinegar", "`CC(=O)O` is vinegar"),
        ("x<sup>2</sup> <u>under</u>", "x<sup>2</sup> under"),
        ("H<br>I", "H\nI"),
        ("<h3>Deep</h3>text", "### Deep\n\ntext"),
        ("a &lt; b &amp; c", "a < b & c"),
        ("<blink>kept</blink>", "kept"),
    ],
)
def test_html_becomes_markdown(inside: str, text: str) -> None:
    assert text in to_markdown(inside)


def test_blocks_within_blocks_and_text_outside_are_kept() -> None:
    inner = div("Text", "inner", "100 100 200 200")
    answer = f"first {div('Complex-Block', f'before {inner} behind')} last"
    parsed = parse(answer, 1000, 1000)
    assert [(block.label, block.text.strip()) for block in parsed.blocks] == [
        ("text", "first"),
        ("complex_block", "before behind"),
        ("text", "inner"),
        ("text", "last"),
    ]
    assert parsed.notes == ("text outside of the blocks",)


def test_an_answer_without_blocks_is_read_as_html_or_markdown() -> None:
    assert [block.text for block in parse("<h1>A</h1><p>b</p>", 9, 9).blocks] == ["# A", "b"]
    parsed = parse("# A\n\nb_c", 9, 9)
    assert [block.text for block in parsed.blocks] == ["# A", "b_c"]
    assert parsed.notes == ("no boxes in the answer",)


@given(st.lists(pieces, max_size=40).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert block.label
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


@given(st.lists(st.tuples(labels, corners, st.lists(words, max_size=3)), max_size=6), st.data())
def test_every_word_is_kept_wherever_the_answer_ends(
    blocks: list[tuple[str, list[int], list[str]]], data: st.DataObject
) -> None:
    answer = "".join(
        div(label, "".join(f"<p>{text}</p>" for text in texts), " ".join(map(str, box)))
        for label, box, texts in blocks
    )
    answer = answer[: data.draw(st.integers(0, len(answer)))]
    text = " ".join(block.text for block in parse(answer, 800, 600).blocks)
    said = html.unescape(re.sub(r"<[^<>]*(?:>|\Z)", " ", answer))
    assert re.findall("[a-z]+", text) == re.findall("[a-z]+", said)


@pytest.mark.parametrize(
    "part",
    ["<math>", "<div data-bbox='1 2 3 4'>", "<ul><li>", "<table><tr>", "</div>", "< ", "<!-"],
)
def test_a_repetitive_answer_keeps_its_last_word(part: str) -> None:
    # A parser that takes quadratic time would take minutes.
    blocks = parse(part * 6000 + "x", 280, 280).blocks
    assert "x" in "".join(block.text for block in blocks)
