"""A JSON Schema as a user's schema: validation that loses nothing, with the library `jsonschema`.

The fields are walked here, so that each is held against its own part of the schema; what a part
says of a value, and of an object as a whole, the library decides. JSON Schema coerces nothing:
`"12.50"` is no number.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from jsonschema.exceptions import best_match
from jsonschema.validators import Draft202012Validator, validator_for

from llm_ocr.parsing.references import SchemaNode, alternatives, is_null, resolve
from llm_ocr.parsing.schema import FieldError, ValidatedRecord
from llm_ocr.parsing.validation import (
    DUPLICATE_ALIAS,
    MISSING_FIELD,
    UNKNOWN_FIELD,
    describe_error,
    null_non_finite,
    to_json,
)

_LONGEST_REASON = 300
# Of an object: what is held against its fields one by one, or says nothing about values.
_FIELDS = {
    *("properties", "required", "additionalProperties", "patternProperties", "type"),
    *("$defs", "definitions", "$schema", "$id", "$comment", "title", "description", "default"),
    *("examples", "aliases", "merge"),
}


class InvalidValueError(Exception):
    """A value that its part of the schema doesn't take."""


class JsonSchemaValidator:
    """Holds raw objects against a JSON Schema; `schema` must be valid and stand for itself."""

    def __init__(self, schema: SchemaNode) -> None:
        self._root = schema
        kind = validator_for(schema, default=Draft202012Validator)
        self._validator = kind(schema, format_checker=kind.FORMAT_CHECKER)

    def __call__(self, raw: Mapping[str, Any]) -> ValidatedRecord:
        errors: list[FieldError] = []
        root = resolve(self._root, self._root)
        fields = self._object(root, raw, "", errors)
        whole = {name: null_non_finite(one, name, errors) for name, one in fields.items()}
        return ValidatedRecord(whole, tuple(errors))

    def _value(self, node: Any, value: Any, path: str, errors: list[FieldError]) -> Any:  # noqa: ANN401
        """The value as the record has it; InvalidError where the schema doesn't take it."""
        if not isinstance(node, Mapping):
            return self._single({"not": {}} if node is False else {}, value)
        node = resolve(self._root, node)
        either = alternatives(node)
        given = [one for one in either if not is_null(one)]
        if len(given) == 1 and "properties" not in node:
            if value is None and len(either) > 1:
                return None
            return self._value(given[0], value, path, errors)
        if isinstance(value, Mapping) and ("properties" in node or _values(node)):
            return self._object(node, value, path, errors)
        if isinstance(value, list) and isinstance(node.get("items"), Mapping):
            return self._list(node, value, path, errors)
        return self._single(node, value)

    def _single(self, node: SchemaNode, value: Any) -> Any:  # noqa: ANN401
        try:
            error = best_match(self._validator.evolve(schema=node).iter_errors(value))
        except (re.error, RecursionError) as problem:
            raise InvalidValueError(describe_error(problem)) from None
        if error is not None:
            where = ".".join(str(part) for part in error.absolute_path)
            raise InvalidValueError(_short(f"{where}: {error.message}" if where else error.message))
        return value

    def _list(
        self, node: SchemaNode, value: list[Any], path: str, errors: list[FieldError]
    ) -> list[Any]:
        self._single({key: one for key, one in node.items() if key != "items"}, value)
        made = []
        for place, item in enumerate(value):
            where = f"{path}.{place}"
            try:
                made.append(self._value(node["items"], item, where, errors))
            except InvalidValueError as problem:
                errors.append(FieldError(where, to_json(item), str(problem)))
                made.append(None)  # in its place, so that the others keep theirs
        return made

    def _object(
        self, node: SchemaNode, value: Mapping[str, Any], path: str, errors: list[FieldError]
    ) -> dict[str, Any]:
        inside = f"{path}." if path else ""
        made: dict[str, Any] = {}
        used: set[str] = set()
        for name, part in node.get("properties", {}).items():
            key = next((one for one in _keys(name, part) if one in value), name)
            used.add(key)
            needed = name in node.get("required", ())
            made[name] = self._field(part, value, key, needed, f"{inside}{name}", errors)
        others = {
            key for name, part in node.get("properties", {}).items() for key in _keys(name, part)
        }
        for key, item in value.items():
            if key in others - used:
                errors.append(FieldError(f"{inside}{key}", to_json(item), DUPLICATE_ALIAS))
            elif key not in used:
                self._strange(node, key, item, made, f"{inside}{key}", errors)
        errors.extend(self._checks(node, made, path))
        return made

    def _field(
        self,
        part: Any,  # noqa: ANN401
        value: Mapping[str, Any],
        key: str,
        needed: bool,
        path: str,
        errors: list[FieldError],
    ) -> Any:  # noqa: ANN401
        default = self._default(part)
        if key not in value:
            if needed and default is None:
                errors.append(FieldError(path, None, MISSING_FIELD))
            return default
        try:
            return self._value(part, value[key], path, errors)
        except InvalidValueError as problem:
            if value[key] is not None or (needed and default is None):
                errors.append(FieldError(path, to_json(value[key]), str(problem)))
            return default

    def _default(self, part: Any) -> Any:  # noqa: ANN401
        if not isinstance(part, Mapping):
            return None
        return deepcopy(resolve(self._root, part).get("default"))

    def _strange(
        self,
        node: SchemaNode,
        key: str,
        item: Any,  # noqa: ANN401
        made: dict[str, Any],
        path: str,
        errors: list[FieldError],
    ) -> None:
        """A key that is no property: kept where the schema says that there may be others."""
        patterns = node.get("patternProperties", {})
        matched = [part for pattern, part in patterns.items() if _matches(pattern, key)]
        allowed = matched[0] if matched else node.get("additionalProperties")
        if allowed is None or allowed is False:
            errors.append(FieldError(path, to_json(item), UNKNOWN_FIELD))
            return
        try:
            made[key] = self._value(allowed, item, path, errors)
        except InvalidValueError as problem:
            errors.append(FieldError(path, to_json(item), str(problem)))
            made[key] = None

    def _checks(self, node: SchemaNode, made: dict[str, Any], path: str) -> Iterator[FieldError]:
        """What the schema says of the object as a whole."""
        said = {key: one for key, one in node.items() if key not in _FIELDS}
        if not said:
            return
        given = {key: one for key, one in made.items() if one is not None}
        for error in self._validator.evolve(schema=said).iter_errors(given):
            where = [path, *(str(part) for part in error.absolute_path)]
            yield FieldError(".".join(part for part in where if part), None, _short(error.message))


def _keys(name: str, part: object) -> list[str]:
    """The names by which a field may come."""
    return [name, *(part.get("aliases", ()) if isinstance(part, Mapping) else ())]


def _matches(pattern: str, key: str) -> bool:
    try:
        return bool(re.search(pattern, key))
    except re.error:
        return False


def _values(node: SchemaNode) -> bool:
    return isinstance(node.get("additionalProperties"), Mapping) or "patternProperties" in node


def _short(said: str) -> str:
    return said if len(said) <= _LONGEST_REASON else said[:_LONGEST_REASON] + "…"
