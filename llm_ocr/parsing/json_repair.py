"""Read a JSON object from text that is nearly JSON, without inventing anything.

No library does: json-repair 0.64 keeps a truncated number (`12` of `1234`), puts an empty string
where a value is missing, and raises RecursionError on nested input; pydantic_core 2's `from_json`
with `allow_partial` keeps truncated numbers too, loses the zeros of `2298.00`, and doesn't report
what it left out. The time is linear in the length of the text, and nothing recurses.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.records import valid_text

MAX_DEPTH = 100  # levels; deeper nesting is dropped, since the code that uses the result recurses

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
# What follows a quote that closes a string; other quotes are part of the string (12" screen).
_KEY_CUT = rf"{_QUOTED}(?:\\|\"\s*+)?+\Z"
AFTER_VALUE = re.compile(
    rf"\s*+(?:[}}\]]|\Z|//|,\s*+(?:{_KEY_AHEAD}|{_KEY_CUT}|[}}\]{{]|\Z|//)|{_KEY_AHEAD})"
)
AFTER_ITEM = re.compile(r"\s*+(?:[,}\]\[{\"'“]|\Z|//)")
NESTING_TOKEN = re.compile(
    r'[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL
)

Container = dict[str, Any] | list[Any]

_MAX_INNER_QUOTES = 8
_MAX_UNQUOTED_CHARACTERS = 200
_MAX_SHOWN_CHARACTERS = 80
_MAX_NOTES = 20


@dataclass(frozen=True)
class RepairedJson:
    """The object read, where it ends in the text, and what was repaired."""

    value: dict[str, Any]
    end: int
    notes: tuple[str, ...]
    truncated: bool


def repair_json(text: str, start: int) -> RepairedJson | None:
    """The object that begins with the brace at `start`; None if no key follows the brace."""
    if not starts_object(text, start):
        return None
    reader = _RepairReader(text, start + 1)
    reader.read()
    return RepairedJson(reader.root, reader.at, reader.describe_repairs(), reader.truncated)


def starts_object(text: str, start: int) -> bool:
    """Whether an object begins with the brace at `start`: a key follows, or its end."""
    found = SPACE.match(text, start + 1)
    at = found.end() if found else start + 1
    return text[at : at + 1] == "}" or key_at(text, at) is not None


@dataclass
class _RepairReader:
    """Reads one object; `stack` has the open containers, `keys` the current key of each."""

    text: str
    at: int
    root: dict[str, Any] = field(default_factory=dict)
    stack: list[Container] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    truncated: bool = False
    unquoted_from: int | None = None  # where the last value begins, if it is unquoted
    repairs: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def read(self) -> None:
        self._push(self.root)
        while self.stack:
            self._read_separators()
            if self.at >= len(self.text):
                self._truncate("")
            elif self.text[self.at] in "}]":
                self._close_container(self.text[self.at])
            elif isinstance(self.stack[-1], dict):
                self._read_member()
            elif self.text[self.at] == ":":
                self.at += 1
                self.repairs["dropped a colon in a list"] += 1
            else:
                self._read_value()

    def describe_repairs(self) -> tuple[str, ...]:
        counted = (f"{what} ({n} times)" if n > 1 else what for what, n in self.repairs.items())
        more = len(self.notes) - _MAX_NOTES
        if more > 0:
            self.notes[_MAX_NOTES - 1 : -1] = [f"and {more} more"]
        return (*counted, *self.notes)

    def _read_separators(self) -> None:
        """Skip commas and white space, and note extra and missing commas."""
        start = self.at
        found = GAP.match(self.text, start)
        self.at = found.end() if found else start
        commas = self.text.count(",", start, self.at)
        closing = self.text[self.at : self.at + 1] in ("}", "]")
        if commas > 1 or (commas and closing):
            self.repairs["extra comma"] += 1
        elif self.stack[-1] and not commas and not closing and self.at < len(self.text):
            self.repairs["missing comma"] += 1

    def _read_member(self) -> None:
        key = key_at(self.text, self.at)
        if key is None:
            self._skip_stray()
            return
        self.keys[-1], self.at, quoted = key
        if not quoted:
            self.repairs["key without double quotes"] += 1
        self._read_value()

    def _read_value(self) -> None:
        found = SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        sign = self.text[self.at : self.at + 1]
        self.unquoted_from = None
        if sign in ("{", "["):
            self._open_container(sign)
        elif sign in CLOSING_QUOTES:
            self._read_string(sign)
        else:
            self._read_unquoted()

    def _open_container(self, sign: str) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._add(None)
            self._skip_container()
            self.notes.append(f"dropped {self._path()}: nested deeper than {MAX_DEPTH} levels")
            return
        self.at += 1
        opened: Container = {} if sign == "{" else []
        self._add(opened)
        self._push(opened)

    def _skip_container(self) -> None:
        """Skip a container without reading it."""
        depth = 0
        for token in NESTING_TOKEN.finditer(self.text, self.at):
            self.at = token.end()
            depth += (token[0] in "[{") - (token[0] in "]}")
            if not depth:
                return
        self.at = len(self.text)

    def _read_string(self, opening: str) -> None:
        start = self.at + 1
        end = self._find_closing_quote(CLOSING_QUOTES[opening], start)
        if end is None:
            self._truncate(self.text[start:])
            return
        self.at = end
        if opening != '"':
            self.repairs["string without double quotes"] += 1
        self._add(unescape(self.text[start : end - 1]))

    def _find_closing_quote(self, closing: str, start: int) -> int | None:
        """The position after the quote that closes the string, judged by the text that follows."""
        after = AFTER_VALUE if isinstance(self.stack[-1], dict) else AFTER_ITEM
        first, at = None, start
        for _ in range(_MAX_INNER_QUOTES):
            found = TO_QUOTE[closing].match(self.text, at)
            if found is None:
                break
            at = found.end()
            if after.match(self.text, at):
                if first is not None:
                    self.repairs["unescaped quotes in a string"] += 1
                return at
            first = first or at
        return first

    def _read_unquoted(self) -> None:
        """Read a number, a constant or an unquoted string: to a comma, bracket or line end."""
        start = self.at
        found = UNQUOTED.match(self.text, start)
        self.at = found.end() if found else start
        literal = re.split(r"\s//", self.text[start : self.at], maxsplit=1)[0].strip()
        if self.at >= len(self.text):
            self._truncate(literal)
        elif not literal:
            self.notes.append(f"no value at {self._path()}")
            self.at += self.text[self.at] not in ",}]{[" and 1
        else:
            self._add(self._interpret(literal))
            self.unquoted_from = start

    def _interpret(self, literal: str) -> object:
        if literal in CONSTANTS:
            if not literal.islower():
                self.repairs["Python constant"] += 1
            return CONSTANTS[literal]
        if literal in NULL_WORDS:
            self.repairs[f"{literal} read as null"] += 1
            return None
        if NUMBER.fullmatch(literal) and len(literal) < MAX_NUMBER_CHARACTERS:
            number = parse_number(literal)
            if number is None:
                self.repairs[f"{literal} read as null: too large"] += 1
            return number
        self.repairs["string without double quotes"] += 1
        return unescape(literal)

    def _skip_stray(self) -> None:
        """Text where a key should be: the rest (`234`) of an unquoted `1,234`, or junk."""
        start, sign = self.at, self.text[self.at]
        if sign in "{[":
            self._skip_container()
        elif sign in CLOSING_QUOTES:
            self.at = self._find_closing_quote(CLOSING_QUOTES[sign], start + 1) or len(self.text)
        else:
            found = UNQUOTED.match(self.text, start)
            self.at = max(found.end() if found else start, start + 1)
            if (
                self.unquoted_from is not None
                and self.at - self.unquoted_from < _MAX_UNQUOTED_CHARACTERS
            ):
                self._extend_unquoted(self.text[self.unquoted_from : self.at].strip())
                return
        self.notes.append(f"dropped text without a key: {abbreviate(self.text[start : self.at])}")

    def _extend_unquoted(self, literal: str) -> None:
        """The last value is unquoted and contains a comma."""
        if self.at >= len(self.text):
            del self.stack[-1][self.keys[-1]]  # type: ignore[arg-type]
            self._truncate(literal)
            return
        self.stack[-1][self.keys[-1]] = unescape(literal)  # type: ignore[call-overload]
        self.repairs["string without double quotes"] += 1

    def _add(self, value: object) -> None:
        into = self.stack[-1]
        if isinstance(into, list):
            into.append(value)
            return
        key = self.keys[-1]
        if key in into and into[key] != value:
            self.notes.append(f"duplicate key {self._path()}: dropped {abbreviate(into[key])}")
        into[key] = value

    def _push(self, container: Container) -> None:
        self.stack.append(container)
        self.keys.append("")
        self.unquoted_from = None

    def _close_container(self, sign: str) -> None:
        self.at += 1
        kind = dict if sign == "}" else list
        self.unquoted_from = None
        if not any(isinstance(one, kind) for one in self.stack):
            self.repairs[f"extra {sign}"] += 1
            return
        while not isinstance(self.stack[-1], kind):
            self._pop()
            self.repairs["unclosed bracket"] += 1
        self._pop()

    def _pop(self) -> None:
        self.stack.pop()
        self.keys.pop()

    def _truncate(self, cut_off: str) -> None:
        """The text ends within the object. A truncated value is dropped: it may be incomplete."""
        self.truncated = True
        what = f": dropped {abbreviate(cut_off)}" if cut_off.strip() else ""
        self.notes.append(f"truncated at {self._path()}{what}")
        self.at = len(self.text)
        self.stack.clear()

    def _path(self) -> str:
        parts = (
            str(len(one)) if isinstance(one, list) else key
            for one, key in zip(self.stack, self.keys, strict=False)
        )
        return ".".join(part for part in parts if part) or "the beginning"


def abbreviate(value: object) -> str:
    """A value as a note shows it: quoted, and shortened if it is long."""
    text = value.strip() if isinstance(value, str) else str(value)
    is_long = len(text) > _MAX_SHOWN_CHARACTERS
    return repr(text[:_MAX_SHOWN_CHARACTERS] + "…" if is_long else text)


class LiteralFloat(float):
    """A float whose `str` is the number as it was written, with its zeros (`2298.00`): pydantic
    converts floats to Decimals by `str`."""

    _written: str

    def __new__(cls, written: str | float) -> "LiteralFloat":
        self = super().__new__(cls, written)
        self._written = str(written)
        return self

    def __str__(self) -> str:
        return self._written


def parse_number(written: str) -> float | int | None:
    """The number that a JSON literal is; None for one that is too large for a float."""
    if not set(written) & set(".eE"):
        return int(written)
    number = float(written) if set(written) & set("eE") else LiteralFloat(written)
    return None if math.isinf(number) else number


def key_at(text: str, at: int) -> tuple[str, int, bool] | None:
    """The key at `at`, the position after its colon, and whether it has double quotes."""
    found = _QUOTED_KEY.match(text, at)
    if found:
        return unescape(str(found[found.lastgroup or 0])), found.end(), text[at] == '"'
    found = _BARE_KEY.match(text, at)
    return (found["bare"], found.end(), False) if found else None


def unescape(text: str) -> str:
    """A string's text with its escapes resolved; unknown escapes are kept as they are."""
    if "\\" in text:
        text = _ESCAPE.sub(_resolve_escape, text)
    return valid_text(text)


def _resolve_escape(found: re.Match[str]) -> str:
    what = found[1]
    if what[0] == "u" and len(what) > 1:
        return chr(int(what[1:], 16))
    if what in "\"'\\/":
        return what
    return _ESCAPED.get(what, found[0])
