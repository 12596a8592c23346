"""Build the embedded engine's request extension (task, text layer); parse that of its answers."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_ocr.models.profile import ModelProfile, Task
from llm_ocr.records import (
    Block,
    Box,
    ErrorCode,
    Page,
    PageError,
    PageLine,
    TextLayer,
    TextLayerUse,
    TextLine,
)
from llm_ocr.tables.schema import Row

# A note on pages whose text layer says otherwise than two who looked at them.
LAYER_IS_WRONG = "a second model read the same: the PDF's own text is wrong"


def stored_layer(row: Row) -> TextLayer | None:
    """The text layer of a page's row as what its answer is held against and mended from; None where
    the row doesn't say all of it: it has its text and its trust alone."""
    # A layer of trust 1 has no damage, and lies under no image.
    text = row["layer_text"] if row["text_layer"] == 1.0 else None
    if not text or not is_language(text) or LAYER_IS_WRONG in (row["notes"] or ()):
        return None
    return TextLayer(text, under_image=False)


def check_text(page: Page, layer: TextLayer | None) -> None:
    """Where a page's own text is all that is wanted, there must be some. Raises PageError."""
    if layer is not None and layer.is_usable:
        return
    found = "no text of its own" if layer is None else "hardly any text of its own"
    if layer is not None and layer.damage:
        found = f"text of its own of which {layer.damage:.0%} are no characters"
    raise PageError(
        ErrorCode.NO_TEXT_LAYER,
        f"{page.document.source_uri}, page {page.number}: it has {found}; read it with "
        "--text-layer auto",
    )


# The letters that languages in Latin script have most, their least share of a text's letters, and
# how many letters there must be to tell. Of 230 text layers of real pages the lowest had 0.61; with
# each letter replaced by the k-th behind it, the median is 0.25 to 0.44. At half of this no such
# text is told, and at 0.62 the first real one is accused.
COMMON, LEAST_COMMON, FEWEST_LETTERS = frozenset("eaiontrsl"), 0.5, 80
_LETTERS = re.compile(r"[^\W\d_]{2,}")


def is_language(text: str) -> bool:
    """Whether text reads like words, as far as its script lets that be told.

    A font that calls its glyphs by other letters gives a text layer that shows no damage, and is
    no text: `WKH ULYHU URVH`.
    """
    words = unicodedata.normalize("NFKD", " ".join(_LETTERS.findall(text))).lower()
    latin = [letter for letter in words if "a" <= letter <= "z"]
    others = sum(letter.isalpha() for letter in words) - len(latin)
    if len(latin) < FEWEST_LETTERS or others > len(latin):
        return True
    return sum(letter in COMMON for letter in latin) >= LEAST_COMMON * len(latin)


def text_beside(layer: TextLayer, figures: Sequence[Box]) -> str:
    """The layer's text without that of figures, whose labels nobody expects to be read; all of it
    where the places of its lines aren't known."""
    if not layer.lines:
        return layer.text
    return "\n".join(
        line.text for line in layer.lines if not any(_lies_in(line, box) for box in figures)
    )


def _lies_in(line: TextLine, box: Box) -> bool:
    """Whether the middles of most of a line's words are in a box."""
    boxes = [word.box for word in line.words]
    middles = [((one.x1 + one.x2) / 2, (one.y1 + one.y2) / 2) for one in boxes]
    inside = sum(box.x1 <= x <= box.x2 and box.y1 <= y <= box.y2 for x, y in middles)
    return inside > len(middles) / 2


def request_extension(
    profile: ModelProfile,
    task: Task,
    layer: TextLayer | None = None,
    use: TextLayerUse = TextLayerUse.OFF,
) -> Row:
    """The field `llm_ocr` of a request: the task, and the page's text layer where it is used.

    Empty for servers other than the embedded engine, which may reject what they don't know.
    """
    if not profile.takes_extension:
        return {}
    is_used = use is TextLayerUse.ONLY or (
        use is TextLayerUse.AUTO and layer is not None and layer.is_trusted
    )
    if layer is None or not is_used:
        return {"task": task.value}
    return {"task": task.value, **_text_layer(layer, verify=use is TextLayerUse.AUTO)}


