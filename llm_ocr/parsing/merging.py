"""Merge the records of a document's parts into one, by rules that its schema can set.

Without a rule, lists are concatenated, objects are merged field by field, and of other values the
first is kept; a different value in another part is listed as an error.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.parsing.schema import Fields, MergeRule, Schema, ValidatedRecord
from llm_ocr.parsing.validation import to_json
from llm_ocr.records import FieldError

PartValues = Sequence[tuple[int, Any]]  # values, each with the number of its part

_MAX_OVERLAP = 500
_EMPTY_VALUES = (None, "null")
_NO_RULES: Mapping[str, MergeRule] = {}
_NOT_VALIDATED = (
    "not validated as a whole: the document was read in several parts, and a validator would "
    "change values that it has changed before"
)


@dataclass(frozen=True)
class MergedRecord:
    """The parts as one record; `origin` maps a path in it to the number of the part that it comes
    from and the path there."""

    record: ValidatedRecord
    origin: Callable[[str], tuple[int, str]]


def merge_fields(
    schema: Schema, parts: Sequence[Fields], overlaps: Collection[int] = ()
) -> tuple[Fields, tuple[FieldError, ...]]:
    """The merged fields of the parts (validated, in document order), and the conflicts.

    The result isn't validated as a whole: `merge_records` does that. The parts with a number in
    `overlaps` begin with the text that ends the part before.
    """
    merger = _RecordMerger(overlaps)
    return merger.record(schema, parts), tuple(merger.conflicts)


def merge_records(
    schema: Schema, parts: Sequence[ValidatedRecord], overlaps: Collection[int] = ()
) -> MergedRecord:
    """The parts as one record, validated as a whole.

    Errors of the parts are kept if they have a value: what one part lacks another may have, and
    only the whole record shows whether it adds up. No value is validated twice: where that would
    change one, the record is not validated as a whole, and an error says so.
    """
    if len(parts) == 1:
        return MergedRecord(parts[0], lambda path: (0, path))
    merger = _RecordMerger(overlaps)
    fields = merger.record(schema, [part.fields for part in parts])
    dropped = [
        FieldError(merger.path_in_record(number, error.path), error.value, error.reason)
        for number, part in enumerate(parts)
        for error in part.errors
        if error.value not in _EMPTY_VALUES
    ]
    reported = {error.path for error in dropped}
    whole = schema.validate(fields)
    new = [error for error in whole.errors if error.value != "null" or error.path not in reported]
    if whole.fields != fields:
        new = [FieldError("", None, _NOT_VALIDATED)]
    errors = dict.fromkeys([*dropped, *merger.conflicts, *new])
    return MergedRecord(ValidatedRecord(fields, tuple(errors)), merger.origin)


@dataclass
class _RecordMerger:
    """Merges fields recursively.

    `item_positions` maps the number of a part and the path of a list in it to the positions of its
    items in the record. `sources` maps paths in the record to the number of the part that the value
    comes from.
    """

    overlaps: Collection[int] = ()
    conflicts: list[FieldError] = field(default_factory=list)
    item_positions: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)

    def record(self, schema: Schema, parts: Sequence[Fields]) -> dict[str, Any]:
        """The merged fields. Values equal to the schema's default count as missing."""
        defaults = schema.validate({}).fields
        return self._merge_object(list(enumerate(parts)), "", defaults, schema.rules)

    def _merge_object(
        self,
        parts: PartValues,
        path: str,
        defaults: object,
        rules: Mapping[str, MergeRule] = _NO_RULES,
    ) -> dict[str, Any]:
        names = dict.fromkeys(name for _, part in parts for name in part)
        inside = f"{path}." if path else ""
        return {
            name: self._merge_field(
                [(number, part[name]) for number, part in parts if part.get(name) is not None],
                f"{inside}{name}",
                defaults.get(name) if isinstance(defaults, Mapping) else None,
                rules.get(name),
            )
            for name in names
        }

    def path_in_record(self, number: int, path: str) -> str:
        """The path in the record of a path in a part."""
        steps_in_record: list[str] = []
        for part in path.split(".") if path else ():
            positions = self.item_positions.get((number, ".".join(steps_in_record)))
            steps_in_record.append(
                str(positions[int(part)]) if positions and part.isdecimal() else part
            )
        return ".".join(steps_in_record)

    def origin(self, path: str) -> tuple[int, str]:
        """The number of the part that a value of the record comes from, and its path there."""
        steps = path.split(".")
        number = 0
        for count in range(len(steps), 0, -1):
            if (above := ".".join(steps[:count])) in self.sources:
                number = self.sources[above]
                break
        steps_in_part: list[str] = []
        for depth, step in enumerate(steps):
            positions = self.item_positions.get((number, ".".join(steps[:depth])))
            at = positions.index(int(step)) if positions and int(step) in positions else step
            steps_in_part.append(str(at))
        return number, ".".join(steps_in_part)

    def _merge_field(
        self, values: PartValues, path: str, default: object, rule: MergeRule | None
    ) -> Any:  # noqa: ANN401
        candidates = [pair for pair in values if _has_content(pair[1]) and pair[1] != default]
        if not candidates:
            self.sources[path] = values[0][0] if values else 0
            return values[0][1] if values else None
        if rule in (MergeRule.FIRST, MergeRule.LAST):
            return self._choose(candidates[0 if rule is MergeRule.FIRST else -1], path)
        if rule is MergeRule.JOIN and all(isinstance(value, str) for _, value in candidates):
            self.sources[path] = candidates[0][0]
            return self._join_lines(candidates)
        if rule is not MergeRule.CONFLICT and all(
            isinstance(value, list) for _, value in candidates
        ):
            return self._concatenate(candidates, path)
        if all(isinstance(value, Mapping) for _, value in candidates):
            return self._merge_object(candidates, path, default)
        return self._resolve_conflicts(candidates, path)

    def _choose(self, pair: tuple[int, Any], path: str) -> Any:  # noqa: ANN401
        number, value = pair
        self.sources[path] = number
        if isinstance(value, list):
            self.item_positions[number, path] = list(range(len(value)))
        return value

    def _resolve_conflicts(self, values: PartValues, path: str) -> Any:  # noqa: ANN401
        self.sources[path], first = values[0]
        others: list[Any] = []
        for _, other in values[1:]:
            if not any(_equal(other, known) for known in (first, *others)):
                others.append(other)
                reason = f"the parts of the document disagree: kept {to_json(first)} from the first"
                self.conflicts.append(FieldError(path, to_json(other), reason))
        return first

    def _concatenate(self, values: PartValues, path: str) -> list[Any]:
        """The lists as one; items that end one and begin the next, as chunks overlap, only once."""
        merged_items: list[tuple[int, Any]] = []
        before = -1
        for number, items in values:
            overlap = number in self.overlaps and before == number - 1
            shared = (
                _count_shared([item for _, item in merged_items], items, _may_be_same)
                if overlap
                else 0
            )
            before = number
            start = len(merged_items) - shared
            for index in range(shared):
                repeated = [merged_items[start + index], (number, items[index])]
                both = [pair for pair in repeated if pair[1] is not None]
                merged = self._merge_field(both, f"{path}.{start + index}", None, None)
                merged_items[start + index] = (merged_items[start + index][0], merged)
            for index, item in enumerate(items[shared:], len(merged_items)):
                self.sources[f"{path}.{index}"] = number
                merged_items.append((number, item))
            self.item_positions[number, path] = [start + index for index in range(len(items))]
        return [item for _, item in merged_items]

    def _join_lines(self, values: PartValues) -> str:
        """The texts one below the other; lines that end one and begin the next only once."""
        lines: list[str] = []
        for number, text in values:
            more = str(text).splitlines()
            shared = 0
            if number in self.overlaps:
                shared = _count_shared(
                    lines, more, lambda line, other: line.strip() == other.strip(), 0
                )
            lines += more[shared:]
        return "\n".join(lines)


