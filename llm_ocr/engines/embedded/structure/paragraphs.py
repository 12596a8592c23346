"""Lines of a block -> paragraphs of text."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import OcrLine
from llm_ocr.engines.embedded.regions.text_columns import is_apart
from llm_ocr.engines.embedded.words.rows import pitches, rows_of, text_of, text_start
from llm_ocr.text.markdown import escape_markdown

_BULLET = re.compile(r"^([•▪◦●‣○■□]\s*|[\-–*·]\s+|\(?\d{1,3}[.)]\s+|\(?[a-z][.)]\s+)\S")
_NUMBER = re.compile(r"^(?P<number>[0-9]{1,3})(?P<dot>[.)])\s+(?=\S)")
_MARK = re.compile(r"^[•▪◦●‣·○■□–]\s*(?=\S)")
INDENT = "   "
# Items whose indents differ by no more line heights are of one list.
SAME_INDENT = 0.5
# A row is short that ends so far from the right edge, in line heights.
SHORT = 2.5
# So many paragraphs with hanging indents tell of them.
HANGING = 2
_ENDS = re.compile(r"[.:?!。？！][\s\"'”’»)]*$")

# Kana, Chinese characters, their punctuation, full-width forms. Korean has spaces between words.
_WIDE = (("\u3000", "\u9fff"), ("\uff00", "\uffef"))


@dataclass(frozen=True)
class Paragraph:
    """A paragraph or a list's item, and how deep it is indented, in line heights."""

    text: str
    indent: float = 0.0

    @property
    def is_item(self) -> bool:
        return _BULLET.match(self.text) is not None


def paragraphs(lines: Sequence[OcrLine]) -> list[Paragraph]:
    """The paragraphs of a block; words that a line break cut are whole again."""
    rows = rows_of(lines)
    starts = _starts(rows)
    height = statistics.median(line.height for row in rows for line in row)
    left = min(row[0].rect[0] for row in rows)
    found: list[Paragraph] = []
    for row, starts_one in zip(rows, starts, strict=True):
        text = text_of(row)
        if starts_one or not found:
            found.append(Paragraph(text, (row[0].rect[0] - left) / height))
        else:
            found[-1] = replace(found[-1], text=join_lines(found[-1].text, text))
    return found


def join_lines(before: str, after: str) -> str:
    """Two lines of one paragraph as one."""
    if before.endswith("\u00ad"):
        return before[:-1] + after
    if re.search(r"[^\W\d]-$", before) and after[:1].islower():
        return before[:-1] + after
    if re.search(r"\w-$", before) and (after[:1].isupper() or after[:1].isdigit()):
        return before + after
    if _is_wide(before[-1:]) and _is_wide(after[:1]):
        return before + after
    return f"{before} {after}"


def is_list(found: Sequence[Paragraph]) -> bool:
    """Whether every paragraph begins with a bullet, or with a number that counts."""
    return len(found) > 1 and all(_items(found))


def as_markdown(found: Sequence[Paragraph]) -> str:
    """Paragraphs with an empty line between them, lists' items on lines of their own, those of a
    list within a list indented. What else Markdown would read in their text is escaped."""
    pieces: list[str] = []
    steps: list[float] = []
    listed = False
    for one, item in zip(found, _items(found), strict=True):
        if item:
            steps = _outer_steps(steps, one.indent) if listed else [one.indent]
            margin = INDENT * (len(steps) - 1)
        pieces.append("\n" if item and listed else "\n\n" if pieces else "")
        pieces.append(margin + _item(one.text) if item else escape_markdown(one.text))
        listed = item
    return "".join(pieces)


def _item(text: str) -> str:
    """A list's item with its mark as Markdown has it."""
    marked = _MARK.sub("- ", text)
    mark = re.match(r"(?:[-*]|[0-9]{1,3}[.)])\s+", marked)
    end = mark.end() if mark else 0
    return marked[:end] + escape_markdown(marked[end:])


def _items(found: Sequence[Paragraph]) -> list[bool]:
    """Which paragraphs are items of a list.

    Markdown shows items with numbers that it counts itself: what begins with another is none, as
    the dates "27. Mai 2024" and "27. Mai 2024" below each other.
    """
    items: list[bool] = []
    for k, one in enumerate(found):
        number = _NUMBER.match(one.text)
        if not one.is_item or (len(found) == 1 and _MARK.match(one.text) is None):
            items.append(False)
        elif number is None:
            items.append(True)
        else:
            items.append(_counts(found, items, k))
    return items


