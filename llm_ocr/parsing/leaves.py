"""The values at the ends of a record's branches, by their paths."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from llm_ocr.parsing.record import Fields


def leaves(fields: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    """`(path, value)` of each value that is neither an object nor a list, in order."""
    if isinstance(fields, Mapping):
        branches: Iterator[tuple[str, Any]] = iter(fields.items())
    elif isinstance(fields, list | tuple):
        branches = ((str(index), value) for index, value in enumerate(fields))
    else:
        yield path, fields
        return
    for name, value in branches:
        yield from leaves(value, f"{path}.{name}" if path else name)


def without(fields: Fields, paths: Collection[str]) -> tuple[Fields, Mapping[str, Any]]:
    """The record with null at those leaves, and what stood there."""
    values = {path: value for path, value in leaves(fields) if path in paths}

    def emptied(branch: Any, path: str) -> Any:  # noqa: ANN401
        if isinstance(branch, Mapping):
            return {
                name: emptied(value, f"{path}.{name}" if path else name)
                for name, value in branch.items()
            }
        if isinstance(branch, list | tuple):
            return [emptied(value, f"{path}.{index}") for index, value in enumerate(branch)]
        return None if path in values else branch

    whole = emptied(fields, "")
    return whole, values
