"""Write pages of two runs side by side: one HTML file with page images and both texts, in which the
words that differ are marked, for offline use.

The text of documents is untrusted: it is sanitized as in the viewer, and a content security policy
lets nothing run and nothing be fetched.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO

from rapidfuzz.distance import Levenshtein

from llm_ocr.report.viewer import PAGE_SIDE, image_data_uri, safe_html, template_environment
from llm_ocr.storage.local_files import atomic_write

# Words of a text that are compared; later ones are not marked.
MAX_WORDS = 5_000
_WORD = re.compile(r"\S+")
_ADJACENT = re.compile(r"</mark>(\s*)<mark>")


@dataclass(frozen=True)
class TextColumn:
    """A run's text of a page as Markdown, and remarks on it, such as its error."""

    markdown: str
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class SideBySidePage:
    """A page in two runs: its title, a note (how far the texts agree), the image as in the tables
    (`{"bytes": ...}`, None without one), both texts, and remarks on both."""

    title: str
    note: str
    image: Mapping[str, Any] | None
    a: TextColumn
    b: TextColumn
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class FactTable:
    """A table of facts: the names of its columns, and its rows."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_side_by_side(
    pages: Iterable[SideBySidePage],
    names: tuple[str, str],
    facts: Sequence[str],
    tables: Sequence[FactTable],
    out: Path | BinaryIO,
) -> None:
    """Write the pages, one in memory at a time, below the facts about the runs `names`. A file at
    `out` appears only when it is complete."""
    template = template_environment().get_template("side_by_side.html")
    texts = template.generate(
        names=names, facts=facts, tables=tables, pages=map(_render_page, pages)
    )
    with atomic_write(out) if isinstance(out, Path) else nullcontext(out) as target:
        for text in texts:
            target.write(text.encode("utf-8", "replace"))


def _render_page(page: SideBySidePage) -> Mapping[str, object]:
    rendered = mark_differences(safe_html(page.a.markdown), safe_html(page.b.markdown))
    sources = mark_differences(escape(page.a.markdown), escape(page.b.markdown))
    columns = zip((page.a, page.b), rendered, sources, strict=True)
    return {
        "page": page,
        "image": image_data_uri(page.image, PAGE_SIDE),
        "columns": [(column.remarks, html, source) for column, html, source in columns],
    }


def mark_differences(a: str, b: str) -> tuple[str, str]:
    """Two pieces of sanitized HTML, each with the words that the other lacks within `<mark>`."""
    pieces = _split_html(a), _split_html(b)
    words = [
        [word for is_text, piece in one if is_text for word in _WORD.findall(piece)][:MAX_WORDS]
        for one in pieces
    ]
    differing: tuple[set[int], set[int]] = set(), set()
    for step in Levenshtein.opcodes(*words):
        if step.tag != "equal":
            differing[0].update(range(step.src_start, step.src_end))
            differing[1].update(range(step.dest_start, step.dest_end))
    return _mark(pieces[0], differing[0]), _mark(pieces[1], differing[1])


# Whether a piece of HTML is text, and the piece.
Piece = tuple[bool, str]


def _mark(pieces: Iterable[Piece], words: set[int]) -> str:
    count = -1

    def mark(match: "re.Match[str]") -> str:
        nonlocal count
        count += 1
        return f"<mark>{match[0]}</mark>" if count in words else match[0]

    marked = (_WORD.sub(mark, piece) if is_text else piece for is_text, piece in pieces)
    return _ADJACENT.sub(r"\1", "".join(marked))


def _split_html(html: str) -> list[Piece]:
    """HTML as texts and tags, which joined are the HTML again."""
    splitter = _Splitter()
    splitter.feed(html)
    splitter.close()
    # What a parser would repair is shown without marks, so that nothing else changes.
    is_whole = "".join(piece for _, piece in splitter.pieces) == html
    return splitter.pieces if is_whole else [(False, html)]


class _Splitter(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.pieces: list[Piece] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pieces.append((False, self.get_starttag_text() or ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self.pieces.append((False, f"</{tag}>"))

    def handle_data(self, data: str) -> None:
        # A reference to a character is a part of its word.
        is_after_text = bool(self.pieces) and self.pieces[-1][0]
        before = self.pieces.pop()[1] if is_after_text else ""
        self.pieces.append((True, before + data))

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")
