"""Chandra 2 and Surya 2: HTML of a page, a `div` with its box and label for each layout block.

    <div data-bbox="82 60 540 97" data-label="Section-Header"><h2>A heading</h2></div>
    <div data-bbox="82 120 900 400" data-label="Text"><p>Text with <math>x^2</math>.</p></div>

Boxes are on a grid of 0..1000 over the image. Prompts, sampling, image sizes and vLLM's arguments
are those of https://github.com/datalab-to/chandra and https://github.com/datalab-to/surya. The HTML
is read with patterns, which take any text, and becomes Markdown; tables stay HTML.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llm_ocr.models.geometry import THOUSAND, Resizing, box_from_grid
from llm_ocr.models.markdown_blocks import (
    as_display_math,
    parse_blocks,
    with_table_captions,
)
from llm_ocr.models.profile import (
    NO_CACHES,
    Argument,
    Card,
    Gives,
    ModelProfile,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.records import Block, ImagePolicy, ParsedAnswer
from llm_ocr.text.markdown import escape_inline, escape_line_start, format_display_math

LABELS: Mapping[str, str] = {
    "Caption": "image_caption",
    "Footnote": "footnote",
    "Equation-Block": "equation",
    "List-Group": "list",
    "Page-Header": "header",
    "Page-Footer": "footer",
    "Image": "image",
    "Figure": "image",
    "Diagram": "image",
    "Section-Header": "sub_title",
    "Table": "table",
    "Text": "text",
    "Code-Block": "code",
}

_FENCE = re.compile(r"\A\s*```(?:html)?[ \t]*\n?|\n?```\s*\Z")
_DIV = re.compile(r"<(?P<close>/?)div\b(?P<attributes>[^<>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"(?P<name>[\w-]+)\s*=\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# What is taken whole, to its closing tag or the end; and any other tag.
_TOKEN = re.compile(
    r"<(?P<whole>math|chem|pre|table)\b(?P<within>[^<>]*)>(?P<body>.*?)(?:</(?P=whole)\s*>|\Z)"
    r"|<(?P<close>/?)(?P<name>[a-zA-Z][\w-]*)\b(?P<attributes>[^<>]*)>",
    re.DOTALL | re.IGNORECASE,
)
_NAMES = "div|p|h[1-6]|table|thead|tbody|tr|td|th|ul|ol|li|math|chem|img|input|br|b|i|span|pre|code"
_CUT_TAG = re.compile(rf"<(?:/?(?:{_NAMES})\b[^<>]*|/?[a-z]{{0,4}}\d?)\Z", re.IGNORECASE)
_MATH = re.compile(r"<math\b[^<>]*>(?P<latex>.*?)</math\s*>", re.DOTALL | re.IGNORECASE)
_BOXES = re.compile(r"\s?\bdata-(?:bbox|label)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_ANY_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_SPACE = re.compile(r"\s+")
_BULLET = re.compile(r"\A\s*[•◦▪‣●○■·]\s*")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
# Levels of lists that are indented further.
MAX_INDENT = 8
# Before what is written as Markdown on purpose, in a line that is not escaped.
_MARK = "\0"
_PARAGRAPHS = frozenset({"p", "div", "ul", "ol", "hr", "caption", "thead", "tbody", "tr"})
_EMPHASIS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~"}


@dataclass
class _Part:
    """A labeled `div` (its attributes) or what stands outside of all (None), and the HTML in it."""

    attributes: Mapping[str, str] | None
    pieces: list[str] = field(default_factory=list)

    @property
    def inside(self) -> str:
        return "".join(self.pieces)


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of an answer, with boxes in pixels of an image of `width` x `height`.

    Takes any text. What stands outside of the labeled `div`s is a block without a box; one within
    another is a block of its own; an unknown label is kept. `notes` says what was mended.
    """
    notes: list[str] = []
    body = _FENCE.sub("", answer).replace(_MARK, "")
    cut = _CUT_TAG.search(body)
    if cut is not None and cut.group():
        notes.append(f"cut-off tail dropped: {cut.group()[:80]!r}")
        body = body[: cut.start()]
    parts = _parts(body)
    if all(part.attributes is None for part in parts):
        blocks = [block for part in parts for block in _outside(part.inside)]
        return ParsedAnswer(tuple(blocks), (*notes, *(["no boxes in the answer"] * bool(blocks))))
    blocks = []
    for part in parts:
        if part.attributes is None:
            outside = list(_outside(part.inside))
            if outside:
                notes.append("text outside of the blocks")
            blocks += outside
            continue
        block = _block(part.attributes, part.inside, (width, height), notes)
        if block.text or (block.box is not None and block.label != "blank_page"):
            blocks.append(block)
    return ParsedAnswer(tuple(with_table_captions(blocks)), tuple(dict.fromkeys(notes)))


