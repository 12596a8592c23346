"""Figures that the detector missed or cut: what stands above a figure's caption and is no text."""

from collections.abc import Sequence
from dataclasses import replace

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, hull, overlap, typical_height
from llm_ocr.engines.embedded.regions.captions import begins_caption, names_figure
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import gutters, words_in

# A figure's labels are of so few words, and no wider than this share of its column.
FEW_WORDS, NARROW = 3, 0.6
# What is only known by its labels has so many of them, and is so high, in line heights.
FEWEST, LOWEST = 3, 3.0
# Nothing in a figure is further from the next label, or from the caption, in line heights.
FAR = 14.0


def with_captioned_figures(regions: Sequence[Region], lines: Sequence[OcrLine]) -> list[Region]:
    """Regions, figures reaching down to their captions, with those that only labels tell of."""
    found = list(regions)
    if not lines:
        return found
    height = typical_height(lines)
    for caption in (line for line in lines if _is_caption(line.text)):
        column = _column(caption, lines)
        figures = [one for one in found if one.label == "figure"]
        labels = _labels(caption, column, lines, [one.rect for one in figures], height)
        if not labels:
            continue
        rect = hull(line.rect for line in labels)
        rect = min(rect[0], caption.rect[0]), rect[1], max(rect[2], caption.rect[2]), rect[3]
        above = [one for one in figures if _stands_on(one.rect, rect, height)]
        if above:
            k = found.index(above[0])
            found[k] = replace(
                above[0], rect=hull((above[0].rect, hull(one.rect for one in labels)))
            )
        elif len(labels) >= FEWEST and rect[3] - rect[1] > LOWEST * height:
            found.append(Region("figure", rect, 1.0))
    return found


def _is_caption(text: str) -> bool:
    return names_figure(text) and begins_caption(text)


def _column(caption: OcrLine, lines: Sequence[OcrLine]) -> Rect:
    """The column of text that a caption stands in, up to it."""
    left, _, right, _ = hull(line.rect for line in lines)
    at = (caption.rect[0] + caption.rect[2]) / 2
    beside = [one.x for one in gutters(lines) if one.top <= caption.middle <= one.bottom]
    if not any(caption.rect[0] < x < caption.rect[2] for x in beside):
        left = max((x for x in beside if x < at), default=left)
        right = min((x for x in beside if x > at), default=right)
    return left, 0.0, right, caption.rect[1]


def _labels(
    caption: OcrLine, column: Rect, lines: Sequence[OcrLine], figures: Sequence[Rect], height: float
) -> list[OcrLine]:
    """The short lines right above a caption, up to text or to a figure."""
    left, _, right, bottom = column
    above = [
        line
        for line in lines
        if line.rect[2] > left and line.rect[0] < right and line.rect[3] < bottom + 0.4 * height
    ]
    found: list[OcrLine] = []
    top = bottom
    for line in sorted(above, key=lambda line: -line.rect[3]):
        in_figure = any(overlap(line.rect, one) > 0 for one in figures)
        wide = line.rect[2] - line.rect[0] > NARROW * (right - left)
        wordy = words_in(line) > (0 if wide else FEW_WORDS)
        if in_figure or wordy or top - line.rect[3] > FAR * height:
            break
        found.append(line)
        top = min(top, line.rect[1])
    while found and words_in(found[-1]) > 1 and found[-1].rect[0] < left + 2 * height:
        found.pop()
    return found


def _stands_on(figure: Rect, labels: Rect, height: float) -> bool:
    """Whether labels begin where a figure ends."""
    across = min(figure[2], labels[2]) - max(figure[0], labels[0])
    return across > 0 and abs(labels[1] - figure[3]) < 2 * height