def _counts(found: Sequence[Paragraph], items: Sequence[bool], k: int) -> bool:
    """Whether a paragraph's number is the one that its list has come to, or begins a list."""
    for j in range(k - 1, -1, -1):
        if not items[j] or found[j].indent < found[k].indent - SAME_INDENT:
            break
        if found[j].indent <= found[k].indent + SAME_INDENT and _NUMBER.match(found[j].text):
            return _follows(found[j], found[k])
    if int((_NUMBER.match(found[k].text) or [0, 0])[1]) == 1:
        return True
    return any(
        _follows(found[k], other)
        for other in found[k + 1 :]
        if abs(other.indent - found[k].indent) <= SAME_INDENT
    )


def _follows(one: Paragraph, other: Paragraph) -> bool:
    before, after = _NUMBER.match(one.text), _NUMBER.match(other.text)
    if before is None or after is None or before["dot"] != after["dot"]:
        return False
    return int(after["number"]) == int(before["number"]) + 1


def _outer_steps(steps: Sequence[float], indent: float) -> list[float]:
    """The indents of the items that an item at `indent` lies in, and its own."""
    outer = [step for step in steps if step < indent - SAME_INDENT]
    return [*outer, indent]


def _starts(rows: list[list[OcrLine]]) -> list[bool]:
    """For each row, whether a paragraph begins there: by its gap, its indent, its bullet."""
    height = statistics.median(line.height for row in rows for line in row)
    left = statistics.median(row[0].rect[0] for row in rows)
    right = max(row[-1].rect[2] for row in rows)
    pitch = statistics.median(pitches(rows)) if len(rows) > 1 else 0.0
    hangs = _has_hanging_indents(rows, height, right)
    starts = [True]
    item = _item_left(rows[0])
    for above, below in pairwise(rows):
        short = right - above[-1].rect[2] > SHORT * height
        ended = _ENDS.search(above[-1].text) is not None
        indent = below[0].rect[0] - left
        indented = 0.6 * height < indent < 5 * height and text_start(above[0]) - left < 0.5 * height
        gap = below[0].rect[1] - above[0].rect[1] > 1.45 * pitch
        outdented = below[0].rect[0] <= above[0].rect[0] + 0.6 * height
        bullet = _begins_item(below) and (short or outdented)
        left_item = below[0].rect[0] < item - 0.5 * height
        outer = rows[0][0].rect[0] + SAME_INDENT * height
        hanging = hangs and below[0].rect[0] < outer and (above[0].rect[0] > outer or short)
        ends = short and ended
        # Each row is a label and its value.
        labeled = all(len(row) > 1 and is_apart(*row[:2]) for row in (above, below)) and (
            abs(above[1].rect[0] - below[1].rect[0]) < SAME_INDENT * height
        )
        starts.append(
            gap
            or (indented and (short or ended))
            or ends
            or bullet
            or left_item
            or hanging
            or labeled
        )
        if starts[-1]:
            item = _item_left(below)
        elif abs(below[0].rect[0] - text_start(above[0])) < 0.5 * height and _begins_item(above):
            # It hangs below the item's text.
            item = below[0].rect[0]
    return starts


def _has_hanging_indents(rows: Sequence[Sequence[OcrLine]], height: float, right: float) -> bool:
    """Whether paragraphs go on further right than they begin, as in bibliographies: several of the
    rows at the outer of two places are followed by one at the inner place, and are full."""
    lefts = [row[0].rect[0] - rows[0][0].rect[0] for row in rows]
    indents = [left for left in lefts if left >= SAME_INDENT * height]
    above = [
        row
        for row, (one, other) in zip(rows[:-1], pairwise(lefts), strict=True)
        if other in indents and one not in indents
    ]
    return (
        len(above) >= HANGING
        and min(lefts) > -SAME_INDENT * height
        and max(indents) - min(indents) < SAME_INDENT * height
        and all(right - row[-1].rect[2] <= SHORT * height for row in above)
    )


def _begins_item(row: Sequence[OcrLine]) -> bool:
    return _BULLET.match(text_of(row)) is not None


def _item_left(row: Sequence[OcrLine]) -> float:
    """Where a list's item begins; what stands further left is not of it."""
    return row[0].rect[0] if _begins_item(row) else float("-inf")


def _is_wide(char: str) -> bool:
    return any(first <= char <= last for first, last in _WIDE)
