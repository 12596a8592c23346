"""The types of a user's schema and of the records validated with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from llm_ocr.records import Block, Box

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
class FieldError:
    """A value that is not in the record because it is invalid, or a check that the record fails.

    `path` is the field's, with dots (`lines.2.amount`), empty for the whole record. `value` is the
    raw value as JSON, None if there was none.
    """

    path: str
    value: str | None
    reason: str


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


class MatchType(StrEnum):
    """How a value matches the text of the page."""

    EXACT = "exact"
    NORMALIZED = "normalized"
    FUZZY = "fuzzy"


@dataclass(frozen=True)
class PageBlocks:
    """The text blocks of a page; their boxes are in pixels of the stored page image."""

    page_id: str
    page_number: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Evidence:
    """Where one value of a record (a leaf; its path is as in `FieldError`) is on its page.

    `quote` is the text on the page. `matched` is None if the page doesn't show the value, which is
    then unverified. `confidence` is 0..1.
    """

    path: str
    matched: MatchType | None
    confidence: float
    page_id: str | None = None
    page_number: int | None = None
    box: Box | None = None
    quote: str | None = None
