"""Chunks: where a document is cut, and what each says about itself."""

from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.export.chunks import DocumentChunk, chunk_json, chunks
from llm_ocr.export.tokenizers import estimate_tokens
from llm_ocr.records import Block, Box, PageResult
from tests.export.pages import page

BOX = Box(10, 20, 300, 40)


def words(text: str) -> int:
    return len(text.split())


def made(*pages: PageResult, limit: int = 100) -> list[DocumentChunk]:
    return list(chunks(pages, limit, words))


def blocks(*texts: str, label: str = "text") -> tuple[Block, ...]:
    return tuple(Block("title" if one.startswith("#") else label, one, BOX) for one in texts)


def table(rows: int) -> Block:
    cells = "".join(f"<tr><td>river {k}</td><td>{k}</td></tr>" for k in range(rows))
    return Block("table", f"<table><tr><th>Name</th><th>km</th></tr>{cells}</table>", BOX)


def test_a_section_is_a_chunk_with_its_headings() -> None:
    texts = ("# One", "First.", "## Sub", "Second.", "Third.", "## Other", "Fourth.", "# Two", "5")
    found = made(page(1, blocks=blocks(*texts)))
    assert [(one.headings, one.text, one.tokens) for one in found] == [
        (("One",), "First.", 1),
        (("One", "Sub"), "Second.\n\nThird.", 2),
        (("One", "Other"), "Fourth.", 1),
        (("Two",), "5", 1),
    ]


def test_a_heading_with_nothing_below_is_not_lost() -> None:
    found = made(page(1, blocks=blocks("# One", "## Empty", "## Full", "Text.", "## Last")))
    assert [(one.headings, one.text) for one in found] == [
        (("One",), "Empty"),
        (("One", "Full"), "Text."),
        (("One",), "Last"),
    ]


def test_chunks_end_between_blocks_and_long_paragraphs_between_sentences() -> None:
    long = "One two three four. Five six seven. Eight nine. " + "ten " * 9
    found = made(page(1, blocks=blocks("A b c.", "D e f g.", long)), limit=8)
    assert [one.text for one in found] == [
        "A b c.\n\nD e f g.",
        "One two three four. Five six seven.",
        "Eight nine.",
        *(" ".join(["ten"] * 8), "ten"),
    ]


def test_a_table_is_cut_between_rows_and_its_header_is_repeated() -> None:
    found = made(page(1, blocks=(table(9),)), limit=40)
    assert len(found) > 1
    rows = []
    for one in found:
        header, rule, *below = one.text.split("\n")
        assert (header, rule) == ("| Name | km |", "| --- | --- |")
        assert one.tokens <= 40
        rows += below
    assert rows == [f"| river {k} | {k} |" for k in range(9)]


def test_all_rows_of_a_header_are_repeated() -> None:
    head = (
        "<tr><th rowspan=2>Month</th><th colspan=2>Flow</th></tr><tr><th>low</th><th>high</th></tr>"
    )
    rows = "".join(f"<tr><th>{k}</th><td>{k}</td><td>{2 * k}</td></tr>" for k in range(12))
    block = Block("table", f"<table>{head}{rows}</table>", BOX)
    found = made(page(1, blocks=(block,)), limit=60)
    assert len(found) > 1
    for one in found:
        assert one.text.startswith(
            "| Month | Flow | Flow |\n| --- | --- | --- |\n| Month | low | high |\n| "
        )
    below = [line for one in found for line in one.text.split("\n")[3:]]
    assert below == [f"| {k} | {k} | {2 * k} |" for k in range(12)]


def test_a_table_of_header_cells_is_cut_below_its_first_row() -> None:
    rows = "".join(f"<tr><th>river {k}</th><th>{k}</th></tr>" for k in range(20))
    found = made(page(1, blocks=(Block("table", f"<table>{rows}</table>", BOX),)), limit=40)
    assert all(one.tokens <= 40 for one in found)


def test_a_row_is_never_cut() -> None:
    long = " ".join(["word"] * 50)
    block = Block("table", f"<table><tr><td>a</td></tr><tr><td>{long}</td></tr></table>", BOX)
    (found,) = made(page(1, blocks=(block,)), limit=16)
    assert long in found.text
    assert found.tokens > 16


def test_a_paragraph_over_two_pages_is_one_with_both_places() -> None:
    first = page(1, blocks=blocks("It goes on without", label="text"))
    second = page(2, blocks=blocks("an end here.", label="text"))
    (found,) = made(first, second)
    assert found.text == "It goes on without an end here."
    assert found.pages == (1, 2)
    content = chunk_json(found, 1, "a", "/in/a.pdf")
    assert content["id"] == "a#1"
    assert content["boxes"][1] == {
        "page": 2,
        "box": [10, 20, 300, 40],
        "width": 800,
        "height": 1000,
    }


def test_furniture_and_figures_are_left_out() -> None:
    head = Block("header", "Rivers Trust", BOX)
    pages = [page(k, blocks=(head, Block("image", "", BOX), *blocks(f"Text {k}."))) for k in (1, 2)]
    assert [one.text for one in made(*pages)] == ["Text 1.\n\nText 2."]


@given(
    st.lists(st.text("ab .\n", min_size=1, max_size=80).filter(str.strip), max_size=8),
    st.integers(min_value=2, max_value=30),
)
def test_no_word_is_lost_and_no_chunk_too_long(texts: list[str], limit: int) -> None:
    found = made(page(1, blocks=blocks(*texts)), limit=limit)
    assert " ".join(one.text for one in found).split() == " ".join(texts).split()
    assert all(one.tokens <= limit for one in found)
    assert all(one.text for one in found)
    assert [one.pages for one in found] == [(1,)] * len(found)


def test_the_estimate_counts_wide_characters_as_one_each() -> None:
    assert estimate_tokens("漢字") == 2
    assert estimate_tokens("abcdefgh") == 2
