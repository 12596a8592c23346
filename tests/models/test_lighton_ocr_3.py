"""The examples follow the grammar in the README of lightonai/LightOnOCR; two answers of the model
are in `test_recorded_answers.py`."""

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.lighton_ocr_3 import parse, unescape_math
from llm_ocr.records import Box

PIECES = ["![text](1,2,300,400) ", "![text+](", "![", "+](9,9,9,9)", "words", "\n", "](1,2,3,4)"]
PIECES += ["![x_y-z](0, 0, 5000, -1)\n", "<table>", "\\$x^2\\$", "# Title", "![table](5,5,9,9)"]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))
LABELS = [
    "title",
    "section",
    "text",
    "list",
    "aside_text",
    "header",
    "page_number",
    "formula",
    "sidebar",
]
words = st.text("abcdefg", min_size=2, max_size=8)
corners = st.tuples(*[st.integers(-50, 1100)] * 4)


def test_a_page_with_boxes_on_a_grid_of_1000() -> None:
    answer = (
        "![image](309,90,691,516) A diagram of the model\n"
        "![caption](400,555,591,566) Figure 1: Model.\n"
        "![section](113,608,263,623) ## 2.2 Training\n"
        "![formula](113,630,263,640)\nE=mc^2\n"
        "![table](113,650,263,700)\n<table><tr><td>1</td></tr></table>\n"
        "![caption](113,700,263,720) Table 1\n"
        "![page_number](491,935,505,950) 3\n"
    )
    parsed = parse(answer, 2000, 1000)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("image", "A diagram of the model"),
        ("image_caption", "Figure 1: Model."),
        ("sub_title", "## 2.2 Training"),
        ("equation", "$$\nE=mc^2\n$$"),
        ("table", "<table><tr><td>1</td></tr></table>"),
        ("table_caption", "Table 1"),
        ("page_number", "3"),
    ]
    assert parsed.blocks[0].box == Box(618, 90, 1382, 516)
    assert parsed.notes == ()


def test_a_block_that_continues_another_is_joined_to_its_text() -> None:
    answer = (
        "![text](0,0,400,900) The end of a column is\n"
        "![text+](500,0,900,300) no end of a sentence,\n![text+](500,300,900,400) nor is this.\n"
        "![image](0,0,9,9)\n![text+](500,400,900,500) After a figure."
    )
    blocks = parse(answer, 1000, 1000).blocks
    assert [(block.label, block.text) for block in blocks] == [
        ("text", "The end of a column is no end of a sentence, nor is this."),
        ("text", ""),
        ("text", ""),
        ("image", ""),
        ("text", "After a figure."),
    ]
    assert [block.box for block in blocks][1] == Box(500, 0, 900, 300)


def test_escaped_formulas_are_repaired_and_prices_are_left_alone() -> None:
    said = r"where \$x\$ is \$\alpha_1\$, at \$5 and \$6, \$ 7 \$"
    assert unescape_math(said) == r"where $x$ is $\alpha_1$, at \$5 and \$6, \$ 7 \$"


def test_an_answer_without_markers_is_markdown() -> None:
    parsed = parse("# Title\n\nwords", 100, 100)
    assert [block.label for block in parsed.blocks] == ["title", "text"]
    assert parsed.notes == ("no boxes in the answer",)
    assert parse("", 100, 100).notes == ()


@given(st.lists(pieces, max_size=30).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert block.text or block.box is not None
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


@given(
    st.lists(st.tuples(st.sampled_from(LABELS), st.booleans(), corners, words), max_size=5),
    st.data(),
)
def test_every_word_is_kept_wherever_the_answer_ends(
    blocks: list[tuple[str, bool, tuple[int, ...], str]], data: st.DataObject
) -> None:
    answer = "".join(
        f"![{label}{'+' * more}]({','.join(map(str, box))}) {text}\n"
        for label, more, box, text in blocks
    )
    answer = answer[: data.draw(st.integers(0, len(answer)))].removesuffix("!")
    kept = [word for block in parse(answer, 800, 600).blocks for word in block.text.split()]
    # A marker is at least cut off behind its last bracket.
    said = " ".join(part.rpartition(")")[2] for part in answer.split("![") if ")" in part)
    assert [word for word in kept if word != "$$"] == said.split()
