"""Reads TOML files of prices and throughputs: the package's, and a user's that override them."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

TomlModel = TypeVar("TomlModel", bound="TomlTable")
TomlData = dict[str, Any]


class TomlFileError(ValueError):
    """A file of prices or throughputs is invalid; the message names the file and what is wrong."""


class TomlTable(BaseModel):
    """A table of such a file: unknown keys are errors, and strings are not read as numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


@cache
def load_packaged(name: str) -> TomlData:
    """The package's file of that name. It is read once: don't change what this returns."""
    return tomllib.loads(
        files("llm_ocr.platforms.costs").joinpath(name).read_text(encoding="utf-8")
    )


def read_toml(path: Path) -> TomlData:
    """Raises TomlFileError."""
    try:
        return tomllib.loads(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise TomlFileError(f"{path}: can't be read ({error.strerror}); check its path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TomlFileError(f"{path}: invalid TOML: {error}") from error


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> TomlData:
    """`base` with the values of `over` replaced or added, table by table."""
    merged = dict(base)
    for key, value in over.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = deep_merge(under, value)
        else:
            merged[key] = value
    return merged


def validate(kind: type[TomlModel], tables: Mapping[str, Any], path: Path | None) -> TomlModel:
    """The tables as `kind`. Raises TomlFileError, naming the user's file where there is one."""
    try:
        return kind.model_validate(tables)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise TomlFileError(f"{path or 'llm_ocr'}: {faults}") from error
