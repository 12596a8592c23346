"""Check a page's layout without ground truth: broken sentences, repeated words, words outside of
blocks, and tables with uneven rows."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llm_ocr.evaluation.text_similarity import strip_markup
from llm_ocr.text.normalize import fold_case
from llm_ocr.text.table_markup import TableGrid, read_tables, remove_html_tables

# Letters and digits on either side of a line break that must be adjacent in the Markdown. With half
# as many, numbers of a table match by coincidence; with twice as many, most lines are too short.
JOINT_LENGTH = 12
# The length of a run of words that counts as repeated. Shorter runs recur in ordinary prose.
RUN_LENGTH = 5
# The same without a text to compare with: longer than any run that prose repeats.
LONG_RUN_LENGTH = 12

_SENTENCE_END = re.compile(r"""[.!?:;。！？：；…][\s"'”’»)\]]*$""")
_URL = re.compile(r"www\.|https?:", re.IGNORECASE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class BrokenSentences:
    """`broken` of `compared` line breaks within sentences of the text layer: both sides occur in
    the Markdown, but not next to each other."""

    broken: int
    compared: int


def count_broken_sentences(
    markdown: str, layer: str, headers_footers: Collection[str] = ()
) -> BrokenSentences:
    """Compare the reading order with the text layer of a PDF, without running headers and footers.

    Only lines that end within a sentence are compared with the next line: whole paragraphs may be
    in a different order in the PDF (captions, footnotes), the parts of a sentence may not.
    """
    predicted = _alphanumeric(strip_markup(markdown))
    running = [
        letters for text in headers_footers if (letters := _alphanumeric(strip_markup(text)))
    ]
    lines = [line.strip() for line in layer.splitlines() if line.strip()]
    compared = broken = 0
    for line, following in pairwise(lines):
        if _SENTENCE_END.search(line) or not _continues(following):
            continue
        if any(text in _alphanumeric(line) or text in _alphanumeric(following) for text in running):
            continue
        before, after = _alphanumeric(line)[-JOINT_LENGTH:], _alphanumeric(following)[:JOINT_LENGTH]
        if (
            min(len(before), len(after)) < JOINT_LENGTH
            or before not in predicted
            or after not in predicted
        ):
            continue
        compared += 1
        broken += before + after not in predicted
    return BrokenSentences(broken, compared)


def count_repeated_words(markdown: str, page_text: str | None) -> int:
    """How many runs of words occur more often in the Markdown than in `page_text`, all lines of the
    page; if that is None, how many long runs outside of tables occur again."""
    if page_text is not None:
        expected = _count_runs(page_text, RUN_LENGTH)
        predicted = _count_runs(strip_markup(markdown), RUN_LENGTH)
        return sum(
            max(0, count - expected[run]) for run, count in predicted.items() if run in expected
        )
    prose = strip_markup(remove_html_tables(markdown))
    return sum(count - 1 for count in _count_runs(prose, LONG_RUN_LENGTH).values())


def share_outside_blocks(
    lines: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> float | None:
    """The share (0..1) of words in `lines` whose center is in none of the `blocks`, both as in the
    table of pages. None if either has no boxes."""
    boxes = [block for block in blocks if block["x1"] is not None]
    words = sum(len(_WORD.findall(line["text"])) for line in lines)
    if not words or not boxes:
        return None
    outside = sum(
        len(_WORD.findall(line["text"]))
        for line in lines
        if not any(_is_inside(line, block) for block in boxes)
    )
    return outside / words


def count_uneven_tables(markdown: str) -> int:
    """How many tables have rows of different widths."""
    return sum(len(set(_row_widths(table))) > 1 for table in read_tables(markdown))


def _continues(line: str) -> bool:
    """Whether a line may continue a sentence: it begins with a letter that is not a capital, and is
    not a URL, as in footers."""
    return line[0].isalpha() and not line[0].isupper() and not _URL.match(line)


def _alphanumeric(text: str) -> str:
    return "".join(_WORD.findall(fold_case(text))).replace("_", "")


def _count_runs(text: str, length: int) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return Counter(tuple(words[k : k + length]) for k in range(len(words) - length + 1))


def _is_inside(line: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    x, y = (line["x1"] + line["x2"]) / 2, (line["y1"] + line["y2"]) / 2
    return bool(block["x1"] <= x <= block["x2"] and block["y1"] <= y <= block["y2"])


def _row_widths(table: TableGrid) -> Iterable[int]:
    for row in range(table.row_count):
        covered = [column for column in range(table.column_count) if table.at(row, column)]
        yield max(covered, default=-1) + 1
