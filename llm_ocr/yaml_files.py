"""Read YAML files whose problems are reported with the file and line."""

from collections.abc import Sequence
from typing import Any

import yaml


class InvalidYamlError(ValueError):
    """A text isn't YAML, or has duplicate keys. Each line of the message names the file and
    line."""


def parse_yaml(text: str, name: str) -> "tuple[Any, LineNumbers]":
    """The content of a YAML text, and the lines of its values. Messages call it `name`. Raises
    InvalidYamlError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise InvalidYamlError(f"{name}:{line}: invalid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidYamlError(f"{name}:1: invalid YAML: {error}") from error
    lines = LineNumbers(root)
    if lines.duplicates:
        problems = [f"{name}:{line}: duplicate key {key!r}" for key, line in lines.duplicates]
        raise InvalidYamlError("\n".join(problems))
    return data, lines


class LineNumbers:
    """The line numbers of the values in a YAML document, and its duplicate keys."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._lines: dict[tuple[str | int, ...], int] = {}
        self.duplicates: list[tuple[str, int]] = []
        self._seen: set[int] = set()
        if root is not None:
            self._add(root, ())

    def line_of(self, where: Sequence[str | int]) -> int:
        """The line of a value or, if it is missing, of its parent. `where` is a location of
        pydantic's, which names a union's variant after its index; the document doesn't."""
        place: tuple[str | int, ...] = ()
        for part in where:
            if (*place, part) in self._lines:
                place = (*place, part)
        return self._lines.get(place, 1)

    def _add(self, node: yaml.Node, place: tuple[str | int, ...]) -> None:
        self._lines.setdefault(place, node.start_mark.line + 1)
        if id(node) in self._seen:
            # The content of an anchor, which an alias refers to.
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if key.value in seen:
                    self.duplicates.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
                # The line of the key: its value may begin on a later line.
                self._lines[(*place, key.value)] = key.start_mark.line + 1
                self._add(value, (*place, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for k, item in enumerate(node.value):
                self._add(item, (*place, k))
