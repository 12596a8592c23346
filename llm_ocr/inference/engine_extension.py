"""Build the request extension of the embedded engine (task, text layer); parse its response's."""

import re
import unicodedata
from collections import Counter
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
    TextWord,
)
from llm_ocr.tables.schema import Row

# A note on pages whose text layer differs from what two models read.
WRONG_TEXT_LAYER_NOTE = "a second model read the same: the PDF's own text is wrong"


def stored_text_layer(row: Row) -> TextLayer | None:
    """The text layer of a stored page, to compare its answer with and to correct it.

    None where the row does not have enough: it has only the layer's text and trust.
    """
    # A layer of trust 1 has no damage, and is under no image.
    text = row["layer_text"] if row["text_layer"] == 1.0 else None
    if not text or not looks_like_language(text) or WRONG_TEXT_LAYER_NOTE in (row["notes"] or ()):
        return None
    return TextLayer(text, under_image=False)


def require_text_layer(page: Page, layer: TextLayer | None) -> None:
    """Raise PageError for a page without a usable text layer, where nothing else may be read."""
    if layer is not None and layer.is_usable:
        return
    problem = "no text layer" if layer is None else "a text layer with hardly any text"
    if layer is not None and layer.damage:
        problem = f"a text layer of which {layer.damage:.0%} are no characters"
    raise PageError(
        ErrorCode.NO_TEXT_LAYER,
        f"{page.document.display_name}, page {page.number}: the page has {problem}, "
        "and `text_layer` only reads nothing else",
    )


# The most common letters of languages in Latin script, their minimum share of a text's letters, and
# the minimum number of letters to decide. Of 230 text layers of real pages the lowest had 0.61;
# with each letter replaced by the k-th after it, the median is 0.25 to 0.44. At half of this none
# of the latter is detected, and at 0.62 the first real one is.
COMMON_LETTERS, MIN_COMMON_SHARE, MIN_LETTERS = frozenset("eaiontrsl"), 0.5, 80
_LETTERS = re.compile(r"[^\W\d_]{2,}")


def looks_like_language(text: str) -> bool:
    """Whether text looks like a language's; True for scripts and lengths that can't be checked.

    A font that maps its glyphs to other letters gives a text layer without damage that is no text:
    `WKH ULYHU URVH`.
    """
    words = unicodedata.normalize("NFKD", " ".join(_LETTERS.findall(text))).lower()
    counts = Counter(words)
    letters = sum(count for letter, count in counts.items() if letter.isalpha())
    latin = sum(count for letter, count in counts.items() if "a" <= letter <= "z")
    if latin < MIN_LETTERS or letters - latin > latin:
        return True
    return sum(counts[letter] for letter in COMMON_LETTERS) >= MIN_COMMON_SHARE * latin


def text_outside_figures(layer: TextLayer, figures: Sequence[Box]) -> str:
    """The layer's text without that inside figures, which an answer need not have; all of it where
    the positions of its lines aren't known."""
    if not layer.lines:
        return layer.text
    return "\n".join(
        line.text for line in layer.lines if not any(_lies_in(line, box) for box in figures)
    )


def _lies_in(line: TextLine, box: Box) -> bool:
    """Whether the centers of most of a line's words are in a box."""
    boxes = [word.box for word in line.words]
    centers = [((word.x1 + word.x2) / 2, (word.y1 + word.y2) / 2) for word in boxes]
    inside = sum(box.x1 <= x <= box.x2 and box.y1 <= y <= box.y2 for x, y in centers)
    return inside > len(centers) / 2


