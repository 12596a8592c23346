"""The examples follow the form that the prompt asks for; no answer of the model was recorded."""

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.ovis_ocr import LONG_ANSWER, PROMPT, parse, trim_repeated_ending
from llm_ocr.records import Box

FIGURE = '<img src="images/bbox_100_200_500_1000.jpg" />'
PIECES = [FIGURE, '<img src="images/bbox_', "9_9_9_9.jpg", "<img", "/>", "words", "\n", "# T", "<"]
PIECES += ["<img src='images/bbox_0_0_9000_-1.png'>", "<table><tr><td>"]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))
words = st.text("abcdefg", min_size=2, max_size=8)
BODY = " ".join(f"word{k}" for k in range(LONG_ANSWER // 6))


def test_the_prompt_begins_with_a_new_line_as_in_the_training() -> None:
    assert PROMPT.startswith("\nExtract all readable content")


def test_figures_have_boxes_and_keep_their_position_in_the_text() -> None:
    answer = f"# Title\n\nBefore\n{FIGURE}\nFig. 1\n\n<table><tr><td>1</td></tr></table>"
    parsed = parse(answer, 500, 2000)
    assert [(block.label, block.text, block.box) for block in parsed.blocks] == [
        ("title", "# Title", None),
        ("text", "Before", None),
        ("image", "", Box(50, 400, 250, 2000)),
        ("text", "Fig. 1", None),
        ("table", "<table><tr><td>1</td></tr></table>", None),
    ]


def test_a_figure_in_a_cell_does_not_end_the_table() -> None:
    answer = f"<table><tr><td>a {FIGURE}</td><td>b</td></tr></table>\n\nAfter"
    parsed = parse(answer, 500, 2000)
    assert [(block.label, block.text, block.box) for block in parsed.blocks] == [
        ("table", "<table><tr><td>a </td><td>b</td></tr></table>", None),
        ("image", "", Box(50, 400, 250, 2000)),
        ("text", "After", None),
    ]


def test_of_a_repeated_ending_one_occurrence_is_kept_and_noted() -> None:
    answer = f"{BODY} and so on" + ", and so on" * 30
    parsed = parse(answer, 100, 100)
    assert parsed.blocks[-1].text == f"{BODY} and so on, and so on"
    assert parsed.notes == ("319 characters of a repeated ending were dropped",)


def test_short_answers_and_few_repetitions_are_left_alone() -> None:
    for text in ("ha" * 200, f"{BODY} the end" + " the end" * 3, BODY, "", f"{BODY}!"):
        assert trim_repeated_ending(text) == text


@given(st.integers(1, 60), st.integers(6, 40), st.text(alphabet="ab.,- ", min_size=1, max_size=9))
def test_what_is_trimmed_is_only_a_repetition(start: int, times: int, unit: str) -> None:
    text = BODY + "|" * start + unit * times
    trimmed = trim_repeated_ending(text)
    assert text.startswith(trimmed)
    dropped = text[len(trimmed) :]
    assert not dropped.strip("|") or set(dropped) <= set(unit)


@given(st.lists(pieces, max_size=30).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert block.text.strip() or block.box is not None
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


@given(st.lists(words, max_size=12), st.data())
def test_every_word_is_kept_wherever_the_answer_ends(texts: list[str], data: st.DataObject) -> None:
    answer = f"\n\n{FIGURE}\n\n".join(texts)
    answer = answer[: data.draw(st.integers(0, len(answer)))]
    kept = " ".join(block.text for block in parse(answer, 800, 600).blocks)
    whole = answer.replace(FIGURE, " ")
    assert kept.split() == whole.partition("<")[0].split()
