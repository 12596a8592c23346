from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.olmocr import OLMOCR_2, parse

ANSWERS = Path(__file__).parent / "answers"
MATTER = (
    "---\nprimary_language: en\nis_rotation_valid: True\nrotation_correction: 0\n"
    "is_table: False\nis_diagram: False\n---\n"
)

PIECES = ["---", "\n", "primary_language: en", "is_table: False", "![a chart](page_1_2_3_4.png)"]
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))


def test_a_recorded_page() -> None:
    answer = (ANSWERS / "olmocr_2_article_page.txt").read_text()
    parsed = parse(answer, 989, 1280)
    assert [block.label for block in parsed.blocks] == [
        *("text", "text", "equation", "text", "text", "text", "text", "equation", "text")
    ]
    assert parsed.blocks[0].text.startswith("represent the ways the history factors")
    assert parsed.blocks[2].text.startswith("\\[\n\\delta = r - Q_{large(small)}")
    assert parsed.blocks[-1].text.endswith("is continuously updated.")
    assert all(block.box is None for block in parsed.blocks)
    assert parsed.notes == ()
    body = answer.split("---\n", 2)[2]
    assert [word for block in parsed.blocks for word in block.text.split()] == body.split()


def test_a_figure_becomes_its_description() -> None:
    parsed = parse(f"{MATTER}Text.\n\n![A bar chart](page_10_20_300_200.png)\n\nEnd.", 100, 100)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("text", "Text."),
        ("image", "A bar chart"),
        ("text", "End."),
    ]
    assert parse(f"{MATTER}![](page_1_2_3_4.png)", 100, 100).blocks == ()


def test_a_rotated_page_is_noted() -> None:
    turned = MATTER.replace("True", "False").replace("correction: 0", "correction: 90")
    assert "90 degrees" in parse(f"{turned}Text", 100, 100).notes[0]


def test_a_blank_page_has_no_blocks() -> None:
    assert parse(MATTER, 100, 100).blocks == ()
    assert parse("---\nprimary_language: null\nis_rotation_valid: Tr", 100, 100).blocks == ()


def test_an_answer_without_front_matter_keeps_everything() -> None:
    parsed = parse("---\n\nA rule above, and text.", 100, 100)
    assert [block.text for block in parsed.blocks] == ["---", "A rule above, and text."]
    assert parsed.notes == ("no front matter",)


@given(st.lists(pieces, max_size=20).map("".join))
def test_any_answer_is_parsed(answer: str) -> None:
    blocks = parse(answer, 800, 600).blocks
    assert blocks or not answer.strip()
    for block in blocks:
        assert block.text.strip()


@given(st.lists(st.from_regex(r"\A[a-z]{1,8}\Z"), max_size=20))
def test_every_word_is_kept(words: list[str]) -> None:
    parsed = parse(f"{MATTER}{' '.join(words)}", 800, 600)
    assert [word for block in parsed.blocks for word in block.text.split()] == words


def test_prompt_and_image_size_are_those_of_training() -> None:
    assert OLMOCR_2.image.longest_side == 1288
    assert OLMOCR_2.card.verified