def request_extension(
    profile: ModelProfile,
    task: Task,
    layer: TextLayer | None = None,
    use: TextLayerUse = TextLayerUse.OFF,
) -> Row:
    """The field `llm_ocr` of a request: the task, and the page's text layer where it is used.

    Empty for servers other than the embedded engine, which may reject unknown fields.
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
    """What the embedded engine reports with its answer. Boxes are in pixels of the page image.

    `rotation` is the clockwise rotation in degrees that makes the page upright; boxes are on the
    rotated page. `layer_agreement` (0..1) is that of the text layer with the page, None where it
    was not compared; `is_layer_used` is None where no text layer was sent. `unread_share` (0..1) is
    the share of the page's text, by area, that could not be read.
    """

    lines: tuple[PageLine, ...] = ()
    confidences: tuple[float | None, ...] = ()
    rotation: int = 0
    is_layer_used: bool | None = None
    layer_agreement: float | None = None
    notes: tuple[str, ...] = ()
    unread_share: float = 0.0

    @property
    def confidence(self) -> float | None:
        """The mean confidence of the page's lines, weighted by their length."""
        length = sum(len(line.text) for line in self.lines)
        weighted = sum(line.confidence * len(line.text) for line in self.lines)
        return weighted / length if length else None

    def with_confidences(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """The blocks with their confidences."""
        if len(self.confidences) != len(blocks):
            return tuple(blocks)
        pairs = zip(blocks, self.confidences, strict=True)
        return tuple(replace(block, confidence=confidence) for block, confidence in pairs)


def parse_engine_metadata(extension: Mapping[str, Any], scale: float) -> EngineMetadata | None:
    """The metadata in the extension of an answer, where one of its pixels is `scale` pixels of the
    page image; None where there is no extension."""
    if not extension:
        return None
    layer = extension.get("text_layer") or {}
    return EngineMetadata(
        lines=tuple(
            PageLine(
                *(text, confidence, doubtful, _scale_box(corners, scale)),
                tuple(
                    TextWord(word, _scale_box(box, scale), score)
                    for word, score, *box in line_words
                ),
            )
            for (text, confidence, doubtful, *corners), line_words in zip(
                extension["lines"], _words(extension), strict=True
            )
        ),
        confidences=tuple(extension["confidences"]),
        rotation=extension.get("turned", 0),
        is_layer_used=layer.get("used"),
        layer_agreement=layer.get("agreement"),
        notes=(
            *_layer_notes(layer),
            *_doubt_notes(extension["lines"]),
            *_unread_notes(extension.get("unread", ())),
        ),
        unread_share=_unread_share(extension),
    )


def _words(extension: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """The words of each line; none from an engine of an earlier version."""
    without: Sequence[Sequence[Any]] = [()] * len(extension["lines"])
    found: Sequence[Sequence[Any]] = extension.get("words", without)
    return found


def _scale_box(corners: Sequence[float], scale: float) -> Box:
    return Box(*(value * scale for value in corners))


def _unread_notes(unread: Sequence[Any]) -> Sequence[str]:
    lines = "1 line" if len(unread) == 1 else f"{len(unread)} lines"
    return [f"{lines} could not be read: an unknown script, or too faint"] if unread else []


def _unread_share(extension: Mapping[str, Any]) -> float:
    """The share of unread lines in the area of all lines."""
    unread, lines = extension.get("unread", ()), extension["lines"]
    unread_area, area = (
        sum(max(0.0, x2 - x1) * max(0.0, y2 - y1) for x1, y1, x2, y2 in boxes)
        for boxes in (unread, [*unread, *(line[-4:] for line in lines)])
    )
    return unread_area / area if area else 0.0


def _doubt_notes(lines: Sequence[Sequence[Any]]) -> Sequence[str]:
    doubts = sum(bool(line[2]) for line in lines)
    return [f"{doubts} of {len(lines)} lines may well be misread"] if doubts else []


def _layer_notes(layer: Mapping[str, Any]) -> Sequence[str]:
    if not layer:
        return ()
    if not layer["used"]:
        return (f"the PDF's own text left alone: it agrees {layer['agreement']:.2f} with the page",)
    counts = (("mended", "lines of the text layer read again"), ("added", "lines that it lacks"))
    return [f"{layer[name]} {what}" for name, what in counts if layer.get(name)]
