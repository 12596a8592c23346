"""Blocks as Markdown."""

from collections.abc import Sequence

from llm_ocr.records import CAPTION_LABELS, Block
from llm_ocr.stages.figures import caption_text, captions_of, figure_blocks

ALT_LENGTH = 120


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
    return "\n\n".join(pieces)


def block_markdown(block: Block) -> str:
    """A block's text as Markdown: captions in italics, everything else as the model wrote it."""
    if block.label in CAPTION_LABELS:
        text = caption_text(block.text).strip("*_ ")
        return f"*{text}*" if text else ""
    return block.text.strip()


def figure_markdown(name: str, caption: str) -> str:
    """`![alt](figures/NAME)`, the alternative text being the caption's beginning."""
    return f"![{alt_text(caption) or 'Figure'}](figures/{name})"


def alt_text(text: str) -> str:
    """At most `ALT_LENGTH` characters on one line, without what would end the brackets."""
    line = caption_text(text).replace("[", "(").replace("]", ")").replace("\\", "")
    if len(line) <= ALT_LENGTH:
        return line
    return line[: ALT_LENGTH - 1].rsplit(" ", 1)[0] + "…"
