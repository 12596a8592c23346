"""Validate raw objects with a pydantic model, keeping every valid field of an invalid object."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from llm_ocr.parsing.json_repair import MAX_DEPTH
from llm_ocr.parsing.schema import ValidatedRecord
from llm_ocr.parsing.tolerant_model import ModelClass, field_aliases, original_model, tolerant_model
from llm_ocr.parsing.validation import (
    DUPLICATE_ALIAS,
    MISSING_FIELD,
    UNKNOWN_FIELD,
    VALIDATION,
    ValidationContext,
    describe_error,
    null_non_finite,
    to_json,
)
from llm_ocr.records import FieldError


class _SchemaGenerator(GenerateJsonSchema):
    """Describes Decimals as numbers: a string would allow any format."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> dict[str, Any]:
        return {"type": "number"}


@dataclass(frozen=True)
class PydanticValidator:
    """Validates raw objects with a model, with pydantic's coercions."""

    model: ModelClass
    tolerant: ModelClass

    @classmethod
    def for_model(cls, model: ModelClass) -> "PydanticValidator":
        return cls(model, tolerant_model(model))

    def json_schema(self) -> dict[str, Any]:
        """The model's schema by field names; aliases are hints."""
        return self.tolerant.model_json_schema(by_alias=False, schema_generator=_SchemaGenerator)

    def __call__(self, raw: Mapping[str, Any]) -> ValidatedRecord:
        context = ValidationContext()
        token = VALIDATION.set(context)
        try:
            instance = self._validate(dict(raw), context)
            errors = [*context.errors, *_unknown_and_missing(instance)]
            fields, lost = self._dump(instance)
        finally:
            VALIDATION.reset(token)
        return ValidatedRecord(fields, (*errors, *lost))

    def _validate(self, raw: dict[str, Any], context: ValidationContext) -> BaseModel:
        """The tolerant model's instance; an empty one if even that model rejects the object."""
        try:
            instance = self.tolerant.model_validate(raw)
            if isinstance(instance, BaseModel):
                return instance
            problem = f"a validator of the model returned a {type(instance).__name__}"
        except Exception as error:  # noqa: BLE001 - a user's __init__ may raise anything
            problem = describe_error(error)
        context.errors.append(FieldError("", to_json(raw), problem))
        try:
            return self.tolerant.model_construct()
        except Exception as error:  # noqa: BLE001 - a user's private attributes may raise anything
            context.errors.append(FieldError("", None, describe_error(error)))
            return _empty_instance(self.tolerant)

    def _dump(self, instance: BaseModel) -> tuple[dict[str, Any], list[FieldError]]:
        """The fields as JSON values; null for one that can't be serialized."""
        fields: dict[str, Any] = {}
        errors: list[FieldError] = []
        for name in (*type(instance).model_fields, *(instance.model_extra or ())):
            try:
                dumped = instance.model_dump(
                    mode="json",
                    include={name},
                    by_alias=False,
                    warnings=False,
                    exclude_computed_fields=True,
                )
            except Exception as error:  # noqa: BLE001 - a user's serializer may raise anything
                errors.append(
                    FieldError(name, to_json(getattr(instance, name)), describe_error(error))
                )
                dumped = {name: None}
            if name in dumped:
                fields[name] = null_non_finite(dumped[name], name, errors)
        return fields, errors


def _empty_instance(model: ModelClass) -> BaseModel:
    """An instance whose fields are all null, created without running any code of the user."""
    instance = BaseModel.__new__(model)
    state: dict[str, Any] = {"fields_set": set(), "extra": {}, "private": None}
    object.__setattr__(instance, "__dict__", dict.fromkeys(model.model_fields))
    for name, value in state.items():
        object.__setattr__(instance, f"__pydantic_{name}__", value)
    return instance


def _unknown_and_missing(instance: BaseModel) -> Iterator[FieldError]:
    """Errors for unknown keys, which are removed, and for required fields that are missing."""
    todo: deque[tuple[object, tuple[str, ...]]] = deque([(instance, ())])
    while todo:
        value, path = todo.popleft()
        if isinstance(value, BaseModel):
            yield from _model_errors(value, path)
        if len(path) < MAX_DEPTH:
            todo.extend((child, (*path, key)) for key, child in _children(value))


def _children(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, BaseModel):
        yield from ((name, value.__dict__.get(name)) for name in type(value).model_fields)
    elif isinstance(value, list | tuple):
        yield from ((str(place), item) for place, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())


def _model_errors(instance: BaseModel, path: tuple[str, ...]) -> Iterator[FieldError]:
    model = original_model(type(instance))
    extra = instance.__pydantic_extra__ or {}
    known = {
        name for field, info in model.model_fields.items() for name in (field, *field_aliases(info))
    }
    for key in list(extra):
        if key in known or model.model_config.get("extra") != "allow":
            problem = DUPLICATE_ALIAS if key in known else UNKNOWN_FIELD
            yield FieldError(".".join((*path, key)), to_json(extra.pop(key)), problem)
    for name, info in model.model_fields.items():
        if info.is_required() and name not in instance.model_fields_set:
            yield FieldError(".".join((*path, name)), None, MISSING_FIELD)
