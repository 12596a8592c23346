"""Score the quality of a page's text layer, from the PDF alone."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box, TextLine

# Shares of garbled and overlapping characters from which on the trust is 0.
MAX_GARBLED, MAX_OVERLAPPING = 0.1, 0.4
# The trust in text under an image of the page, which an earlier OCR has written.
EARLIER_OCR_TRUST = 0.25
# One in this many characters is checked for visibility.
SAMPLE_STEP = 4
# The characters that pdfium returns for soft hyphens.
SOFT_HYPHENS = "\ufffe\u0002"
_INVISIBLE = (pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium_c.FPDF_TEXTRENDERMODE_CLIP)
# Lines overlap if they share this part of the smaller one's area.
_MIN_OVERLAP = 0.5


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
        """How likely the text is what the page shows, 0..1."""
        return min([1.0, *(max(0.0, trust) for trust, _ in self._defects())])

    @property
    def doubts(self) -> tuple[str, ...]:
        """Descriptions of the defects that lower the trust."""
        return tuple(description for trust, description in self._defects() if trust < 1)

    def _defects(self) -> list[tuple[float, str]]:
        """The trust that each possible defect leaves, and the description of the defect."""
        return [
            (1 - self.damage / MAX_GARBLED, f"{self.damage:.0%} of its characters are no text"),
            (1 - self.invisible, f"{self.invisible:.0%} of it is invisible"),
            (EARLIER_OCR_TRUST if self.under_image else 1.0, "it lies under an image of the page"),
            (
                1 - self.overlapping / MAX_OVERLAPPING,
                f"{self.overlapping:.0%} of it stands on other text",
            ),
        ]


def is_visible(item: Any) -> bool:  # noqa: ANN401
    """Whether a text object is painted."""
    return pdfium_c.FPDFTextObj_GetTextRenderMode(item) not in _INVISIBLE


def invisible_share(raw: Any) -> float:  # noqa: ANN401
    """The share of a text page's characters that are not painted, from a sample of them."""
    items = [
        item
        for k in range(0, pdfium_c.FPDFText_CountChars(raw), SAMPLE_STEP)
        if (item := pdfium_c.FPDFText_GetTextObject(raw, k))
    ]
    return sum(not is_visible(item) for item in items) / len(items) if items else 0.0


def garbled_share(text: str) -> float:
    """The share of characters that are not text, such as those of a font without a character
    map."""
    counts = Counter("".join(text.split()))
    garbled = sum(count for character, count in counts.items() if _is_garbled(character))
    return garbled / counts.total() if counts else 0.0


def _is_garbled(character: str) -> bool:
    if character in SOFT_HYPHENS:
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs")


def overlapping_share(lines: Sequence[TextLine]) -> float:
    """The share of the text that is printed over text of earlier lines."""
    boxes = sorted(((_hull(line), len(line.text)) for line in lines), key=lambda sized: sized[0].y1)
    overlapping = 0
    # The boxes above the current one that reach down to it.
    candidates: list[Box] = []
    for box, length in boxes:
        candidates = [other for other in candidates if other.y2 > box.y1]
        if any(
            _overlap_area(box, other) > _MIN_OVERLAP * min(box.area, other.area)
            for other in candidates
        ):
            overlapping += length
        candidates.append(box)
    return overlapping / max(1, sum(length for _, length in boxes))


def _hull(line: TextLine) -> Box:
    boxes = [word.box for word in line.words]
    return Box(
        min(box.x1 for box in boxes),
        min(box.y1 for box in boxes),
        max(box.x2 for box in boxes),
        max(box.y2 for box in boxes),
    )


def _overlap_area(box: Box, other: Box) -> float:
    width = min(box.x2, other.x2) - max(box.x1, other.x1)
    height = min(box.y2, other.y2) - max(box.y1, other.y1)
    return max(0.0, width) * max(0.0, height)
