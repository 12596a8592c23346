"""A pydantic model as a schema: what decoding is guided by, and validation that loses nothing."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from llm_ocr.parsing.json_repair import MAX_DEPTH
from llm_ocr.parsing.schema import FieldError, ValidatedRecord
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


class _Guiding(GenerateJsonSchema):
    """Decimals are numbers: a string could hold any way to write one."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> dict[str, Any]:
        return {"type": "number"}


@dataclass(frozen=True)
class PydanticValidator:
    """Holds raw objects against a model; what pydantic coerces is coerced."""

    model: ModelClass
    tolerant: ModelClass

    @classmethod
    def of(cls, model: ModelClass) -> "PydanticValidator":
        return cls(model, tolerant_model(model))

    def json_schema(self) -> dict[str, Any]:
        """Of the model with its fields under their names, the aliases as hints."""
        return self.tolerant.model_json_schema(by_alias=False, schema_generator=_Guiding)

    def __call__(self, raw: Mapping[str, Any]) -> ValidatedRecord:
        trail = ValidationContext()
        token = VALIDATION.set(trail)
        try:
            made = self._instance(dict(raw), trail)
            errors = [*trail.errors, *_strange(made)]
            fields, lost = self._dumped(made)
        finally:
            VALIDATION.reset(token)
        return ValidatedRecord(fields, (*errors, *lost))

    def _instance(self, raw: dict[str, Any], trail: ValidationContext) -> BaseModel:
        """The twin's instance; an empty one if even the twin can't take the object."""
        try:
            made = self.tolerant.model_validate(raw)
            if isinstance(made, BaseModel):
                return made
            problem = f"a validator of the model made a {type(made).__name__} of it"
        except Exception as error:  # noqa: BLE001 - a user's __init__ may raise anything
            problem = describe_error(error)
        trail.errors.append(FieldError("", to_json(raw), problem))
        try:
            return self.tolerant.model_construct()
        except Exception as error:  # noqa: BLE001 - a user's private attributes may raise anything
            trail.errors.append(FieldError("", None, describe_error(error)))
            return _bare(self.tolerant)

    def _dumped(self, made: BaseModel) -> tuple[dict[str, Any], list[FieldError]]:
        """The fields as JSON has them; null for one that can't be."""
        fields: dict[str, Any] = {}
        errors: list[FieldError] = []
        for name in (*type(made).model_fields, *(made.model_extra or ())):
            try:
                dumped = made.model_dump(
                    mode="json",
                    include={name},
                    by_alias=False,
                    warnings=False,
                    exclude_computed_fields=True,
                )
            except Exception as error:  # noqa: BLE001 - a user's serializer may raise anything
                errors.append(FieldError(name, to_json(getattr(made, name)), describe_error(error)))
                dumped = {name: None}
            if name in dumped:
                fields[name] = null_non_finite(dumped[name], name, errors)
        return fields, errors


def _bare(model: ModelClass) -> BaseModel:
    """An instance all of whose fields are null, made without anything of the user's."""
    made = BaseModel.__new__(model)
    state: dict[str, Any] = {"fields_set": set(), "extra": {}, "private": None}
    object.__setattr__(made, "__dict__", dict.fromkeys(model.model_fields))
    for name, value in state.items():
        object.__setattr__(made, f"__pydantic_{name}__", value)
    return made


def _strange(made: BaseModel) -> Iterator[FieldError]:
    """Keys that the models don't know (taken out), and fields that should be there and aren't."""
    todo: deque[tuple[object, tuple[str, ...]]] = deque([(made, ())])
    while todo:
        value, path = todo.popleft()
        if isinstance(value, BaseModel):
            yield from _of_model(value, path)
        if len(path) < MAX_DEPTH:
            todo.extend((one, (*path, key)) for key, one in _inner(value))


def _inner(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, BaseModel):
        yield from ((name, value.__dict__.get(name)) for name in type(value).model_fields)
    elif isinstance(value, list | tuple):
        yield from ((str(place), one) for place, one in enumerate(value))
    elif isinstance(value, dict):
        yield from ((str(key), one) for key, one in value.items())


def _of_model(made: BaseModel, path: tuple[str, ...]) -> Iterator[FieldError]:
    model = original_model(type(made))
    extra = made.__pydantic_extra__ or {}
    known = {
        name for field, info in model.model_fields.items() for name in (field, *field_aliases(info))
    }
    for key in list(extra):
        if key in known or model.model_config.get("extra") != "allow":
            problem = DUPLICATE_ALIAS if key in known else UNKNOWN_FIELD
            yield FieldError(".".join((*path, key)), to_json(extra.pop(key)), problem)
    for name, info in model.model_fields.items():
        if info.is_required() and name not in made.model_fields_set:
            yield FieldError(".".join((*path, name)), None, MISSING_FIELD)
