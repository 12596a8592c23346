"""Rate how surely the characters of a value were read, from the engine's confidences."""

from collections.abc import Sequence

from llm_ocr.records import Box, PageLine
from llm_ocr.text.normalize import normalized_words

# The share of a line's height that has to be within a value's box, whose height is an estimate.
SAME_HEIGHT = 0.5


def reading_confidence(
    quote: str | None, box: Box | None, lines: Sequence[PageLine] | None
) -> float | None:
    """The least confidence (0..1) of the words of a quote, on the lines of its page that are at the
    height of its box.

    A word without a confidence has its line's, which is 1 in a trusted text layer. None where the
    engine reported no lines, or these don't have all words of the quote.
    """
    wanted = normalized_words(quote or "")
    if not lines or box is None or not wanted:
        return None
    known: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if not _is_within(line.box, box):
            continue
        for text, confidence, place in _words(line):
            distance = _distance(place, box)
            for word in normalized_words(text):
                known.setdefault(word, []).append((distance, confidence))
    if not all(word in known for word in wanted):
        return None
    return min(min(known[word])[1] for word in wanted)


def _words(line: PageLine) -> list[tuple[str, float, Box]]:
    """The words of a line; the line itself where it has none."""
    if not line.words:
        return [(line.text, line.confidence, line.box)]
    return [
        (word.text, line.confidence if word.confidence is None else word.confidence, word.box)
        for word in line.words
    ]


def _is_within(line: Box, box: Box) -> bool:
    shared = min(line.y2, box.y2) - max(line.y1, box.y1)
    height = min(line.y2 - line.y1, box.y2 - box.y1)
    return shared >= SAME_HEIGHT * height and line.x1 <= box.x2 and line.x2 >= box.x1


def _distance(place: Box, box: Box) -> float:
    """From center to center, in pixels: of two equal words the closer one is meant."""
    x = (place.x1 + place.x2 - box.x1 - box.x2) / 2
    y = (place.y1 + place.y2 - box.y1 - box.y2) / 2
    return abs(x) + abs(y)
