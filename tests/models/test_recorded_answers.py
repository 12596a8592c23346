"""Answers of the real models, parsed by their profiles. `answers/SOURCES.md` says where they come
from; those of DeepSeek-OCR that are malformed are in `test_deepseek_ocr.py`."""

import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from llm_ocr.models.catalog import PROFILES, profile_named
from llm_ocr.models.elements import ElementRegion, compose, find_regions
from llm_ocr.records import Block, Box
from llm_ocr.text.table_markup import TableGrid, read_html_tables

ANSWERS = Path(__file__).parent / "answers"
# A4 at 144 dpi, letter at 144 dpi.
A4, LETTER = (1191, 1684), (1224, 1584)
# The crop of the article's page; its size isn't recorded, and all but dots.ocr have a fixed grid.
CROP = (1000, 1300)
ARTICLE = "text text equation text text text sub_title text equation text"
LIST_PAGE = "sub_title text sub_title text text sub_title text list text sub_title text list"


@dataclass(frozen=True)
class Recorded:
    """An answer about a page or an element, the image's size, and the labels of its blocks.

    `element` is what a model that reads in two steps was asked about.
    """

    profile: str
    name: str
    size: tuple[int, int]
    labels: str
    notes: tuple[str, ...] = ()
    element: str = ""

    @property
    def answer(self) -> str:
        return (ANSWERS / f"{self.name}.txt").read_text(encoding="utf-8")

    @property
    def given(self) -> str:
        """The answer as the profile's parser gets it."""
        if not self.element:
            return self.answer
        return compose([ElementRegion(self.element, (0, 0, 1000, 1000))], {0: self.answer})

    def blocks(self) -> Sequence[Block]:
        return profile_named(self.profile).read(self.given, *self.size).blocks


RECORDED = (
    Recorded("deepseek-ocr", "deepseek_ocr_article_page", CROP, ARTICLE),
    Recorded("deepseek-ocr-2", "deepseek_ocr_2_first_tokens", CROP, "title"),
    Recorded(
        "unlimited-ocr",
        "unlimited_ocr_first_page",
        (2481, 3508),
        "header title text text title text image image_caption",
    ),
    Recorded("unlimited-ocr", "unlimited_ocr_equation", (795, 211), "equation"),
    Recorded(
        "olmocr-2",
        "olmocr_2_article_page",
        CROP,
        "text text equation text text text text equation text",
    ),
    Recorded("chandra-ocr-2", "chandra_2_article_page", CROP, ARTICLE),
    Recorded("chandra-ocr-2", "chandra_2_list_page", A4, LIST_PAGE),
    Recorded(
        "chandra-ocr-2",
        "chandra_2_figure_page",
        LETTER,
        "sub_title text image image_caption text footer",
    ),
    Recorded(
        "chandra-ocr-2",
        "chandra_2_table_page",
        LETTER,
        "header text sub_title text table_caption table sub_title text text",
    ),
    Recorded("dots-ocr", "dots_ocr_list_page", A4, LIST_PAGE),
    Recorded(
        "dots-ocr",
        "dots_ocr_front_page",
        LETTER,
        "text title text text text text sub_title text sub_title text image image_caption "
        "sub_title text sub_title text footnote",
    ),
    Recorded("lighton-ocr-3-4b", "lighton_ocr_3_receipt_grounded", CROP, "image text title table"),
    Recorded(
        "lighton-ocr-3-4b",
        "lighton_ocr_3_receipt",
        CROP,
        "text sub_title table",
        ("no boxes in the answer",),
    ),
    Recorded("glm-ocr", "glm_ocr_article_page", CROP, "text", element="text"),
    Recorded("glm-ocr", "glm_ocr_table", CROP, "table", element="table"),
    Recorded("paddleocr-vl", "paddleocr_vl_article_page", CROP, "text"),
    Recorded("paddleocr-vl", "paddleocr_vl_table", CROP, "table"),
    Recorded("paddleocr-vl", "paddleocr_vl_line_break", CROP, "table"),
)
BY_NAME = {recorded.name: recorded for recorded in RECORDED}
every_answer = pytest.mark.parametrize("recorded", RECORDED, ids=BY_NAME)


def words(markup: str) -> list[str]:
    """The words in a text with HTML, without its tags but with the alternative text of images."""
    alternatives = re.sub(r"<img[^<>]*\balt=\"([^\"]*)\"[^<>]*>", r"\1", markup)
    return re.findall(r"\w+", html.unescape(re.sub(r"</?[a-zA-Z][^<>]*>", " ", alternatives)))


