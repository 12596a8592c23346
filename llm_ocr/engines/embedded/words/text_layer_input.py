"""A page's text layer as it comes with a request: this engine's own extension of the chat API.

    "llm_ocr": {"text_layer": {
        "lines": [{"text": "A line", "bold": false, "vertical": false,
                   "words": [["A", 10, 20, 18, 34], …]}],
        "pictures": [[x1, y1, x2, y2], …],
        "verify": true}}

All in pixels of the request's image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.inference.responses import EXTENSION


@dataclass(frozen=True)
class TextLayerInput:
    """The lines of a text layer and the page's pictures; `verify` is whether the lines are held
    against the image first."""

    lines: tuple[OcrLine, ...]
    pictures: tuple[Rect, ...] = ()
    verify: bool = True


def parse_text_layer(body: Mapping[str, Any]) -> TextLayerInput | None:
    """The text layer in a request's body, if there is one. Raises ValueError for another form."""
    layer = (body.get(EXTENSION) or {}).get("text_layer")
    if layer is None:
        return None
    try:
        lines = tuple(_line(one) for one in layer["lines"] if one["words"])
        pictures = tuple(_rect(one) for one in layer.get("pictures", ()))
        return TextLayerInput(lines, pictures, bool(layer.get("verify", True)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"llm_ocr.text_layer is not of the form it should have: {error!r}"
        ) from error


def _line(one: Mapping[str, Any]) -> OcrLine:
    words = tuple(Word(_rect(corners), str(text)) for text, *corners in one["words"])
    bold, vertical = bool(one.get("bold")), bool(one.get("vertical"))
    return OcrLine(str(one["text"]), words, 1.0, is_exact=True, bold=bold, vertical=vertical)


def _rect(corners: Any) -> Rect:  # noqa: ANN401
    x1, y1, x2, y2 = (float(value) for value in corners)
    return x1, y1, x2, y2
