"""Parse HTML whose elements have their box in `data-bbox`, as the Qwen-VL models write it.

    <html><body><h1 data-bbox="50 10 300 30">A heading</h1><p data-bbox="...">text</p>
    <div class="image" data-bbox="..."><img data-bbox="..."/></div><table data-bbox="...">

It is read with patterns and not with `html.parser`, which raises on some malformed declarations.
"""

import html
import re
from collections.abc import Iterator, Mapping

from llm_ocr.models.geometry import box_from_grid
from llm_ocr.models.markdown_blocks import as_display_math, parse_blocks
from llm_ocr.records import Block, ParsedAnswer
from llm_ocr.text.markdown import escape_inline, escape_line_start

_OPENING = re.compile(
    r"<(?P<name>[a-zA-Z][\w]*)(?P<attributes>[^<>]*?\bdata-bbox\s*=\s*[\"'](?P<box>[^\"'<>]*)[\"']"
    r"[^<>]*)>"
)
_ANY_TAG = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z]\w*)\b[^<>]*>")
_FENCE = re.compile(r"\A\s*```(?:html)?[ \t]*\n?|\n?```\s*\Z")
_CLASS = re.compile(r"\bclass\s*=\s*[\"']([^\"']*)[\"']")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_VOID = frozenset({"img", "br", "hr", "input"})
# Elements that only hold others: their own box is dropped, what is in them is read.
_CONTAINERS = frozenset({"html", "body", "section", "article", "main"})
_LABELS = dict.fromkeys(("h2", "h3", "h4", "h5", "h6"), "sub_title") | {
    "h1": "title",
    "table": "table",
    "img": "image",
    "figure": "image",
    "figcaption": "image_caption",
    "ul": "list",
    "ol": "list",
    "li": "list",
    "header": "header",
    "footer": "footer",
}
_CLASSES = {
    "image": "image",
    "figure": "image",
    "chart": "chart",
    "music sheet": "image",
    "formula": "equation",
    "chemical_formula": "equation",
    "table": "table",
}
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_BREAK = re.compile(r"<(?:br|/p|/li|/div|/tr)\s*/?>", re.IGNORECASE)
_ITEM = re.compile(r"<li\b[^<>]*>", re.IGNORECASE)
# Where a list's item begins, until its text is escaped.
_ITEM_MARK = "\0"
_BOX_ATTRIBUTE = re.compile(r"\s?\bdata-bbox\s*=\s*[\"'][^\"'<>]*[\"']")
_MARKS = re.compile(r"<(?P<close>/?)(?P<name>b|strong|i|em)>", re.IGNORECASE)


def parse_bbox_html(answer: str, grid: tuple[int, int], size: tuple[int, int]) -> ParsedAnswer:
    """Blocks of the answer, with boxes on `grid` converted to pixels of an image of `size`.

    Takes any text. An answer without a `data-bbox` is read as Markdown. Text outside every box is a
    block without one. Tables stay HTML; other elements become Markdown.
    """
    notes: list[str] = []
    body = _FENCE.sub("", answer)
    if _OPENING.search(body) is None:
        blocks = tuple(parse_blocks(answer))
        return ParsedAnswer(blocks, ("no boxes in the answer",) if blocks else ())
    blocks = tuple(_blocks(body, grid, size, notes))
    return ParsedAnswer(blocks, tuple(dict.fromkeys(notes)))


def _blocks(
    body: str, grid: tuple[int, int], size: tuple[int, int], notes: list[str]
) -> Iterator[Block]:
    place, closings = 0, _closing_tags(body)
    while opening := _OPENING.search(body, place):
        yield from _outside(body[place : opening.start()])
        name = opening["name"].lower()
        place = opening.end()
        if name in _CONTAINERS:
            continue
        end, close = _close(body, opening, closings)
        if name == "div" and _holds_boxes(body[place:end]):
            continue
        place = close
        box = box_from_grid([float(n) for n in _NUMBER.findall(opening["box"])], grid, size)
        if box is None:
            notes.append(f"no area on the page: {opening['box'][:80]!r}")
        label = _label(name, opening["attributes"])
        text = _markdown(name, label, opening.group() + body[opening.end() : end])
        if text or box is not None:
            yield Block(label, text, box)
    yield from _outside(body[place:])


def _holds_boxes(inside: str) -> bool:
    """Whether an element holds blocks of their own; an image within says no more than it does."""
    return any(inner["name"].lower() != "img" for inner in _OPENING.finditer(inside))


def _closing_tags(body: str) -> Mapping[int, tuple[int, int]]:
    """Where an element's opening tag ends -> where its inside ends, and its closing tag."""
    opened: dict[str, list[int]] = {}
    closings: dict[int, tuple[int, int]] = {}
    for tag in _ANY_TAG.finditer(body):
        name = tag["name"].lower()
        if not tag["close"]:
            opened.setdefault(name, []).append(tag.end())
        elif opened.get(name):
            closings[opened[name].pop()] = tag.span()
    return closings


def _close(
    body: str, opening: re.Match[str], closings: Mapping[int, tuple[int, int]]
) -> tuple[int, int]:
    """Where the element's inside ends and where its closing tag does."""
    start = opening.end()
    if opening["name"].lower() in _VOID or opening["attributes"].rstrip().endswith("/"):
        return start, start
    if start in closings:
        return closings[start]
    # Never closed: the next box begins a new element, or the answer was cut off here.
    following = _OPENING.search(body, start)
    if following is None or opening["name"].lower() == "table":
        return len(body), len(body)
    return following.start(), following.start()


def _label(name: str, attributes: str) -> str:
    named = _CLASS.search(attributes)
    if named and named[1].strip().lower() in _CLASSES:
        return _CLASSES[named[1].strip().lower()]
    return _LABELS.get(name, "text")


def _markdown(name: str, label: str, element: str) -> str:
    if name == "table":
        text = _BOX_ATTRIBUTE.sub("", element).strip()
        return text if text.lower().endswith("</table>") else f"{text}</table>"
    if label == "equation":
        return as_display_math(_plain(element))
    text = _text(element)
    if label in ("title", "sub_title") and text and name[0] == "h" and name[1:].isdigit():
        return f"{'#' * int(name[1:])} {' '.join(text.split())}"
    return text


def _text(element: str) -> str:
    """An element's text as Markdown, its line breaks, list items and emphasis too."""
    text = _ITEM.sub(_ITEM_MARK, _BREAK.sub("\n", element.replace(_ITEM_MARK, "")))
    pieces: list[str] = []
    at = 0
    for tag in _TAG.finditer(text):
        pieces += [_inline(text[at : tag.start()]), _emphasis(tag.group())]
        at = tag.end()
    lines = "".join([*pieces, _inline(text[at:])]).strip().split("\n")
    return "\n".join(_line(line) for line in lines)


def _inline(text: str) -> str:
    return escape_inline(html.unescape(text), formulas=True)


def _emphasis(tag: str) -> str:
    mark = _MARKS.fullmatch(tag)
    if mark is None:
        return ""
    return "**" if mark["name"].lower() in ("b", "strong") else "*"


def _line(line: str) -> str:
    before, item, text = line.rpartition(_ITEM_MARK)
    return (
        f"{before.replace(_ITEM_MARK, '')}- {escape_line_start(text)}"
        if item
        else escape_line_start(line)
    )


def _plain(element: str) -> str:
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", element))).strip()


def _outside(text: str) -> Iterator[Block]:
    yield from parse_blocks(_text(text))
