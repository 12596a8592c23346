"""A plain description of a picture: its kind by its looks, its size, the text read in it.

Nothing is said that was not measured or read: there is no model here that knows what it sees.
"""

from collections.abc import Sequence

import cv2

from llm_ocr.engines.embedded.figure_tasks.figure_classifier import flat_color_ratio
from llm_ocr.engines.embedded.geometry import OcrLine, area
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.words.doubt import low_confidence
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.text.markdown import escape_inline

MOST_TEXTS = 40


def description(image: Image, page: OcrPage) -> str:
    """One paragraph about an image (height x width x 3, BGR) on which `reading` was read."""
    size = f"{page.width} x {page.height} pixels"
    kind = looks_like(image, page)
    texts = [line.text.strip() for line in legible([*page.lines, *page.vertical])]
    if not texts:
        return f"{kind}, {size}. No text was read in it."
    quoted = ", ".join(f"“{escape_inline(text)}”" for text in texts[:MOST_TEXTS])
    more = f" and {len(texts) - MOST_TEXTS} more lines" if len(texts) > MOST_TEXTS else ""
    return f"{kind}, {size}. Text read in it: {quoted}{more}."


def legible(lines: Sequence[OcrLine]) -> list[OcrLine]:
    """Lines, row by row, that are read with confidence: what looks like letters in a photograph is
    none most of the time."""
    sure = [line for line, doubt in zip(lines, low_confidence(lines), strict=True) if not doubt]
    return sorted(sure, key=lambda line: (round(line.middle / 12), line.rect[0]))


def looks_like(image: Image, page: OcrPage) -> str:
    """The kind of picture by its flat areas, its colors and its share of text."""
    small = cv2.resize(image, (256, 256), interpolation=cv2.INTER_AREA)
    if float(small.std()) < 2.0:
        return "Blank or one-colored picture"
    text = sum(area(line.rect) for line in page.lines) / (page.width * page.height)
    if any(block.label == "table" for block in page.blocks) and text > 0.1:
        return "Picture that looks like a table"
    flat = flat_color_ratio(small)
    if text > 0.3:
        return "Picture that is mostly text"
    if flat > 0.6:
        return "Drawing, chart or diagram" if page.lines else "Drawing or diagram"
    return "Photograph-like picture" if flat < 0.35 else "Picture with flat and shaded areas"
