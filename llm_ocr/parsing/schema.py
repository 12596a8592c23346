"""What Parse makes of a page or a document, and the words for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from llm_ocr.records import Block, Box

Fields = Mapping[str, Any]


class RecordScope(StrEnum):
    """What a record is of."""

    PAGE = "page"
    DOCUMENT = "document"


class InputMode(StrEnum):
    """What the model is shown: the page's image, what was read of it, or both."""

    IMAGE = "image"
    TEXT = "text"
    BOTH = "both"


class MergeRule(StrEnum):
    """What becomes of a field that several parts of a document have."""

    FIRST = "first"
    LAST = "last"
    JOIN = "join"
    CONCATENATE = "concatenate"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class FieldError:
    """A value that is not in the record, or a check that it doesn't pass.

    `path` is the field's, with dots (`lines.2.amount`), empty for the whole record; `value` is the
    raw value as JSON, None where there was none.
    """

    path: str
    value: str | None
    reason: str


@dataclass(frozen=True)
class ValidatedRecord:
    """The fields of a record, whole, by their names in the schema, as JSON has them; and what of
    the answer is not among them."""

    fields: Fields
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True)
class Schema:
    """A user's schema: its name, what an engine's decoding is guided by, and what holds a raw
    object against it.

    `json_schema` stands for itself (nothing outside is referred to) and has only what guided
    decoding takes; `validate` never raises. `rules` are by top-level field.
    """

    name: str
    json_schema: Mapping[str, Any]
    validate: Callable[[Mapping[str, Any]], ValidatedRecord]
    rules: Mapping[str, MergeRule] = field(default_factory=dict)


class MatchType(StrEnum):
    """How a value was found on the page."""

    EXACT = "exact"
    NORMALIZED = "normalized"
    FUZZY = "fuzzy"


@dataclass(frozen=True)
class PageText:
    """What was read of a page; boxes are in pixels of the stored page image."""

    page_id: str
    page_number: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Evidence:
    """Where one value of a record (a leaf; its path as in `FieldError`) stands.

    `quote` is the text on the page. `matched` None: the page doesn't show it, and the value is
    unverified. `confidence` is 0..1.
    """

    path: str
    matched: MatchType | None
    confidence: float
    page_id: str | None = None
    page_number: int | None = None
    box: Box | None = None
    quote: str | None = None


class SchemaError(ValueError):
    """There is no schema where one was said to be; the message says what to do."""