def _text_layer(layer: TextLayer, *, verify: bool) -> Row:
    """With `verify` the engine compares the layer with the image first."""
    lines = [
        {
            "text": line.text,
            "bold": line.bold,
            "vertical": line.vertical,
            "words": [[word.text, *_corners(word.box)] for word in line.words],
        }
        for line in layer.lines
    ]
    pictures = [_corners(box) for box in layer.pictures]
    return {"text_layer": {"lines": lines, "pictures": pictures, "verify": verify}}


def _corners(box: Box) -> list[float]:
    return [round(value, 1) for value in (box.x1, box.y1, box.x2, box.y2)]


@dataclass(frozen=True)
class EngineMetadata:
    """What an engine says beside its answer about a page image of which a pixel of the image that
    it was shown is `scale`.

    `turned` is the clockwise turn in degrees that makes the page upright: the answer's places are
    on the page so turned. `layer_agreement` (0..1) is of the text layer with the page, None where
    it was not or could not be found; `is_layer_used` is None where none was sent. `unread` (0..1)
    is how much of the page's text, by its area, could not be read.
    """

    lines: tuple[PageLine, ...] = ()
    confidences: tuple[float | None, ...] = ()
    turned: int = 0
    is_layer_used: bool | None = None
    layer_agreement: float | None = None
    notes: tuple[str, ...] = ()
    unread: float = 0.0

    @property
    def confidence(self) -> float | None:
        """Of the page's lines, each by its length."""
        length = sum(len(line.text) for line in self.lines)
        whole = sum(line.confidence * len(line.text) for line in self.lines)
        return whole / length if length else None

    def of(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Blocks with their confidences."""
        if len(self.confidences) != len(blocks):
            return tuple(blocks)
        pairs = zip(blocks, self.confidences, strict=True)
        return tuple(replace(block, confidence=sure) for block, sure in pairs)


def parse_engine_metadata(extension: Mapping[str, Any], scale: float) -> EngineMetadata | None:
    """What the extension of an answer says; None where there is none."""
    if not extension:
        return None
    layer = extension.get("text_layer") or {}
    return EngineMetadata(
        lines=tuple(
            PageLine(text, confidence, doubtful, Box(*(value * scale for value in corners)))
            for text, confidence, doubtful, *corners in extension["lines"]
        ),
        confidences=tuple(extension["confidences"]),
        turned=extension.get("turned", 0),
        is_layer_used=layer.get("used"),
        layer_agreement=layer.get("agreement"),
        notes=(
            *_about_layer(layer),
            *_about_doubts(extension["lines"]),
            *_about_unread(extension.get("unread", ())),
        ),
        unread=_unread_share(extension),
    )


def _about_unread(unread: Sequence[Any]) -> Sequence[str]:
    lines = "1 line" if len(unread) == 1 else f"{len(unread)} lines"
    return [f"{lines} could not be read: an unknown script, or too faint"] if unread else []


def _unread_share(extension: Mapping[str, Any]) -> float:
    """Of the area of all of a page's lines."""
    unread, lines = extension.get("unread", ()), extension["lines"]
    lost, whole = (
        sum(max(0.0, x2 - x1) * max(0.0, y2 - y1) for x1, y1, x2, y2 in boxes)
        for boxes in (unread, [*unread, *(one[-4:] for one in lines)])
    )
    return lost / whole if whole else 0.0


def _about_doubts(lines: Sequence[Sequence[Any]]) -> Sequence[str]:
    doubts = sum(bool(one[2]) for one in lines)
    return [f"{doubts} of {len(lines)} lines may well be misread"] if doubts else []


def _about_layer(layer: Mapping[str, Any]) -> Sequence[str]:
    if not layer:
        return ()
    if not layer["used"]:
        return (f"the PDF's own text left alone: it agrees {layer['agreement']:.2f} with the page",)
    counts = (("mended", "lines of the PDF's own text read anew"), ("added", "lines that it lacks"))
    return [f"{layer[name]} {what}" for name, what in counts if layer.get(name)]
