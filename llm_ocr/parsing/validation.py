"""Track the location of a validation in a record, and collect its errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from pydantic import ValidationError

from llm_ocr.records import FieldError

UNKNOWN_FIELD = "not a field of the schema"
DUPLICATE_ALIAS = "another name of a field that already has a value"
MISSING_FIELD = "missing, and the schema has no default for it"


@dataclass
class ValidationContext:
    """The path to the value that is being validated, and the errors found so far.

    pydantic passes the name of its field to a validator, but not the index in a list: `indices`
    has the current index or key of each open list or dict.
    """

    path: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    rejected: set[str] = field(default_factory=set)
    failed_defaults: set[str] = field(default_factory=set)

    @property
    def location(self) -> str:
        return ".".join(self.path)

    @contextmanager
    def entering(self, part: str) -> Iterator[None]:
        self.path.append(part)
        try:
            yield
        finally:
            self.path.pop()

    @contextmanager
    def container(self) -> Iterator[None]:
        """Within a list or a dict."""
        self.indices.append("-1")
        try:
            yield
        finally:
            self.indices.pop()

    def reject(self, value: object, error: Exception, note: str = "") -> None:
        """Report the value at this location as invalid: it is not in the record."""
        self.rejected.add(self.location)
        self.errors.append(FieldError(self.location, to_json(value), describe_error(error) + note))

    def fail_default(self, error: Exception) -> None:
        """Report that the default at this location can't be computed: the record has null."""
        if self.location not in self.failed_defaults:
            self.failed_defaults.add(self.location)
            message = f"the default could not be computed: {describe_error(error)}"
            self.errors.append(FieldError(self.location, None, message))
        self.rejected.add(self.location)

    def fail_check(self, check: str, error: Exception) -> None:
        """Report that a check of the model at this location failed; its fields are kept."""
        message = describe_error(error)
        if not isinstance(error, ValueError | AssertionError):
            message = f"{check} could not be checked: {message}"
        self.errors.append(FieldError(self.location, None, message))


VALIDATION: ContextVar[ValidationContext] = ContextVar("VALIDATION")


def to_json(value: object) -> str:
    """A raw value as JSON, or its repr if JSON can't represent it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__}, nested too deep to show"


def describe_error(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, ValidationError):
        lines = (_error_line(item["loc"], item["msg"]) for item in error.errors(include_url=False))
        return "; ".join(dict.fromkeys(lines))
    if isinstance(error, ValueError | AssertionError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _error_line(where: tuple[int | str, ...], message: str) -> str:
    for prefix in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    return f"{'.'.join(map(str, where))}: {message}" if where else message


def null_non_finite(value: Any, path: str, errors: list[FieldError]) -> Any:  # noqa: ANN401
    """The value with null for numbers that JSON can't represent, which are reported."""
    if isinstance(value, float) and not isfinite(value):
        errors.append(FieldError(path, str(value), "JSON cannot represent this number"))
        return None
    if isinstance(value, list):
        return [null_non_finite(one, f"{path}.{place}", errors) for place, one in enumerate(value)]
    if isinstance(value, dict):
        return {key: null_non_finite(one, f"{path}.{key}", errors) for key, one in value.items()}
    return value
