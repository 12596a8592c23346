"""The regions of a page and their texts, as models that read in two steps are asked for them.

    <|box_start|>100 120 900 180<|box_end|><|ref_start|>title<|ref_end|><|rotate_up|>
    <|box_start|>50 200 480 940<|box_end|><|ref_start|>text<|ref_end|><|rotate_up|>

MinerU2.5 answers so about a page; boxes are on a grid of 0..1000 over it. The texts of the
elements, which are asked one by one, are put behind their regions: so the answers about a page are
one text again, which is stored and parsed as those of other models are, whoever has found the
regions. Grammar and types of regions: https://github.com/opendatalab/mineru-vl-utils
(mineru_vl_utils/mineru_client.py, structs.py).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.models.geometry import THOUSAND, box_from_grid
from llm_ocr.models.markdown_blocks import append_block, as_display_math, parse_blocks
from llm_ocr.models.paddleocr_vl import table_html
from llm_ocr.records import FIGURE_LABELS, Block, ParsedAnswer
from llm_ocr.text.markdown import keep_list_numbers

# Types of regions that are called otherwise here.
LABELS: Mapping[str, str] = {
    "unknown": "image",
    "figure": "image",
    "figure_caption": "image_caption",
    "doc_title": "title",
    "paragraph_title": "sub_title",
    "page_footnote": "footnote",
    "algorithm": "code",
    "phonetic": "text",
    "formula": "equation",
}
# Regions that hold others; what is in them is asked about on its own.
CONTAINERS = frozenset({"image_block", "list", "equation_block"})
# Of regions in a table, these are a part of its text.
_IN_TABLES = frozenset({"text", "equation", "equation_block", "inline_formula"})
COVERED = 0.9
# What MinerU answers about an element without text.
_NO_TEXT = "[Non-Text]"

_NUMBER = r"(-?\d{1,6})"
_TURNS = {"up": 0, "right": 270, "down": 180, "left": 90}
_REGION = re.compile(
    rf"<\|box_start\|>\s*{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s*<\|box_end\|>\s*"
    r"<\|ref_start\|>(?P<label>[\w \-]*)<\|ref_end\|>"
    r"(?:<\|rotate_(?P<turn>up|right|down|left)\|>)?"
    r"(?P<more>(?:<\|)?txt_contd_(?:tgt|src)(?:\|>)?)*[ \t]*\n?"
)
_CONTINUES = "txt_contd_tgt"
_CUT_REGION = re.compile(
    r"<\|(?:box_start\|>[\d\s-]*(?:<\|(?:box_end\|>\s*(?:<\|(?:ref_start\|>[\w \-]*(?:<[|/\w]*)?)?"
    r"|[/\w]*)?)?)?|[/a-z_]*\|?)\Z"
)
_MARKS = re.compile(r"<\|(?:box|ref)_(?:start|end)\|>|<\|rotate_\w+\|>|<\|txt_contd_\w+\|>")
_TABLE_TOKEN = re.compile(r"<(?:fcel|ecel|lcel|ucel|xcel|ched|rhed|srow|nl)>")
_FORMULA = re.compile(r"\A\s*\\\[(?P<latex>.*)\\\]\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class ElementRegion:
    """A part of a page: its label, and its box `(x1, y1, x2, y2)` on a grid of 0..1000.

    `turn` is the clockwise rotation in degrees that makes its text upright: 0, 90, 180 or 270;
    `continues`: its text goes on where that of the text region before it ends.
    """

    label: str
    box: tuple[int, int, int, int]
    turn: int = 0
    continues: bool = False


def find_regions(answer: str) -> list[ElementRegion]:
    """The regions in an answer about a page's layout, each once, in its order; takes any text.

    Boxes are clipped to the page and their corners sorted; those without an area are left out, and
    so are parts of the text of a table.
    """
    found = dict.fromkeys(
        ElementRegion(
            _label(match), box, _TURNS[match["turn"] or "up"], _CONTINUES in match.group()
        )
        for match in _REGION.finditer(answer)
        if (box := _clip([int(match[k]) for k in range(1, 5)])) is not None
    )
    tables = [region.box for region in found if region.label == "table"]
    return [
        region
        for region in found
        if region.label not in _IN_TABLES or not any(_covers(one, region.box) for one in tables)
    ]


def regions_to_read(regions: Sequence[ElementRegion]) -> list[int]:
    """The places of the regions whose text is to be read: all but figures, and regions that hold
    others."""
    return [
        k
        for k, region in enumerate(regions)
        if region.label not in FIGURE_LABELS
        and not (
            region.label in CONTAINERS
            and any(
                other is not region and _covers(region.box, other.box, 0.5) for other in regions
            )
        )
    ]


def compose(regions: Iterable[ElementRegion], texts: Mapping[int, str]) -> str:
    """The regions as one answer, with their texts behind them, by place."""
    names = {turn: name for name, turn in _TURNS.items()}
    return "\n".join(
        f"<|box_start|>{' '.join(map(str, region.box))}<|box_end|>"
        f"<|ref_start|>{region.label}<|ref_end|><|rotate_{names[region.turn]}|>"
        f"{f'<|{_CONTINUES}|>' if region.continues else ''}\n{_MARKS.sub('', texts.get(k, ''))}"
        for k, region in enumerate(regions)
    )


def parse(answer: str, width: int, height: int) -> ParsedAnswer:
    """Blocks of regions with their texts, with boxes in pixels of an image of `width` x `height`.

    Takes any text. A text that continues the one before it is joined to it, and its box follows as
    a block without text. What stands before the first region is kept, as are unknown labels; a tag
    that the answer's end cut is dropped.
    """
    notes: list[str] = []
    cut = _CUT_REGION.search(answer)
    if cut is not None:
        notes.append(f"cut-off tail dropped: {cut.group()[:80]!r}")
        answer = answer[: cut.start()]
    found = list(_REGION.finditer(answer))
    if not found:
        blocks = list(parse_blocks(_MARKS.sub("", answer)))
        return ParsedAnswer(tuple(blocks), (*notes, *(["no regions in the answer"] * bool(blocks))))
    blocks = list(parse_blocks(_MARKS.sub("", answer[: found[0].start()])))
    if blocks:
        notes.append("text before the first region")
    ends = [*(match.start() for match in found[1:]), len(answer)]
    for match, end in zip(found, ends, strict=True):
        corners = [float(match[k]) for k in range(1, 5)]
        box = box_from_grid(corners, (THOUSAND, THOUSAND), (width, height))
        label = _label(match)
        text = element_markdown(label, _MARKS.sub("", answer[match.end() : end]).strip())
        if box is None:
            notes.append(f"no area on the page: {' '.join(match.groups()[:4])}")
        if text or (box is not None and label not in CONTAINERS):
            continues = label == "text" and _CONTINUES in match.group()
            append_block(blocks, Block(label, text, box), continues=continues)
    return ParsedAnswer(tuple(blocks), tuple(dict.fromkeys(notes)))


def _label(match: re.Match[str]) -> str:
    name = match["label"].strip().lower()
    return LABELS.get(name, name) or "text"


def element_markdown(label: str, text: str) -> str:
    """An element's answer as Markdown."""
    if text == _NO_TEXT:
        return ""
    if label == "table" or _TABLE_TOKEN.search(text):
        return "\n".join(_with_tables(text))
    if label == "equation":
        formula = _FORMULA.match(text)
        return as_display_math(formula["latex"] if formula else text)
    if label in ("title", "sub_title") and text and not text.startswith("#"):
        return f"{'#' if label == 'title' else '##'} {' '.join(text.split())}"
    if label == "code" and text and "```" not in text:
        return f"```\n{text}\n```"
    return keep_list_numbers(text, is_prose=label == "text")


def _with_tables(text: str) -> Iterator[str]:
    """The text with its table tokens as HTML."""
    first = _TABLE_TOKEN.search(text)
    if first is None:
        yield text
        return
    before = text[: first.start()].strip()
    if before:
        yield before
    yield table_html(text[first.start() :])


def _clip(corners: Sequence[int]) -> tuple[int, int, int, int] | None:
    xs = sorted(min(max(x, 0), THOUSAND) for x in corners[0::2])
    ys = sorted(min(max(y, 0), THOUSAND) for y in corners[1::2])
    return (xs[0], ys[0], xs[1], ys[1]) if xs[0] < xs[1] and ys[0] < ys[1] else None


def _covers(outer: Sequence[int], inner: Sequence[int], share: float = COVERED) -> bool:
    """Whether one box covers at least so much of another."""
    across = min(outer[2], inner[2]) - max(outer[0], inner[0])
    down = min(outer[3], inner[3]) - max(outer[1], inner[1])
    area = (inner[2] - inner[0]) * (inner[3] - inner[1])
    return across > 0 and down > 0 and across * down >= share * area