def said(recorded: Recorded) -> list[str]:
    """The words in an answer, without those of its grammar."""
    answer = recorded.answer
    if answer.startswith("[{"):
        cells = json.loads(answer.rstrip() + "]")
        return words(" ".join(cell.get("text", "") for cell in cells))
    answer = re.sub(r"\A---\n.*?---\n", "", answer, flags=re.DOTALL)
    answer = re.sub(r"<\|ref\|>.*?<\|/ref\|>|<\|det\|>.*?<\|/det\|>|<｜.*?｜>", " ", answer)
    answer = re.sub(r"!\[\w+\]\([\d,]+\)", " ", answer)
    answer = re.sub(r"<(?:[a-z]cel|nl)>", " ", answer).replace(
        "document\\nAstana", "document Astana"
    )
    return words(answer)


def grid(recorded: Recorded) -> TableGrid:
    (table,) = (block for block in recorded.blocks() if block.label in ("table", "image"))
    (found,) = read_html_tables(table.text)
    return found


@every_answer
def test_labels_are_known_and_nothing_was_mended(recorded: Recorded) -> None:
    parsed = profile_named(recorded.profile).read(recorded.given, *recorded.size)
    assert " ".join(block.label for block in parsed.blocks) == recorded.labels
    assert parsed.notes == recorded.notes


@every_answer
def test_every_word_is_kept_in_its_place(recorded: Recorded) -> None:
    assert words(" ".join(block.text for block in recorded.blocks())) == said(recorded)


@every_answer
def test_boxes_are_on_the_page_and_do_not_cover_each_other(recorded: Recorded) -> None:
    boxes = [block.box for block in recorded.blocks() if block.box is not None]
    assert bool(boxes) == (
        recorded.profile not in ("olmocr-2", "paddleocr-vl") and not recorded.notes
    )
    width, height = recorded.size
    for box in boxes:
        assert 0 <= box.x1 < box.x2 <= width
        assert 0 <= box.y1 < box.y2 <= height
    for k, box in enumerate(boxes):
        for other in boxes[:k]:
            across = min(box.x2, other.x2) - max(box.x1, other.x1)
            down = min(box.y2, other.y2) - max(box.y1, other.y1)
            assert across <= 0 or down <= 0.1 * min(box.y2 - box.y1, other.y2 - other.y1)


def test_verified_profiles_are_those_with_a_whole_recorded_answer() -> None:
    verified = {name for name, profile in PROFILES.items() if profile.card.verified}
    assert verified == {recorded.profile for recorded in RECORDED} - {"deepseek-ocr-2"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("chandra_2_list_page", "dots_ocr_list_page"),
        ("chandra_2_article_page", "deepseek_ocr_article_page"),
    ],
)
def test_two_models_see_the_blocks_of_a_page_in_the_same_places(one: str, other: str) -> None:
    """The grid of one would show in the boxes of the other: they differ by 0.9% of a side."""
    width, height = BY_NAME[one].size
    pairs = [*zip(BY_NAME[one].blocks(), BY_NAME[other].blocks(), strict=True)]
    assert len(pairs) >= 10
    for here, there in pairs:
        assert here.label == there.label
        assert here.box is not None
        assert there.box is not None
        assert here.box.x1 == pytest.approx(there.box.x1, abs=0.015 * width)
        assert here.box.x2 == pytest.approx(there.box.x2, abs=0.015 * width)
        assert here.box.y1 == pytest.approx(there.box.y1, abs=0.015 * height)
        assert here.box.y2 == pytest.approx(there.box.y2, abs=0.015 * height)


@pytest.mark.parametrize(
    "name",
    [
        "deepseek_ocr_article_page",
        "glm_ocr_article_page",
        "olmocr_2_article_page",
        "paddleocr_vl_article_page",
    ],
)
def test_models_read_the_same_words_on_the_same_page(name: str) -> None:
    texts = [
        re.findall(r"[a-z]{4,}", " ".join(block.text for block in BY_NAME[one].blocks()).lower())
        for one in ("chandra_2_article_page", name)
    ]
    assert SequenceMatcher(None, texts[0], texts[1], autojunk=False).ratio() > 0.95


def test_equations_stand_between_dollar_signs() -> None:
    names = ("deepseek_ocr", "chandra_2", "olmocr_2", "glm_ocr")
    for name in names:
        text = "\n".join(block.text for block in BY_NAME[f"{name}_article_page"].blocks())
        found = re.findall(r"\$\$\s*(.*?)\s*\$\$", text, re.DOTALL)
        assert [one.split()[0] for one in found] == [r"\delta", found[1].split()[0]], name
        assert found[1].startswith("p(B|m'"), name
        assert "\\(" not in text, name
        assert "\\[" not in text, name