def _parts(body: str) -> list[_Part]:
    """The labeled `div`s in the order in which they open, and what stands outside of them."""
    parts: list[_Part] = []
    # Of each `div` that is open, the labeled one that its text belongs to.
    open_divs: list[_Part | None] = []
    place = 0

    def add(text: str) -> None:
        owner = open_divs[-1] if open_divs else None
        if owner is None:
            if not parts or parts[-1].attributes is not None:
                parts.append(_Part(None))
            owner = parts[-1]
        owner.pieces.append(text)

    for tag in _DIV.finditer(body):
        add(body[place : tag.start()])
        place = tag.end()
        if tag["close"]:
            if open_divs:
                open_divs.pop()
            add("\n")
            continue
        attributes = _attributes(tag["attributes"])
        if "data-label" in attributes or "data-bbox" in attributes:
            parts.append(_Part(attributes))
            open_divs.append(parts[-1])
        else:
            open_divs.append(open_divs[-1] if open_divs else None)
    add(body[place:])
    return parts


def _attributes(text: str) -> Mapping[str, str]:
    return {
        match["name"].lower(): html.unescape(match["double"] or match["single"] or "")
        for match in _ATTRIBUTE.finditer(text)
    }


def _block(
    attributes: Mapping[str, str], inside: str, size: tuple[int, int], notes: list[str]
) -> Block:
    given = attributes.get("data-bbox", "")
    corners = [float(number) for number in _NUMBER.findall(given)]
    box = box_from_grid(corners, (THOUSAND, THOUSAND), size)
    if box is None:
        notes.append(f"no area on the page: {given[:80]!r}")
    name = attributes.get("data-label", "").strip() or "Text"
    label = LABELS.get(name, _SPACE.sub("_", name.lower().replace("-", " ")))
    text = to_markdown(inside)
    if label == "equation":
        return Block(label, as_display_math(text), box)
    if label == "sub_title" and text:
        if not text.startswith("#"):
            text = f"## {' '.join(text.split())}"
        label = "title" if text.startswith("# ") else label
    return Block(label, text, box)


def _outside(text: str) -> Iterator[Block]:
    """What stands outside of the blocks: HTML, or, without any tag, Markdown."""
    yield from parse_blocks(to_markdown(text) if _ANY_TAG.search(text) else text)


def to_markdown(inside: str) -> str:
    """The HTML of one block as Markdown. Tables stay HTML, formulas stand between dollar signs,
    check boxes become `[x]` and `[ ]`, an image its alternative text. Unknown tags are dropped, and
    what is in them stays."""
    pieces: list[str] = []
    lists: list[int] = []
    place = 0
    begins_item = False
    for token in _TOKEN.finditer(inside):
        text = inside[place : token.start()]
        # The sign before an item as it stands on the page; Markdown has its own.
        pieces.append(_inline(_BULLET.sub("", text) if begins_item else text))
        begins_item = _opens_item(token) or (begins_item and not text.strip())
        place = token.end()
        pieces.append(_whole(token) if token["whole"] else _tag(token, lists))
    pieces.append(_inline(inside[place:]))
    text = _BLANK_LINES.sub("\n\n", "".join(pieces))
    lines = (_line(line) for line in text.strip("\n ").split("\n"))
    return "\n".join(lines).replace(_MARK, "").strip("\n")


def _inline(text: str) -> str:
    return escape_inline(html.unescape(_SPACE.sub(" ", text)), formulas=True)


def _line(line: str) -> str:
    if _MARK in line:
        return line.rstrip()
    return escape_line_start(line.strip())


def _whole(token: re.Match[str]) -> str:
    name, body = token["whole"].lower(), token["body"]
    if name == "table":
        kept = _MATH.sub(lambda match: f"${match['latex'].strip()}$", _BOXES.sub("", body))
        table = f"<table{_BOXES.sub('', token['within'])}>{kept.strip()}</table>"
        return f"\n\n{_mark_lines(table)}\n\n"
    plain = html.unescape(_ANY_TAG.sub("", body))
    if not plain.strip():
        return ""
    if name == "pre":
        return f"\n\n{_mark_lines('```' + chr(10) + plain.strip(chr(10)) + chr(10) + '```')}\n\n"
    if name == "chem":
        return f"`{plain.strip()}`"
    if "block" in token["within"]:
        return f"\n\n{_mark_lines(format_display_math(plain.strip()))}\n\n"
    return f"${plain.strip()}$"


def _mark_lines(text: str) -> str:
    """Lines that are to stay as they are."""
    return "\n".join(f"{_MARK}{line}" if line.strip() else f"{_MARK} " for line in text.split("\n"))


