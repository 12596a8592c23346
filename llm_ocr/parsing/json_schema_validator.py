"""Validate raw objects with a JSON Schema, keeping every valid field of an invalid object.

This module walks the fields and validates each with its part of the schema, and each object as a
whole, by the library `jsonschema`. JSON Schema coerces nothing: `"12.50"` is not a number.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from jsonschema.exceptions import best_match
from jsonschema.validators import Draft202012Validator, validator_for

from llm_ocr.parsing.references import SchemaNode, alternatives, is_null, resolve
from llm_ocr.parsing.schema import ValidatedRecord
from llm_ocr.parsing.validation import (
    DUPLICATE_ALIAS,
    MISSING_FIELD,
    UNKNOWN_FIELD,
    describe_error,
    null_non_finite,
    to_json,
)
from llm_ocr.records import FieldError

_MAX_REASON_CHARACTERS = 300
# Keywords of an object that apply to its fields one by one, or not to values at all.
_FIELD_KEYWORDS = {
    *("properties", "required", "additionalProperties", "patternProperties", "type"),
    *("$defs", "definitions", "$schema", "$id", "$comment", "title", "description", "default"),
    *("examples", "aliases", "merge", "few_shot"),
}


class InvalidValueError(Exception):
    """A value is invalid by its part of the schema."""


class JsonSchemaValidator:
    """Validates raw objects with a JSON Schema, which must be valid and self-contained."""

    def __init__(self, schema: SchemaNode) -> None:
        self._root = schema
        kind = validator_for(schema, default=Draft202012Validator)
        self._validator = kind(schema, format_checker=kind.FORMAT_CHECKER)

    def __call__(self, raw: Mapping[str, Any]) -> ValidatedRecord:
        errors: list[FieldError] = []
        root = resolve(self._root, self._root)
        fields = self._validate_object(root, raw, "", errors)
        whole = {name: null_non_finite(value, name, errors) for name, value in fields.items()}
        return ValidatedRecord(whole, tuple(errors))

    def _validate_value(self, node: Any, value: Any, path: str, errors: list[FieldError]) -> Any:  # noqa: ANN401
        """The value as the record has it; InvalidError where the schema doesn't take it."""
        if not isinstance(node, Mapping):
            return self._validate_whole({"not": {}} if node is False else {}, value)
        node = resolve(self._root, node)
        either = alternatives(node)
        given = [option for option in either if not is_null(option)]
        if len(given) == 1 and "properties" not in node:
            if value is None and len(either) > 1:
                return None
            return self._validate_value(given[0], value, path, errors)
        if isinstance(value, Mapping) and ("properties" in node or _has_open_keys(node)):
            return self._validate_object(node, value, path, errors)
        if isinstance(value, list) and isinstance(node.get("items"), Mapping):
            return self._validate_list(node, value, path, errors)
        return self._validate_whole(node, value)

    def _validate_whole(self, node: SchemaNode, value: Any) -> Any:  # noqa: ANN401
        try:
            error = best_match(self._validator.evolve(schema=node).iter_errors(value))
        except (re.error, RecursionError) as problem:
            raise InvalidValueError(describe_error(problem)) from None
        if error is not None:
            where = ".".join(str(part) for part in error.absolute_path)
            raise InvalidValueError(
                _abbreviate(f"{where}: {error.message}" if where else error.message)
            )
        return value

    def _validate_list(
        self, node: SchemaNode, value: list[Any], path: str, errors: list[FieldError]
    ) -> list[Any]:
        self._validate_whole({key: rule for key, rule in node.items() if key != "items"}, value)
        result = []
        for place, item in enumerate(value):
            where = f"{path}.{place}"
            try:
                result.append(self._validate_value(node["items"], item, where, errors))
            except InvalidValueError as problem:
                errors.append(FieldError(where, to_json(item), str(problem)))
                result.append(None)  # so that the others keep their indices
        return result

    def _validate_object(
        self, node: SchemaNode, value: Mapping[str, Any], path: str, errors: list[FieldError]
    ) -> dict[str, Any]:
        inside = f"{path}." if path else ""
        result: dict[str, Any] = {}
        used: set[str] = set()
        for name, part in node.get("properties", {}).items():
            key = next(
                (accepted for accepted in _accepted_keys(name, part) if accepted in value), name
            )
            used.add(key)
            needed = name in node.get("required", ())
            result[name] = self._validate_field(part, value, key, needed, f"{inside}{name}", errors)
        properties = node.get("properties", {}).items()
        known = {key for name, part in properties for key in _accepted_keys(name, part)}
        for key, item in value.items():
            if key in known - used:
                errors.append(FieldError(f"{inside}{key}", to_json(item), DUPLICATE_ALIAS))
            elif key not in used:
                self._validate_extra(node, key, item, result, f"{inside}{key}", errors)
        errors.extend(self._check_object(node, result, path))
        return result

    def _validate_field(
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
            return self._validate_value(part, value[key], path, errors)
        except InvalidValueError as problem:
            if value[key] is not None or (needed and default is None):
                errors.append(FieldError(path, to_json(value[key]), str(problem)))
            return default

    def _default(self, part: Any) -> Any:  # noqa: ANN401
        if not isinstance(part, Mapping):
            return None
        return deepcopy(resolve(self._root, part).get("default"))

    def _validate_extra(
        self,
        node: SchemaNode,
        key: str,
        item: Any,  # noqa: ANN401
        result: dict[str, Any],
        path: str,
        errors: list[FieldError],
    ) -> None:
        """A key that is not a property: kept if the schema allows additional ones."""
        patterns = node.get("patternProperties", {})
        matched = [part for pattern, part in patterns.items() if _matches(pattern, key)]
        allowed = matched[0] if matched else node.get("additionalProperties")
        if allowed is None or allowed is False:
            errors.append(FieldError(path, to_json(item), UNKNOWN_FIELD))
            return
        try:
            result[key] = self._validate_value(allowed, item, path, errors)
        except InvalidValueError as problem:
            errors.append(FieldError(path, to_json(item), str(problem)))
            result[key] = None

    def _check_object(
        self, node: SchemaNode, result: dict[str, Any], path: str
    ) -> Iterator[FieldError]:
        """Errors of the object as a whole."""
        rules = {key: rule for key, rule in node.items() if key not in _FIELD_KEYWORDS}
        if not rules:
            return
        given = {key: value for key, value in result.items() if value is not None}
        for error in self._validator.evolve(schema=rules).iter_errors(given):
            where = [path, *(str(part) for part in error.absolute_path)]
            yield FieldError(
                ".".join(part for part in where if part), None, _abbreviate(error.message)
            )


def _accepted_keys(name: str, part: object) -> list[str]:
    """The keys that are accepted for a field: its name and aliases."""
    return [name, *(part.get("aliases", ()) if isinstance(part, Mapping) else ())]


def _matches(pattern: str, key: str) -> bool:
    try:
        return bool(re.search(pattern, key))
    except re.error:
        return False


def _has_open_keys(node: SchemaNode) -> bool:
    return isinstance(node.get("additionalProperties"), Mapping) or "patternProperties" in node


def _abbreviate(reason: str) -> str:
    is_long = len(reason) > _MAX_REASON_CHARACTERS
    return reason[:_MAX_REASON_CHARACTERS] + "…" if is_long else reason