@pytest.mark.parametrize(
    ("name", "rows", "columns", "cells"),
    [
        ("chandra_2_table_page", 10, 8, 65),
        ("chandra_2_figure_page", 9, 5, 45),
        ("lighton_ocr_3_receipt_grounded", 7, 4, 22),
        ("lighton_ocr_3_receipt", 7, 4, 22),
        ("glm_ocr_table", 10, 4, 40),
        ("paddleocr_vl_table", 10, 9, 85),
        ("paddleocr_vl_line_break", 2, 3, 4),
    ],
)
def test_tables_have_all_their_rows_and_cells(
    name: str, rows: int, columns: int, cells: int
) -> None:
    found = grid(BY_NAME[name]) if name != "lighton_ocr_3_receipt_grounded" else _receipt()
    assert (found.row_count, found.column_count, len(found.cells)) == (rows, columns, cells)
    covered = Counter(
        (row, column)
        for cell in found.cells
        for row in range(cell.row, cell.row + cell.rows)
        for column in range(cell.column, cell.column + cell.columns)
    )
    assert len(covered) == rows * columns
    assert set(covered.values()) == {1}


def _receipt() -> TableGrid:
    (found,) = read_html_tables(BY_NAME["lighton_ocr_3_receipt_grounded"].blocks()[-1].text)
    return found


def test_cells_are_in_their_columns() -> None:
    table = grid(BY_NAME["chandra_2_table_page"])
    for row, column, text in ((1, 4, "complex"), (4, 0, "4"), (5, 0, "4"), (8, 7, "1.22")):
        cell = table.at(row, column)
        assert cell is not None
        assert re.sub("<[^<>]*>", "", cell.text) == text
    table = grid(BY_NAME["paddleocr_vl_table"])
    assert [table.at(0, column) for column in (1, 7)] == [table.at(0, column) for column in (2, 8)]
    last = table.at(9, 8)
    assert last is not None
    assert last.text == r"$50.08\pm16.64$"


def test_a_line_break_in_a_cell_is_none_of_its_letters() -> None:
    cell = grid(BY_NAME["paddleocr_vl_line_break"]).at(0, 1)
    assert cell is not None
    assert re.split(r"\s*(?:<br>|\n)\s*", cell.text) == [
        "Internal regulatory document",
        "Astana Hub International Technopark of IT startups Corporate Fund",
    ]


def test_figures_have_their_boxes() -> None:
    figures = {
        name: [block.box for block in BY_NAME[name].blocks() if block.label == "image"]
        for name in ("unlimited_ocr_first_page", "dots_ocr_front_page", "chandra_2_figure_page")
    }
    (unlimited,) = figures["unlimited_ocr_first_page"]
    assert unlimited is not None
    corners = (unlimited.x1, unlimited.y1, unlimited.x2, unlimited.y2)
    assert corners == pytest.approx((417.2, 2110.4, 2048.9, 2816.2), abs=0.5)
    (dots,) = figures["dots_ocr_front_page"]
    assert dots is not None
    assert (round(dots.x1), round(dots.y1), round(dots.x2), round(dots.y2)) == (
        632,
        491,
        1120,
        1057,
    )
    (chandra,) = figures["chandra_2_figure_page"]
    assert chandra is not None
    assert (round(chandra.x1), round(chandra.y2)) == (264, 1020)


def test_items_of_a_list_have_one_sign_each() -> None:
    for name in ("chandra_2_list_page", "dots_ocr_list_page"):
        lists = [block.text for block in BY_NAME[name].blocks() if block.label == "list"]
        items = [line for text in lists for line in text.splitlines()]
        assert len(items) == 4
        assert all(re.match(r"[-*] \*\*[A-Z]", item) for item in items)


def test_headings_are_markdown_headings() -> None:
    for recorded in RECORDED:
        for block in recorded.blocks():
            if block.label in ("title", "sub_title"):
                assert re.match(r"#{1,3} \S", block.text.lstrip()), recorded.name


def test_a_page_of_mineru_is_divided_into_its_regions() -> None:
    answer = (ANSWERS / "mineru_2_5_layout.txt").read_text(encoding="utf-8")
    regions = find_regions(answer)
    assert " ".join(region.label for region in regions) == "text text title text text page_number"
    assert [region.box[1] for region in regions] == [68, 272, 511, 567, 773, 869]
    assert {region.turn for region in regions} == {0}
    texts = {k: f"words{k}" for k in range(len(regions))}
    parsed = profile_named("mineru2.5-pro").read(compose(regions, texts), 1000, 2000)
    assert parsed.notes == ()
    assert [block.text.lstrip("# ") for block in parsed.blocks] == list(texts.values())
    assert parsed.blocks[2].box == Box(279, 1022, 664, 1080)


def test_a_box_of_mineru_that_leaves_the_page_ends_at_its_edge() -> None:
    answer = (ANSWERS / "mineru_layout_box_off_page.txt").read_text(encoding="utf-8")
    assert find_regions(answer) == [ElementRegion("page_number", (466, 906, 531, 1000))]


def test_a_layout_of_mineru_without_regions_has_none() -> None:
    answer = (ANSWERS / "mineru_layout_without_regions.txt").read_text(encoding="utf-8")
    assert find_regions(answer) == []
