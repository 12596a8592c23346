"""Tables of contents: which lines are entries, and what an entry is."""

from dataclasses import replace

import pytest

from llm_ocr.engines.embedded.geometry import OcrLine, Word
from llm_ocr.engines.embedded.regions.contents import contents, entries_of
from tests.engines.embedded.written import FLOOD, PITCH, RECORDS, column, line

LEFT, RIGHT, TOP = 100.0, 700.0, 200.0
TEXT = column([FLOOD, RECORDS] * 2, LEFT, 800)


def number(text: str, y: float, right: float = RIGHT) -> OcrLine:
    """A number that ends at the right edge."""
    found = line(text, 0, y)
    return replace(found, words=(Word((right - found.width, y, right, y + 20), text),))


def listed(*entries: tuple[str, str], left: float = LEFT, right: float = RIGHT) -> list[OcrLine]:
    """Texts below each other with their numbers at the right; one without a number goes on."""
    lines = []
    for k, (text, page) in enumerate(entries):
        y = TOP + PITCH * k
        lines += [line(text, left, y), *([number(page, y, right)] if page else [])]
    return lines


def found(lines: list[OcrLine]) -> list[list[str]]:
    """The entries of each table of contents, as one text each; no line is lost."""
    blocks, rest = contents(lines)
    held = [one for block in blocks for one in block.lines]
    assert sorted(map(id, [*held, *rest])) == sorted(map(id, lines))
    return [[" ".join(rows) for rows in entries_of(block)] for block in blocks]


SECTIONS = ("1 The river", "2"), ("1.1 Its source", "2"), ("1.2 Its mouth", "5"), ("2 Floods", "9")
WHOLE = ["1 The river 2", "1.1 Its source 2", "1.2 Its mouth 5", "2 Floods 9"]


def test_sections_with_their_pages_are_entries() -> None:
    assert found([*listed(*SECTIONS), *TEXT]) == [WHOLE]
    assert found([*listed(*SECTIONS[:3]), *TEXT]) == [], "too few to know"


@pytest.mark.parametrize(
    ("pages", "is_found"),
    [(("i", "iv", "2", "9"), True), (("2", "5", "3", "9"), False), (("2", "5", "5.1", "9"), False)],
)
def test_pages_never_fall(pages: tuple[str, ...], is_found: bool) -> None:
    entries = [(text, page) for (text, _), page in zip(SECTIONS, pages, strict=True)]
    assert bool(found([*listed(*entries), *TEXT])) is is_found


def test_leaders_tell_of_entries_without_numbers_of_sections() -> None:
    plain = ("Alder", "2"), ("Canal", "5"), ("Harbour", "7"), ("Quarry", "9")
    assert found(listed(*plain)) == [], "a list of prices, say"
    dotted = [(f"{text} . . . . . .", page) for text, page in plain]
    assert found(listed(*dotted)) == [[f"{text} {page}" for text, page in dotted]]
    # Leader and number are often one line with the entry.
    whole = [number(f"{text:.<30} {page}", TOP + PITCH * k) for k, (text, page) in enumerate(plain)]
    assert found(whole) == [[one.text for one in whole]]


def test_an_entry_of_several_lines_is_one() -> None:
    first = ("1 The river from its", ""), ("source to its mouth", "2")
    assert found(listed(*first, *SECTIONS[1:])) == [
        ["1 The river from its source to its mouth 2", *WHOLE[1:]]
    ]
    later = (*SECTIONS[:2], ("1.2 Its mouth and", ""), ("the harbour there", "5"), SECTIONS[3])
    assert found(listed(*later)) == [
        [*WHOLE[:2], "1.2 Its mouth and the harbour there 5", WHOLE[3]]
    ]


def test_sections_numbers_far_from_their_texts_are_of_the_entries() -> None:
    apart = []
    for one in listed(*SECTIONS):
        first, _, rest = one.text.partition(" ")
        y = one.rect[1]
        apart += [line(first, LEFT, y), line(rest, LEFT + 100, y)] if rest else [one]
    marked = [replace(one, text=f"{one.text} . . .") if " " in one.text else one for one in apart]
    assert [text.replace(" . . .", "") for text in found(marked)[0]] == WHOLE


def test_columns_of_entries_are_two_blocks() -> None:
    right = [
        (text.replace("1", "3").replace("2 F", "4 F"), str(int(page) + 10))
        for text, page in SECTIONS
    ]
    lines = [*listed(*SECTIONS, right=400), *listed(*right, left=420)]
    assert found(lines) == [WHOLE, [f"{text} {page}" for text, page in right]]


def test_items_that_end_with_numbers_are_no_entries() -> None:
    items = [number(f"{k}. Item {k}", TOP + PITCH * k) for k in range(1, 8)]
    assert found([*items, *TEXT]) == []


def test_entries_among_others_are_of_the_same_table() -> None:
    """Page numbers that start again in the middle of a table form a second sequence."""
    entries = [(f"{k} The part {k}", str(10 * (k % 2) + k)) for k in range(1, 12)]
    (whole,) = found(listed(*entries))
    assert whole == [" ".join(entry) for entry in entries]
