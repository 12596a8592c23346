"""Describe a JSON Schema as fields to look for: scalars, objects and arrays, with their names."""

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

# Keywords of a schema for other names of a field.
ALIAS_KEYWORDS = ("title", "alias", "aliases", "x-aliases", "synonyms")
ALTERNATIVE_KEYWORDS = ("anyOf", "oneOf")
MAX_HINT_WORDS = 3
NUMBER_WORDS = ("number", "no", "nr")
# What a name may end in that only tells the type of its value.
TYPE_WORDS = frozenset({"date", "time"})
# Deeper fields are ignored: a schema may be recursive.
MAX_FIELD_DEPTH = 6
# A schema with more fields than this is described to a smaller depth, but at least to this one.
MAX_FIELDS, MIN_FIELD_DEPTH = 2000, 2


class ValueKind(StrEnum):
    """The type of a scalar."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    DATE = "date"
    BOOLEAN = "boolean"
    CHOICE = "choice"


@dataclass(frozen=True)
class FieldNames:
    """The names of a field: the schema's own, synonyms, and phrases of its description."""

    own: tuple[Phrase, ...]
    others: tuple[Phrase, ...] = ()
    hints: tuple[Phrase, ...] = ()

    @property
    def all(self) -> tuple[Phrase, ...]:
        return tuple(dict.fromkeys((*self.own, *self.others, *self.hints)))

    def has(self, *words: str) -> bool:
        """Whether one of the schema's own names contains one of these words."""
        return any(word in phrase for phrase in self.own for word in words)


@dataclass(frozen=True)
class ScalarField:
    """A single value. `path` has dots and no indices; `members` are those of a choice.

    `is_fraction`: a rate is given as 0.2, not as 20.
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
        """The scalars of the object and of objects in it, but not of arrays."""
        for node in self.fields.values():
            if isinstance(node, ScalarField):
                yield node
            elif isinstance(node, ObjectField):
                yield from node.leaves()

    def objects(self) -> Iterator["ObjectField"]:
        """The objects in it, at any depth, but not those in arrays."""
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
    """The fields of an object's JSON Schema; another schema is an object with the field `value`.

    Objects nested deeper than `MAX_FIELD_DEPTH` count as strings. Where recursive types would make
    more than `MAX_FIELDS` fields, the depth is reduced, to `MIN_FIELD_DEPTH` at least.
    """
    for max_depth in range(MAX_FIELD_DEPTH, MIN_FIELD_DEPTH, -1):
        try:
            return _build_object(schema, _Limits(schema, max_depth, MAX_FIELDS))
        except _TooManyFieldsError:
            continue
    return _build_object(schema, _Limits(schema, MIN_FIELD_DEPTH, None))


def field_labels(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The labels of each scalar on pages, by its path without list indices."""
    return dict(_cached_labels(json.dumps(schema)))


@lru_cache(maxsize=8)
def _cached_labels(schema: str) -> Mapping[str, tuple[str, ...]]:
    """The labels of a schema's JSON, cached: all records of a run have the same schema."""
    return {
        leaf.path: tuple(" ".join(phrase) for phrase in leaf.names.all)
        for leaf in _scalar_fields(schema_fields(json.loads(schema)))
    }


def _scalar_fields(node: SchemaField) -> Iterator[ScalarField]:
    if isinstance(node, ScalarField):
        yield node
    elif isinstance(node, ArrayField):
        yield from _scalar_fields(node.item)
    else:
        for inner in node.fields.values():
            yield from _scalar_fields(inner)


class _TooManyFieldsError(Exception):
    """The schema has more fields than the limit."""


@dataclass
class _Limits:
    """The schema's root, the depth to describe, and how many fields may follow."""

    root: Mapping[str, Any]
    max_depth: int
    remaining: int | None

    def count_field(self) -> None:
        if self.remaining is not None:
            self.remaining -= 1
            if self.remaining < 0:
                raise _TooManyFieldsError


