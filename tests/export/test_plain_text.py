"""Markdown as plain text."""

from llm_ocr.export.plain_text import block_lines, block_text, markdown_text
from llm_ocr.records import Block

MARKDOWN = r"""<a id="page-1"></a>

# The **report** \*x\*

- one
- two *b*
  1. deep
  2. deeper

27\. Mai <a id="page-2"></a>is $x_1$ fine.

<table><tr><th>Item</th><th>Price</th></tr><tr><td colspan="2">none</td></tr></table>

![Figure 1](figures/x.jpg)

> quoted

| a | b |
|---|---|
|   | 2 |
"""


def test_markup_is_removed_and_structure_stays() -> None:
    assert markdown_text(MARKDOWN).split("\n\n") == [
        "The report *x*",
        "- one\n- two b\n  1. deep\n  2. deeper",
        "27. Mai is $x_1$ fine.",
        "Item\tPrice\nnone",
        "quoted",
        "a\tb\n\t2",
    ]


def test_text_of_a_block() -> None:
    caption = Block("image_caption", "<center>*Figure* 1 </center>", None)
    assert block_text(caption) == "Figure 1"
    assert block_lines(Block("text", "a  b\n\nc", None)) == ["a b", "c"]
