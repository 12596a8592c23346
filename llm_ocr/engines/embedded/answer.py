"""Serialize what was read in DeepSeek-OCR's answer format."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from llm_ocr.engines.embedded.block import CONTENTS, FURNITURE, PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.regions.contents import entries_of
from llm_ocr.engines.embedded.structure.headings import heading_levels
from llm_ocr.engines.embedded.structure.paragraphs import (
    as_markdown,
    is_list,
    join_lines,
    paragraphs,
)
from llm_ocr.engines.embedded.words.doubt import low_confidence
from llm_ocr.text.markdown import escape_inline, escape_markdown, format_heading

GRID = 999


@dataclass(frozen=True)
class SerializedBlock:
    """A block of an answer: its label, its box, its Markdown."""

    label: str
    rect: Rect
    text: str


def to_grounding_markup(page: OcrPage) -> str:
    """Blocks with labels and boxes on a grid of 0..999."""
    pieces = []
    for one in serialize(page):
        corners = ", ".join(str(value) for value in _on_grid(one.rect, page))
        tag = f"<|ref|>{one.label}<|/ref|><|det|>[[{corners}]]<|/det|>\n"
        pieces.append(f"{tag}{one.text}\n" if one.text else tag)
    return "\n".join(pieces)


def extension(page: OcrPage) -> dict[str, object]:
    """The answer's extension: confidences of blocks and lines and which lines are likely misread,
    the words of each line with their confidences and boxes, boxes of lines that can't be read, the
    image's rotation, and how its text layer was used."""
    frame, lines = page.frame, _in_order(page)
    beside: dict[str, object] = {
        "turned": page.rotation,
        "confidences": [_confidence(block.lines) for block in page.blocks],
        "lines": [
            [line.text, round(line.score, 3), doubt, *_round(frame.back(line.rect))]
            for line, doubt in zip(lines, low_confidence(lines), strict=True)
        ],
        "words": [[_word(word, line, page) for word in line.words] for line in lines],
    }
    if page.unread:
        beside["unread"] = [_round(frame.back(rect)) for rect in page.unread]
    if page.text_layer is not None:
        beside["text_layer"] = {
            "used": page.text_layer.is_used,
            "agreement": page.text_layer.agreement,
            "mended": page.text_layer.mended,
            "added": page.text_layer.added,
        }
    return beside


def _in_order(page: OcrPage) -> list[OcrLine]:
    """The lines as they are read; then those in figures."""
    read = [line for block in page.blocks for line in block.lines if not line.vertical]
    # A line that was joined with another one is a new object; its words are the same.
    known = {id(word) for line in read for word in line.words}
    others = (line for line in page.lines if not any(id(word) in known for word in line.words))
    return [*read, *others]


def _round(rect: Rect) -> list[float]:
    return [round(value, 1) for value in rect]


def _word(word: Word, line: OcrLine, page: OcrPage) -> list[object]:
    score = line.score if word.score is None else word.score
    return [word.text, round(score, 3), *_round(page.frame.back(word.rect))]


def _confidence(lines: Sequence[OcrLine]) -> float | None:
    """Of a block's lines, each by its length."""
    length = sum(len(line.text) for line in lines)
    whole = sum(line.score * len(line.text) for line in lines)
    return round(whole / length, 3) if length else None


def free_ocr(page: OcrPage) -> str:
    """The text alone, in reading order."""
    return "\n\n".join(one.text for one in serialize(page) if one.text)


def serialize(page: OcrPage) -> list[SerializedBlock]:
    """The blocks with their text, headings with as many # as their level."""
    depths = heading_levels(page.blocks)
    return [_serialize_block(block, depths.get(k, 0)) for k, block in enumerate(page.blocks)]


def _serialize_block(block: PageBlock, level: int) -> SerializedBlock:
    if block.label == "image":
        return SerializedBlock("image", block.rect, "")
    if block.html is not None:
        return SerializedBlock("table", block.rect, block.html)
    if block.label == CONTENTS:
        entries = [reduce(join_lines, rows) for rows in entries_of(block)]
        return SerializedBlock("text", block.rect, "\n\n".join(map(escape_markdown, entries)))
    found = paragraphs(block.lines)
    line = " ".join(one.text for one in found)
    if level:
        label = "title" if level == 1 else "sub_title"
        return SerializedBlock(label, block.rect, format_heading(level, line))
    if block.label in ("image_caption", "table_caption"):
        return SerializedBlock(block.label, block.rect, f"<center>{escape_inline(line)} </center>")
    if block.label in FURNITURE:
        return SerializedBlock(block.label, block.rect, escape_markdown(line))
    label = block.label if block.label == "footnote" else "list" if is_list(found) else "text"
    return SerializedBlock(label, block.rect, as_markdown(found))


def _on_grid(rect: Rect, page: OcrPage) -> list[int]:
    """A rectangle of the upright page on the grid over the image, once that is turned upright."""
    frame = page.frame
    sides = (frame.width, frame.height) * 2
    return [
        min(GRID, max(0, round(value / side * GRID)))
        for value, side in zip(frame.back(rect), sides, strict=True)
    ]
