"""What was read of the invoices, held against the truth about them.

A field counts as right where it has the true value, text compared without case, accents,
punctuation and white space, a currency by its sign or its code; null is wrong. A value is invented
where the page doesn't show it: it has no evidence, and the truth doesn't have it either. A box is
right where it shares at least half of the smaller of the two with a true one.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.text.currencies import CURRENCY_SIGNS
from llm_ocr.text.normalize import normalized_words

Rect = Sequence[float]
SHARED = 0.5


@dataclass(frozen=True)
class Found:
    """A record: its fields, and by path where each stands as shares of the page.

    A path that is not in `places` is one that the page doesn't show.
    """

    fields: Mapping[str, Any]
    places: Mapping[str, Rect | None]


@dataclass
class Score:
    """Counts of fields: in the truth, right, found but not on the page, right with a right box."""

    fields: int = 0
    right: int = 0
    invented: int = 0
    placed: int = 0

    def __iadd__(self, other: "Score") -> "Score":
        self.fields += other.fields
        self.right += other.right
        self.invented += other.invented
        self.placed += other.placed
        return self

    @property
    def accuracy(self) -> float:
        return self.right / self.fields if self.fields else 0.0

    @property
    def placed_share(self) -> float:
        return self.placed / self.right if self.right else 0.0


def score(truth: Mapping[str, Any], found: Found) -> tuple[Score, list[str]]:
    """The counts of one invoice, and a line on each field that is not right."""
    expected, got = dict(leaves(truth["fields"])), dict(leaves(found.fields))
    total, notes = Score(), []
    for path, value in expected.items():
        if value is None:
            continue
        total.fields += 1
        if same(value, got.get(path)):
            total.right += 1
            place = found.places.get(path)
            boxes = truth["boxes"].get(path, [])
            if place is not None and any(overlap(place, box) for box in boxes):
                total.placed += 1
            else:
                notes.append(f"{path}: {value!r} is right, but not where it is shown: {place}")
        else:
            notes.append(f"{path}: {got.get(path)!r} instead of {value!r}")
    for path, value in got.items():
        if value is not None and found.places.get(path) is None:
            total.invented += not same(expected.get(path), value)
            notes.append(f"{path}: {value!r} is not on the page")
        elif value is not None and expected.get(path) is None:
            notes.append(f"{path}: {value!r} is more than the truth has")
    return total, notes


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Every value of a record with its path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{k}")
    else:
        yield path, value


def same(expected: object, got: object) -> bool:
    if expected is None or got is None:
        return expected is got
    if isinstance(expected, int | float):
        # Decimals come as text, so that no digit of them is lost.
        number = float(str(got)) if re.fullmatch(r"-?\d+(\.\d+)?", str(got)) else math.inf
        return abs(expected - number) < 0.005
    got = CURRENCY_SIGNS.get(str(got), got)
    return "".join(normalized_words(str(expected))) == "".join(normalized_words(str(got)))


def overlap(one: Rect, other: Rect) -> bool:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return width > 0 and height > 0 and width * height >= SHARED * smaller
