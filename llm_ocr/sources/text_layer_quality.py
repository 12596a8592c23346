"""Scoring the quality of a page's text layer, from the PDF alone."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box, TextLine

# Shares from which on nothing is left of the trust.
HOPELESS_CODES, HOPELESS_OVERLAP = 0.1, 0.4
# What is left for text under an image of the page: an earlier OCR's.
EARLIER_OCR = 0.25
# Characters from one that is looked at to the next.
EVERY = 4
# Soft hyphens, as pdfium gives them.
SOFT_HYPHENS = "\ufffe\u0002"
_UNSEEN = (pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium_c.FPDF_TEXTRENDERMODE_CLIP)
# Lines share this much of the smaller one where one is printed on the other.
_ON_ANOTHER = 0.5


@dataclass(frozen=True)
class TextLayerReport:
    """Defects of a page's text, as shares of its characters: garbled, invisible, overlapping other
    text; and whether an image covers it."""

    damage: float
    invisible: float
    under_image: bool
    overlapping: float

    @property
    def trust(self) -> float:
        """0..1."""
        return min([1.0, *(max(0.0, left) for left, _ in self._against())])

    @property
    def doubts(self) -> tuple[str, ...]:
        return tuple(said for left, said in self._against() if left < 1)

    def _against(self) -> list[tuple[float, str]]:
        """The trust that each defect leaves, and the defect."""
        return [
            (1 - self.damage / HOPELESS_CODES, f"{self.damage:.0%} of its characters are no text"),
            (1 - self.invisible, f"{self.invisible:.0%} of it is invisible"),
            (EARLIER_OCR if self.under_image else 1.0, "it lies under an image of the page"),
            (
                1 - self.overlapping / HOPELESS_OVERLAP,
                f"{self.overlapping:.0%} of it stands on other text",
            ),
        ]


def is_shown(item: Any) -> bool:  # noqa: ANN401
    """Whether a text object paints anything."""
    return pdfium_c.FPDFTextObj_GetTextRenderMode(item) not in _UNSEEN


def invisible_share(raw: Any) -> float:  # noqa: ANN401
    """The share of a text page's characters that paint nothing, of every fourth."""
    items = [
        pdfium_c.FPDFText_GetTextObject(raw, k)
        for k in range(0, pdfium_c.FPDFText_CountChars(raw), EVERY)
    ]
    held = [item for item in items if item]
    return sum(not is_shown(item) for item in held) / len(held) if held else 0.0


def garbled_share(text: str) -> float:
    """The share of the characters that are no text: what a font without a character map gives."""
    characters = [one for one in text if not one.isspace()]
    return sum(map(_is_bad, characters)) / len(characters) if characters else 0.0


def _is_bad(character: str) -> bool:
    if character in SOFT_HYPHENS:
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs")


def overlapping_share(lines: Sequence[TextLine]) -> float:
    """The share of the text that stands where other text does too."""
    boxes = sorted(((_hull(line), len(line.text)) for line in lines), key=lambda one: one[0].y1)
    hit = 0
    open_ones: list[tuple[Box, int]] = []
    for box, length in boxes:
        open_ones = [one for one in open_ones if one[0].y2 > box.y1]
        if any(
            _shared(box, other) > _ON_ANOTHER * min(box.area, other.area) for other, _ in open_ones
        ):
            hit += length
        open_ones.append((box, length))
    return hit / max(1, sum(length for _, length in boxes))


def _hull(line: TextLine) -> Box:
    boxes = [word.box for word in line.words]
    return Box(
        min(box.x1 for box in boxes),
        min(box.y1 for box in boxes),
        max(box.x2 for box in boxes),
        max(box.y2 for box in boxes),
    )


def _shared(one: Box, other: Box) -> float:
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    return max(0.0, width) * max(0.0, height)
