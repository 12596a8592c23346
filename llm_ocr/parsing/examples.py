"""Examples of a schema: documents with the records that are expected of them, shown to the model.

In a Python schema the list `FEW_SHOT`, in a JSON Schema the keyword `few_shot`:

    FEW_SHOT = [FewShotExample(text="Corner shop, total 3.50", record=Receipt(total=3.5))]
    "few_shot": [{"text": "Corner shop, total 3.50", "record": {"total": 3.5}}]
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from llm_ocr.parsing.references import SchemaNode, alternatives, is_null, resolve
from llm_ocr.parsing.schema import Schema, SchemaError, ShownExample
from llm_ocr.parsing.validation import to_json
from llm_ocr.storage.local_files import local_file


@dataclass(frozen=True)
class FewShotExample:
    """A document and the record expected of it: an instance of the schema's model, or its fields.

    `text` is Markdown, of a whole document or a part; `image` is the file of a page's image, beside
    the schema's file, or a URI. One of them is needed, both may be given.
    """

    record: BaseModel | Mapping[str, Any]
    text: str | None = None
    image: str | Path | None = None


def load_examples(
    schema: Schema, given: object, folder: str | None, what: str
) -> tuple[ShownExample, ...]:
    """The examples `given` in a schema, in order, validated with it. Images are read from `folder`;
    without one there can be none. `what` names the schema. Raises SchemaError."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise SchemaError(f"{what}: its examples are not a list")
    return tuple(
        _load(schema, example, folder, f"{what}: example {number}")
        for number, example in enumerate(given, 1)
    )


def examples_of_model(given: object, model: type[BaseModel]) -> object:
    """The examples in a module that are of a model: those whose records are plain fields, or its
    instances."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        return given
    return [
        example
        for example in given
        if not isinstance(getattr(example, "record", None), BaseModel)
        or isinstance(example.record, model)
    ]


def hash_parts(examples: Iterable[ShownExample]) -> list[str]:
    """What changes with what the model is shown."""
    return [
        "\n".join((one.text, hashlib.sha256(one.image or b"").hexdigest(), one.answer))
        for one in examples
    ]


def _load(schema: Schema, given: object, folder: str | None, name: str) -> ShownExample:
    example = _parse(given, name)
    record = example.record
    if isinstance(record, BaseModel):
        record = record.model_dump(mode="json", by_alias=False, exclude_computed_fields=True)
    if not isinstance(record, Mapping):
        raise SchemaError(f"{name}: its record is not an object")
    text = (example.text or "").strip()
    if not text and example.image is None:
        raise SchemaError(f"{name}: it has neither a text nor an image")
    validated = schema.validate(record)
    if validated.errors:
        found = [
            f"{error.path or 'the record'}: {error.reason}"
            + (f" ({error.value})" if error.value is not None else "")
            for error in validated.errors
        ]
        raise SchemaError(f"{name} is not valid: {'; '.join(found)}")
    answer = as_answered(validated.fields, schema.json_schema)
    image = None if example.image is None else _read_image(example.image, folder, name)
    return ShownExample(text, image, json.dumps(answer, ensure_ascii=False))


def _parse(given: object, name: str) -> FewShotExample:
    if isinstance(given, FewShotExample):
        return given
    known = {field.name for field in fields(FewShotExample)}
    if not isinstance(given, Mapping) or "record" not in given or not given.keys() <= known:
        raise SchemaError(f"{name}: it needs a record, and a text or an image, and nothing else")
    for part in ("text", "image"):
        if given.get(part) is not None and not isinstance(given[part], str):
            raise SchemaError(f"{name}: its {part} is not a string: {to_json(given[part])}")
    return FewShotExample(given["record"], given.get("text"), given.get("image"))


def _read_image(image: str | Path, folder: str | None, name: str) -> bytes:
    where = str(image)
    if folder is None:
        raise SchemaError(f"{name}: only the schema of a file can have images")
    if "://" not in where:
        where = f"{folder}/{where}" if "://" in folder else os.path.join(folder, where)
    # Imported here: only schemas with such examples need it.
    from PIL import Image

    try:
        content = local_file(where).read_bytes()
        with Image.open(io.BytesIO(content)) as image_file:
            image_file.verify()
    except (OSError, SyntaxError) as error:  # the latter is what PIL raises for a broken PNG
        why = getattr(error, "strerror", None) or "it is not an image"
        raise SchemaError(f"{name}: its image {where} can't be read: {why}") from error
    return content


def as_answered(value: Any, schema: SchemaNode) -> Any:  # noqa: ANN401
    """A validated record as a model answers with it: amounts, which it has as text, are numbers."""
    return _as_answered(value, schema, schema)


def _as_answered(value: Any, node: SchemaNode, root: SchemaNode) -> Any:  # noqa: ANN401
    node = resolve(root, node)
    given = [option for option in alternatives(node) if not is_null(option)]
    if len(given) == 1 and "properties" not in node:
        node = resolve(root, given[0])
    if isinstance(value, Mapping):
        properties = node.get("properties", {})
        return {
            name: _as_answered(one, properties.get(name, {}), root) for name, one in value.items()
        }
    if isinstance(value, list):
        return [_as_answered(one, node.get("items", {}), root) for one in value]
    kinds = node.get("type")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds or ())
    if isinstance(value, str) and "number" in kinds and "string" not in kinds:
        return float(value)
    return value
