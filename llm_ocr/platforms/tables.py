"""TOML files that a user may edit: the package's own, with a user's laid over them."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

Read = TypeVar("Read", bound="Table")
Tables = dict[str, Any]


class TableFileError(ValueError):
    """A file of prices or speeds is wrong; the message names the file and what is wrong in it."""


class Table(BaseModel):
    """A table of such a file: no other keys, and a text is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


@cache
def own(name: str) -> Tables:
    """A file of the package. Not to be changed: it is read once."""
    return tomllib.loads(files("llm_ocr.platforms").joinpath(name).read_text(encoding="utf-8"))


def from_file(path: Path) -> Tables:
    """Raises TableFileError."""
    try:
        return tomllib.loads(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise TableFileError(f"{path}: can't be read ({error.strerror}); check its path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableFileError(f"{path}: not TOML: {error}") from error


def laid_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tables:
    """`base` with what `over` says instead or besides, table by table."""
    merged = dict(base)
    for key, value in over.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = laid_over(under, value)
        else:
            merged[key] = value
    return merged


def checked(kind: type[Read], tables: Mapping[str, Any], path: Path | None) -> Read:
    """The tables as `kind`. Raises TableFileError, naming the user's file where there is one."""
    try:
        return kind.model_validate(tables)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise TableFileError(f"{path or 'llm_ocr'}: {faults}") from error
