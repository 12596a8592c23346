"""A JSON Schema as what is to be found: values, groups of them, and lists."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from llm_ocr.parsing.references import alternatives, is_null, resolve
from llm_ocr.parsing.synonyms import Phrase, synonyms
from llm_ocr.text.normalize import normalized_words

# Where a schema may say what else a field is called.
ALIAS_KEYWORDS = ("title", "alias", "aliases", "x-aliases", "synonyms")
ALTERNATIVE_KEYWORDS = ("anyOf", "oneOf")
MAX_HINT_WORDS = 3
# Deeper than this nothing is looked for: a schema may refer to itself.
MAX_FIELD_DEPTH = 6
# More nodes than this are only told to a lesser depth, to this one at least.
MAX_FIELDS, MIN_FIELD_DEPTH = 2000, 2


class ValueKind(StrEnum):
    """What a value is."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "whole"
    DATE = "date"
    BOOLEAN = "boolean"
    CHOICE = "choice"


@dataclass(frozen=True)
class FieldNames:
    """What a field is called: by the schema, by others, and in its description."""

    own: tuple[Phrase, ...]
    others: tuple[Phrase, ...] = ()
    hints: tuple[Phrase, ...] = ()

    @property
    def all(self) -> tuple[Phrase, ...]:
        return tuple(dict.fromkeys((*self.own, *self.others, *self.hints)))

    def has(self, *words: str) -> bool:
        """Whether one of the schema's own names has one of these words."""
        return any(word in phrase for phrase in self.own for word in words)


@dataclass(frozen=True)
class ScalarField:
    """One value. `path` has dots and no numbers; `members` are those of a choice.

    `is_fraction`: a rate is told as 0.2, not as 20.
    """

    path: str
    names: FieldNames
    kind: ValueKind
    members: tuple[object, ...] = ()
    format: str = ""
    pattern: str | None = None
    is_fraction: bool = False


@dataclass(frozen=True)
class ObjectField:
    """An object."""

    path: str
    names: FieldNames
    fields: Mapping[str, "SchemaField"]

    def leaves(self) -> Iterator[ScalarField]:
        """The values of it and its groups, not those of lists."""
        for node in self.fields.values():
            if isinstance(node, ScalarField):
                yield node
            elif isinstance(node, ObjectField):
                yield from node.leaves()

    def objects(self) -> Iterator["ObjectField"]:
        """The groups in it, at any depth but in lists."""
        for node in self.fields.values():
            if isinstance(node, ObjectField):
                yield node
                yield from node.objects()

    def arrays(self) -> Iterator["ArrayField"]:
        for node in self.fields.values():
            if isinstance(node, ArrayField):
                yield node
            elif isinstance(node, ObjectField):
                yield from node.arrays()


@dataclass(frozen=True)
class ArrayField:
    """An array."""

    path: str
    names: FieldNames
    item: "SchemaField"


SchemaField = ScalarField | ObjectField | ArrayField


def schema_fields(schema: Mapping[str, Any]) -> ObjectField:
    """The shape of an object's JSON Schema; a schema of something else is a group of one, `value`.

    Objects nested deeper than `MAX_FIELD_DEPTH` count as texts. Where recursive types would make
    more than `MAX_FIELDS` fields, the depth is reduced, to `MIN_FIELD_DEPTH` at least.
    """
    for deepest in range(MAX_FIELD_DEPTH, MIN_FIELD_DEPTH, -1):
        try:
            return _shape(schema, _Room(schema, deepest, MAX_FIELDS))
        except _TooManyError:
            continue
    return _shape(schema, _Room(schema, MIN_FIELD_DEPTH, None))


