"""Derive a tolerant variant of a pydantic model, in which an invalid field doesn't affect others.

The tolerant model is a subclass with the same fields and validators. Where one raises, the value
becomes the field's default (null if it has none), the error is collected, and validation continues;
pydantic itself rejects the whole model. Required fields may be missing, and unknown keys are kept
for the caller to list.

Models within unions of several types stay strict: the first member of a union that accepts a value
is chosen, and a tolerant model accepts every object.
"""

import inspect
import types
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    RootModel,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUseDefault

from llm_ocr.parsing.validation import VALIDATION

ModelClass = type[BaseModel]
_Handler = ValidatorFunctionWrapHandler

_LIST_TYPES = (list, set, frozenset, Sequence)
_DICT_TYPES = (dict, Mapping, MutableMapping)
_NULL_NOT_ALLOWED = "; the record has null here, which the schema does not allow"
# The tolerant model's own validators come last, and so wrap those of the model.
_FIELD_GUARD = "_keep_the_other_fields"


@dataclass(frozen=True)
class AliasHints:
    """Adds a field's aliases to its JSON schema, where the model looks for them."""

    aliases: tuple[str, ...]

    def __get_pydantic_json_schema__(
        self,
        core_schema: Any,  # noqa: ANN401
        handler: GetJsonSchemaHandler,
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        return {
            **schema,
            "aliases": list(dict.fromkeys([*schema.get("aliases", []), *self.aliases])),
        }


def tolerant_model(model: ModelClass) -> ModelClass:
    """The tolerant variant of `model`, and of the models in its fields."""
    builder = _ModelBuilder()
    tolerant = builder.build(model)
    for built in builder.models.values():
        built.model_rebuild(force=True, _types_namespace=builder.names)
    return tolerant


def original_model(model: ModelClass) -> ModelClass:
    """The model that a tolerant model was derived from; any other model itself."""
    return model.__bases__[0] if _FIELD_GUARD in vars(model) else model


@dataclass
class _ModelBuilder:
    """Builds tolerant models; `placeholders` name those that a recursive model refers to."""

    models: dict[ModelClass, ModelClass] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    placeholders: dict[ModelClass, str] = field(default_factory=dict)

    def build(self, model: ModelClass) -> ModelClass:
        model.model_rebuild()  # a field's type may be defined after the model
        self.placeholders[model] = f"Tolerant{len(self.placeholders)}"
        fields = {name: self._field(name, info) for name, info in model.model_fields.items()}
        body = {
            "__module__": model.__module__,
            "__qualname__": model.__qualname__,
            "__doc__": model.__doc__,
            "__annotations__": {name: info.annotation for name, info in fields.items()},
            "model_config": ConfigDict(
                extra="allow",
                validate_by_name=True,
                validate_by_alias=True,
                allow_inf_nan=False,
                defer_build=True,
                protected_namespaces=(),
            ),
            _FIELD_GUARD: field_validator("*", mode="wrap")(_guard_field),
            **fields,
            **_guard_checks(model),
        }
        variant = types.new_class(model.__name__, (model,), {}, lambda space: space.update(body))
        self.models[model] = variant
        self.names[self.placeholders[model]] = variant
        return variant

    def _field(self, name: str, info: FieldInfo) -> FieldInfo:
        variant = copy(info)
        if info.default_factory is not None:
            variant.default_factory = _guard_factory(name, info)
        variant.annotation = self._annotation(info.annotation)
        if info.is_required():
            variant.default, variant.validate_default = None, False
        hints = [AliasHints(field_aliases(info))] if field_aliases(info) else []
        variant.metadata = [*info.metadata, *hints]
        return variant

    def _annotation(self, kind: Any) -> Any:  # noqa: ANN401
        """The type with tolerant models for its models, and lists whose items fail one by one."""
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self._model(kind)
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return Annotated[(self._annotation(inner[0]), *inner[1:])]
        if origin in (Union, types.UnionType):
            several = sum(part is not type(None) for part in inner) > 1
            return kind if several else Union[tuple(self._annotation(part) for part in inner)]  # noqa: UP007
        if origin in _LIST_TYPES or origin is tuple:
            items = tuple(part if part is Ellipsis else self._guard_item(part) for part in inner)
            return self._wrap(origin[items], _guard_items)
        if origin in _DICT_TYPES:
            key = self._wrap(inner[0], _track_key)
            value = self._wrap(self._annotation(inner[1]), _guard_value)
            return self._wrap(origin[key, value], _guard_items)
        return kind

    def _guard_item(self, kind: Any) -> Any:  # noqa: ANN401
        return self._wrap(self._annotation(kind), _guard_item)

    def _wrap(self, kind: Any, validator: Callable[[Any, _Handler], Any]) -> Any:  # noqa: ANN401
        return Annotated[kind, WrapValidator(validator)]

    def _model(self, kind: ModelClass) -> Any:  # noqa: ANN401
        if issubclass(kind, RootModel):
            return kind
        if kind in self.placeholders:
            return self.models.get(kind) or ForwardRef(self.placeholders[kind])
        return self.build(kind)


def field_aliases(info: FieldInfo) -> tuple[str, ...]:
    """The aliases of a field."""
    given = info.validation_alias
    choices = given.choices if isinstance(given, AliasChoices) else [given, info.alias]
    return tuple(dict.fromkeys(choice for choice in choices if isinstance(choice, str)))


def _guard_field(cls: ModelClass, value: Any, handler: _Handler, info: ValidationInfo) -> Any:  # noqa: ANN401
    context = VALIDATION.get()
    name = str(info.field_name)
    with context.entering(name):
        if context.location in context.rejected:  # the value is its default, which is validated too
            return value
        try:
            return handler(value)
        except PydanticUseDefault:
            raise
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            info_of = original_model(cls).model_fields[name]
            if info_of.is_required():
                null = type(None) in get_args(info_of.annotation)
                context.reject(value, error, "" if null else _NULL_NOT_ALLOWED)
            elif value is not None:  # null for a field with a default counts as missing
                context.reject(value, error)
            raise PydanticUseDefault from None


def _guard_factory(name: str, info: FieldInfo) -> Callable[..., Any]:
    """The field's default factory, giving null where that raises."""
    make: Callable[..., Any] = info.default_factory  # type: ignore[assignment]

    def make_default(*given: Any) -> Any:  # noqa: ANN401
        context = VALIDATION.get()
        with context.entering(name):
            try:
                return make(*given)
            except Exception as error:  # noqa: BLE001 - a user's factory may raise anything
                context.fail_default(error)
                return None

    def of_values(values: dict[str, Any]) -> Any:  # noqa: ANN401
        return make_default(values)

    return of_values if info.default_factory_takes_validated_data else lambda: make_default()


def _guard_items(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    with VALIDATION.get().container():
        return handler(value)


def _guard_item(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    indices = VALIDATION.get().indices
    indices[-1] = str(int(indices[-1]) + 1)
    return _guard_value(value, handler)


def _track_key(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    VALIDATION.get().indices[-1] = str(value)
    return handler(value)


def _guard_value(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    """An item, or null instead of it, so that the others keep their indices."""
    context = VALIDATION.get()
    with context.entering(context.indices[-1]):
        try:
            return handler(value)
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            context.reject(value, error)
            return None


def _guard_checks(model: ModelClass) -> dict[str, Any]:
    """The model's own model validators by name, each wrapped so that its errors keep the fields."""
    found = model.__pydantic_decorators__.model_validators
    guards = {
        name: _guard_check(name, validator.func, validator.info.mode)
        for name, validator in found.items()
    }
    if model.model_post_init is not BaseModel.model_post_init:

        def model_post_init(self: BaseModel, context: Any, /) -> None:  # noqa: ANN401
            given = (self, context)
            _call_check("model_post_init", model.model_post_init, given, lambda: None)

        guards["model_post_init"] = model_post_init
    return guards


def _guard_check(name: str, check: Callable[..., Any], mode: str) -> Any:  # noqa: ANN401
    arguments = len(inspect.signature(check).parameters)

    if mode == "wrap":

        def wrap(cls: ModelClass, data: Any, handler: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
            return _call_check(
                name, check, (data, handler, info)[:arguments], lambda: handler(data)
            )

        return model_validator(mode="wrap")(classmethod(wrap))  # type: ignore[arg-type]

    if mode == "before":

        def before(cls: ModelClass, data: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
            return _call_check(name, check, (data, info)[:arguments], lambda: data)

        return model_validator(mode="before")(classmethod(before))  # type: ignore[arg-type]

    def after(self: BaseModel, info: ValidationInfo) -> Any:  # noqa: ANN401
        done = _call_check(name, check, (self, info)[:arguments], lambda: self)
        return self if done is None else done  # a validator that forgot to return

    return model_validator(mode="after")(after)


def _call_check(
    name: str, check: Callable[..., Any], given: tuple[Any, ...], instead: Callable[[], Any]
) -> Any:  # noqa: ANN401
    try:
        return check(*given)
    except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
        VALIDATION.get().fail_check(name, error)
    return instead()
