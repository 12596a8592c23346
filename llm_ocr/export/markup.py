"""XML as text, element by element, for files that are written page by page."""

import re
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape, quoteattr

from llm_ocr.records import Box

# What XML 1.0 can't have, also escaped: most control characters, and two that are no characters.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Attributes = Mapping[str, object]


def text(value: str) -> str:
    """A text as XML, without the characters that XML can't have."""
    return escape(_INVALID.sub("", value))


def element(name: str, attributes: Attributes, content: Iterable[str] = ()) -> str:
    """An element with its attributes, except those that are None, and its content, which is XML."""
    inside = "".join(content)
    start = f"<{name}{_attributes(attributes)}"
    return f"{start}>{inside}</{name}>" if inside else f"{start}/>"


def start_tag(name: str, attributes: Attributes) -> str:
    """The start of an element."""
    return f"<{name}{_attributes(attributes)}>"


def corners(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """The corners of a box in whole pixels, on the page and at least one pixel apart."""
    x1, y1 = (
        min(max(0, round(value)), limit - 1) for value, limit in ((box.x1, width), (box.y1, height))
    )
    x2, y2 = min(max(x1 + 1, round(box.x2)), width), min(max(y1 + 1, round(box.y2)), height)
    return x1, y1, x2, y2


def _attributes(attributes: Attributes) -> str:
    return "".join(
        f" {name}={quoteattr(_INVALID.sub('', str(value)))}"
        for name, value in attributes.items()
        if value is not None
    )
