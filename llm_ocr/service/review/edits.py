"""Corrections applied to a machine's records: the fields as they are now, and what rules say.

A machine's record never changes. What reviewers did is a list of corrections in order, and a record
under review is the machine's with these applied. Its rules are the schema's: each edit validates
the record again with the code that the step `parse` uses.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from llm_ocr.messages import CodedError
from llm_ocr.parsing.leaves import leaves
from llm_ocr.parsing.schema import Fields, Schema, ValidatedRecord
from llm_ocr.parsing.schema_fields import ArrayField, ObjectField, ScalarField, schema_fields
from llm_ocr.records import FieldError

Box = Sequence[float]
Key = tuple[int, str]


class InvalidEditError(CodedError):
    """The record has no such field, or the schema doesn't accept the value."""


class EditAction(StrEnum):
    """What a reviewer does to a field. `absent`: the document doesn't have it; of an item of a
    list: the item doesn't exist. `reclassify` changes no field, but the class of a page or of the
    document."""

    CORRECT = "correct"
    CONFIRM = "confirm"
    ABSENT = "absent"
    RECLASSIFY = "reclassify"
    UNDO = "undo"


class FieldStatus(StrEnum):
    """Where a field is in its review; `empty`: the machine found nothing, and nobody else did."""

    UNCONFIRMED = "unconfirmed"
    EMPTY = "empty"
    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    ABSENT = "absent"


@dataclass(frozen=True)
class FieldEdit:
    """An edit of the field at `path` of a record. `box` is where its value is on the page;
    `seconds` is how long the reviewer took. To reclassify, `value` is the class, of `page` or of
    the document without one, and there is no path."""

    action: EditAction
    path: str = ""
    record: int = 0
    value: Any = None
    page: int | None = None
    box: Box | None = None
    reason: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Correction:
    """An edit as it was made: the columns of `schema.corrections`."""

    id: int
    review_id: int
    document_id: str
    tenant: str
    action: str
    undoes: int | None
    record: int
    path: str
    old: Any
    new: Any
    page: int | None
    old_box: Box | None
    new_box: Box | None
    confidence: float | None
    reason: str | None
    reviewer: str
    reviewer_name: str
    created_at: datetime
    seconds: float | None
    model: str | None
    pipeline: str
    pipeline_revision: str


@dataclass(frozen=True)
class ReviewField:
    """A field under review. `messages` are the rules that its value breaks; `kind` and `choices`
    are the schema's; `is_verified` is false if the machine's value isn't on the page;
    `is_estimated`: the box shows about where the value is."""

    record: int
    path: str
    label: str
    kind: str
    choices: Sequence[str]
    value: Any
    machine_value: Any
    confidence: float | None
    is_verified: bool | None
    page: int | None
    box: Box | None
    is_estimated: bool
    quote: str | None
    status: FieldStatus
    messages: Sequence[str]


@dataclass(frozen=True)
class ReviewRecord:
    """A record under review: its fields, the record as it would be approved, and the rules that it
    breaks. `pages` are those that it was made of, `class_name` is the class that chose its schema.
    Paths are those of the machine's record; `approved_paths` are those in `content`, from
    which removed list items are missing. `lists` has the path of each list of objects, and the next
    free index."""

    index: int
    page: int | None
    fields: Sequence[ReviewField]
    content: Fields
    errors: Sequence[FieldError]
    approved_paths: Mapping[str, str]
    lists: Sequence[tuple[str, int]] = ()
    pages: Sequence[int] = ()
    class_name: str | None = None


def apply_corrections(
    index: int,
    machine: Mapping[str, Any],
    corrections: Sequence[Correction],
    schema: Schema | None,
) -> ReviewRecord:
    """The record at `index` of a result (`machine`, of `document.json`) with the corrections that
    are not undone. Without a schema no rules are checked."""
    live = live_corrections(corrections, index)
    raw, removed = _edit_fields(machine["fields"] or {}, live)
    validated, original = _validate(raw, removed, schema)
    errors = [
        FieldError(original.get(error.path, error.path), error.value, error.reason)
        for error in validated.errors
    ]
    last = _decisive(live)
    errors += _lasting_errors(machine, schema, last)
    placed = {correction.path: correction for correction in live if correction.new_box}
    fields = _list_fields(
        index, machine, raw, removed, validated, original, last, placed, errors, schema
    )
    approved = {path: new for new, path in original.items()}
    lists = tuple(_list_lengths(raw, schema))
    return ReviewRecord(
        index,
        machine["page"],
        fields,
        validated.fields,
        errors,
        approved,
        lists,
        machine.get("pages", ()),
        machine.get("class"),
    )


def live_corrections(corrections: Sequence[Correction], record: int) -> list[Correction]:
    """The corrections of a record's fields that are not undone, in order."""
    return [
        correction
        for correction in _live(corrections)
        if correction.record == record and correction.action != EditAction.RECLASSIFY
    ]


def live_reclassifications(corrections: Sequence[Correction]) -> list[Correction]:
    """The changes of classes that are not undone, in order."""
    return [one for one in _live(corrections) if one.action == EditAction.RECLASSIFY]