def _has_content(value: object) -> bool:
    """Whether a value is not empty, at any depth."""
    if isinstance(value, Mapping):
        return any(_has_content(item) for item in value.values())
    return value is not None and value != [] and value != ""


def _count_shared(
    ends: Sequence[Any],
    begins: Sequence[Any],
    same: Callable[[Any, Any], bool],
    items_per_miss: int = 3,
) -> int:
    """How many items at the end of one list are those at the beginning of the next.

    One in `items_per_miss` may have been read differently (0: none): if of three consecutive items
    two are the same, the third is too.
    """
    longest = min(len(ends), len(begins), _MAX_OVERLAP)
    for count in range(longest, 0, -1):
        misses = count // items_per_miss if items_per_miss else 0
        for item, other in zip(ends[len(ends) - count :], begins, strict=False):
            misses -= not same(item, other)
            if misses < 0:
                break
        else:
            return count
    return 0


def _may_be_same(value: object, other: object) -> bool:
    """Whether two values may be one: they differ in nothing that both have, and share something."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        shared = [key for key in value if _has_content(value[key]) and _has_content(other.get(key))]
        return bool(shared) and all(_equal(value[key], other[key]) for key in shared)
    return _equal(value, other)


def _equal(value: object, other: object) -> bool:
    if isinstance(value, str) and isinstance(other, str):
        return " ".join(value.split()).casefold() == " ".join(other.split()).casefold()
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return _may_be_same(value, other) or not (_has_content(value) or _has_content(other))
    return value == other
