"""Plain Markdown, as most models answer, as blocks without boxes.

Blocks end at blank lines. Headings, tables (Markdown or HTML), as_display_math equations and fenced
code stay whole, and stand alone even where the model left no blank line around them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llm_ocr.records import FIGURE_LABELS, Block, ParsedAnswer
from llm_ocr.text import markdown as md

_FENCED_ANSWER = re.compile(
    r"\A\s*```(?:markdown|md|html)?[ \t]*\n(?P<body>.*?)\n?```\s*\Z", re.DOTALL
)
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"(#{1,6})\s+\S")
_HTML_HEADING = re.compile(r"\s*<h([1-6])\b", re.IGNORECASE)
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+\S")
_ROW = re.compile(r"\s*\|")
_RULE = re.compile(r":?-+:?")
_TABLE_TAG = re.compile(r"<(/?)table\b", re.IGNORECASE)
_DISPLAYS = (("$$", "$$"), (r"\[", r"\]"), (r"\begin{", r"\end{"))
# Lines in which an equation or code closes, so that an answer which opens one on each of its lines
# is not read to its end for each of them.
_LONGEST = 300


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of a Markdown answer in its order, without boxes; takes any text."""
    return ParsedAnswer(tuple(parse_blocks(answer)))


def parse_blocks(markdown: str) -> Iterator[Block]:
    """The blocks of `markdown`; no character but blank lines between them is lost."""
    fenced = _FENCED_ANSWER.match(markdown)
    body = fenced["body"] if fenced and "```" not in fenced["body"] else markdown
    for lines in _chunks(body.split("\n")):
        text = "\n".join(lines).strip("\n")
        if text.strip():
            yield Block(label_of(text), text, None)


def label_of(text: str) -> str:
    """The label of one block of Markdown."""
    line = text.lstrip()
    if heading := _HEADING.match(line):
        return "title" if len(heading[1]) == 1 else "sub_title"
    if heading := _HTML_HEADING.match(line):
        return "title" if heading[1] == "1" else "sub_title"
    if line[:6].lower() == "<table" or _is_markdown_table(line.splitlines()):
        return "table"
    if any(line.startswith(opening) for opening, _ in _DISPLAYS):
        return "equation"
    return "list" if _LIST_ITEM.match(line) else "text"


def as_display_math(latex: str) -> str:
    """An equation that may come as bare LaTeX, between `$$`."""
    bare = latex.strip()
    if not bare or bare.startswith(("$", "\\[", "\\(", "\\begin")):
        return latex
    return md.format_display_math(bare)


def append_block(blocks: list[Block], block: Block, *, continues: bool) -> None:
    """Append a block, or join its text to that of the block before it, which it continues; then its
    box is a block without text."""
    first = len(blocks) - 1
    # The text of a block in several boxes is in the first one.
    while first > 0 and blocks[first].label == block.label and not blocks[first].text:
        first -= 1
    is_same = first >= 0 and blocks[first].label == block.label and bool(blocks[first].text)
    if not (continues and is_same and block.text):
        blocks.append(block)
        return
    gap = "\n" if block.label == "list" else " "
    blocks[first] = replace(blocks[first], text=f"{blocks[first].text}{gap}{block.text}")
    if block.box is not None:
        blocks.append(replace(block, text=""))


def with_table_captions(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks of a model that has one label for captions: one next to a table and no figure is
    the table's."""
    for k, block in enumerate(blocks):
        neighbors = {other.label for other in blocks[max(0, k - 1) : k + 2]}
        is_of_table = "table" in neighbors and not neighbors & FIGURE_LABELS
        if block.label == "image_caption" and is_of_table:
            block = replace(block, label="table_caption")
        yield block


def _is_markdown_table(lines: list[str]) -> bool:
    if len(lines) < 2 or "|" not in lines[0] or "-" not in lines[1]:
        return False
    cells = lines[1].strip().strip("|").split("|")
    return all(_RULE.fullmatch(cell.strip()) for cell in cells)


def _chunks(lines: list[str]) -> Iterator[list[str]]:
    """The lines of one block after the other."""
    start = k = 0
    while k < len(lines):
        end = _end_of_whole(lines, k, alone=k == start)
        if end > k:
            yield lines[start:k]
            yield lines[k:end]
            start = k = end
        elif not lines[k].strip():
            yield lines[start:k]
            start = k = k + 1
        else:
            k += 1
    yield lines[start:]


def _end_of_whole(lines: list[str], k: int, *, alone: bool) -> int:
    """The line behind the heading, table, equation or code that begins at line `k`; else `k`.

    What never closes ends at the next blank line, an HTML table at the answer's end.
    """
    line = lines[k].strip()
    if _HEADING.match(line):
        return k + 1
    if _is_markdown_table(lines[k : k + 2]) and (alone or _ROW.match(line)):
        return next((n for n in range(k, len(lines)) if "|" not in lines[n]), len(lines))
    if line[:6].lower() == "<table":
        return _end_of_html_table(lines, k)
    if fence := _FENCE.match(line):
        return _closing(lines, k, fence[1])
    for opening, closing in _DISPLAYS:
        if line.startswith(opening):
            closed = closing in line[len(opening) :]
            return k + 1 if closed else _closing(lines, k, closing)
    return k


def _end_of_html_table(lines: list[str], k: int) -> int:
    depth = 0
    for n in range(k, len(lines)):
        for tag in _TABLE_TAG.finditer(lines[n]):
            depth += -1 if tag[1] else 1
        if depth <= 0:
            return n + 1
    return len(lines)


def _closing(lines: list[str], k: int, closing: str) -> int:
    """The line behind the first one below `k` that has `closing`; `k` where none has."""
    below = range(k + 1, min(len(lines), k + _LONGEST))
    return next((n + 1 for n in below if closing in lines[n]), k)
