"""A pydantic model's twin that loses no field for another.

The twin is a subclass with the same fields and validators. Where one raises, the value there
becomes its default (null where it has none), the error goes on the trail, and the rest goes on;
pydantic itself gives up the whole model. Fields that no default was given for may be missing, and
strange keys are kept for whoever lists them.

Models within unions of several types stay as they are: of a union the first member that takes a
value is right, and a twin takes every object.
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

_LISTS = (list, set, frozenset, Sequence)
_DICTS = (dict, Mapping, MutableMapping)
_NO_NULL = "; null stands in the record, which the schema doesn't take"
# The twin's own validators come last, and so stand around those of the model.
_KEEP = "_keep_the_other_fields"


@dataclass(frozen=True)
class AliasHints:
    """Puts a field's aliases into its JSON schema, for those who look for it on a page."""

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
    """The twin of `model`, and of the models in it."""
    making = _Making()
    twin = making.twin(model)
    for one in making.twins.values():
        one.model_rebuild(force=True, _types_namespace=making.names)
    return twin


def original_model(model: ModelClass) -> ModelClass:
    """The model that a twin is of; any other model itself."""
    return model.__bases__[0] if _KEEP in vars(model) else model


@dataclass
class _Making:
    twins: dict[ModelClass, ModelClass] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    begun: dict[ModelClass, str] = field(default_factory=dict)

    def twin(self, model: ModelClass) -> ModelClass:
        model.model_rebuild()  # a field's type may have been defined after it
        self.begun[model] = f"Twin{len(self.begun)}"
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
            _KEEP: field_validator("*", mode="wrap")(_kept_field),
            **fields,
            **_checks(model),
        }
        made = types.new_class(model.__name__, (model,), {}, lambda space: space.update(body))
        self.twins[model] = made
        self.names[self.begun[model]] = made
        return made

    def _field(self, name: str, info: FieldInfo) -> FieldInfo:
        made = copy(info)
        if info.default_factory is not None:
            made.default_factory = _factory(name, info)
        made.annotation = self._annotation(info.annotation)
        if info.is_required():
            made.default, made.validate_default = None, False
        hints = [AliasHints(field_aliases(info))] if field_aliases(info) else []
        made.metadata = [*info.metadata, *hints]
        return made

    def _annotation(self, kind: Any) -> Any:  # noqa: ANN401
        """A type with twins for its models, and with lists whose items fail one by one."""
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self._model(kind)
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return Annotated[(self._annotation(inner[0]), *inner[1:])]
        if origin in (Union, types.UnionType):
            several = sum(one is not type(None) for one in inner) > 1
            return kind if several else Union[tuple(self._annotation(one) for one in inner)]  # noqa: UP007
        if origin in _LISTS or origin is tuple:
            items = tuple(one if one is Ellipsis else self._item(one) for one in inner)
            return self._wrapped(origin[items], _listed)
        if origin in _DICTS:
            key = self._wrapped(inner[0], _key)
            value = self._wrapped(self._annotation(inner[1]), _valued)
            return self._wrapped(origin[key, value], _listed)
        return kind

    def _item(self, kind: Any) -> Any:  # noqa: ANN401
        return self._wrapped(self._annotation(kind), _item)

    def _wrapped(self, kind: Any, validator: Callable[[Any, _Handler], Any]) -> Any:  # noqa: ANN401
        return Annotated[kind, WrapValidator(validator)]

    def _model(self, kind: ModelClass) -> Any:  # noqa: ANN401
        if issubclass(kind, RootModel):
            return kind
        if kind in self.begun:
            return self.twins.get(kind) or ForwardRef(self.begun[kind])
        return self.twin(kind)


def field_aliases(info: FieldInfo) -> tuple[str, ...]:
    """The other names of a field, in words."""
    given = info.validation_alias
    choices = given.choices if isinstance(given, AliasChoices) else [given, info.alias]
    return tuple(dict.fromkeys(one for one in choices if isinstance(one, str)))


def _kept_field(cls: ModelClass, value: Any, handler: _Handler, info: ValidationInfo) -> Any:  # noqa: ANN401
    trail = VALIDATION.get()
    name = str(info.field_name)
    with trail.at(name):
        if trail.here in trail.lost:  # this is its default, which is validated too
            return value
        try:
            return handler(value)
        except PydanticUseDefault:
            raise
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            info_of = original_model(cls).model_fields[name]
            if info_of.is_required():
                null = type(None) in get_args(info_of.annotation)
                trail.lose(value, error, "" if null else _NO_NULL)
            elif value is not None:  # null for a field with a default is one that isn't there
                trail.lose(value, error)
            raise PydanticUseDefault from None


def _factory(name: str, info: FieldInfo) -> Callable[..., Any]:
    """The field's default factory, or null where it raises."""
    make: Callable[..., Any] = info.default_factory  # type: ignore[assignment]

    def made(*given: Any) -> Any:  # noqa: ANN401
        trail = VALIDATION.get()
        with trail.at(name):
            try:
                return make(*given)
            except Exception as error:  # noqa: BLE001 - a user's factory may raise anything
                trail.miss(error)
                return None

    def of_values(values: dict[str, Any]) -> Any:  # noqa: ANN401
        return made(values)

    return of_values if info.default_factory_takes_validated_data else lambda: made()


def _listed(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    with VALIDATION.get().inside():
        return handler(value)


def _item(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    places = VALIDATION.get().places
    places[-1] = str(int(places[-1]) + 1)
    return _valued(value, handler)


def _key(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    VALIDATION.get().places[-1] = str(value)
    return handler(value)


def _valued(value: Any, handler: _Handler) -> Any:  # noqa: ANN401
    """An item, or null in its place, so that the others keep theirs."""
    trail = VALIDATION.get()
    with trail.at(trail.places[-1]):
        try:
            return handler(value)
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            trail.lose(value, error)
            return None


def _checks(model: ModelClass) -> dict[str, Any]:
    """The model's own model validators by name, each in a guard that keeps the fields."""
    found = model.__pydantic_decorators__.model_validators
    guards = {name: _guard(name, one.func, one.info.mode) for name, one in found.items()}
    if model.model_post_init is not BaseModel.model_post_init:

        def model_post_init(self: BaseModel, context: Any, /) -> None:  # noqa: ANN401
            given = (self, context)
            _guarded("model_post_init", model.model_post_init, given, lambda: None)

        guards["model_post_init"] = model_post_init
    return guards


def _guard(name: str, check: Callable[..., Any], mode: str) -> Any:  # noqa: ANN401
    arguments = len(inspect.signature(check).parameters)

    if mode == "wrap":

        def wrap(cls: ModelClass, data: Any, handler: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
            return _guarded(name, check, (data, handler, info)[:arguments], lambda: handler(data))

        return model_validator(mode="wrap")(classmethod(wrap))  # type: ignore[arg-type]

    if mode == "before":

        def before(cls: ModelClass, data: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
            return _guarded(name, check, (data, info)[:arguments], lambda: data)

        return model_validator(mode="before")(classmethod(before))  # type: ignore[arg-type]

    def after(self: BaseModel, info: ValidationInfo) -> Any:  # noqa: ANN401
        done = _guarded(name, check, (self, info)[:arguments], lambda: self)
        return self if done is None else done  # a check that forgot to return

    return model_validator(mode="after")(after)


def _guarded(
    name: str, check: Callable[..., Any], given: tuple[Any, ...], instead: Callable[[], Any]
) -> Any:  # noqa: ANN401
    try:
        return check(*given)
    except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
        VALIDATION.get().fail(name, error)
    return instead()
