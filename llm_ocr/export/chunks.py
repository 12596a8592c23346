"""Chunks of a document for retrieval: pieces of at most so many tokens, with headings and places.

A chunk ends where a section ends, and else between blocks. A longer paragraph is cut between
sentences, a longer sentence between words. A table is cut between rows, and its header is repeated;
a row is never cut.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llm_ocr.document.assemble import Furniture
from llm_ocr.document.heading_levels import document_heading_levels
from llm_ocr.document.page_joining import BlockKind, MarkdownBlock, join_paragraphs
from llm_ocr.export.plain_text import block_text
from llm_ocr.records import FIGURE_LABELS, Block, Box, PageResult
from llm_ocr.text.table_markup import TableGrid, read_tables

Count = Callable[[str], int]
HEADING_LABELS = frozenset({"title", "sub_title"})
_HASHES = re.compile(r"(#{1,6}) ")
_SENTENCE = re.compile(r"(?<=[.!?…。！？])(?:\s+|(?<=[。！？]))")


@dataclass(frozen=True)
class Place:
    """Where some of a chunk is: a box on a page, in pixels of its image of this size; without a
    box it is the page."""

    page: int
    box: Box | None
    width: int | None
    height: int | None


@dataclass(frozen=True)
class DocumentChunk:
    """A piece of a document. `headings` are those above it, from the title down; its own text has
    none of them. `tokens` counts its text."""

    text: str
    headings: tuple[str, ...]
    places: tuple[Place, ...]
    tokens: int

    @property
    def pages(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(place.page for place in self.places))


@dataclass(frozen=True)
class _Piece:
    """A paragraph, or some rows of a table under `header`, which is repeated in each chunk."""

    text: str
    places: tuple[Place, ...]
    header: str = ""

    @property
    def is_paragraph(self) -> bool:
        return not self.header


@dataclass
class _Section:
    """The headings down to here, and the pieces that are not in a chunk yet."""

    count: Count
    limit: int
    headings: dict[int, str] = field(default_factory=dict)
    heading_place: tuple[Place, ...] = ()
    pieces: list[_Piece] = field(default_factory=list)
    is_empty: bool = False

    def begin(self, level: int, title: str, place: Place) -> Iterator[DocumentChunk]:
        """A heading begins."""
        yield from self.flush()
        if self.is_empty and level <= max(self.headings, default=0):
            yield from self._alone()
        kept = {one: text for one, text in self.headings.items() if one < level}
        self.headings = {**kept, level: title}
        self.heading_place, self.is_empty = (place,), True

    def add(self, piece: _Piece) -> Iterator[DocumentChunk]:
        self.is_empty = False
        if self.pieces and self.count(_join_pieces([*self.pieces, piece])) > self.limit:
            yield from self.flush()
        self.pieces.append(piece)

    def flush(self) -> Iterator[DocumentChunk]:
        """The pieces so far as a chunk."""
        if self.pieces:
            text = _join_pieces(self.pieces)
            places = tuple(dict.fromkeys(one for piece in self.pieces for one in piece.places))
            headings = tuple(self.headings[level] for level in sorted(self.headings))
            yield DocumentChunk(text, headings, places, self.count(text))
            self.pieces = []

    def end(self) -> Iterator[DocumentChunk]:
        yield from self.flush()
        if self.is_empty:
            yield from self._alone()

    def _alone(self) -> Iterator[DocumentChunk]:
        """A heading with nothing below it as a chunk, so that it isn't lost."""
        *above, last = (self.headings[level] for level in sorted(self.headings))
        yield DocumentChunk(last, tuple(above), self.heading_place, self.count(last))


def chunks(pages: Sequence[PageResult], limit: int, count: Count) -> Iterator[DocumentChunk]:
    """The chunks of a document's pages, in reading order, of at most `limit` tokens by `count`,
    except for rows of tables that are longer. Headers, footers and page numbers are left out."""
    section = _Section(count, limit)
    furniture = Furniture({page.page_number: page.blocks for page in pages})
    levels = document_heading_levels(pages)
    waiting: _Piece | None = None
    for page, k, block in _blocks(pages, furniture):
        place = Place(page.page_number, block.box, page.width, page.height)
        level = _level(block, levels.get((page.page_number, k)))
        following = None
        if level is None and block.label != "table":
            following = _Piece(block_text(block), (place,))
            joined = None if waiting is None else _join_paragraphs(waiting, following)
            if joined is not None:
                waiting = joined
                continue
        if waiting is not None:
            yield from _add_all(section, _cut(waiting, limit, count))
        waiting = following
        if level is not None:
            yield from section.begin(level, " ".join(block_text(block).split()), place)
        elif block.label == "table":
            yield from _add_all(section, _table(block, place, limit, count))
    if waiting is not None:
        yield from _add_all(section, _cut(waiting, limit, count))
    yield from section.end()


