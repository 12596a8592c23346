"""What was read, as DeepSeek-OCR would say it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.blocks import PageBlock
from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.paragraphs import is_list, paragraphs
from llm_ocr.engines.embedded.reading import Reading
from llm_ocr.engines.embedded.recognise import Image
from llm_ocr.engines.embedded.tables import table_html

GRID = 999
DEEPEST = 3
SIZE_STEP = 6.0
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,3}\.?)\s+[^\W\d_]")
FURNITURE = frozenset({"header", "footer", "page_number"})


@dataclass(frozen=True)
class Said:
    """A block as it is said: label, where, Markdown."""

    label: str
    rect: Rect
    text: str


def grounded(reading: Reading) -> str:
    """Blocks with labels and boxes on a grid of 0..999."""
    pieces = []
    for one in said(reading):
        corners = ", ".join(str(value) for value in _on_grid(one.rect, reading))
        tag = f"<|ref|>{one.label}<|/ref|><|det|>[[{corners}]]<|/det|>\n"
        pieces.append(f"{tag}{one.text}\n" if one.text else tag)
    return "\n".join(pieces)


def free_ocr(reading: Reading) -> str:
    """The text alone, in reading order."""
    return "\n\n".join(one.text for one in said(reading) if one.text)


def said(reading: Reading) -> list[Said]:
    """The blocks with their text, headings with as many # as their size gives them."""
    levels = _levels(reading.blocks)
    return [_said(block, levels, reading.image) for block in reading.blocks]


def _said(block: PageBlock, levels: Sequence[int], image: Image | None) -> Said:
    if block.label == "image":
        return Said("image", block.rect, "")
    if block.label == "table" and (table := table_html(block.lines, image)):
        return Said("table", block.rect, table)
    texts = paragraphs(block.lines)
    line = " ".join(texts)
    if block.label == "title":
        level = min(DEEPEST, _numbered_level(line) or levels.index(_size(block)) + 1)
        return Said("title" if level == 1 else "sub_title", block.rect, f"{'#' * level} {line}")
    if block.label in ("image_caption", "table_caption"):
        return Said(block.label, block.rect, f"<center>{line} </center>")
    if block.label in FURNITURE:
        return Said(block.label, block.rect, line)
    bulleted = [_bulleted(text) for text in texts]
    if is_list(texts):
        return Said("list", block.rect, "\n".join(bulleted))
    return Said("text", block.rect, "\n\n".join(bulleted))


def _bulleted(text: str) -> str:
    return re.sub(r"^[•▪◦●]\s*", "- ", text)


def _numbered_level(title: str) -> int | None:
    """The level that a heading's number gives it: 2 for `3 Results`, 3 for `3.1 Rivers`."""
    number = _NUMBERED.match(title)
    return None if number is None else 2 + number[1].rstrip(".").count(".")


def _size(block: PageBlock) -> int:
    """A heading's size, coarse enough that two of one level are equal."""
    return round(block.height / SIZE_STEP)


def _levels(blocks: Sequence[PageBlock]) -> list[int]:
    """The sizes of the page's headings, largest first."""
    return sorted({_size(block) for block in blocks if block.label == "title"}, reverse=True)


def _on_grid(rect: Rect, reading: Reading) -> list[int]:
    sides = (reading.width, reading.height) * 2
    return [
        min(GRID, max(0, round(value / side * GRID)))
        for value, side in zip(rect, sides, strict=True)
    ]
