"""The JSON object in a model's answer, whatever stands around it."""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.parsing.json_repair import (
    MAX_DEPTH,
    RepairedJson,
    parse_number,
    repair_json,
    starts_object,
    unescape,
)
from llm_ocr.parsing.schema import Schema
from llm_ocr.records import valid_text

# A note on what costs the record nothing.
SURROUNDING_TEXT = "text around the JSON left out"
_THOUGHT = "</think>"
_STRICT_TRIES = 3
_MOST_OBJECTS = 1000
_BEGINNING = re.compile(r"\{\s*+[\"'“}\w/]")
_LONE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class JsonAnswer:
    """The object that was read, None where the text has none; `notes` say what was mended and what
    was left out. `truncated`: the text ends within the object."""

    value: dict[str, Any] | None
    notes: tuple[str, ...] = ()
    truncated: bool = False


def extract_json(text: str, keys: Collection[str] = ()) -> JsonAnswer:
    """The object that `text` is or has in it; valid JSON comes back as it is.

    Of several the one with most values under `keys` (the schema's fields) is taken, without `keys`
    the one with most values at all; of equals, the first. An object whose keys are all strange and
    that has such a one for a value gives that one. Values that can't be known (cut, missing, NaN,
    nested deeper than `MAX_DEPTH`) are left out or null, with a note.
    """
    if not text.lstrip().startswith("{"):
        _, thought, after = text.rpartition(_THOUGHT)
        text = after if thought and "{" in after else text
    best, count = None, 0
    for one in _objects(text):
        count += 1
        if best is None or _fit(one.value, keys) > _fit(best.value, keys):
            best = one
    if best is None:
        inner = _encoded(text)
        if inner is None:
            return JsonAnswer(None, ("no JSON object",))
        read = extract_json(inner, keys)
        return JsonAnswer(read.value, ("JSON within a string", *read.notes), read.truncated)
    notes = list(best.notes)
    if count > 1:
        many = f"{count} or more" if count == _MOST_OBJECTS else str(count)
        notes.append(f"{many} JSON objects: the one that fits best is taken")
    elif _words_around(text, best):
        notes.append(SURROUNDING_TEXT)
    if best.truncated and not best.value:
        return JsonAnswer(None, tuple(notes), truncated=True)
    value, where = _unwrapped(best.value, keys)
    if where:
        notes.append(f"taken out of {where!r}")
    return JsonAnswer(value, tuple(notes), best.truncated)


def field_keys(schema: Schema) -> tuple[str, ...]:
    """The keys by which a schema's fields may come: their names and aliases."""
    fields = schema.json_schema["properties"]
    aliases = (alias for node in fields.values() for alias in node.get("aliases", ()))
    return tuple(dict.fromkeys([*fields, *aliases]))


@dataclass(frozen=True)
class _Found(RepairedJson):
    start: int = 0


@dataclass
class _Strict:
    """The standard decoder, with a note of what in its answers isn't JSON."""

    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._decoder = json.JSONDecoder(
            strict=False,
            parse_float=self._float,
            parse_constant=self._constant,
            object_pairs_hook=self._object,
        )

    def read(self, text: str, start: int) -> _Found | None:
        """The object at `start`; None where it isn't valid, or too deep for what comes later."""
        self.notes.clear()
        try:
            value, end = self._decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        brackets = text.count("{", start, end) + text.count("[", start, end)
        if brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH:
            return None
        if _LONE.search(text, start, end):
            value = _storable(value)
        return _Found(value, end, tuple(dict.fromkeys(self.notes)), truncated=False, start=start)

    def _float(self, said: str) -> float | None:
        number = parse_number(said)
        if number is None:
            self.notes.append(f"{said} read as null: too large")
        return number

    def _constant(self, said: str) -> None:
        self.notes.append(f"{said} read as null")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            seen: dict[str, Any] = {}
            for key, one in pairs:
                if key in seen and seen[key] != one:
                    self.notes.append(f"{key} twice: the last is taken, not {seen[key]!r:.80}")
                seen[key] = one
        return value


def _objects(text: str) -> Iterator[_Found]:
    """The first objects in a text, one after another, in time linear in its length.

    What the strict reader takes before it gives up, the mending one takes too. The strict one may
    give up a few times only: its errors count the lines of all the text before them.
    """
    strict, tries = _Strict(), _STRICT_TRIES
    at, found = 0, 0
    while found < _MOST_OBJECTS and (brace := _BEGINNING.search(text, at)):
        at, one = brace.start(), None
        if starts_object(text, at):
            one = strict.read(text, at) if tries else None
            if one is None:
                tries = max(tries - 1, 0)
                mended = repair_json(text, at)
                if mended:
                    one = _Found(mended.value, mended.end, mended.notes, mended.truncated, at)
        if one:
            found += 1
            yield one
        at = one.end if one else at + 1


def _fit(value: dict[str, Any], keys: Collection[str]) -> tuple[int, int]:
    """How many of the schema's fields have a value, directly or one level down; how many at all."""
    inner = (_known(one, keys) for one in _children(value).values())
    known = max(_known(value, keys), *inner, 0) if keys else 0
    return known, sum(one is not None for one in value.values())


def _known(value: dict[str, Any], keys: Collection[str]) -> int:
    return sum(key in value and value[key] is not None for key in keys)


def _children(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects that are a value's values, alone or alone in a list."""
    alone = {key: one[0] if isinstance(one, list) and one else one for key, one in value.items()}
    return {key: one for key, one in alone.items() if isinstance(one, dict)}


def _unwrapped(value: dict[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], str]:
    """The object within an object that has none of the schema's fields, and the key it is under."""
    if keys and not any(key in value for key in keys):
        for key, one in _children(value).items():
            if _known(one, keys):
                return one, key
    return value, ""


def _words_around(text: str, one: _Found) -> bool:
    return bool(text[: one.start].strip() or text[one.end :].strip())


def _encoded(text: str) -> str | None:
    """What a text that is a JSON string has in it, if that has an object."""
    said = text.strip()
    if len(said) > 2 and said[0] == said[-1] == '"' and "{" in said:
        inner = unescape(said[1:-1])
        return inner if inner != text and "\\" in said else None
    return None


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        depth += 1
    return depth - 1


def _storable(value: Any) -> Any:  # noqa: ANN401
    """A value whose strings have no surrogates; it is nested no deeper than `MAX_DEPTH`."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [_storable(one) for one in value]
    if isinstance(value, dict):
        return {valid_text(key): _storable(one) for key, one in value.items()}
    return value