def chunk_json(chunk: DocumentChunk, number: int, name: str, source: str) -> Mapping[str, Any]:
    """A chunk for JSON; `number` counts from 1."""
    return {
        "id": f"{name}#{number}",
        "document": name,
        "source": source,
        "text": chunk.text,
        "headings": list(chunk.headings),
        "pages": list(chunk.pages),
        "boxes": [
            {
                "page": place.page,
                "box": [round(value, 1) for value in vars(place.box).values()],
                "width": place.width,
                "height": place.height,
            }
            for place in chunk.places
            if place.box is not None
        ],
        "tokens": chunk.tokens,
    }


def _blocks(
    pages: Sequence[PageResult], furniture: Furniture
) -> Iterator[tuple[PageResult, int, Block]]:
    """The blocks that have text, with their places among those of their pages."""
    for page in pages:
        for k, block in enumerate(page.blocks):
            is_text = block.text.strip() and block.label not in FIGURE_LABELS
            if is_text and not furniture.holds(block, page.page_number):
                yield page, k, block


def _level(block: Block, known: int | None) -> int | None:
    """The level of a heading; None for other blocks."""
    hashes = _HASHES.match(block.text)
    if known is not None or hashes is not None:
        return known or len(hashes[1] if hashes else "")
    return (1 if block.label == "title" else 2) if block.label in HEADING_LABELS else None


def _join_paragraphs(one: _Piece, other: _Piece) -> _Piece | None:
    """Two paragraphs as one, if the second continues the first on the next page."""
    if one.places[-1].page == other.places[0].page:
        return None
    before, after = (MarkdownBlock(BlockKind.TEXT, piece.text) for piece in (one, other))
    joined = join_paragraphs(before, after, "")
    return None if joined is None else _Piece(joined, (*one.places, *other.places))


def _add_all(section: _Section, pieces: Iterable[_Piece]) -> Iterator[DocumentChunk]:
    for piece in pieces:
        yield from section.add(piece)


def _cut(piece: _Piece, limit: int, count: Count) -> Iterator[_Piece]:
    """A paragraph as it is, or in parts of whole sentences, or else of whole words."""
    if count(piece.text) <= limit:
        yield piece
        return
    for part in _pack_parts(_SENTENCE.split(piece.text), limit, count):
        words = [part] if count(part) <= limit else _pack_parts(_words(part), limit, count)
        for text in words:
            yield replace(piece, text=text)


def _words(text: str) -> list[str]:
    """The words of a text; of one without spaces, pieces of a few characters."""
    return [word[k : k + 32] for word in text.split() for k in range(0, len(word), 32)]


def _pack_parts(parts: Iterable[str], limit: int, count: Count) -> Iterator[str]:
    """Consecutive parts joined by spaces, as many as fit."""
    current = ""
    for part in parts:
        longer = f"{current} {part}" if current else part
        if current and count(longer) > limit:
            yield current
            current = part
        else:
            current = longer
    if current:
        yield current


def _table(block: Block, place: Place, limit: int, count: Count) -> Iterator[_Piece]:
    """A table row by row; what is no table as a paragraph."""
    tables = read_tables(block.text)
    if not tables:
        yield from _cut(_Piece(block_text(block), (place,)), limit, count)
    for grid in tables:
        rows = [_row(grid, row) for row in range(grid.row_count)]
        rule = f"|{' --- |' * grid.column_count}"
        count_above = _header_row_count(grid)
        header = "\n".join((rows[0], rule, *rows[1:count_above]))
        if len(rows) == count_above:
            yield _Piece("", (place,), header)
        for row in rows[count_above:]:
            yield _Piece(row, (place,), header)


def _header_row_count(grid: TableGrid) -> int:
    """How many rows are the header: those at the top with header cells only, unless they are most
    of the table; or else the first."""
    others = (cell.row for cell in grid.cells if not cell.is_header)
    first_other = min(others, default=grid.row_count)
    return first_other if 0 < first_other <= grid.row_count // 2 else 1


def _row(grid: TableGrid, row: int) -> str:
    """A row as Markdown. A cell that spans several rows or columns is repeated in each: a row has
    to be understood alone."""
    cells = []
    for column in range(grid.column_count):
        cell = grid.at(row, column)
        cells.append("" if cell is None else " ".join(cell.text.split()).replace("|", "\\|"))
    return f"| {' | '.join(cells)} |"


def _join_pieces(pieces: Sequence[_Piece]) -> str:
    """Pieces as one text: paragraphs apart, the rows of a table below their header."""
    lines: list[str] = []
    header = ""
    for piece in pieces:
        is_next_row = bool(piece.header) and piece.header == header
        if not is_next_row:
            lines += [""] if lines else []
            lines += [piece.header] if piece.header else []
        lines += [piece.text] if piece.text else []
        header = piece.header
    return "\n".join(lines)
