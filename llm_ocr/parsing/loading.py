"""Load a user's schema: a built-in, a module, a Python file, or a JSON Schema file.

Files may be in a bucket: `s3://bucket/schemas/bill.py:Bill`.
"""

import hashlib
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from pydantic import BaseModel, RootModel
from pydantic.errors import PydanticUserError

from llm_ocr.parsing.decoding_schema import decoding_schema
from llm_ocr.parsing.examples import examples_of_model, hash_parts, load_examples
from llm_ocr.parsing.local_modules import LOADING, import_file, import_module
from llm_ocr.parsing.pydantic_validator import PydanticValidator
from llm_ocr.parsing.references import SchemaNode, check_references, resolve
from llm_ocr.parsing.schema import MergeRule, Schema, SchemaError
from llm_ocr.parsing.tolerant_model import ModelClass
from llm_ocr.storage.local_files import local_file

__all__ = [
    "BUILT_IN",
    "LoadedSchema",
    "SchemaError",
    "load_schema",
    "schema_from_json",
    "schema_from_model",
]

BUILT_IN: Mapping[str, str] = {
    "invoice": "Invoice",
    "receipt": "Receipt",
    "bank_statement": "BankStatement",
    "purchase_order": "PurchaseOrder",
    "id_card": "IdCard",
    "resume": "Resume",
}
_FORMS = (
    "module:Class, a Python file (schema.py or schema.py:Class), or a JSON Schema (schema.json)"
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INVALID_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class LoadedSchema(Schema):
    """A schema with its source and a hash of it.

    The hash covers the class's name, the decoding schema, which includes fields of classes from
    other modules, the source text of the module or file, and the examples. So it changes if a
    validator in that source does, and is the same on every machine.
    """

    schema_hash: str = ""
    source: str = ""


def load_schema(where: str) -> LoadedSchema:
    """The schema that `where` names: a built-in, or one of `_FORMS`. Raises SchemaError."""
    if where in BUILT_IN:
        module = importlib.import_module(f"llm_ocr.parsing.schemas.{where}")
        return schema_from_model(
            getattr(module, BUILT_IN[where]), name=where, source=_source_of(module)
        )
    if where.endswith(".json"):
        return _load_json_file(where)
    place, colon, name = where.rpartition(":")
    if where.endswith(".py"):
        place, name = where, ""
    # Until its models are complete nobody else may import the file again.
    with LOADING:
        if place.endswith(".py"):
            return _load_from_module(where, _import_file(place), name)
        if colon and place and name:
            return _load_from_module(where, _import_module(where, place), name)
    built_in = ", ".join(BUILT_IN)
    raise SchemaError(f"There is no schema {where!r}: give {_FORMS}, or one of {built_in}")


def schema_from_model(
    model: ModelClass, name: str = "", source: str = "", module: ModuleType | None = None
) -> LoadedSchema:
    """The schema of a pydantic model, with the examples in its `module`."""
    what = f"The model {model.__module__}:{model.__qualname__}"
    if issubclass(model, RootModel) or not model.model_fields:
        raise SchemaError(f"{what} has no fields: give a model with the fields of the record")
    try:
        checked = PydanticValidator.for_model(model)
        json_schema = decoding_schema(checked.json_schema())
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise SchemaError(f"{what} has no JSON schema: {reason}. Change its type") from error
    extra = {field: info.json_schema_extra for field, info in model.model_fields.items()}
    given = {
        field: options.get("merge") for field, options in extra.items() if isinstance(options, dict)
    }
    name = name or _identifier(model.__name__)
    source = source or _model_source(model) or json.dumps(json_schema, sort_keys=True)
    rules = _rules(what, given, json_schema["properties"])
    parts = (name, model.__qualname__, json.dumps(json_schema), source)
    module = module or sys.modules.get(model.__module__)
    examples = examples_of_model(getattr(module, "FEW_SHOT", ()), model)
    file = getattr(module, "__file__", None)
    folder = str(Path(file).parent if file else Path.cwd())
    schema = LoadedSchema(name, json_schema, checked, rules, source=source)
    return _with_examples(schema, parts, examples, folder, what)


def _with_examples(
    schema: LoadedSchema, parts: Iterable[str], given: object, folder: str | None, what: str
) -> LoadedSchema:
    """The schema with the examples given in it, and its hash. Raises SchemaError."""
    examples = load_examples(schema, given, folder, what)
    return replace(schema, schema_hash=_hash(*parts, *hash_parts(examples)), examples=examples)


def schema_from_json(
    schema: object, name: str = "", what: str = "The schema", folder: str | None = None
) -> LoadedSchema:
    """The schema of a JSON Schema of an object; images of its examples are in `folder`."""
    # Imported here: it takes a second where the checkers of its formats are installed, as they are
    # with Jupyter, and most runs don't need it.
    from jsonschema.exceptions import SchemaError as NotJsonSchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    from llm_ocr.parsing.json_schema_validator import JsonSchemaValidator

    if not isinstance(schema, dict):
        raise SchemaError(f"{what} is not a JSON Schema: it is not an object")
    validator = validator_for(schema, default=Draft202012Validator)
    try:
        validator.check_schema(schema)
    except RecursionError as error:
        raise SchemaError(f"{what} is nested too deep") from error
    except NotJsonSchemaError as error:
        at = ".".join(str(part) for part in error.absolute_path)
        raise SchemaError(
            f"{what} is not a JSON Schema: at {at or 'the top level'}: {error.message}"
        ) from error
    check_references(schema, what)
    try:
        json_schema = decoding_schema(schema)
        top = resolve(schema, schema)
    except (KeyError, RecursionError) as error:
        raise SchemaError(f"{what} has circular references that lead to no type") from error
    properties = json_schema.get("properties")
    if not properties:
        raise SchemaError(
            f'{what} has no fields: it needs "type": "object" and "properties" at the top level'
        )
    given = {
        field: node.get("merge")
        for field, node in top["properties"].items()
        if isinstance(node, dict)
    }
    name = _identifier(name or str(schema.get("title") or "")) or "schema"
    source = json.dumps(schema, indent=2, ensure_ascii=False)
    if _SURROGATE.search(source):
        raise SchemaError(f"{what} contains an unpaired surrogate, which cannot be encoded")
    rules = _rules(what, given, properties)
    parts = (name, json.dumps(json_schema), source)
    loaded = LoadedSchema(name, json_schema, JsonSchemaValidator(schema), rules, source=source)
    return _with_examples(loaded, parts, schema.get("few_shot", ()), folder, what)


def _load_json_file(where: str) -> LoadedSchema:
    path = local_file(where)
    try:
        schema = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SchemaError(f"The schema file {where} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"The schema file {where} is not JSON: {error}") from error
    title = schema.get("title") if isinstance(schema, dict) else ""
    folder = where.rpartition("/")[0] if "://" in where else str(path.parent)
    name = str(title or path.stem)
    return schema_from_json(schema, name, f"The schema file {where}", folder)


def _load_from_module(where: str, module: ModuleType, name: str) -> LoadedSchema:
    if not name:
        only = _only_model(where, module)
        return schema_from_model(only, source=_source_of(module), module=module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise SchemaError(f"The schema {where}: it does not define {name}{_list_models(module)}")
    if not (inspect.isclass(found) and issubclass(found, BaseModel)):
        raise SchemaError(
            f"The schema {where}: {name} is not a pydantic model (a subclass of pydantic.BaseModel)"
            f"{_list_models(module)}"
        )
    return schema_from_model(found, source=_source_of(module), module=module)


def _list_models(module: ModuleType) -> str:
    names = ", ".join(model.__name__ for model in _models(module))
    return f"; its models are {names}" if names else "; it has no pydantic model"


def _only_model(where: str, module: ModuleType) -> ModelClass:
    """The one model of a file that no other model in it contains or derives from."""
    models = _models(module)
    for model in models:
        model.model_rebuild(raise_errors=False)  # a field's type may be defined after the model
    parts = {part for model in models for part in _models_within(model) if part is not model}
    whole = [model for model in models if model not in parts]
    if len(whole) == 1:
        return whole[0]
    if not models:
        raise SchemaError(
            f"The schema file {where} has no pydantic model: define a subclass of BaseModel"
        )
    names = " or ".join(f"{where}:{model.__name__}" for model in whole or models)
    raise SchemaError(f"The schema file {where} has several models: choose one with {names}")


def _models(module: ModuleType) -> list[ModelClass]:
    return [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, BaseModel)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _models_within(model: ModelClass) -> Iterator[ModelClass]:
    """The models that a model derives from or has in its fields."""
    yield from (base for base in model.__mro__[1:] if issubclass(base, BaseModel))
    pending: list[Any] = [info.annotation for info in model.model_fields.values()]
    while pending:
        kind = pending.pop()
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            yield kind
        pending.extend(get_args(kind))


def _import_module(where: str, name: str) -> ModuleType:
    try:
        return import_module(name, Path.cwd())
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        missing = isinstance(error, ModuleNotFoundError) and error.name in (
            name,
            *_parent_packages(name),
        )
        if missing:
            raise SchemaError(
                f"The schema {where}: there is no module {name!r}, neither here nor installed. "
                f"Give {_FORMS}"
            ) from error
        raise SchemaError(_import_error(where, error)) from error


def _parent_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _import_file(where: str) -> ModuleType:
    path = local_file(where).resolve()
    if not path.is_file():
        raise SchemaError(f"There is no schema file {where}: give {_FORMS}")
    try:
        return import_file(path)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise SchemaError(_import_error(where, error)) from error


def _import_error(where: str, error: BaseException) -> str:
    problem = f"{type(error).__name__}: {error}"
    return f"The schema {where} can't be imported: {problem}. Fix the error and try again"


def _rules(what: str, given: Mapping[str, object], fields: SchemaNode) -> dict[str, MergeRule]:
    """The merge rules of fields. Raises SchemaError for one that is unknown or doesn't fit."""
    rules: dict[str, MergeRule] = {}
    for field, rule in given.items():
        if rule is None:
            continue
        if rule not in set(MergeRule):
            known = ", ".join(MergeRule)
            raise SchemaError(f'{what}: "merge" of {field} is {rule!r}; choose from {known}')
        kinds = {node.get("type") for node in (fields[field], *fields[field].get("anyOf", ()))}
        needed = {MergeRule.CONCATENATE: "array", MergeRule.JOIN: "string"}.get(
            MergeRule(str(rule))
        )
        if needed and needed not in kinds:
            words = "lists can be concatenated" if needed == "array" else "strings can be joined"
            raise SchemaError(f'{what}: "merge" of {field} is {rule}, but only {words}')
        rules[field] = MergeRule(str(rule))
    return rules


def _identifier(name: str) -> str:
    return _INVALID_IN_NAMES.sub("_", name).strip("_")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _source_of(module: ModuleType) -> str:
    """The current source text of a module's file; empty if it has none."""
    return Path(module.__file__).read_text("utf-8") if module.__file__ else ""


def _model_source(model: ModelClass) -> str:
    """The source text of a model's module; empty if it was entered in a notebook or a REPL."""
    module = sys.modules.get(model.__module__)
    return _source_of(module) if module and getattr(module, "__file__", None) else ""
