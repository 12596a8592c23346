"""Levels of headings: the numbers that they begin with, and classes of their sizes."""

import re
from collections.abc import Iterable, Sequence

# No heading is deeper.
DEEPEST = 4
_NUMBERED = re.compile(
    r"(\d{1,2}(?:\.\d{1,2}){0,3}|(?:[A-Z]|[IVX]{1,5})(?:\.\d{1,2}){1,3})\\?\.?\s+[^\W\d_]"
)


def numbered_level(title: str) -> int | None:
    """The level that a heading's number gives it: 2 for `3 Results`, 3 for `3.1 Rivers`."""
    number = _NUMBERED.match(title)
    return None if number is None else 2 + number[1].count(".")


def size_classes(sizes: Iterable[float], tolerance: float) -> list[float]:
    """The smallest size of each class, the largest class first. A class's largest size is less than
    `tolerance` times its smallest one."""
    classes: list[float] = []
    top = 0.0
    for size in sorted(sizes, reverse=True):
        if classes and top / size < tolerance:
            classes[-1] = size
        else:
            classes.append(size)
            top = size
    return classes


def class_of(size: float, classes: Sequence[float]) -> int:
    """The place of the class that a size belongs to."""
    return next(k for k, least in enumerate(classes) if size >= least)