def live_ids(corrections: Sequence[Correction]) -> frozenset[int]:
    """The ids of all corrections that are not undone."""
    return frozenset(correction.id for correction in _live(corrections))


def check_edit(
    edit: FieldEdit,
    machine: Mapping[str, Any],
    corrections: Sequence[Correction],
    schema: Schema | None,
) -> tuple[EditAction, Any, Any]:
    """The action, the old value and the new one, as the schema reads it. An edit that changes
    nothing confirms. Raises InvalidEditError."""
    raw, removed = _edit_fields(machine["fields"] or {}, live_corrections(corrections, edit.record))
    parts = edit.path.split(".")
    if edit.action is EditAction.CONFIRM:
        value = _get(raw, parts)
        return edit.action, value, value
    # Without a schema, nothing else says which fields there may be.
    may_add = edit.action is EditAction.CORRECT and schema is not None
    old = _get(raw, parts, missing_ok=may_add)
    if edit.action is EditAction.ABSENT:
        return edit.action, old, None
    changed = _set(raw, parts, edit.value)
    validated, original = _validate(changed, removed - {edit.path}, schema)
    for error in validated.errors:
        at = original.get(error.path, error.path)
        if error.value is not None and (edit.path == at or edit.path.startswith(f"{at}.")):
            raise InvalidEditError(f"{edit.path}: {error.reason}")
    here = {path: new for new, path in original.items()}.get(edit.path, edit.path)
    new = _get(validated.fields, here.split("."))
    is_same = new == old and edit.box is None
    return (EditAction.CONFIRM if is_same else EditAction.CORRECT), old, new


def field_kinds(schema: Schema | None) -> Mapping[str, ScalarField]:
    """The scalars of a schema by path, with `*` for the index in a list."""
    if schema is None:
        return {}
    found: dict[str, ScalarField] = {}

    def add(field: ScalarField | ObjectField | ArrayField, path: str) -> None:
        if isinstance(field, ScalarField):
            found[path] = field
        elif isinstance(field, ArrayField):
            add(field.item, f"{path}.*")
        else:
            for name, inner in field.fields.items():
                add(inner, f"{path}.{name}" if path else name)

    add(schema_fields(schema.json_schema), "")
    return found


def pattern_of(path: str) -> str:
    """A path with `*` for its list indices."""
    return ".".join("*" if part.isdecimal() else part for part in path.split("."))


def _live(corrections: Sequence[Correction]) -> Iterator[Correction]:
    undone = {correction.undoes for correction in corrections}
    for correction in corrections:
        if correction.action != EditAction.UNDO and correction.id not in undone:
            yield correction


def _edit_fields(fields: Fields, live: Sequence[Correction]) -> tuple[Fields, frozenset[str]]:
    """The fields with corrections, and the paths of removed list items, which are still there so
    that the others keep their indices."""
    removed: set[str] = set()
    for correction in live:
        parts = correction.path.split(".")
        if correction.action == EditAction.ABSENT:
            if _is_item(fields, parts):
                removed.add(correction.path)
            else:
                fields = _set(fields, parts, _empty_value(correction.old))
        elif correction.action == EditAction.CORRECT:
            removed.discard(correction.path)
            fields = _set(fields, parts, correction.new)
    return fields, frozenset(removed)


def _decisive(live: Sequence[Correction]) -> Mapping[str, Correction]:
    """The correction of each path that says what has become of it: the last one, but a value that
    was corrected and then confirmed is still corrected."""
    found: dict[str, Correction] = {}
    for correction in live:
        if correction.action != EditAction.CONFIRM or correction.path not in found:
            found[correction.path] = correction
    return found


def _empty_value(value: Any) -> Any:  # noqa: ANN401
    """What is left of a value that the document doesn't have."""
    if isinstance(value, Mapping):
        return {name: _empty_value(inner) for name, inner in value.items()}
    return [] if isinstance(value, list) else None


def _list_lengths(fields: Fields, schema: Schema | None) -> Iterator[tuple[str, int]]:
    """The lists of objects at the top of a record."""
    if schema is None:
        return
    for array in schema_fields(schema.json_schema).arrays():
        items = fields.get(array.path) or []
        if isinstance(array.item, ObjectField) and "." not in array.path and array.path:
            yield array.path, len(items)


def _validate(
    fields: Fields, removed: frozenset[str], schema: Schema | None
) -> tuple[ValidatedRecord, Mapping[str, str]]:
    """The record without removed items, validated, and the original path of each of its values."""
    original: dict[str, str] = {}

    def compact(branch: Any, path: str, new: str) -> Any:  # noqa: ANN401
        original[new] = path
        if isinstance(branch, Mapping):
            return {
                name: compact(value, _join(path, name), _join(new, name))
                for name, value in branch.items()
            }
        if isinstance(branch, list):
            remaining = [place for place in range(len(branch)) if _join(path, place) not in removed]
            return [
                compact(branch[place], _join(path, place), _join(new, number))
                for number, place in enumerate(remaining)
            ]
        return branch

    whole = compact(fields, "", "")
    return (ValidatedRecord(whole) if schema is None else schema.validate(whole)), original


