"""What stands on a page: its blocks in reading order, as they were drawn.

Boxes are `(x1, y1, x2, y2)` in points from the top left corner of the page as it is seen.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

Box = tuple[float, float, float, float]

TITLE, HEADING, PARAGRAPH, LIST, TABLE = "title", "heading", "paragraph", "list", "table"
FIGURE, CAPTION, FOOTNOTE = "figure", "caption", "footnote"
HEADER, FOOTER, PAGE_NUMBER = "header", "footer", "page_number"
# Neither page furniture nor body: who leaves it out is as right as who does not.
LETTERHEAD = "letterhead"
FURNITURE = frozenset({HEADER, FOOTER, PAGE_NUMBER})


@dataclass(frozen=True)
class Item:
    """A point of a list: what stands before it, and how deep it is (0 the outermost)."""

    marker: str
    text: str
    depth: int = 0


@dataclass(frozen=True)
class Part:
    """What of a block stands in one place; a paragraph that goes on in the next column has two."""

    text: str
    box: Box


@dataclass(frozen=True)
class TrueBlock:
    """`text` is what is printed, without line ends and their hyphens.

    `level` is a heading's (1 the title), `items` a list's, `html` a table's with `ruled` for one
    whose columns have lines between them, `inner` what is printed in a figure, which is no body
    text.
    """

    kind: str
    text: str
    parts: tuple[Part, ...]
    level: int = 0
    items: tuple[Item, ...] = ()
    html: str = ""
    ruled: bool = False
    inner: tuple[str, ...] = ()

    @property
    def is_body(self) -> bool:
        return self.kind not in FURNITURE

    @property
    def markdown(self) -> str:
        """As it stands in the page's Markdown; nothing for figures and page furniture."""
        if self.kind in FURNITURE or self.kind == FIGURE:
            return ""
        if self.level:
            return f"{'#' * self.level} {self.text}"
        if self.kind == LIST:
            return "\n".join(f"{'   ' * one.depth}{_point(one)}" for one in self.items)
        return self.html or self.text


def _point(item: Item) -> str:
    numbered = item.marker[-1] in ".)"
    return f"{item.marker if numbered else '-'} {item.text}"


@dataclass(frozen=True)
class TruePage:
    """A page with its size in points. `turned` is by how many degrees clockwise it is shown."""

    name: str
    layout: str
    width: float
    height: float
    columns: int
    blocks: tuple[TrueBlock, ...]
    turned: int = 0
    dark: bool = False
    fonts: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> list[TrueBlock]:
        return [block for block in self.blocks if block.is_body]

    @property
    def markdown(self) -> str:
        return "\n\n".join(said for block in self.blocks if (said := block.markdown)) + "\n"

    def moved(self, boxes: "Sequence[Box]") -> "TruePage":
        """The page with other boxes, one a part, in order."""
        left = iter(boxes)
        blocks = (
            replace(block, parts=tuple(Part(part.text, next(left)) for part in block.parts))
            for block in self.blocks
        )
        return replace(self, blocks=tuple(blocks))


def write_page(page: TruePage, folder: Path) -> None:
    """`NAME.json` with all that is known, `NAME.md` with what a perfect reader would write."""
    text = json.dumps(asdict(page), ensure_ascii=False, indent=1)
    (folder / f"{page.name}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{page.name}.md").write_text(page.markdown, encoding="utf-8")


def read_page(path: Path) -> TruePage:
    """A page as `write_page` wrote it."""
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    blocks = tuple(_block(one) for one in known.pop("blocks"))
    return TruePage(blocks=blocks, **known)


def _block(known: dict[str, Any]) -> TrueBlock:
    parts = tuple(Part(one["text"], tuple(one["box"])) for one in known.pop("parts"))
    items = tuple(Item(**one) for one in known.pop("items"))
    inner = tuple(known.pop("inner"))
    return TrueBlock(parts=parts, items=items, inner=inner, **known)
