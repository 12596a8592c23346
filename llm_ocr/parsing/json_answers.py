"""Find the JSON object in a model's answer, whatever text is around it."""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.parsing.json_repair import (
    MAX_DEPTH,
    RepairedJson,
    abbreviate,
    parse_number,
    repair_json,
    starts_object,
    unescape,
)
from llm_ocr.parsing.schema import Schema
from llm_ocr.records import valid_text

# The one note that means no loss for the record.
SURROUNDING_TEXT = "dropped text around the JSON"
_END_OF_THOUGHT = "</think>"
_MAX_STRICT_TRIES = 3
_MAX_OBJECTS = 1000
_OBJECT_START = re.compile(r"\{\s*+[\"'“}\w/]")
_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class JsonAnswer:
    """The object in an answer, None if there is none; `notes` list repairs and what was dropped.

    `truncated`: the text ends within the object.
    """

    value: dict[str, Any] | None
    notes: tuple[str, ...] = ()
    truncated: bool = False


def extract_json(text: str, keys: Collection[str] = ()) -> JsonAnswer:
    """The object that `text` is or contains; valid JSON is returned unchanged.

    Of several objects the one with the most values under `keys` (the schema's fields) is returned,
    without `keys` the one with the most values; of equals, the first. If all its keys are unknown
    and one of its values is an object with known ones, that object is returned. Values that can't
    be known (truncated, missing, NaN, nested deeper than `MAX_DEPTH`) are dropped or null, with a
    note.
    """
    if not text.lstrip().startswith("{"):
        _, thought, after = text.rpartition(_END_OF_THOUGHT)
        text = after if thought and "{" in after else text
    best, count = None, 0
    for candidate in _find_objects(text):
        count += 1
        if best is None or _match_score(candidate.value, keys) > _match_score(best.value, keys):
            best = candidate
    if best is None:
        inner = _decode_string(text)
        if inner is None:
            return JsonAnswer(None, ("no JSON object",))
        read = extract_json(inner, keys)
        return JsonAnswer(read.value, ("JSON encoded as a string", *read.notes), read.truncated)
    notes = list(best.notes)
    if count > 1:
        many = f"{count} or more" if count == _MAX_OBJECTS else str(count)
        notes.append(f"{many} JSON objects: used the one that matches best")
    elif _has_surrounding_text(text, best):
        notes.append(SURROUNDING_TEXT)
    if best.truncated and not best.value:
        return JsonAnswer(None, tuple(notes), truncated=True)
    value, where = _unwrap(best.value, keys)
    if where:
        notes.append(f"unwrapped from {where!r}")
    return JsonAnswer(value, tuple(notes), best.truncated)


def field_keys(schema: Schema) -> tuple[str, ...]:
    """The keys that a schema's fields may have in an answer: their names and aliases."""
    fields = schema.json_schema["properties"]
    aliases = (alias for node in fields.values() for alias in node.get("aliases", ()))
    return tuple(dict.fromkeys([*fields, *aliases]))


@dataclass(frozen=True)
class _FoundObject(RepairedJson):
    start: int = 0


@dataclass
class _StrictReader:
    """The standard library's decoder, with notes on what in its results isn't JSON."""

    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._decoder = json.JSONDecoder(
            strict=False,
            parse_float=self._parse_float,
            parse_constant=self._parse_constant,
            object_pairs_hook=self._parse_object,
        )

    def read(self, text: str, start: int) -> _FoundObject | None:
        """The object at `start`; None if it is invalid or nested too deep."""
        self.notes.clear()
        try:
            value, end = self._decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        brackets = text.count("{", start, end) + text.count("[", start, end)
        if brackets > MAX_DEPTH and _nesting_depth(value) > MAX_DEPTH:
            return None
        if _SURROGATE.search(text, start, end):
            value = _without_surrogates(value)
        return _FoundObject(
            value, end, tuple(dict.fromkeys(self.notes)), truncated=False, start=start
        )

    def _parse_float(self, literal: str) -> float | None:
        number = parse_number(literal)
        if number is None:
            self.notes.append(f"{literal} read as null: too large")
        return number

    def _parse_constant(self, literal: str) -> None:
        self.notes.append(f"{literal} read as null")

    def _parse_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            seen: dict[str, Any] = {}
            for key, item in pairs:
                if key in seen and seen[key] != item:
                    self.notes.append(f"duplicate key {key}: dropped {abbreviate(seen[key])}")
                seen[key] = item
        return value


def _find_objects(text: str) -> Iterator[_FoundObject]:
    """The first objects in a text, one after another, in time linear in its length.

    What the strict reader rejects, the repairing one reads. The strict one may fail a few times
    only: its errors count the lines of all text before them.
    """
    strict, tries = _StrictReader(), _MAX_STRICT_TRIES
    at, found = 0, 0
    while found < _MAX_OBJECTS and (brace := _OBJECT_START.search(text, at)):
        at, found_object = brace.start(), None
        if starts_object(text, at):
            found_object = strict.read(text, at) if tries else None
            if found_object is None:
                tries = max(tries - 1, 0)
                mended = repair_json(text, at)
                if mended:
                    found_object = _FoundObject(
                        mended.value, mended.end, mended.notes, mended.truncated, at
                    )
        if found_object:
            found += 1
            yield found_object
        at = found_object.end if found_object else at + 1


def _match_score(value: dict[str, Any], keys: Collection[str]) -> tuple[int, int]:
    """How many of the schema's fields have a value, directly or one level down; how many values."""
    inner = (_count_known(item, keys) for item in _children(value).values())
    known = max(_count_known(value, keys), *inner, 0) if keys else 0
    return known, sum(item is not None for item in value.values())


def _count_known(value: dict[str, Any], keys: Collection[str]) -> int:
    return sum(key in value and value[key] is not None for key in keys)


def _children(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The values of an object that are objects, or lists that begin with one."""
    alone = {
        key: item[0] if isinstance(item, list) and item else item for key, item in value.items()
    }
    return {key: item for key, item in alone.items() if isinstance(item, dict)}


def _unwrap(value: dict[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], str]:
    """The object itself or, if it has none of the schema's fields, one within it that has, and its
    key."""
    if keys and not any(key in value for key in keys):
        for key, item in _children(value).items():
            if _count_known(item, keys):
                return item, key
    return value, ""


def _has_surrounding_text(text: str, found_object: _FoundObject) -> bool:
    return bool(text[: found_object.start].strip() or text[found_object.end :].strip())


def _decode_string(text: str) -> str | None:
    """The text that a JSON string encodes, if it may contain an object."""
    stripped = text.strip()
    if len(stripped) > 2 and stripped[0] == stripped[-1] == '"' and "{" in stripped:
        inner = unescape(stripped[1:-1])
        return inner if inner != text and "\\" in stripped else None
    return None


def _nesting_depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        depth += 1
    return depth - 1


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401
    """A value, nested no deeper than `MAX_DEPTH`, with unpaired surrogates in it replaced."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {valid_text(key): _without_surrogates(item) for key, item in value.items()}
    return value
