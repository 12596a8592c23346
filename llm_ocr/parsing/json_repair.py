"""A JSON object out of text that is nearly JSON: read as far as it goes, nothing made up.

No library did: json-repair 0.64 keeps a number that is cut (`12` of `1234`), puts an empty string
where a value is missing, and ends in a RecursionError on nested input. Time is linear in the text,
and nothing recurses.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.records import valid_text

MAX_DEPTH = 100  # levels; what is nested deeper is left out, since whatever comes later recurses

Container = dict[str, Any] | list[Any]

_INNER_QUOTES = 8
_LONGEST_BARE = 200
_SHOWN = 80
_NOTES = 20


@dataclass(frozen=True)
class RepairedJson:
    """An object as far as it goes, where it ends in the text, and what was done to it."""

    value: dict[str, Any]
    end: int
    notes: tuple[str, ...]
    truncated: bool


def repair_json(text: str, start: int) -> RepairedJson | None:
    """The object that begins with the brace at `start`; None where no key follows the brace."""
    if not starts_object(text, start):
        return None
    reader = _Reader(text, start + 1)
    reader.read()
    return RepairedJson(reader.root, reader.at, reader.describe_repairs(), reader.truncated)


def starts_object(text: str, start: int) -> bool:
    """Whether an object begins with the brace at `start`: a key follows, or its end."""
    found = SPACE.match(text, start + 1)
    at = found.end() if found else start + 1
    return text[at : at + 1] == "}" or key_at(text, at) is not None


@dataclass
class _Reader:
    """The containers that are open, from the outermost; for each object, the key that is read."""

    text: str
    at: int
    root: dict[str, Any] = field(default_factory=dict)
    stack: list[Container] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    truncated: bool = False
    bare_from: int | None = None  # where the last value begins, if it had no quotes
    mended: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def read(self) -> None:
        self._open(self.root)
        while self.stack:
            self._gap()
            if self.at >= len(self.text):
                self._end_early("")
            elif self.text[self.at] in "}]":
                self._close(self.text[self.at])
            elif isinstance(self.stack[-1], dict):
                self._member()
            elif self.text[self.at] == ":":
                self.at += 1
                self.mended["a colon in a list left out"] += 1
            else:
                self._value()

    def describe_repairs(self) -> tuple[str, ...]:
        counted = (f"{what} ({n} times)" if n > 1 else what for what, n in self.mended.items())
        more = len(self.notes) - _NOTES
        if more > 0:
            self.notes[_NOTES - 1 : -1] = [f"and {more} more"]
        return (*counted, *self.notes)

    def _gap(self) -> None:
        """Over commas and white space; more commas than one, or one before a close, are noted."""
        start = self.at
        found = GAP.match(self.text, start)
        self.at = found.end() if found else start
        commas = self.text.count(",", start, self.at)
        closing = self.text[self.at : self.at + 1] in ("}", "]")
        if commas > 1 or (commas and closing):
            self.mended["a comma too many"] += 1
        elif self.stack[-1] and not commas and not closing and self.at < len(self.text):
            self.mended["a comma missing"] += 1

    def _member(self) -> None:
        key = key_at(self.text, self.at)
        if key is None:
            self._stray()
            return
        self.keys[-1], self.at, quoted = key
        if not quoted:
            self.mended["a key without double quotes"] += 1
        self._value()

    def _value(self) -> None:
        found = SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        sign = self.text[self.at : self.at + 1]
        self.bare_from = None
        if sign in ("{", "["):
            self._container(sign)
        elif sign in CLOSING_QUOTES:
            self._string(sign)
        else:
            self._bare()

    def _container(self, sign: str) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._put(None)
            self._skip()
            self.notes.append(f"more than {MAX_DEPTH} levels at {self._path()}: left out")
            return
        self.at += 1
        opened: Container = {} if sign == "{" else []
        self._put(opened)
        self._open(opened)

    def _skip(self) -> None:
        """Over a container, without reading it."""
        depth = 0
        for token in NESTING_TOKEN.finditer(self.text, self.at):
            self.at = token.end()
            depth += (token[0] in "[{") - (token[0] in "]}")
            if not depth:
                return
        self.at = len(self.text)

    def _string(self, opening: str) -> None:
        start = self.at + 1
        end = self._closing_quote(CLOSING_QUOTES[opening], start)
        if end is None:
            self._end_early(self.text[start:])
            return
        self.at = end
        if opening != '"':
            self.mended["a string without double quotes"] += 1
        self._put(unescape(self.text[start : end - 1]))

    def _closing_quote(self, closing: str, start: int) -> int | None:
        """Behind the quote that closes the string, as far as what follows tells."""
        after = AFTER_VALUE if isinstance(self.stack[-1], dict) else AFTER_ITEM
        first, at = None, start
        for _ in range(_INNER_QUOTES):
            found = TO_QUOTE[closing].match(self.text, at)
            if found is None:
                break
            at = found.end()
            if after.match(self.text, at):
                if first is not None:
                    self.mended["quotes within a string"] += 1
                return at
            first = first or at
        return first

    def _bare(self) -> None:
        """A number, a constant, or words without quotes, up to the next comma, bracket or line."""
        start = self.at
        found = UNQUOTED.match(self.text, start)
        self.at = found.end() if found else start
        said = re.split(r"\s//", self.text[start : self.at], maxsplit=1)[0].strip()
        if self.at >= len(self.text):
            self._end_early(said)
        elif not said:
            self.notes.append(f"no value at {self._path()}")
            self.at += self.text[self.at] not in ",}]{[" and 1
        else:
            self._put(self._meant(said))
            self.bare_from = start

    def _meant(self, said: str) -> object:
        if said in CONSTANTS:
            if not said.islower():
                self.mended["a Python constant"] += 1
            return CONSTANTS[said]
        if said in NULL_WORDS:
            self.mended[f"{said} read as null"] += 1
            return None
        if NUMBER.fullmatch(said) and len(said) < MAX_NUMBER_CHARACTERS:
            number = parse_number(said)
            if number is None:
                self.mended[f"{said} read as null: too large"] += 1
            return number
        self.mended["a string without double quotes"] += 1
        return unescape(said)

    def _stray(self) -> None:
        """What stands in an object where a key belongs: `234` of an unquoted `1,234`, or junk."""
        start, sign = self.at, self.text[self.at]
        if sign in "{[":
            self._skip()
        elif sign in CLOSING_QUOTES:
            self.at = self._closing_quote(CLOSING_QUOTES[sign], start + 1) or len(self.text)
        else:
            found = UNQUOTED.match(self.text, start)
            self.at = max(found.end() if found else start, start + 1)
            if self.bare_from is not None and self.at - self.bare_from < _LONGEST_BARE:
                self._lengthen(self.text[self.bare_from : self.at].strip())
                return
        self.notes.append(f"left out, without a key: {_short(self.text[start : self.at])}")

    def _lengthen(self, said: str) -> None:
        """The last value had no quotes and a comma in it."""
        if self.at >= len(self.text):
            del self.stack[-1][self.keys[-1]]  # type: ignore[arg-type]
            self._end_early(said)
            return
        self.stack[-1][self.keys[-1]] = unescape(said)  # type: ignore[call-overload]
        self.mended["a string without double quotes"] += 1

    def _put(self, value: object) -> None:
        into = self.stack[-1]
        if isinstance(into, list):
            into.append(value)
            return
        key = self.keys[-1]
        if key in into and into[key] != value:
            self.notes.append(f"{self._path()} twice: the last is taken, not {_short(into[key])}")
        into[key] = value

    def _open(self, container: Container) -> None:
        self.stack.append(container)
        self.keys.append("")
        self.bare_from = None

    def _close(self, sign: str) -> None:
        self.at += 1
        kind = dict if sign == "}" else list
        self.bare_from = None
        if not any(isinstance(one, kind) for one in self.stack):
            self.mended[f"a {sign} too many"] += 1
            return
        while not isinstance(self.stack[-1], kind):
            self._leave()
            self.mended["a bracket that isn't closed"] += 1
        self._leave()

    def _leave(self) -> None:
        self.stack.pop()
        self.keys.pop()

    def _end_early(self, lost: str) -> None:
        """The text ends within the object. A value that is cut is left out: it may be another."""
        self.truncated = True
        what = f": left out {_short(lost)}" if lost.strip() else ""
        self.notes.append(f"cut at {self._path()}{what}")
        self.at = len(self.text)
        self.stack.clear()

    def _path(self) -> str:
        parts = (
            str(len(one)) if isinstance(one, list) else key
            for one, key in zip(self.stack, self.keys, strict=False)
        )
        return ".".join(part for part in parts if part) or "its beginning"


def _short(value: object) -> str:
    said = value.strip() if isinstance(value, str) else f"{type(value).__name__} {value!r:.80}"
    return repr(said if len(said) <= _SHOWN else said[:_SHOWN] + "…")


CLOSING_QUOTES = {'"': '"', "'": "'", "“": "”"}
CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False}
NULL_WORDS = {"None", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "undefined"}

SPACE = re.compile(r"(?:\s|//[^\n]*)*+")
GAP = re.compile(r"(?:[\s,;]|//[^\n]*)*+")
_QUOTED_KEY = re.compile(
    r'(?:"(?P<double>(?:[^"\\]|\\.){0,1000}+)"|\'(?P<single>(?:[^\'\\]|\\.){0,1000}+)\''
    r"|“(?P<curly>[^”]{0,1000}+)”)\s*+:",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"(?P<bare>[A-Za-z_][\w.-]{0,200}+)\s*+:")
UNQUOTED = re.compile(r'[^,{}\[\]"\n]*+')
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
MAX_NUMBER_CHARACTERS = 4000  # digits; Python refuses to read an integer of 4,300
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
NESTING_TOKEN = re.compile(
    r'[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL
)


class LiteralFloat(float):
    """A number that `str` gives as it was written: `2298.00`, whose zeros a float forgets. pydantic
    makes Decimals of floats by `str`."""

    _written: str

    def __new__(cls, written: str | float) -> "LiteralFloat":
        self = super().__new__(cls, written)
        self._written = str(written)
        return self

    def __str__(self) -> str:
        return self._written


def parse_number(written: str) -> float | int | None:
    """The number that JSON has written; None for one that is too large for a float."""
    if not set(written) & set(".eE"):
        return int(written)
    number = float(written) if set(written) & set("eE") else LiteralFloat(written)
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
