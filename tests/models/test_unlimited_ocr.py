"""Whole answers of the model are in `test_recorded_answers.py`."""

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.unlimited_ocr import parse
from llm_ocr.records import Box

PIECES = ["<|det|>", "title ", "text [1, 2, 300, 400]", "<|/det|>", "[[0, 0, 999, 999]]", "<PAGE>"]
PIECES += ["<|ref|>image<|/ref|>", "[-5, 9, 20000, 8]", "words", "\n", "<|", "[", "<|det|>figure ["]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))
words = st.text("abcdefg", min_size=2, max_size=8)


def tagged(label: str, text: str) -> str:
    return f"<|det|>{label} [0, 0, 999, 999]<|/det|>{text}"


def test_labels_boxes_and_texts() -> None:
    answer = "<PAGE>\n" + "\n".join(
        [
            tagged("title", "The bridge"),
            tagged("text", "It is old."),
            tagged("equation", r"\[ a = b \]"),
            tagged("table", "<table><tr><td>1</td></tr></table>"),
            tagged("list", ""),
            tagged("image", ""),
            tagged("image_caption", "Fig. 1"),
        ]
    )
    parsed = parse(answer, 999, 1998)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("title", "# The bridge"),
        ("text", "It is old."),
        ("equation", "$$\na = b\n$$"),
        ("table", "<table><tr><td>1</td></tr></table>"),
        ("image", ""),
        ("image_caption", "Fig. 1"),
    ]
    assert {block.box for block in parsed.blocks} == {Box(0, 0, 999, 1998)}
    assert parsed.notes == ()


def test_deepseeks_form_is_read_too() -> None:
    answer = "<|ref|>title<|/ref|><|det|>[[0, 0, 999, 999]]<|/det|>\n# The bridge\n\n"
    (block,) = parse(answer, 999, 1998).blocks
    assert (block.label, block.text, block.box) == ("title", "# The bridge", Box(0, 0, 999, 1998))


def test_a_label_that_the_end_cut_is_noted() -> None:
    parsed = parse(tagged("text", "It is old.\n") + "<|det|>image_cap", 999, 1998)
    assert [block.text for block in parsed.blocks] == ["It is old."]
    assert parsed.notes == ("cut-off tail dropped: '<|det|>image_cap'",)


@given(st.lists(pieces, max_size=30).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert block.text.strip() or block.box is not None
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


@given(st.lists(words, min_size=1, max_size=8), st.data())
def test_every_word_is_kept_wherever_the_answer_ends(texts: list[str], data: st.DataObject) -> None:
    answer = "\n".join(tagged("text", text) for text in texts)
    answer = answer[: data.draw(st.integers(0, len(answer)))]
    kept = " ".join(block.text for block in parse(answer, 999, 999).blocks)
    said = [piece.partition("<|/det|>")[2] for piece in answer.split("\n")]
    assert kept.rstrip("<").split() == " ".join(text for text in said if "<" not in text).split()
