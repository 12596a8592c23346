"""The words of text that is nearly JSON: strings, keys, numbers, and what may follow them."""

import math
import re

from llm_ocr.records import valid_text

CLOSING = {'"': '"', "'": "'", "“": "”"}
CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False}
NOTHING = {"None", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "undefined"}

SPACE = re.compile(r"(?:\s|//[^\n]*)*+")
GAP = re.compile(r"(?:[\s,;]|//[^\n]*)*+")
_QUOTED_KEY = re.compile(
    r'(?:"(?P<double>(?:[^"\\]|\\.){0,1000}+)"|\'(?P<single>(?:[^\'\\]|\\.){0,1000}+)\''
    r"|“(?P<curly>[^”]{0,1000}+)”)\s*+:",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"(?P<bare>[A-Za-z_][\w.-]{0,200}+)\s*+:")
BARE = re.compile(r'[^,{}\[\]"\n]*+')
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
LONGEST_NUMBER = 4000  # digits; Python refuses to read an integer of 4,300
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
TO_QUOTE = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL),
    "”": re.compile(r"[^”]*+”"),
}
_QUOTED = r"\"(?:[^\"\\\n]|\\.){0,200}+"
_KEY_AHEAD = (
    rf"(?:{_QUOTED}\"|'[^'\n]{{0,200}}+'|“[^”\n]{{0,200}}+”|[A-Za-z_][\w.-]{{0,200}}+)\s*+:"
)
# What follows a quote that closes a string: it stands in the text of one otherwise (12" screen).
_KEY_CUT = rf"{_QUOTED}(?:\\|\"\s*+)?+\Z"
AFTER_VALUE = re.compile(
    rf"\s*+(?:[}}\]]|\Z|//|,\s*+(?:{_KEY_AHEAD}|{_KEY_CUT}|[}}\]{{]|\Z|//)|{_KEY_AHEAD})"
)
AFTER_ITEM = re.compile(r"\s*+(?:[,}\]\[{\"'“]|\Z|//)")
DEEP = re.compile(r'[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)


class WrittenFloat(float):
    """A number that `str` gives as it was written: `2298.00`, whose zeros a float forgets. pydantic
    makes Decimals of floats by `str`."""

    _written: str

    def __new__(cls, written: str | float) -> "WrittenFloat":
        self = super().__new__(cls, written)
        self._written = str(written)
        return self

    def __str__(self) -> str:
        return self._written


def read_number(written: str) -> float | int | None:
    """The number that JSON has written; None for one that is too large for a float."""
    if not set(written) & set(".eE"):
        return int(written)
    number = float(written) if set(written) & set("eE") else WrittenFloat(written)
    return None if math.isinf(number) else number


def key_at(text: str, at: int) -> tuple[str, int, bool] | None:
    """The key at `at`, where its value begins, and whether it is quoted as JSON has it."""
    found = _QUOTED_KEY.match(text, at)
    if found:
        return unescape(str(found[found.lastgroup or 0])), found.end(), text[at] == '"'
    found = _BARE_KEY.match(text, at)
    return (found["bare"], found.end(), False) if found else None


def unescape(text: str) -> str:
    """A string's text with its escapes resolved; those that JSON doesn't know stay as they are."""
    if "\\" in text:
        text = _ESCAPE.sub(_resolve, text)
    return valid_text(text)


def _resolve(found: re.Match[str]) -> str:
    what = found[1]
    if what[0] == "u" and len(what) > 1:
        return chr(int(what[1:], 16))
    if what in "\"'\\/":
        return what
    return _ESCAPED.get(what, found[0])
