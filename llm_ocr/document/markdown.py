"""Blocks as Markdown."""

import re
from collections.abc import Sequence

from llm_ocr.document.figures import caption_text, captions_of, figure_blocks
from llm_ocr.records import CAPTION_LABELS, Block
from llm_ocr.text.markdown import escape_inline, figure_address, strip_emphasis

ALT_LENGTH = 120
# Marks around all of a text and nowhere in it.
_EMPHASIZED = re.compile(r"(?P<marks>[*_]{1,3})(?=\S)(?P<text>[^*_]+)(?<=[^\s\\])(?P=marks)")
_NUMBERED = re.compile(r"(?P<number>[0-9]{1,9})[.)](?=[ \t]|$)")
# Two lists with this between them are not one.
APART = "<!-- -->"


def page_markdown(blocks: Sequence[Block], figure_names: Sequence[str]) -> str:
    """A page's Markdown: every block in reading order, figures as images by their file names."""
    captions = captions_of(blocks)
    names = dict(zip(figure_blocks(blocks), figure_names, strict=bool(figure_names)))
    pieces = []
    for k, block in enumerate(blocks):
        if k in names:
            caption = blocks[captions[k]].text if k in captions else ""
            pieces.append(figure_markdown(names[k], caption))
        if block.text:
            pieces.append(block_markdown(block))
    return join_blocks(pieces)


def join_blocks(pieces: Sequence[str]) -> str:
    """Pieces of Markdown one after another. A list is kept apart from one before it that it does
    not go on from: Markdown would number both as one."""
    whole: list[str] = []
    for piece in filter(None, pieces):
        if whole and _would_renumber(whole[-1], piece):
            whole.append(APART)
        whole.append(piece)
    return "\n\n".join(whole)


def _would_renumber(before: str, after: str) -> bool:
    first = _NUMBERED.match(after)
    if first is None or _NUMBERED.match(before) is None:
        return False
    lines = before.split("\n")
    if any(not line.strip() for line in lines):
        # A paragraph of its own ends the list; an indented one is of its last item.
        start = max(k for k, line in enumerate(lines) if not line.strip()) + 1
        if not (lines[start][:1].isspace() or _NUMBERED.match(lines[start])):
            return False
    numbers = [int(match["number"]) for line in lines if (match := _NUMBERED.match(line))]
    return int(first["number"]) != numbers[-1] + 1


def block_markdown(block: Block) -> str:
    """A block's text as Markdown: captions in italics, everything else as it is."""
    if block.label in CAPTION_LABELS:
        return caption_markdown(block.text)
    return block.text.strip()


def caption_markdown(text: str) -> str:
    """A caption's Markdown in italics."""
    line = caption_text(text)
    whole = _EMPHASIZED.fullmatch(line)
    line = whole["text"] if whole else line
    return f"*{line}*" if line else ""


def figure_markdown(name: str, caption: str) -> str:
    """`![alt](figures/NAME)`, the alternative text being the beginning of the caption, which is
    Markdown."""
    return f"![{alt_text(caption) or 'Figure'}]({figure_address(name)})"


def alt_text(text: str) -> str:
    """At most `ALT_LENGTH` characters of a text in Markdown, on one line, without emphasis, and
    without what would end the brackets."""
    line = strip_emphasis(caption_text(text)).replace("[", "(").replace("]", ")")
    if len(line) > ALT_LENGTH:
        line = line[: ALT_LENGTH - 1].rsplit(" ", 1)[0] + "…"
    return escape_inline(line, formulas=True)
