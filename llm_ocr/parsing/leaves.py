"""Iterate over the leaf values of a record by path, and clear some of them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from llm_ocr.parsing.schema import Fields


def leaves(fields: Any, *, empty: bool = False) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    """`(path, value)` of each value that is neither an object nor a list, in order; with
    `empty`, also of empty objects and lists."""
    return ((path, value) for path, value, _ in leaves_with_items(fields, empty=empty))


def leaves_with_items(
    fields: Any,  # noqa: ANN401 - JSON
    path: str = "",
    item: str | None = None,
    *,
    empty: bool = False,
) -> Iterator[tuple[str, Any, str | None]]:
    """The same, with the path of the innermost list item that contains or is the value."""
    is_list = isinstance(fields, list | tuple)
    if not is_list and not isinstance(fields, Mapping):
        yield path, fields, item
        return
    if not fields and empty:
        yield path, fields, item
    for name, value in enumerate(fields) if is_list else fields.items():
        below = f"{path}.{name}" if path else str(name)
        yield from leaves_with_items(value, below, below if is_list else item, empty=empty)


def clear_leaves(fields: Fields, paths: Collection[str]) -> tuple[Fields, Mapping[str, Any]]:
    """The record with null at those leaves, and the values that were there."""
    values = {path: value for path, value in leaves(fields) if path in paths}

    def clear(branch: Any, path: str) -> Any:  # noqa: ANN401
        if isinstance(branch, Mapping):
            return {
                name: clear(value, f"{path}.{name}" if path else name)
                for name, value in branch.items()
            }
        if isinstance(branch, list | tuple):
            return [clear(value, f"{path}.{index}") for index, value in enumerate(branch)]
        return None if path in values else branch

    whole = clear(fields, "")
    return whole, values
