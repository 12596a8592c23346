"""Where a validation stands in a record, and what it found wrong there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from pydantic import ValidationError

from llm_ocr.parsing.schema import FieldError

UNKNOWN_FIELD = "not a field of the schema"
DUPLICATE_ALIAS = "another name of a field that has its value already"
MISSING_FIELD = "missing, and the schema has no default for it"


@dataclass
class ValidationContext:
    """The names and places that lead to what is being validated.

    pydantic tells a validator the name of its field, and not the place in a list: `places` holds,
    for each list or dict that is open, the place last looked at.
    """

    path: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    unmade: set[str] = field(default_factory=set)

    @property
    def here(self) -> str:
        return ".".join(self.path)

    @contextmanager
    def at(self, part: str) -> Iterator[None]:
        self.path.append(part)
        try:
            yield
        finally:
            self.path.pop()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Within a list or a dict."""
        self.places.append("-1")
        try:
            yield
        finally:
            self.places.pop()

    def lose(self, value: object, error: Exception, note: str = "") -> None:
        """The value here isn't valid, and is not in the record."""
        self.lost.add(self.here)
        self.errors.append(FieldError(self.here, to_json(value), describe_error(error) + note))

    def miss(self, error: Exception) -> None:
        """The default here can't be made, and is null in the record."""
        if self.here not in self.unmade:
            self.unmade.add(self.here)
            said = f"its default could not be made: {describe_error(error)}"
            self.errors.append(FieldError(self.here, None, said))
        self.lost.add(self.here)

    def fail(self, check: str, error: Exception) -> None:
        """A check of the model here failed; its fields stay."""
        said = describe_error(error) if isinstance(error, ValueError | AssertionError) else ""
        self.errors.append(
            FieldError(
                self.here, None, said or f"{check} could not be checked: {describe_error(error)}"
            )
        )


VALIDATION: ContextVar[ValidationContext] = ContextVar("TRAIL")


def to_json(value: object) -> str:
    """A raw value as JSON, or as Python shows it where it is none."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__}, nested too deep to show"


def describe_error(error: Exception) -> str:
    """What is wrong, in one line."""
    if isinstance(error, ValidationError):
        said = (_line(one["loc"], one["msg"]) for one in error.errors(include_url=False))
        return "; ".join(dict.fromkeys(said))
    if isinstance(error, ValueError | AssertionError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _line(where: tuple[int | str, ...], message: str) -> str:
    for prefix in ("Value error, ", "Assertion failed, "):
        message = message.removeprefix(prefix)
    return f"{'.'.join(map(str, where))}: {message}" if where else message


def null_non_finite(value: Any, path: str, errors: list[FieldError]) -> Any:  # noqa: ANN401
    """A value without numbers that JSON doesn't have."""
    if isinstance(value, float) and not isfinite(value):
        errors.append(FieldError(path, str(value), "not a number that JSON has"))
        return None
    if isinstance(value, list):
        return [null_non_finite(one, f"{path}.{place}", errors) for place, one in enumerate(value)]
    if isinstance(value, dict):
        return {key: null_non_finite(one, f"{path}.{key}", errors) for key, one in value.items()}
    return value