def field_labels(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What each value is called on pages, by its path without the numbers of list items."""
    return dict(_labels_of(json.dumps(schema)))


@lru_cache(maxsize=8)
def _labels_of(schema: str) -> Mapping[str, tuple[str, ...]]:
    """The same of a schema's JSON: all records of a run have one schema."""
    return {
        leaf.path: tuple(" ".join(phrase) for phrase in leaf.names.all)
        for leaf in _all_leaves(schema_fields(json.loads(schema)))
    }


def _all_leaves(node: SchemaField) -> Iterator[ScalarField]:
    if isinstance(node, ScalarField):
        yield node
    elif isinstance(node, ArrayField):
        yield from _all_leaves(node.item)
    else:
        for inner in node.fields.values():
            yield from _all_leaves(inner)


class _TooManyError(Exception):
    """There is no room for another node."""


@dataclass
class _Room:
    """What a schema's nodes are made in: its root, how deep they go, and how many may follow."""

    root: Mapping[str, Any]
    deepest: int
    left: int | None

    def take(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise _TooManyError


def _shape(schema: Mapping[str, Any], room: _Room) -> ObjectField:
    node = _node(schema, room, "", "", False, 0)
    return (
        node if isinstance(node, ObjectField) else ObjectField("", FieldNames(()), {"value": node})
    )


def _node(
    given: object, room: _Room, path: str, name: str, column: bool, depth: int
) -> SchemaField:
    room.take()
    schema = _resolved(given, room.root)
    names = _names(name, schema, column)
    kind = schema.get("type")
    if depth < room.deepest and (isinstance(schema.get("properties"), Mapping)):
        fields = {
            key: _node(inner, room, f"{path}.{key}" if path else key, key, column, depth + 1)
            for key, inner in schema["properties"].items()
        }
        return ObjectField(path, names, fields)
    if depth < room.deepest and (kind == "array" or "items" in schema):
        item = _node(schema.get("items", {}), room, path, name, True, depth + 1)
        return ArrayField(path, names, item)
    return _leaf(schema, path, names)


def _leaf(schema: Mapping[str, Any], path: str, names: FieldNames) -> ScalarField:
    members = schema.get("enum", [schema["const"]] if "const" in schema else [])
    members = members if isinstance(members, list) else []
    form = str(schema.get("format", ""))
    if members:
        kind = ValueKind.CHOICE
    elif form in ("date", "date-time"):
        kind = ValueKind.DATE
    else:
        kinds = {
            "number": ValueKind.NUMBER,
            "integer": ValueKind.INTEGER,
            "boolean": ValueKind.BOOLEAN,
        }
        kind = kinds.get(str(schema.get("type")), ValueKind.TEXT)
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    return ScalarField(
        path,
        names,
        kind,
        tuple(one for one in members if one is not None),
        form,
        str(schema["pattern"]) if kind is ValueKind.TEXT and "pattern" in schema else None,
        isinstance(most, int | float) and most <= 1,
    )


def _resolved(given: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its references and its likeliest alternative in place; empty where it points
    to nothing."""
    schema: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    try:
        for _ in range(MAX_FIELD_DEPTH):
            schema = resolve(root, schema)
            options = [one for one in alternatives(schema) if isinstance(one, Mapping)]
            if not options:
                break
            chosen = _likeliest([resolve(root, one) for one in options])
            own = {key: value for key, value in schema.items() if key not in ALTERNATIVE_KEYWORDS}
            # A type of its own would be the list of all its types.
            schema = {**chosen, **own, "type": chosen.get("type")}
    except (LookupError, TypeError, ValueError):
        return {}
    return schema


def _likeliest(options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of several forms the one that says most: a number rather than the same as a string."""
    wanted = [one for one in options if not is_null(one)]
    numbers = [one for one in wanted if one.get("type") in ("number", "integer")]
    return (numbers or wanted or [{}])[0]


def _names(name: str, schema: Mapping[str, Any], column: bool) -> FieldNames:
    given: list[str] = [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)]
    for key in ALIAS_KEYWORDS:
        value = schema.get(key)
        given += [value] if isinstance(value, str) else []
        given += [str(one) for one in value] if isinstance(value, list) else []
    own = tuple(dict.fromkeys(filter(None, map(normalized_words, given))))
    others = synonyms(own, column=column)
    parts = re.split(r"[,;:()/.\"“”'‘’]", str(schema.get("description", "")))
    hints = [normalized_words(part) for part in parts]
    short = tuple(
        hint for hint in hints if 1 <= len(hint) <= MAX_HINT_WORDS and len("".join(hint)) > 3
    )
    return FieldNames(own, others, tuple(hint for hint in short if hint not in own + others))
