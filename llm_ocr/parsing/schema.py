"""The types of a user's schema and of the records validated with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from llm_ocr.records import Block, FieldError, PageLine

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
class ShownExample:
    """An example as a model is shown it: a document's text (which may be empty) and the file of a
    page's image, and the answer expected, as JSON."""

    text: str
    image: bytes | None
    answer: str


@dataclass(frozen=True)
class Schema:
    """A user's schema: its name, the JSON schema for guided decoding, and its validator.

    `json_schema` is self-contained and has only keywords that guided decoding accepts. `validate`
    never raises. `rules` are by top-level field. `examples` are shown to a model before it is
    asked, in this order.
    """

    name: str
    json_schema: Mapping[str, Any]
    validate: Callable[[Mapping[str, Any]], ValidatedRecord]
    rules: Mapping[str, MergeRule] = field(default_factory=dict)
    examples: tuple[ShownExample, ...] = ()


@dataclass(frozen=True)
class PageBlocks:
    """The text blocks of a page, and the lines that the engine read, if it reports them; boxes are
    in pixels of the stored page image."""

    page_id: str
    page_number: int
    blocks: Sequence[Block]
    lines: Sequence[PageLine] | None = None