def _lasting_errors(
    machine: Mapping[str, Any], schema: Schema | None, last: Mapping[str, Correction]
) -> Iterator[FieldError]:
    """The machine's errors that validating its record again doesn't give: values that it rejected,
    as long as nobody has looked at the field, and parts of the document that it couldn't read."""
    again = () if schema is None else schema.validate(machine["fields"] or {}).errors
    repeated = {(error.path, error.reason) for error in again}
    for error in machine["errors"]:
        is_repeated = (error["path"], error["reason"]) in repeated
        if not is_repeated and error["path"] not in last:
            yield FieldError(error["path"], error["value"], error["reason"])


def _list_fields(
    index: int,
    machine: Mapping[str, Any],
    raw: Fields,
    removed: frozenset[str],
    validated: ValidatedRecord,
    original: Mapping[str, str],
    last: Mapping[str, Correction],
    placed: Mapping[str, Correction],
    errors: Sequence[FieldError],
    schema: Schema | None,
) -> list[ReviewField]:
    evidence = {found["path"]: found for found in machine["evidence"]}
    machine_values = dict(leaves(machine["fields"] or {}))
    # The schema's validator also adds the empty fields of new items.
    values = dict(leaves(raw))
    now = {original.get(path, path): value for path, value in leaves(validated.fields)}
    paths = dict.fromkeys([*values, *now])
    messages: dict[str, list[str]] = {}
    for error in errors:
        messages.setdefault(error.path, []).append(_describe(error))
    kinds = field_kinds(schema)
    found = []
    for path in paths:
        scalar, place = kinds.get(pattern_of(path)), evidence.get(path)
        correction = last.get(path)
        is_removed = any(path == item or path.startswith(f"{item}.") for item in removed)
        value = values.get(path) if is_removed else now.get(path, values.get(path))
        edited = placed.get(path)
        found.append(
            ReviewField(
                record=index,
                path=path,
                label=label_of(path),
                kind="text" if scalar is None else str(scalar.kind),
                choices=[] if scalar is None else [str(member) for member in scalar.members],
                value=value,
                machine_value=machine_values.get(path),
                confidence=None if place is None else place["confidence"],
                is_verified=None if place is None else place["matched"] is not None,
                page=edited.page if edited else (None if place is None else place["page"]),
                box=edited.new_box if edited else (None if place is None else place["box"]),
                # A reviewer has pointed at the place.
                is_estimated=place is not None and not edited and place["is_estimated"],
                quote=None if place is None else place["quote"],
                status=_status(correction, is_removed, value, messages.get(path)),
                messages=messages.get(path, []),
            )
        )
    return found


def _status(
    correction: Correction | None, is_removed: bool, value: object, messages: Sequence[str] | None
) -> FieldStatus:
    if is_removed:
        return FieldStatus.ABSENT
    if correction is not None:
        return {
            EditAction.CORRECT: FieldStatus.CORRECTED,
            EditAction.ABSENT: FieldStatus.ABSENT,
        }.get(EditAction(correction.action), FieldStatus.CONFIRMED)
    is_empty = value in (None, "") and not messages
    return FieldStatus.EMPTY if is_empty else FieldStatus.UNCONFIRMED


def _describe(error: FieldError) -> str:
    if error.value is None:
        return error.reason
    try:
        value = json.loads(error.value)
    except ValueError:
        value = error.value
    return f"{value!r} was read: {error.reason}"


def label_of(path: str) -> str:
    """What a field is called, with the numbers of list items from 1."""
    return " › ".join(
        str(int(part) + 1) if part.isdecimal() else part.replace("_", " ")
        for part in path.split(".")
    )


def _join(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)


def _is_item(fields: Any, parts: Sequence[str]) -> bool:  # noqa: ANN401
    return isinstance(_get(fields, parts[:-1]), list)


def _get(branch: Any, parts: Sequence[str], *, missing_ok: bool = False) -> Any:  # noqa: ANN401
    """The value at a path. Raises InvalidEditError if there is none."""
    for part in parts:
        if isinstance(branch, Mapping) and part in branch:
            branch = branch[part]
        elif isinstance(branch, list) and part.isdecimal() and int(part) < len(branch):
            branch = branch[int(part)]
        elif missing_ok:
            return None
        else:
            raise InvalidEditError(f"the record has no field {'.'.join(parts)}")
    return branch


def _set(branch: Any, parts: Sequence[str], value: Any) -> Any:  # noqa: ANN401
    """A copy of the record with a value at a path. A list may grow by one item."""
    if not parts:
        return value
    part = parts[0]
    if isinstance(branch, list) and part.isdecimal() and int(part) <= len(branch):
        items = [*branch, None] if int(part) == len(branch) else list(branch)
        items[int(part)] = _set(items[int(part)], parts[1:], value)
        return items
    if isinstance(branch, Mapping) or (branch is None and not part.isdecimal()):
        return {**(branch or {}), part: _set((branch or {}).get(part), parts[1:], value)}
    raise InvalidEditError(f"the record has no field {part!r} at this place")
