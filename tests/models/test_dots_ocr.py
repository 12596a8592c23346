import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.dots_ocr import LABELS, RESIZING, parse
from llm_ocr.records import Box

PIECES = ['{"bbox": [1, 2, 300, 400]', ', "category": "Text"', ', "text": "', '"}', "[", "]", ","]
PIECES += ['{"bbox": [9, 9', "\\n", "\\alpha", "words", "```json", '"category"', "NaN", "1e999"]
PIECES += ["\\ud83d", "\\ude00", "9" * 400, "true", "null"]
words = st.from_regex(r"\A\w{1,6}( \w{1,6}){0,3}\Z")
pieces = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))


def cell(
    category: str, text: str | None = None, box: object = (0, 0, 280, 140)
) -> dict[str, object]:
    return {"bbox": box, "category": category, **({} if text is None else {"text": text})}


def test_a_page() -> None:
    answer = json.dumps(
        [
            cell("Title", "# A paper"),
            cell("Picture", box=[28, 28, 140, 140]),
            cell("Caption", "Fig. 1"),
            cell("Text", "Some words."),
            cell("Caption", "Table 1"),
            cell("Table", "<table><tr><td>1</td></tr></table>"),
            cell("Formula", "E = mc^2"),
            cell("Page-footer", "7"),
        ]
    )
    parsed = parse(answer, 280, 280)
    assert [block.label for block in parsed.blocks] == [
        *("title", "image", "image_caption", "text", "table_caption", "table", "equation", "footer")
    ]
    assert parsed.blocks[1].box == Box(28, 28, 140, 140)
    assert parsed.blocks[1].text == ""
    assert parsed.blocks[6].text == "$$\nE = mc^2\n$$"
    assert parsed.notes == ()


def test_boxes_are_in_the_resized_images_pixels() -> None:
    assert RESIZING.size(1000, 1400) == (1008, 1400)
    parsed = parse(json.dumps([cell("Text", "a", [0, 0, 1008, 700])]), 1000, 1400)
    assert parsed.blocks[0].box == Box(0, 0, 1000, 700)


def test_a_cut_answer_keeps_the_text_of_its_last_cell() -> None:
    answer = json.dumps([cell("Text", "first"), cell("Text", 'second\n"half')])
    cut = answer[: answer.index("half") + 4]
    parsed = parse(cut, 280, 280)
    assert [block.text for block in parsed.blocks] == ["first", 'second\n"half']
    assert parsed.blocks[1].box is not None
    assert parsed.notes


def test_a_cell_cut_inside_its_box_is_noted() -> None:
    parsed = parse('[{"bbox": [1, 2, 3, 4], "category": "Text", "text": "a"}, {"bbox": [5, 6', 9, 9)
    assert [block.text for block in parsed.blocks] == ["a"]
    assert any("no area" in note for note in parsed.notes)


def test_bare_backslashes_are_kept() -> None:
    answer = r'[{"bbox": [1, 2, 30, 40], "category": "Formula", "text": "\alpha \sum_i \"x\""}]'
    parsed = parse(answer, 280, 280)
    assert parsed.blocks[0].text == '$$\n\\alpha \\sum_i "x"\n$$'


def test_numbers_and_characters_out_of_range_are_corrected() -> None:
    text = r"a \ud83d \ud83d\ude00"
    huge = f'[{{"bbox": [0, 0, {"9" * 400}, 40], "category": "Text", "text": "{text}"}}]'
    parsed = parse(huge, 280, 280)
    assert [(block.text, block.box) for block in parsed.blocks] == [("a \ufffd \U0001f600", None)]
    cut = parse(huge[:-3].replace("9" * 400, "30"), 280, 280)
    assert cut.blocks[0].text == "a \ufffd \U0001f600"


def test_text_that_is_no_json_is_markdown() -> None:
    parsed = parse("# Title\n\nI can't give boxes.", 280, 280)
    assert [block.label for block in parsed.blocks] == ["title", "text"]
    assert parsed.notes == ("no cells in the answer",)
    assert parse("[]", 280, 280).blocks == ()


def test_text_between_the_cells_is_kept() -> None:
    answer = f"Here it is:\n```json\n[{json.dumps(cell('Text', 'a'))}]\n```\nDone."
    texts = [block.text for block in parse(answer, 280, 280).blocks]
    assert texts[1] == "a"
    assert "Here it is:" in texts[0]
    assert "Done." in texts[2]


@given(st.lists(pieces, max_size=40).map("".join), st.integers(1, 3000), st.integers(1, 3000))
def test_any_answer_is_parsed_with_boxes_on_the_page(answer: str, width: int, height: int) -> None:
    for block in parse(answer, width, height).blocks:
        assert f"{block.label}{block.text}".encode()
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= width
            assert 0 <= block.box.y1 < block.box.y2 <= height


@given(
    st.lists(st.tuples(st.sampled_from(sorted(LABELS)), words), max_size=6),
    st.data(),
)
def test_every_word_is_kept_wherever_the_answer_ends(
    cells: list[tuple[str, str]], data: st.DataObject
) -> None:
    answer = json.dumps([cell(*pair) for pair in cells], ensure_ascii=False)
    whole = parse(answer, 280, 280)
    assert " ".join(block.text.strip("$\n") for block in whole.blocks) == " ".join(
        text for _, text in cells
    )
    end = data.draw(st.integers(0, len(answer)))
    kept = " ".join(block.text for block in parse(answer[:end], 280, 280).blocks)
    for _, text in cells:
        if f'"{text}"' in answer[:end]:
            assert text in kept


@pytest.mark.parametrize(
    "part", ['{"bbox": ', '{"bbox": [1, 2, 3, 4], "text": "', "[[[", " \n", '" ', '{"a":']
)
def test_a_repetitive_answer_is_parsed_in_time(part: str) -> None:
    start = time.perf_counter()
    parse('[{"bbox": [1, 2, 3, 4], "category": "Text", "text": "' + part * 6000 + "x", 280, 280)
    parse(part * 6000, 280, 280)
    assert time.perf_counter() - start < 5


def test_a_number_at_the_start_of_prose_is_no_list() -> None:
    cells = [cell("Text", "27. Mai 2024"), cell("List-item", "27. Mai 2024"), cell("Title", "# 1")]
    texts = [block.text for block in parse(json.dumps(cells), 280, 280).blocks]
    assert texts == ["27\\. Mai 2024", "27. Mai 2024", "# 1"]
