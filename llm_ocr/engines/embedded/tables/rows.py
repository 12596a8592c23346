"""Words -> rows of text, from top to bottom."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.geometry import Word

# Words whose middles are closer than this share of their height are of one row.
SAME_ROW = 0.45


@dataclass(frozen=True)
class GridRow:
    """Words beside each other, from left to right."""

    middle: float
    words: list[Word]

    @property
    def top(self) -> float:
        return min(word.rect[1] for word in self.words)

    @property
    def bottom(self) -> float:
        return max(word.rect[3] for word in self.words)


def text_rows(words: Sequence[Word], height: float) -> list[GridRow]:
    """The rows that words stand in; `height` is that of a usual word."""
    groups: list[list[Word]] = []
    middles: list[float] = []
    for word in sorted(words, key=lambda word: word.rect[1] + word.rect[3]):
        middle = (word.rect[1] + word.rect[3]) / 2
        if groups and abs(middle - middles[-1]) < SAME_ROW * height:
            groups[-1].append(word)
            middles[-1] += (middle - middles[-1]) / len(groups[-1])
        else:
            groups.append([word])
            middles.append(middle)
    return [
        GridRow(middle, sorted(group, key=lambda word: word.rect[0]))
        for middle, group in zip(middles, groups, strict=True)
    ]
