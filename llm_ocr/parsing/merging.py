"""One record out of the records of a document's parts, by rules that its schema can set.

Without a rule: lists are concatenated, objects are merged field by field, and of everything else
the first value stands; where another part has another one, that is listed as an error.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.parsing.schema import FieldError, Fields, MergeRule, Schema, ValidatedRecord
from llm_ocr.parsing.validation import to_json

PartValues = Sequence[tuple[int, Any]]  # values, each with the part that it is of

_LONGEST_SEAM = 500
_NOT_A_VALUE = (None, "null")
NO_RULES: Mapping[str, MergeRule] = {}
_NOT_CHECKED = (
    "not checked as a whole: it was read in several parts, and a validator changes what it made"
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
    """The fields of the parts (validated, in their order in the document) as one record's, and
    what they don't agree on. Checks of the whole record are not made: `merge_records` does.

    The parts at `overlaps` begin with what the one before them ends with.
    """
    merging = _Merging(overlaps)
    return merging.record(schema, parts), tuple(merging.conflicts)


def merge_records(
    schema: Schema, parts: Sequence[ValidatedRecord], overlaps: Collection[int] = ()
) -> MergedRecord:
    """The parts as one record, whose checks are made of the whole.

    Of the parts' errors those stay that hold a value; what a part lacked another may have, and
    whether the record adds up is seen in the whole only. No value is validated twice: where that
    would change one, the record's checks are not made, and that is listed.
    """
    if len(parts) == 1:
        return MergedRecord(parts[0], lambda path: (0, path))
    merging = _Merging(overlaps)
    fields = merging.record(schema, [part.fields for part in parts])
    lost = [
        FieldError(merging.moved(number, error.path), error.value, error.reason)
        for number, part in enumerate(parts)
        for error in part.errors
        if error.value not in _NOT_A_VALUE
    ]
    told = {error.path for error in lost}
    whole = schema.validate(fields)
    new = [one for one in whole.errors if one.value != "null" or one.path not in told]
    if whole.fields != fields:
        new = [FieldError("", None, _NOT_CHECKED)]
    errors = dict.fromkeys([*lost, *merging.conflicts, *new])
    return MergedRecord(ValidatedRecord(fields, tuple(errors)), merging.origin)


@dataclass
class _Merging:
    """`moves`: for the list of a part (its number and path) where its items are in the record;
    `chosen`: of which part what stands at a path is."""

    overlaps: Collection[int] = ()
    conflicts: list[FieldError] = field(default_factory=list)
    moves: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    chosen: dict[str, int] = field(default_factory=dict)

    def record(self, schema: Schema, parts: Sequence[Fields]) -> dict[str, Any]:
        """What a part has by the schema's default only is not from the document."""
        defaults = schema.validate({}).fields
        return self._object(list(enumerate(parts)), "", defaults, schema.rules)

    def _object(
        self,
        parts: PartValues,
        path: str,
        defaults: object,
        rules: Mapping[str, MergeRule] = NO_RULES,
    ) -> dict[str, Any]:
        names = dict.fromkeys(name for _, part in parts for name in part)
        inside = f"{path}." if path else ""
        return {
            name: self._field(
                [(number, part[name]) for number, part in parts if part.get(name) is not None],
                f"{inside}{name}",
                defaults.get(name) if isinstance(defaults, Mapping) else None,
                rules.get(name),
            )
            for name in names
        }

    def moved(self, number: int, path: str) -> str:
        """Where in the record a path of a part is."""
        made: list[str] = []
        for part in path.split(".") if path else ():
            places = self.moves.get((number, ".".join(made)))
            made.append(str(places[int(part)]) if places and part.isdecimal() else part)
        return ".".join(made)

    def origin(self, path: str) -> tuple[int, str]:
        """Of which part what stands at a path of the record is, and where it is in it."""
        steps = path.split(".")
        number = 0
        for count in range(len(steps), 0, -1):
            if (above := ".".join(steps[:count])) in self.chosen:
                number = self.chosen[above]
                break
        made: list[str] = []
        for place, step in enumerate(steps):
            moved = self.moves.get((number, ".".join(steps[:place])))
            at = moved.index(int(step)) if moved and int(step) in moved else step
            made.append(str(at))
        return number, ".".join(made)

    def _field(self, values: PartValues, path: str, default: object, rule: MergeRule | None) -> Any:  # noqa: ANN401
        telling = [one for one in values if _tells(one[1]) and one[1] != default]
        if not telling:
            self.chosen[path] = values[0][0] if values else 0
            return values[0][1] if values else None
        if rule in (MergeRule.FIRST, MergeRule.LAST):
            return self._chosen(telling[0 if rule is MergeRule.FIRST else -1], path)
        if rule is MergeRule.JOIN and all(isinstance(one, str) for _, one in telling):
            self.chosen[path] = telling[0][0]
            return self._joined(telling)
        if rule is not MergeRule.CONFLICT and all(isinstance(one, list) for _, one in telling):
            return self._concatenated(telling, path)
        if all(isinstance(one, Mapping) for _, one in telling):
            return self._object(telling, path, default)
        return self._agreed(telling, path)

    def _chosen(self, one: tuple[int, Any], path: str) -> Any:  # noqa: ANN401
        number, value = one
        self.chosen[path] = number
        if isinstance(value, list):
            self.moves[number, path] = list(range(len(value)))
        return value

    def _agreed(self, values: PartValues, path: str) -> Any:  # noqa: ANN401
        self.chosen[path], first = values[0]
        others: list[Any] = []
        for _, other in values[1:]:
            if not any(_equal(other, one) for one in (first, *others)):
                others.append(other)
                said = f"the parts differ: {to_json(first)} stands, of the first that has it"
                self.conflicts.append(FieldError(path, to_json(other), said))
        return first

    def _concatenated(self, values: PartValues, path: str) -> list[Any]:
        """The lists in one; what ends one and begins the next again, as windows overlap, once."""
        made: list[tuple[int, Any]] = []
        before = -1
        for number, items in values:
            overlap = number in self.overlaps and before == number - 1
            seam = _seam([one for _, one in made], items, _same) if overlap else 0
            before = number
            start = len(made) - seam
            for place in range(seam):
                twice = [made[start + place], (number, items[place])]
                both = [one for one in twice if one[1] is not None]
                one = self._field(both, f"{path}.{start + place}", None, None)
                made[start + place] = (made[start + place][0], one)
            for place, item in enumerate(items[seam:], len(made)):
                self.chosen[f"{path}.{place}"] = number
                made.append((number, item))
            self.moves[number, path] = [start + place for place in range(len(items))]
        return [one for _, one in made]

    def _joined(self, values: PartValues) -> str:
        """Texts below each other; lines that end one and begin the next once."""
        lines: list[str] = []
        for number, text in values:
            more = str(text).splitlines()
            seam = 0
            if number in self.overlaps:
                seam = _seam(lines, more, lambda one, other: one.strip() == other.strip(), 0)
            lines += more[seam:]
        return "\n".join(lines)


def _tells(value: object) -> bool:
    """Whether there is anything in a value."""
    if isinstance(value, Mapping):
        return any(_tells(one) for one in value.values())
    return value is not None and value != [] and value != ""


def _seam(
    ends: Sequence[Any], begins: Sequence[Any], same: Callable[[Any, Any], bool], lenience: int = 3
) -> int:
    """How many items at the end of one list are those at the beginning of the next.

    One in `lenience` may be read otherwise (0: none): of three that follow each other and of which
    two are the same, the third is too.
    """
    longest = min(len(ends), len(begins), _LONGEST_SEAM)
    for count in range(longest, 0, -1):
        misses = count // lenience if lenience else 0
        for one, other in zip(ends[len(ends) - count :], begins, strict=False):
            misses -= not same(one, other)
            if misses < 0:
                break
        else:
            return count
    return 0


def _same(one: object, other: object) -> bool:
    """Whether two readings are of the same thing: nothing in them differs, something is equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        shared = [key for key in one if _tells(one[key]) and _tells(other.get(key))]
        return bool(shared) and all(_equal(one[key], other[key]) for key in shared)
    return _equal(one, other)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _same(one, other) or not (_tells(one) or _tells(other))
    return one == other
