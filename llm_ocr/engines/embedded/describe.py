"""A plain description of a picture: its kind by its looks, its size, the text read in it.

Nothing is said that was not measured or read: there is no model here that knows what it sees.
"""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import area
from llm_ocr.engines.embedded.reading import Reading
from llm_ocr.engines.embedded.recognise import Image

MOST_TEXTS = 40


def description(image: Image, reading: Reading) -> str:
    """One paragraph about an image (height x width x 3, BGR) on which `reading` was read."""
    size = f"{reading.width} x {reading.height} pixels"
    kind = _kind(image, reading)
    inside = sorted(reading.lines, key=lambda line: (round(line.middle / 12), line.rect[0]))
    texts = [line.text.strip() for line in inside]
    if not texts:
        return f"{kind}, {size}. No text was read in it."
    quoted = ", ".join(f"“{text}”" for text in texts[:MOST_TEXTS])
    more = f" and {len(texts) - MOST_TEXTS} more lines" if len(texts) > MOST_TEXTS else ""
    return f"{kind}, {size}. Text read in it: {quoted}{more}."


def _kind(image: Image, reading: Reading) -> str:
    """The kind of picture by its flat areas, its colours and its share of text."""
    small = cv2.resize(image, (256, 256), interpolation=cv2.INTER_AREA)
    if float(small.std()) < 2.0:
        return "Blank or one-coloured picture"
    text = sum(area(line.rect) for line in reading.lines) / (reading.width * reading.height)
    if any(block.label == "table" for block in reading.blocks) and text > 0.1:
        return "Picture that looks like a table"
    flat = _flat_share(small)
    if text > 0.3:
        return "Picture that is mostly text"
    if flat > 0.6:
        return "Drawing, chart or diagram" if reading.lines else "Drawing or diagram"
    return "Photograph-like picture" if flat < 0.35 else "Picture with flat and shaded areas"


def _flat_share(image: npt.NDArray[Any]) -> float:
    """The share of pixels that are just like their neighbour: drawings are flat, photos are not."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.int16)
    steps = np.maximum(np.abs(np.diff(grey, axis=1))[:-1], np.abs(np.diff(grey, axis=0))[:, :-1])
    return float((steps <= 1).mean())
