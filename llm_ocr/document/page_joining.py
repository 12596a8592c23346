"""Join pages: paragraphs and tables that a page break split become whole again."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from llm_ocr.document.markdown import join_blocks
from llm_ocr.records import Box
from llm_ocr.text.table_markup import count_html_columns, split_html_rows


class BlockKind(Enum):
    """What a piece of a page is, as far as joining matters."""

    ANCHOR = "anchor"
    TEXT = "text"
    TABLE = "table"
    FLOAT = "float"  # a figure, a caption, a footnote: text may go on around it
    OTHER = "other"  # a heading, a list, an equation: text does not go on across it


@dataclass(frozen=True)
class MarkdownBlock:
    """A piece of a page. `is_full` is whether its text reaches the right edge of its column, as
    that of a paragraph does which goes on elsewhere."""

    kind: BlockKind
    markdown: str
    box: Box | None = None
    is_full: bool = False


# A text reaches its column's right edge if no more than this share of the column's width is left.
# Justified lines leave nothing, ragged ones a word; with twice as much, short items of lists would
# reach it. Reasoned, not measured.
SHORT_OF = 0.12
# Columns begin as far left as each other within this share of the page's width.
SAME_LEFT = 0.03
# The next column begins so much of the page's height above the end of the one before it; what
# stands in one row, as a label and its value, begins with it.
HIGHER = 0.08
# A text of so many characters (wide ones count twice) has more than one line, in any column; one of
# fewer than that is an item of a list, a label or a value.
LONG, SHORTEST = 80, 30


_ENDS_SENTENCE = frozenset('.!?:;…"”’»)]。！？：；')


def join_pages(pages: Iterable[Sequence[MarkdownBlock]]) -> str:
    """One Markdown text of pages, each a sequence of pieces that begins with its anchor."""
    whole: list[MarkdownBlock] = []
    for page in pages:
        pieces = _within(page)
        if not (_join_text(whole, pieces) or _join_table(whole, pieces)):
            whole.extend(pieces)
    return join_blocks([piece.markdown for piece in whole]) + "\n"


def _within(page: Sequence[MarkdownBlock]) -> list[MarkdownBlock]:
    """A page's pieces, paragraphs that go on in the next column or behind a figure being whole."""
    pieces: list[MarkdownBlock] = []
    for piece in (_with_fullness(piece, page) for piece in page):
        last = _past_floats(pieces, range(len(pieces) - 1, -1, -1))
        if last is not None and piece.kind is BlockKind.TEXT and pieces[last].is_full:
            is_over = last < len(pieces) - 1
            joint = None
            if is_over or _is_in_next_column(pieces[last], piece, page):
                joint = join_paragraphs(pieces[last], piece, "")
            if joint is not None:
                pieces[last] = replace(piece, markdown=joint)
                continue
        pieces.append(piece)
    return pieces


def _with_fullness(piece: MarkdownBlock, page: Sequence[MarkdownBlock]) -> MarkdownBlock:
    if piece.kind is not BlockKind.TEXT:
        return piece
    length = sum(2 if _is_ideographic(char) else 1 for char in piece.markdown)
    right = _right_edge(piece, page)
    if piece.box is None or right is None:
        return replace(piece, is_full=length >= LONG)
    left = right - piece.box.x2 <= SHORT_OF * (right - piece.box.x1)
    return replace(piece, is_full=left and length >= SHORTEST)


def _right_edge(piece: MarkdownBlock, page: Sequence[MarkdownBlock]) -> float | None:
    """How far the other texts of a text's column reach to the right; None where there are none."""
    if piece.box is None:
        return None
    box, near = piece.box, SAME_LEFT * _extent(page)[0]
    others = [
        one.box
        for one in page
        if one is not piece and one.kind is BlockKind.TEXT and one.box is not None
    ]
    # What reaches over the next column, too, is not of this one.
    end = min((one.x1 for one in others if one.x1 >= box.x2), default=math.inf)
    rights = [one.x2 for one in others if abs(one.x1 - box.x1) < near and one.x2 <= end]
    return max(rights, default=None)