def _tag(token: re.Match[str], lists: list[int]) -> str:
    """What a tag becomes. `lists` has, for each list that is open, the number of its last item;
    below 0 for one without numbers."""
    name, closes = token["name"].lower(), bool(token["close"])
    if name in ("ul", "ol"):
        if closes and lists:
            lists.pop()
        elif not closes:
            lists.append(0 if name == "ol" else -1)
        return "\n" if lists else "\n\n"
    if name == "li":
        return "" if closes else _item(lists)
    if len(name) == 2 and name[0] == "h" and name[1].isdigit():
        return "\n\n" if closes else f"\n\n{_MARK}{'#' * int(name[1])} "
    if name == "br":
        return "\n"
    if name in _PARAGRAPHS:
        # A paragraph in an item of a list is no paragraph of its own.
        return "" if lists else "\n\n"
    if name in _EMPHASIS:
        return _EMPHASIS[name]
    if name in ("sup", "sub"):
        return f"<{token['close']}{name}>"
    attributes = _attributes(token["attributes"])
    if name == "img":
        return _inline(attributes.get("alt", ""))
    if name == "input" and attributes.get("type", "").lower() in ("checkbox", "radio"):
        return "[x] " if re.search(r"\bchecked\b", token["attributes"]) else "[ ] "
    return _inline(attributes.get("value", "")) if name == "input" else ""


def _opens_item(token: re.Match[str]) -> bool:
    return not token["close"] and (token["name"] or "").lower() == "li"


def _item(lists: list[int]) -> str:
    """The beginning of a list's item."""
    depth = min(max(0, len(lists) - 1), MAX_INDENT)
    if not lists or lists[-1] < 0:
        return f"\n{_MARK}{'  ' * depth}- "
    lists[-1] += 1
    return f"\n{_MARK}{'   ' * depth}{lists[-1]}. "


# Both are built on Qwen3.5, with patches of 16 px, merged two by two; the bounds are what their
# servers are started with.
RESIZING = Resizing(unit=32, min_pixels=3136, max_pixels=6_291_456)

_TAGS: Sequence[str] = (
    *("math", "br", "i", "b", "u", "del", "sup", "sub", "table", "tr", "td", "p", "th", "div"),
    *("pre", "h1", "h2", "h3", "h4", "h5", "ul", "ol", "li", "input", "a", "span", "img", "hr"),
    *("tbody", "small", "caption", "strong", "thead", "big", "code", "chem"),
)
_ATTRIBUTES: Sequence[str] = (
    *("class", "colspan", "rowspan", "display", "checked", "type", "border", "value", "style"),
    *("href", "alt", "align", "data-bbox", "data-label"),
)
# Word for word those of Chandra 2 (chandra/prompts.py, `ocr_layout` and `ocr`).
_ENDING = f"""\
Only use these tags {list(_TAGS)}, and these attributes {list(_ATTRIBUTES)}.

Guidelines:
* Inline math: Surround math with <math>...</math> tags. Math expressions should be rendered in \
KaTeX-compatible LaTeX. Use display for block math.
* Tables: Use colspan and rowspan attributes to match table structure.
* Formatting: Maintain consistent formatting with the image, including spacing, indentation, \
subscripts/superscripts, and special characters.
* Images: Include a description of any images in the alt attribute of an <img> tag. Do not fill \
out the src property. Describe in detail inside the div tag. Also convert charts to high fidelity \
data, and convert diagrams to mermaid.
* Forms: Mark checkboxes and radio buttons properly.
* Text: join lines together properly into paragraphs using <p>...</p> tags.  Use <br> tags for \
line breaks within paragraphs, but only when absolutely necessary to maintain meaning.
* Chemistry: Use <chem>...</chem> tags for chemical formulas with reactive SMILES.
* Lists: Preserve indents and proper list markers.
* Use the simplest possible HTML structure that accurately represents the content of the block.
* Make sure the text is accurate and easy for a human to read and interpret.  Reading order should \
be correct and natural."""
CHANDRA_PROMPT = f"""\
OCR this image to HTML, arranged as layout blocks.  Each layout block should be a div with the \
data-bbox attribute representing the bounding box of the block in x0 y0 x1 y1 format.  Bboxes are \
normalized 0-1000. The data-label attribute is the label for the block.

Use the following labels:
- Caption
- Footnote
- Equation-Block
- List-Group
- Page-Header
- Page-Footer
- Image
- Section-Header
- Table
- Text
- Complex-Block
- Code-Block
- Form
- Table-Of-Contents
- Figure
- Chemical-Block
- Diagram
- Bibliography
- Blank-Page

{_ENDING}"""
CHANDRA_PLAIN_PROMPT = f"OCR this image to HTML.\n\n{_ENDING}"
# surya/inference/prompts.py, `HIGH_ACCURACY_BBOX_PROMPT`.
SURYA_PROMPT = (
    "OCR this image to HTML. Each block is a div with data-label and data-bbox "
    "(x0 y0 x1 y1, normalized 0-1000)."
)

