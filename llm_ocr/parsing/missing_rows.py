"""Rows of lists that a model left out, and that it gives when it is asked what is missing."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.parsing.leaves import leaves
from llm_ocr.parsing.merging import merge_records
from llm_ocr.parsing.schema import Fields, Schema, ValidatedRecord
from llm_ocr.parsing.value_equality import comparison_key
from llm_ocr.records import FieldError

# Rows of a list that is long where no text says how many rows there are.
LONG_LIST = 10
# A row of a table is one in HTML, or a line of a Markdown table that isn't the one below the head.
_TABLE_ROW = re.compile(r"<tr\b|^\s*\|(?!\s*:?-+).*\|\s*$", re.MULTILINE | re.IGNORECASE)
_LINE_END = re.compile(r"\n|</tr>", re.IGNORECASE)
_WORD = re.compile(r"\w+")
# The share of a row's words that a line of the text has, if the row is from there.
_SAME_LINE = 0.5


@dataclass(frozen=True)
class CompletedRecord:
    """A record with the rows that it lacked, how many they are, and the confidences of its values,
    by path."""

    record: ValidatedRecord
    rows_added: int
    confidences: Mapping[str, float]


def row_lists(fields: Fields) -> dict[str, Sequence[Any]]:
    """The lists of a record by their paths, without those within rows of others."""
    return dict(_lists(fields, ""))


def may_lack_rows(fields: Fields, text: str) -> bool:
    """Whether a record's lists may be incomplete: the tables of the text have more rows, heads
    included, than its longest list, or the list is long and there is no text."""
    lists = row_lists(fields)
    longest = max(map(len, lists.values()), default=0)
    if not text:
        return longest >= LONG_LIST
    return bool(lists) and len(_TABLE_ROW.findall(text)) > longest + 1


def with_missing_rows(
    schema: Schema,
    first: tuple[ValidatedRecord, Mapping[str, float]],
    second: tuple[ValidatedRecord, Mapping[str, float]],
    text: str,
) -> CompletedRecord:
    """The first record with the rows of the second that it lacks, in the order of the text; each
    is given with the confidences of its values.

    Rows that it has already are left out. It stays as it is if validation finds more errors then.
    """
    record, confidences = first
    lines = [frozenset(_words(line)) for line in _LINE_END.split(text)]
    added = {
        path: rows
        for path, found in row_lists(record.fields).items()
        if (rows := _new_rows(found, row_lists(second[0].fields).get(path, ()), lines))
    }
    unchanged = CompletedRecord(record, 0, confidences)
    if not added:
        return unchanged
    # As another part of the document: the rules of the schema hold, and the errors move along.
    more = {path: [row for _, row in rows] for path, rows in added.items()}
    merged = merge_records(schema, [record, ValidatedRecord(_nest(more), ())])
    now = row_lists(merged.record.fields)
    orders = {
        path: _order(now[path], len(row_lists(record.fields)[path]), lines)
        for path in added
        if len(now.get(path, ())) > len(row_lists(record.fields)[path])
    }
    if not orders or len(merged.record.errors) > len(record.errors):
        return unchanged
    fields = _reorder(merged.record.fields, orders, "")
    errors = tuple(
        FieldError(_path_after(error.path, orders), error.value, error.reason)
        for error in merged.record.errors
    )
    sure: dict[str, float] = {}
    for path, _ in leaves(merged.record.fields):
        part, there = merged.origin(path)
        likely = (
            confidences.get(there) if part == 0 else second[1].get(_path_in_second(there, added))
        )
        if likely is not None:
            sure[_path_after(path, orders)] = likely
    count = sum(len(rows) for path, rows in added.items() if path in orders)
    return CompletedRecord(ValidatedRecord(fields, errors), count, sure)


def _lists(value: object, path: str) -> Iterator[tuple[str, Sequence[Any]]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _lists(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        yield path, value


def _new_rows(
    found: Sequence[Any], more: Sequence[Any], lines: Sequence[frozenset[str]]
) -> list[tuple[int, Any]]:
    """Rows of a list that another lacks, with their places in it. A row from the line of one that
    was found is that row, read otherwise."""
    known = {comparison_key(row) for row in found}
    taken = {_line_of(row, lines) for row in found} - {None}
    rows: list[tuple[int, Any]] = []
    for place, row in enumerate(more):
        key, line = comparison_key(row), _line_of(row, lines)
        if key is None or key in known or line in taken:
            continue
        known.add(key)
        rows.append((place, row))
    return rows


def _line_of(row: object, lines: Sequence[frozenset[str]]) -> int | None:
    """The line of the text with most of a row's words, if that has enough of them."""
    values = (str(value) for _, value in leaves({"": row}) if value is not None)
    words = frozenset(word for value in values for word in _words(value))
    if not words:
        return None
    shares = [len(words & line) / len(words) for line in lines]
    best = max(range(len(lines)), key=lambda k: (shares[k], -k), default=None)
    return best if best is not None and shares[best] > _SAME_LINE else None


def _words(text: str) -> list[str]:
    """Words without case, and digits without the zeros at their end: 3.10 is 3.1."""
    words = [word.casefold() for word in _WORD.findall(text)]
    return [word.rstrip("0") or "0" if word.isdecimal() else word for word in words]


def _order(rows: Sequence[Any], before: int, lines: Sequence[frozenset[str]]) -> list[int]:
    """The places of rows in the order of the text: the first `before` keep theirs, the others come
    before the first one that stands below them, or last."""
    places = [_line_of(row, lines) for row in rows]
    below: list[int] = []
    for place in places[:before]:
        below.append(max(below[-1] if below else -1, -1 if place is None else place))
    keys = [(k, -1, 0) for k in range(before)]
    for k in range(before, len(rows)):
        line = places[k]
        after = before if line is None else bisect_right(below, line)
        keys.append((after - 1, len(lines) if line is None else line, k))
    return sorted(range(len(rows)), key=lambda k: keys[k])


def _reorder(value: Any, orders: Mapping[str, Sequence[int]], path: str) -> Any:  # noqa: ANN401
    if path in orders:
        return [value[k] for k in orders[path]]
    if isinstance(value, Mapping):
        return {
            name: _reorder(inner, orders, f"{path}.{name}" if path else str(name))
            for name, inner in value.items()
        }
    return value


def _path_after(path: str, orders: Mapping[str, Sequence[int]]) -> str:
    """A path of the record after its lists have been reordered."""
    for above, order in orders.items():
        if path.startswith(f"{above}."):
            place, _, rest = path.removeprefix(f"{above}.").partition(".")
            return ".".join(filter(None, (above, str(order.index(int(place))), rest)))
    return path


def _path_in_second(path: str, added: Mapping[str, Sequence[tuple[int, Any]]]) -> str:
    """The path in the second record of a path in the rows that were added."""
    for above, rows in added.items():
        if path.startswith(f"{above}."):
            place, _, rest = path.removeprefix(f"{above}.").partition(".")
            return ".".join(filter(None, (above, str(rows[int(place)][0]), rest)))
    return path


def _nest(lists: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Values by their paths, as an object."""
    fields: dict[str, Any] = {}
    for path, rows in lists.items():
        *above, name = path.split(".")
        inner = fields
        for step in above:
            inner = inner.setdefault(step, {})
        inner[name] = rows
    return fields
