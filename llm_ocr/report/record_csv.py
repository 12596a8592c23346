"""Write records as CSV files: one of records, one for each list of objects in them, one of errors,
and one of the disagreements with a second model.

Values come from untrusted documents, and spreadsheets evaluate text that begins with `=`: such text
is prefixed with an apostrophe.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from llm_ocr.records import Disagreement, FieldError
from llm_ocr.report.record_types import as_json, encodable

RECORDS, ERRORS, DISAGREEMENTS = "records", "errors", "disagreements"
KEYS = ("source_uri", "record_id")
# What OWASP lists, https://owasp.org/www-community/attacks/CSV_Injection, and full-width forms.
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*([eE][+-]?\d+)?%?")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class _ObjectList:
    """A list of objects: its path in the enclosing object, its file, its columns and its lists."""

    path: tuple[str, ...]
    file: str
    leaves: tuple[tuple[str, ...], ...]
    lists: tuple["_ObjectList", ...]


def format_cell(value: object) -> str:
    """The text of a cell: empty for null, JSON for lists and objects."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return as_json(value)  # begins with a bracket, a digit or the sign of a number
    text = encodable(value)
    is_formula = _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
    return f"'{text}" if is_formula else text


class CsvFiles:
    """The CSV files in `folder` for records of a type, open until the block ends.

    `own` has the columns of a record before those of its fields; `names` maps fields to columns
    whose name differs.
    """

    def __init__(
        self, folder: Path, kind: pa.DataType, own: Sequence[str], names: Mapping[str, str]
    ) -> None:
        self._folder, self._own, self._names = folder, tuple(own), names
        taken = {RECORDS, ERRORS, DISAGREEMENTS}
        self._whole = _list_of(kind, (), RECORDS, taken, ())
        self._files = ExitStack()
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> "CsvFiles":
        with ExitStack() as files:
            self._open(files, RECORDS, [*self._own, *map(self._column, self._whole.leaves)])
            self._open(files, ERRORS, [*KEYS, "path", "value", "reason"])
            for object_list, row_columns in _lists(self._whole, ()):
                first = [*KEYS, *row_columns]
                names = map(".".join, object_list.leaves)
                columns = (f"fields.{name}" if name.casefold() in first else name for name in names)
                self._open(files, object_list.file, [*first, *columns])
            self._files = files.pop_all()
        return self

    def write_disagreements(self, own: Row, disagreements: Sequence[Disagreement]) -> None:
        """Write the disagreements on a record that was checked; without such, there is no file."""
        if DISAGREEMENTS not in self._writers:
            self._open(self._files, DISAGREEMENTS, [*KEYS, "path", "value", "check_value"])
        for one in disagreements:
            key = [own[name] for name in KEYS]
            self._put(DISAGREEMENTS, [*key, one.path, one.value, one.check_value])

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def write(self, own: Row, fields: Row, errors: Sequence[FieldError]) -> None:
        """Write a record with its lists and errors. `own` has the values of its own columns."""
        leaves = (_at(fields, leaf) for leaf in self._whole.leaves)
        self._put(RECORDS, [*(own[name] for name in self._own), *leaves])
        key = [own[name] for name in KEYS]
        for error in errors:
            self._put(ERRORS, [*key, error.path, error.value, error.reason])
        self._write_lists(self._whole, key, fields)

    def _write_lists(self, parent: _ObjectList, key: Sequence[object], fields: Row) -> None:
        for object_list in parent.lists:
            items = _at(fields, object_list.path)
            for number, item in enumerate(items if isinstance(items, list) else (), 1):
                values = (_at(item, leaf) for leaf in object_list.leaves)
                self._put(object_list.file, [*key, number, *values])
                self._write_lists(object_list, [*key, number], item)

    def _column(self, leaf: tuple[str, ...]) -> str:
        first, *others = leaf
        return ".".join([self._names.get(first, first), *others])

    def _open(self, files: ExitStack, name: str, columns: Sequence[str]) -> None:
        file: TextIO = files.enter_context(
            (self._folder / f"{name}.csv").open("w", encoding="utf-8", newline="")
        )
        self._writers[name] = csv.writer(file)
        self._put(name, columns)

    def _put(self, name: str, values: Sequence[object]) -> None:
        self._writers[name].writerow([format_cell(value) for value in values])


def _list_of(
    kind: pa.DataType,
    path: tuple[str, ...],
    file: str,
    taken: set[str],
    above: tuple[str, ...],
) -> _ObjectList:
    """The columns and lists of objects of a type; `above` is the path of their own list."""
    leaves: list[tuple[str, ...]] = []
    lists: list[_ObjectList] = []
    for leaf, found in _leaves(kind, ()):
        if pa.types.is_list(found) and pa.types.is_struct(found.value_type):
            full_path = (*above, *leaf)
            lists.append(
                _list_of(found.value_type, leaf, _file(full_path, taken), taken, full_path)
            )
        else:
            leaves.append(leaf)
    return _ObjectList(path, file, tuple(leaves), tuple(lists))


def _leaves(
    kind: pa.DataType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    if not pa.types.is_struct(kind):
        yield path, kind
        return
    for field in kind:
        yield from _leaves(field.type, (*path, field.name))


def _file(full_path: Sequence[str], taken: set[str]) -> str:
    """A unique name for the file of a list, also on case-insensitive disks."""
    name = re.sub(r"[^\w.-]", "_", ".".join(full_path)).strip(".")[:100] or "list"
    number = 1
    free = name
    while free.casefold() in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free.casefold())
    return free


def _lists(
    whole: _ObjectList, above: tuple[str, ...]
) -> Iterator[tuple[_ObjectList, tuple[str, ...]]]:
    """Every list, with the columns of its row numbers and those of enclosing lists."""
    for object_list in whole.lists:
        columns = (*above, "row") if not above else (*above, f"row_{len(above) + 1}")
        yield object_list, columns
        yield from _lists(object_list, columns)


def _at(value: object, path: Sequence[str]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
