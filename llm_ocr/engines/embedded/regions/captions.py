"""How captions and notes begin: Fig. 2, Table IV, †."""

import re

# 2, 2-1, 3.4, A-3, IV, B.
_NUMBER = r"(?:[A-Z]{1,2}[-.–]?)?\d+(?:[-.–]\d+)*|[IVX]+|[A-Z]"
_NUMBERED = rf"\s*(?:{_NUMBER})[a-z]?(?![^\W_])"
_FIGURE = re.compile(
    rf"(?i:fig(ure|\.)?|abb(ildung|\.)?|chart|photo|scheme|plate|map|图){_NUMBERED}"
)
_TABLE = re.compile(rf"(?i:tab(le|elle|leau|la|ella|\.)?|exhibit|表){_NUMBERED}")
# A caption's number is followed by a mark or a capital; in a sentence a verb follows.
_SENTENCE = re.compile(rf"\w+\.?\s*(?:{_NUMBER})[a-z]?\s+(?!and\b)[a-z]{{2,}}")

_NOTE = re.compile(r"([*†‡§¶¹²³⁴-⁹]+|\(?\d{1,2}\)?[.)]?)\s*[^\W\d]")


def names_figure(text: str) -> bool:
    """Whether a text begins with a figure's number, as captions do, and sentences about it."""
    return _FIGURE.match(text) is not None


def names_table(text: str) -> bool:
    """The same of a table's number."""
    return _TABLE.match(text) is not None


def begins_caption(text: str) -> bool:
    return (names_figure(text) or names_table(text)) and _SENTENCE.match(text) is None


def begins_note(text: str) -> bool:
    """Whether a text begins with a note's mark or number, and words."""
    return _NOTE.match(text) is not None
