"""The types of a user's schema and of the records validated with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from llm_ocr.records import Block, FieldError

Fields = Mapping[str, Any]


class SchemaError(ValueError):
    """A schema does not exist or cannot be used; the message says what to do."""


class RecordScope(StrEnum):
    """Whether there is a record per page or per document."""

    PAGE = "page"
    DOCUMENT = "document"


class InputMode(StrEnum):
    """What the model is given: the page's image, its text, or both."""

    IMAGE = "image"
    TEXT = "text"
    BOTH = "both"


class MergeRule(StrEnum):
    """How a field is merged that several parts of a document have."""

    FIRST = "first"
    LAST = "last"
    JOIN = "join"
    CONCATENATE = "concatenate"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class ValidatedRecord:
    """All fields of a record by their names in the schema, as JSON values, and its errors."""

    fields: Fields
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True)
class Schema:
    """A user's schema: its name, the JSON schema for guided decoding, and its validator.

    `json_schema` is self-contained and has only keywords that guided decoding accepts. `validate`
    never raises. `rules` are by top-level field.
    """

    name: str
    json_schema: Mapping[str, Any]
    validate: Callable[[Mapping[str, Any]], ValidatedRecord]
    rules: Mapping[str, MergeRule] = field(default_factory=dict)


@dataclass(frozen=True)
class PageBlocks:
    """The text blocks of a page; their boxes are in pixels of the stored page image."""

    page_id: str
    page_number: int
    blocks: Sequence[Block]
