"""What a page's layout gives away without ground truth: sentences torn apart, words that stand
twice, words outside of every block, tables whose rows have unlike widths."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llm_ocr.evaluation.grids import PageTable, tables_of
from llm_ocr.evaluation.text import plain

# Letters and digits on either side of a line break that must stand side by side in the answer.
# With half as many, numbers of a table match by chance; with twice as many, most lines are too
# short to be compared.
JOINT = 12
# Words in a row that count as standing twice. Shorter runs recur in ordinary prose.
RUN_OF_WORDS = 5
# The same where there is nothing to compare with but the page itself: what prose never repeats.
LONG_RUN_OF_WORDS = 12

_SENTENCE_END = re.compile(r"""[.!?:;。！？：；…][\s"'”’»)\]]*$""")
_ADDRESS = re.compile(r"www\.|https?:", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_TABLE = re.compile(r"<table\b.*?(?:</table\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class BrokenSentences:
    """`broken` of `compared` line breaks of the text layer, within a sentence, whose two sides
    both stand in the answer, but not side by side."""

    broken: int
    compared: int


def broken_sentences(
    markdown: str, layer: str, headers_footers: Collection[str] = ()
) -> BrokenSentences:
    """How the reading order holds against a PDF's own text, which has lines in its own order,
    those of running headers and footers left out.

    Only a line that ends within a sentence is compared with the one after it: whole paragraphs may
    stand in another order in the PDF (captions, footnotes), the halves of a sentence may not.
    """
    said = _letters(plain(markdown))
    running = [letters for text in headers_footers if (letters := _letters(plain(text)))]
    lines = [line.strip() for line in layer.splitlines() if line.strip()]
    compared = broken = 0
    for line, following in pairwise(lines):
        if _SENTENCE_END.search(line) or not _continues(following):
            continue
        if any(text in _letters(line) or text in _letters(following) for text in running):
            continue
        before, after = _letters(line)[-JOINT:], _letters(following)[:JOINT]
        if min(len(before), len(after)) < JOINT or before not in said or after not in said:
            continue
        compared += 1
        broken += before + after not in said
    return BrokenSentences(broken, compared)


def repeated_words(markdown: str, page_text: str | None) -> int:
    """How many runs of words stand more often in the answer than on the page, `page_text` being all
    of its lines; where that isn't known, how many long runs outside of tables stand again."""
    if page_text is not None:
        held = _runs(page_text, RUN_OF_WORDS)
        said = _runs(plain(markdown), RUN_OF_WORDS)
        return sum(max(0, count - held[run]) for run, count in said.items() if run in held)
    prose = plain(_TABLE.sub("\n\n", markdown))
    return sum(count - 1 for count in _runs(prose, LONG_RUN_OF_WORDS).values())


def outside_blocks(
    lines: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> float | None:
    """The share (0..1) of the words on a page's lines whose center lies in no block; rows as in the
    columns `lines` and `blocks`. None where either has no boxes."""
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


def uneven_tables(markdown: str) -> int:
    """How many tables have rows that don't all reach as far to the right."""
    return sum(len(set(_row_widths(table))) > 1 for table in tables_of(markdown))


def _continues(line: str) -> bool:
    """Whether a line may continue a sentence: it begins with a letter that is no capital, and is
    no address, as footers are."""
    return line[0].isalpha() and not line[0].isupper() and not _ADDRESS.match(line)


def _letters(text: str) -> str:
    whole = unicodedata.normalize("NFKC", text).casefold()
    return "".join(_WORD.findall(whole)).replace("_", "")


def _runs(text: str, length: int) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return Counter(tuple(words[k : k + length]) for k in range(len(words) - length + 1))


def _is_inside(line: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    x, y = (line["x1"] + line["x2"]) / 2, (line["y1"] + line["y2"]) / 2
    return bool(block["x1"] <= x <= block["x2"] and block["y1"] <= y <= block["y2"])


def _row_widths(table: PageTable) -> Iterable[int]:
    for row in range(table.row_count):
        covered = [column for column in range(table.column_count) if table.at(row, column)]
        yield max(covered, default=-1) + 1
