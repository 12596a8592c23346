from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.lighton_ocr import parse
from llm_ocr.records import Box

PIECES = ["![image](image_1.png)", "10,20,300,400", "![", "](", "words", "\n", "# Title", ", 5"]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))


def test_figures_have_boxes_and_keep_their_position_in_the_text() -> None:
    answer = "# Title\n\nBefore\n![image](image_1.png)100,200,500,1000\nFig. 1\n\n<table></table>"
    parsed = parse(answer, 500, 2000)
    assert [(block.label, block.text, block.box) for block in parsed.blocks] == [
        ("title", "# Title", None),
        ("text", "Before", None),
        ("image", "", Box(50, 400, 250, 2000)),
        ("text", "Fig. 1", None),
        ("table", "<table></table>", None),
    ]


def test_a_figure_without_a_box_leaves_no_dead_link() -> None:
    parsed = parse("Before\n\n![image](image_1.png)\n\nafter", 500, 2000)
    assert [block.text for block in parsed.blocks] == ["Before", "after"]
    assert parse("![A map](image_1.png)", 500, 2000).blocks[0].text == "A map"


@given(st.lists(pieces, max_size=30).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert block.text.strip() or block.box is not None
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


@given(st.lists(st.from_regex(r"\A[a-z]{1,8}\Z"), max_size=20))
def test_every_word_is_kept(words: list[str]) -> None:
    parsed = parse("\n![image](image_1.png)1,2,30,40\n".join(words), 800, 600)
    assert [block.text for block in parsed.blocks if block.text] == words
