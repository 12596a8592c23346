"""The words of a page with their boxes, for reviewers who point at a value instead of typing it.

A word's box is a part of the box of its line, by the number of characters: engines report boxes of
lines, or only of blocks. Of a table, the cells are the smallest part that can be located.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_ocr.parsing.schema import PageBlocks
from llm_ocr.parsing.text_spans import TextSpan, split_spans
from llm_ocr.records import Block, Box

_WORD = re.compile(r"\S+")
# Boxes that differ by less, in pixels, are the same: results store them as floats.
TOLERANCE = 1.0


@dataclass(frozen=True)
class PageWord:
    """A word, or the text of a table's cell, with its box in pixels of the page's image."""

    text: str
    box: Box


def split_words(page: Mapping[str, Any]) -> list[PageWord]:
    """The words of a page of `document.json`, in reading order: those of its lines if the engine
    reported any, else those of its blocks."""
    if page.get("lines"):
        spans = [TextSpan(line["text"], 0, Box(*line["box"])) for line in page["lines"]]
    else:
        blocks = [
            Block(block["label"], block["text"], Box(*block["box"]))
            for block in page.get("blocks", [])
            if block["box"] is not None
        ]
        spans = split_spans([PageBlocks("", page["number"], blocks)])
    return [word for span in spans for word in _words_of(span)]


def find_words(
    words: Sequence[PageWord], text: str, near: Sequence[float]
) -> Sequence[float] | None:
    """The box of a text on a page, if it occurs exactly once in or close to an estimated box: its
    center is at most the height of that box away. Equal values of neighboring rows stay estimates.
    """
    wanted = text.split()
    reach = near[3] - near[1]
    found = []
    for start in range(len(words) - len(wanted) + 1 if wanted else 0):
        part = words[start : start + len(wanted)]
        if [word.text for word in part] != wanted:
            continue
        left, top = min(word.box.x1 for word in part), min(word.box.y1 for word in part)
        right, bottom = max(word.box.x2 for word in part), max(word.box.y2 for word in part)
        x, y = (left + right) / 2, (top + bottom) / 2
        is_beside = near[0] - reach <= x <= near[2] + reach
        if is_beside and near[1] - reach <= y <= near[3] + reach:
            found.append([left, top, right, bottom])
    return found[0] if len(found) == 1 else None


def is_measured(box: Sequence[float], page: Mapping[str, Any]) -> bool:
    """Whether a box is that of a line or a block of a page, as the engine reported it. Other boxes
    are estimates."""
    parts = [*(page.get("lines") or ()), *page.get("blocks", ())]
    reported = (part["box"] for part in parts if part["box"] is not None)
    return any(
        all(abs(a - b) < TOLERANCE for a, b in zip(box, other, strict=True)) for other in reported
    )


def _words_of(span: TextSpan) -> Iterator[PageWord]:
    if span.box is None:
        return
    if span.row is not None:
        yield PageWord(" ".join(span.text.split()), span.box)
        return
    for line in _lines_of(span):
        for word in _WORD.finditer(line.text):
            box = line.box_of(word.start(), word.end())
            if box is not None:
                yield PageWord(word.group(), box)


def _lines_of(span: TextSpan) -> Iterator[TextSpan]:
    """The lines of a paragraph, which are taken to be equally long and equally high."""
    if span.lines == 1 or span.box is None:
        yield span
        return
    words: list[list[str]] = [[] for _ in range(span.lines)]
    for word in _WORD.finditer(span.text):
        middle = (word.start() + word.end()) / 2
        words[int(middle / len(span.text) * span.lines)].append(word.group())
    height = (span.box.y2 - span.box.y1) / span.lines
    for number, line in enumerate(words):
        top = span.box.y1 + number * height
        if line:
            box = Box(span.box.x1, top, span.box.x2, top + height)
            yield replace(span, text=" ".join(line), box=box, lines=1)