def _is_in_next_column(
    last: MarkdownBlock, piece: MarkdownBlock, page: Sequence[MarkdownBlock]
) -> bool:
    if last.box is None or piece.box is None:
        return False
    up = last.box.y2 - piece.box.y1
    return piece.box.x1 >= (last.box.x1 + last.box.x2) / 2 and up > HIGHER * _extent(page)[1]


def _extent(page: Sequence[MarkdownBlock]) -> tuple[float, float]:
    """How far to the right and down a page's pieces reach."""
    boxes = [piece.box for piece in page if piece.box]
    return max((box.x2 for box in boxes), default=0), max((box.y2 for box in boxes), default=0)


def _join_text(whole: list[MarkdownBlock], page: list[MarkdownBlock]) -> bool:
    """Append `page` to `whole`, joining its first paragraph if it continues the last one."""
    last = _past_floats(whole, range(len(whole) - 1, -1, -1))
    first = _past_floats(page, range(1, len(page)))
    if last is None or first is None:
        return False
    joint = join_paragraphs(whole[last], page[first], page[0].markdown)
    if joint is None:
        return False
    whole[last] = replace(page[first], markdown=joint)
    whole.extend(page[1:first] + page[first + 1 :])
    return True


def _past_floats(pieces: Sequence[MarkdownBlock], places: Iterable[int]) -> int | None:
    """The first of `places` that is no float or table, if it is a paragraph."""
    for k in places:
        if pieces[k].kind is BlockKind.TEXT:
            return k
        if pieces[k].kind not in (BlockKind.FLOAT, BlockKind.TABLE):
            return None
    return None


def join_paragraphs(one: MarkdownBlock, other: MarkdownBlock, anchor: str) -> str | None:
    """Two texts as one paragraph with the page's anchor inside, or None."""
    before, after = one.markdown, other.markdown
    if not before or not after:
        return None
    end, start = before[-1], after[0]
    if end in "-\u00ad" and before[-2:-1].isalpha() and start.islower():
        return f"{before[:-1]}{anchor}{after}"
    if end in _ENDS_SENTENCE:
        return None
    if _is_ideographic(end) and _is_ideographic(start):
        # Nothing in the letters tells that a sentence goes on: lines of a form end so, too.
        return f"{before}{anchor}{after}" if one.is_full else None
    if end in "，、":
        return f"{before}{anchor}{after}"
    if start.islower() or end == ",":
        return f"{before} {anchor}{after}"
    return None


def _is_ideographic(char: str) -> bool:
    return unicodedata.category(char) == "Lo" and unicodedata.east_asian_width(char) == "W"


def _join_table(whole: list[MarkdownBlock], page: list[MarkdownBlock]) -> bool:
    """Append `page` to `whole` if it begins with the rest of the table at the end."""
    if len(page) < 2 or not whole or {whole[-1].kind, page[1].kind} != {BlockKind.TABLE}:
        return False
    rows, more = split_html_rows(whole[-1].markdown), split_html_rows(page[1].markdown)
    if not rows or not more or count_html_columns(rows) != count_html_columns(more):
        return False
    more = more[_repeated_header(rows, more) :]
    whole[-1] = MarkdownBlock(BlockKind.TABLE, f"<table>{''.join(rows + more)}</table>")
    whole.extend([page[0], *page[2:]])
    return True


def _repeated_header(rows: Sequence[str], more: Sequence[str]) -> int:
    """How many rows at the top of `more` repeat the header: the first, or all of `<th>`."""
    count = 0
    for above, row in zip(rows, more, strict=False):
        if _header(above) != _header(row) or (count and "<th" not in row.lower()):
            break
        count += 1
    return count


def _header(row: str) -> str:
    """A row's content without the difference between `<th>` and `<td>`, or white space."""
    return re.sub(r"<(/?)t[hd]", r"<\1td", re.sub(r"\s+", "", row), flags=re.IGNORECASE)
