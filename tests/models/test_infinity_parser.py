"""The examples follow the prompt and the SDK of infly-ai/INF-MLLM; no answer was recorded. What is
common with dots.ocr's cells is tested in test_dots_ocr.py."""

import json

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.infinity_parser import INFINITY_PARSER_2_FLASH, parse
from llm_ocr.models.profile import Task
from llm_ocr.records import Box

CATEGORIES = ["header", "title", "text", "figure", "table_caption", "page_footnote", "stamp"]
words = st.text("abcdefg", min_size=2, max_size=8)
corners = st.lists(st.integers(-50, 1200), min_size=3, max_size=5)


def test_a_fenced_answer_with_boxes_on_a_grid_of_1000() -> None:
    cells = [
        {"bbox": [0, 0, 500, 100], "category": "title", "text": "# A paper"},
        {"bbox": [0, 100, 1000, 500], "category": "figure", "text": ""},
        {"bbox": [0, 500, 1000, 550], "category": "figure_caption", "text": "Fig. 1"},
        {"bbox": [0, 600, 1000, 650], "category": "formula", "text": "E = mc^2"},
        {"bbox": [0, 900, 1000, 950], "category": "page_footnote", "text": "1. A note"},
    ]
    parsed = parse(f"```json\n{json.dumps(cells)}\n```", 1600, 800)
    assert [(block.label, block.text) for block in parsed.blocks] == [
        ("title", "# A paper"),
        ("image", ""),
        ("image_caption", "Fig. 1"),
        ("equation", "$$\nE = mc^2\n$$"),
        ("footnote", "1\\. A note"),
    ]
    assert parsed.blocks[0].box == Box(0, 0, 800, 80)
    assert parsed.notes == ()


def test_of_a_cut_answer_whole_cells_and_the_last_text_are_kept() -> None:
    answer = '[{"bbox": [1, 2, 3, 4], "category": "text", "text": "whole"}, {"bbox": [1, 9, 3'
    parsed = parse(answer, 100, 100)
    assert [block.text for block in parsed.blocks] == ["whole"]
    assert parsed.notes
    more = parse(f'{answer}0, 40], "category": "text", "text": "ha', 100, 100)
    assert [block.text for block in more.blocks] == ["whole", "ha"]


def test_the_prompts_are_those_of_the_sdk() -> None:
    prompts = INFINITY_PARSER_2_FLASH.prompts
    assert prompts[Task.DOCUMENT].text.startswith("\n- Extract layout information")
    assert r"$$\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$$" in prompts[Task.FREE_OCR].text


@given(st.lists(st.tuples(st.sampled_from(CATEGORIES), corners, words), max_size=6), st.data())
def test_every_word_is_kept_wherever_the_answer_ends(
    cells: list[tuple[str, list[int], str]], data: st.DataObject
) -> None:
    answer = json.dumps([{"bbox": box, "category": c, "text": text} for c, box, text in cells])
    end = data.draw(st.integers(0, len(answer)))
    blocks = parse(answer[:end], 640, 480).blocks
    kept = " ".join(block.text for block in blocks)
    for _, _, text in cells:
        if f'"{text}"' in answer[:end]:
            assert text in kept
    for block in blocks:
        if block.box is not None:
            assert 0 <= block.box.x1 < block.box.x2 <= 640
            assert 0 <= block.box.y1 < block.box.y2 <= 480