_ARGUMENTS = (
    Argument("--limit-mm-per-prompt", '{"image": 1}', "one page per request"),
    Argument(
        "--mm-processor-kwargs",
        '{"min_pixels": 3136, "max_pixels": 6291456}',
        "the sizes that the model was trained with",
    ),
    *NO_CACHES,
)
_GIVES = frozenset({Gives.BOXES, Gives.FIGURES, Gives.TABLES})

CHANDRA_OCR_2 = ModelProfile(
    id="chandra-ocr-2",
    model="datalab-to/chandra-ocr-2",
    prompts={
        Task.DOCUMENT: Prompt(CHANDRA_PROMPT, 12000),
        Task.FREE_OCR: Prompt(CHANDRA_PLAIN_PROMPT, 12000),
        Task.DESCRIBE: Prompt("Describe this image in detail.", 1024),
    },
    sampling={"temperature": 0.0, "top_p": 0.1},
    # An A4 page at 192 dpi; its shorter side is at least 1,536 px, as the authors want it.
    image=ImagePolicy(
        longest_side=2240, jpeg_quality=95, max_pixels=6_291_456, min_pixels=1_536 * 1_536
    ),
    parse=parse,
    parser_version=2,
    # Repeats are retried warmer and warmer, as the authors do it.
    ladder=(
        Rung("warmer", sampling={"temperature": 0.2, "top_p": 0.95, "seed": 1}),
        Rung("warmer still", sampling={"temperature": 0.4, "top_p": 0.95, "seed": 2}),
        Rung("in two strips", sampling={"temperature": 0.2, "top_p": 0.95, "seed": 3}, bands=2),
        Rung(
            "without layout",
            Task.FREE_OCR,
            sampling={"temperature": 0.6, "top_p": 0.95, "seed": 4},
        ),
    ),
    serving=Serving(
        # As in the benchmarks of https://github.com/lightonai/LightOnOCR.
        revision="af93b47dba1b47b6640c86ccf487ed2260ab9a09",
        weights_gib=9.9,
        max_model_len=18000,
        page_tokens=5500,
        # Qwen3.5-4B: 8 of 32 layers have attention, with 4 KV heads of 256.
        kv_kib=32,
        state_mib=49,
        versions=((0, 17), (0, 32)),
        arguments=_ARGUMENTS,
    ),
    card=Card(
        parameters="5B",
        license="OpenRAIL-M, modified",
        gives=_GIVES,
        sources=(
            "https://huggingface.co/datalab-to/chandra-ocr-2",
            "https://github.com/datalab-to/chandra",
        ),
        license_note="free of charge for research, personal use and companies below $2M of revenue "
        "or funding; others need a paid license",
        verified=True,
    ),
    resizing=RESIZING,
)

SURYA_OCR_2 = replace(
    CHANDRA_OCR_2,
    id="surya-ocr-2",
    model="datalab-to/surya-ocr-2",
    prompts={
        Task.DOCUMENT: Prompt(SURYA_PROMPT, 12288),
        # It was made to read; take another model for descriptions.
        Task.DESCRIBE: Prompt("OCR this block image to HTML.", 1024),
    },
    sampling={"temperature": 0.0},
    ladder=(
        Rung("warmer", sampling={"temperature": 0.2, "top_p": 0.95, "seed": 1}),
        Rung("warmer still", sampling={"temperature": 0.4, "top_p": 0.95, "seed": 2}),
        Rung("in two strips", sampling={"temperature": 0.2, "top_p": 0.95, "seed": 3}, bands=2),
    ),
    serving=replace(
        CHANDRA_OCR_2.serving,
        revision="3b3d4cdf88d6928b0acdc75181b13206ea67c4a3",
        weights_gib=1.4,
        # No more than Qwen3.5-0.8B, the smallest of the family.
        kv_kib=12,
        state_mib=19,
        page_tokens=5000,
        versions=((0, 20), (0, 32)),
    ),
    card=replace(
        CHANDRA_OCR_2.card,
        parameters="0.69B",
        sources=(
            "https://huggingface.co/datalab-to/surya-ocr-2",
            "https://github.com/datalab-to/surya",
        ),
        license_note="free of charge for research, personal use and companies below $5M of revenue "
        "or funding; not for products that compete with Datalab's",
        verified=False,
    ),
)