def _build_object(schema: Mapping[str, Any], limits: _Limits) -> ObjectField:
    node = _build_field(schema, limits, "", "", False, 0)
    return (
        node if isinstance(node, ObjectField) else ObjectField("", FieldNames(()), {"value": node})
    )


def _build_field(
    given: object, limits: _Limits, path: str, name: str, column: bool, depth: int
) -> SchemaField:
    limits.count_field()
    schema = _resolve_node(given, limits.root)
    group = path.rpartition(".")[0].rpartition(".")[2]
    names = _field_names(name, schema, column, "" if column else group)
    kind = schema.get("type")
    if depth < limits.max_depth and (isinstance(schema.get("properties"), Mapping)):
        fields = {
            key: _build_field(
                inner, limits, f"{path}.{key}" if path else key, key, column, depth + 1
            )
            for key, inner in schema["properties"].items()
        }
        return ObjectField(path, names, fields)
    if depth < limits.max_depth and (kind == "array" or "items" in schema):
        item = _build_field(schema.get("items", {}), limits, path, name, True, depth + 1)
        return ArrayField(path, names, item)
    return _build_scalar(schema, path, names)


def _build_scalar(schema: Mapping[str, Any], path: str, names: FieldNames) -> ScalarField:
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
        tuple(member for member in members if member is not None),
        form,
        str(schema["pattern"]) if kind is ValueKind.TEXT and "pattern" in schema else None,
        isinstance(most, int | float) and most <= 1,
    )


def _resolve_node(given: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node with its references and its most specific alternative merged in; empty if a reference
    points to nothing."""
    schema: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    try:
        for _ in range(MAX_FIELD_DEPTH):
            schema = resolve(root, schema)
            options = [option for option in alternatives(schema) if isinstance(option, Mapping)]
            if not options:
                break
            chosen = _most_specific([resolve(root, option) for option in options])
            own = {key: value for key, value in schema.items() if key not in ALTERNATIVE_KEYWORDS}
            # The node's own type would be the list of all its types.
            schema = {**chosen, **own, "type": chosen.get("type")}
    except (LookupError, TypeError, ValueError):
        return {}
    return schema


def _most_specific(options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of several alternatives the one to look for: a number rather than the number as a string."""
    wanted = [option for option in options if not is_null(option)]
    numbers = [option for option in wanted if option.get("type") in ("number", "integer")]
    return (numbers or wanted or [{}])[0]


def _field_names(name: str, schema: Mapping[str, Any], column: bool, group: str) -> FieldNames:
    given: list[str] = [_split_camel_case(name)]
    for key in ALIAS_KEYWORDS:
        value = schema.get(key)
        given += [value] if isinstance(value, str) else []
        given += [str(item) for item in value] if isinstance(value, list) else []
    own = tuple(dict.fromkeys(filter(None, map(normalized_words, given))))
    prefix = normalized_words(_split_camel_case(group))
    others = (*synonyms(own, column=column), *_variants((*own, *(prefix + one for one in own))))
    parts = re.split(r"[,;:()/.\"“”'‘’]", str(schema.get("description", "")))
    hints = [normalized_words(part) for part in parts]
    short = [hint for hint in hints if 1 <= len(hint) <= MAX_HINT_WORDS and len("".join(hint)) > 3]
    # What a schema calls a date or a time may be printed without that word.
    short += [phrase[:-1] for phrase in own if len(phrase) > 1 and phrase[-1] in TYPE_WORDS]
    known = {*own, *others}
    return FieldNames(
        own,
        tuple(phrase for phrase in dict.fromkeys(others) if phrase not in own),
        tuple(phrase for phrase in dict.fromkeys(short) if phrase not in known),
    )


def _split_camel_case(name: str) -> str:
    """A name in camel case as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _variants(phrases: Sequence[Phrase]) -> Iterator[Phrase]:
    """Phrases, and those that end in a word for a number with the other ones."""
    for phrase in phrases:
        yield phrase
        if len(phrase) > 1 and phrase[-1] in NUMBER_WORDS:
            yield from ((*phrase[:-1], word) for word in NUMBER_WORDS)
