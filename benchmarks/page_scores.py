"""How well a page of `benchmarks/pages` was read, by what its truth says."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rapidfuzz import fuzz

from benchmarks.pages.truth import (
    FIGURE,
    HEADING,
    LETTERHEAD,
    LIST,
    PARAGRAPH,
    TABLE,
    TITLE,
    TruePage,
)
from llm_ocr.evaluation.headings import (
    MIN_SIMILARITY,
    Heading,
    HeadingScore,
    find_headings,
    match_headings,
)
from llm_ocr.evaluation.reading_order import MIN_LENGTH, measure_reading_order
from llm_ocr.evaluation.table_similarity import match_tables
from llm_ocr.evaluation.text_similarity import (
    bag_of_characters,
    bag_of_words,
    character_accuracy,
    strip_markup,
)
from llm_ocr.text.table_markup import read_html_tables, read_tables

# Texts with an order of their own: where a figure, a table or a note goes, nobody can say.
_ORDERED = frozenset({TITLE, HEADING, PARAGRAPH, LIST})
# From so many characters on, page furniture is looked for within lines too.
_LONG = 12
_LINE_ALIKE, _WITHIN_ALIKE = 85.0, 92.0
# A hyphen at a line's end before a small letter, and what text layers have in its place.
_CUT = re.compile(r"(?<=\w)[-\u2010\u00ad\u0002\ufffe]\s*\n\s*(?=[^\W\d_A-Z])")
_SOFT = re.compile(r"[\u00ad\u0002\ufffe]\s*")


@dataclass(frozen=True)
class PageScore:
    """Shares are 0..1; None where the page has nothing to measure, or the reader no such thing.

    `characters` and `words` count wherever they stand, `in_order` where they should.
    """

    name: str
    layout: str
    columns: int
    characters: float
    words: float
    in_order: float
    neighbors: float | None
    is_clean: bool | None
    headings: HeadingScore
    ruled: tuple[float, ...]
    unruled: tuple[float, ...]
    inner_out: float | None


def score_page(page: TruePage, said: str) -> PageScore:
    """The Markdown or plain text `said` of a page."""
    said = unwrapped(said)
    text = strip_markup(said)
    truths = list(_truths(page))
    ordered = [strip_markup(block.markdown) for block in page.blocks if block.kind in _ORDERED]
    order = measure_reading_order([one for one in ordered if len(one) >= MIN_LENGTH], said)
    ruled, unruled = _tables(page, said)
    return PageScore(
        page.name,
        page.layout,
        page.columns,
        max(bag_of_characters(one, text) for one in truths),
        max(bag_of_words(one, text) for one in truths),
        max(character_accuracy(one, text) for one in truths),
        order.neighbors,
        is_clean(page, said),
        _headings(page, said),
        ruled,
        unruled,
        _inner_out(page, text),
    )


def unwrapped(said: str) -> str:
    """A text whose words aren't cut at the ends of lines."""
    return _SOFT.sub("", _CUT.sub("", unicodedata.normalize("NFC", said)))


def _truths(page: TruePage) -> Iterable[str]:
    """What may be said of a page: its body, the same with letterhead, with page furniture, and
    with what is printed in figures. The best of them counts: who leaves these out is as right
    here as who does not."""
    for letterhead in (False, True):
        for furniture in (False, True):
            for inner in (False, True):
                yield strip_markup("\n\n".join(_said(page, letterhead, furniture, inner)))


def _said(page: TruePage, letterhead: bool, furniture: bool, inner: bool) -> Iterable[str]:
    for block in page.blocks:
        if block.kind == LETTERHEAD:
            yield block.text if letterhead else ""
        elif not block.is_body:
            yield block.text if furniture else ""
        elif block.kind == FIGURE:
            yield " ".join(block.inner) if inner else ""
        else:
            yield block.markdown


def is_clean(page: TruePage, said: str) -> bool | None:
    """Whether the page's furniture is out of its text."""
    furniture = [_folded(block.text) for block in page.blocks if not block.is_body]
    if not furniture:
        return None
    lines = [folded for line in said.splitlines() if (folded := _folded(strip_markup(line)))]
    whole = " ".join(lines)
    return not any(_stands_in(one, lines, whole) for one in furniture)


def _stands_in(text: str, lines: Sequence[str], whole: str) -> bool:
    if len(text) < _LONG:
        return text in lines
    if any(fuzz.ratio(text, line) >= _LINE_ALIKE for line in lines):
        return True
    return len(whole) >= len(text) and fuzz.partial_ratio(text, whole) >= _WITHIN_ALIKE


def _folded(text: str) -> str:
    return strip_markup(text).casefold().strip("- ")


def _headings(page: TruePage, said: str) -> HeadingScore:
    """A letterhead may be a heading or not."""
    free = [_folded(block.text) for block in page.blocks if block.kind == LETTERHEAD]
    found = [
        one
        for one in find_headings(said)
        if not any(fuzz.ratio(one.text.casefold(), text) >= MIN_SIMILARITY for text in free)
    ]
    truth = [Heading(strip_markup(one.text), one.level) for one in page.blocks if one.level]
    return match_headings(truth, found)


def _tables(page: TruePage, said: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """TEDS of the ruled tables and of the others."""
    blocks = [block for block in page.blocks if block.kind == TABLE]
    truth = [read_html_tables(block.html)[0] for block in blocks]
    matches = match_tables(truth, read_tables(said))
    pairs = list(zip(blocks, matches, strict=True))
    return (
        tuple(match.teds for block, match in pairs if block.ruled),
        tuple(match.teds for block, match in pairs if not block.ruled),
    )


def _inner_out(page: TruePage, text: str) -> float | None:
    """The share of the words in figures that are not in the text; numbers aside, which may stand
    elsewhere too."""
    words = [one for block in page.blocks for one in block.inner if re.search(r"[^\W\d_]{4}", one)]
    printed = strip_markup(page.markdown).casefold()
    words = [one for one in words if one.casefold() not in printed]
    if not words:
        return None
    return fmean(one.casefold() not in text.casefold() for one in words)
