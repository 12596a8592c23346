import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.models.markdown_blocks import label_of, parse

LINES = ["# A heading", "## Part", "text", "", "| a | b |", "|---|---|", "| 1 | 2 |", "<table>"]
LINES += [
    "<tr><td>x</td></tr>",
    "</table>",
    "$$",
    "x = 1",
    "\\[",
    "\\]",
    "- item",
    "2. item",
    "```",
]
lines = st.one_of(st.sampled_from(LINES), st.text(max_size=12))


def labels(markdown: str) -> list[str]:
    return [block.label for block in parse(markdown, 100, 100).blocks]


def texts(markdown: str) -> list[str]:
    return [block.text for block in parse(markdown, 100, 100).blocks]


def test_blocks_end_at_blank_lines_and_have_labels() -> None:
    markdown = "# Title\n\nOne\nparagraph.\n\n## Part\n\n- a\n- b\n\n$$\nx = 1\n$$\n\nEnd."
    assert labels(markdown) == ["title", "text", "sub_title", "list", "equation", "text"]
    assert texts(markdown)[1] == "One\nparagraph."
    assert all(block.box is None for block in parse(markdown, 100, 100).blocks)


def test_headings_are_blocks_without_blank_lines() -> None:
    assert texts("text\n# Heading\nmore text") == ["text", "# Heading", "more text"]


def test_a_markdown_table_stays_whole() -> None:
    markdown = "| a | b |\n|:--|--:|\n| 1 | 2 |\nA line behind it."
    assert texts(markdown) == ["| a | b |\n|:--|--:|\n| 1 | 2 |", "A line behind it."]
    assert labels(markdown) == ["table", "text"]


def test_an_html_table_stays_whole_over_blank_lines_and_inner_tables() -> None:
    table = "<table>\n<tr><td>1\n\n<table><tr><td>in</td></tr></table></td></tr>\n\n</table>"
    assert texts(f"before\n{table}\nafter") == ["before", table, "after"]
    assert labels(table) == ["table"]


def test_unclosed_blocks_keep_their_text() -> None:
    assert texts("$$\nx = 1\n\nA paragraph.") == ["$$\nx = 1", "A paragraph."]
    assert texts("<table><tr><td>1\n\nrest") == ["<table><tr><td>1\n\nrest"]


def test_display_equations_and_code_stay_whole_over_blank_lines() -> None:
    assert labels("\\[\na\n\nb\n\\]\n\ntext") == ["equation", "text"]
    assert texts("```\na\n\nb\n```\nafter") == ["```\na\n\nb\n```", "after"]


def test_a_fence_around_the_whole_answer_is_dropped() -> None:
    assert texts("```markdown\n# Title\n\ntext\n```") == ["# Title", "text"]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("<h1>A</h1>", "title"),
        ("<h3>A</h3>", "sub_title"),
        ("#hashtag", "text"),
        ("1) first", "list"),
        ("-5 degrees", "text"),
        ("a | b", "text"),
        ("\\begin{align}x\\end{align}", "equation"),
    ],
)
def test_labels(text: str, label: str) -> None:
    assert label_of(text) == label


@given(st.lists(lines, max_size=30).map("\n".join))
def test_any_answer_is_parsed_and_keeps_every_character_in_order(markdown: str) -> None:
    kept = "".join("".join(texts(markdown)).split())
    if not markdown.strip().startswith("```"):
        assert kept == "".join(markdown.split())


@pytest.mark.parametrize(
    "line", ["\\[ x", "$$", "<table", "| - |", "-   " * 500, "```", " " * 2000]
)
def test_a_repetitive_answer_is_parsed_in_time(line: str) -> None:
    start = time.perf_counter()
    parse("\n".join([line] * 4000), 100, 100)
    assert time.perf_counter() - start < 5
