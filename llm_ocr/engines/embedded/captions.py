"""How captions begin: Fig. 2, Table IV."""

import re

_FIGURE = re.compile(
    r"(fig(ure|\.)?|abb(ildung|\.)?|chart|photo|scheme|plate|map|图)\s*[\dIVX]", re.I
)
_TABLE = re.compile(r"(tab(le|elle|leau|la|ella|\.)?|表)\s*[\dIVX]", re.I)
# A caption's number is followed by a mark or a capital; in a sentence a verb follows.
_SENTENCE = re.compile(r"\w+\.?\s*[\dIVX]+[a-z]?\s+(?!and\b)[a-z]{2,}")
_MARKED = re.compile(r"\w+\.?\s*[\dIVX]+[a-z]?\s*[.:|–—]\s+\S", re.I)


def names_figure(text: str) -> bool:
    """Whether a text begins with a figure's number, as captions do, and sentences about it."""
    return _FIGURE.match(text) is not None


def names_table(text: str) -> bool:
    """The same of a table's number."""
    return _TABLE.match(text) is not None


def begins_caption(text: str) -> bool:
    return (names_figure(text) or names_table(text)) and _SENTENCE.match(text) is None


def is_marked(text: str) -> bool:
    """Whether a mark stands between a caption's number and its text."""
    return _MARKED.match(text) is not None
