"""List the values on which the records of two models disagree.

Rows of lists are aligned first: a row that one model left out is one disagreement, and not one in
each row below it.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from llm_ocr.parsing.schema import Fields
from llm_ocr.parsing.validation import to_json
from llm_ocr.parsing.value_equality import comparison_key, same_value
from llm_ocr.records import Disagreement

# Rows of lists that differ are compared each with each, if these are at most so many comparisons;
# of more, they are compared in order.
MAX_COMPARISONS = 40_000
# The share of a row's values that has to be equal for two rows to be one.
SAME_ROW = 0.5
# A pair of places in two lists; None where one of them has no such row.
Pair = tuple[int | None, int | None]


def find_disagreements(fields: Fields, other: Fields) -> list[Disagreement]:
    """The values of a record that another model's record doesn't have, and the other way round.

    In the record's order. Paths are those of the record (`lines.2.amount`); a row that only the
    other record has is listed under the path of its list.
    """
    return list(_compare(fields, other, ""))


def _compare(value: object, other: object, path: str) -> Iterator[Disagreement]:
    if same_value(value, other):
        return
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*value, *other]):
            yield from _compare(value.get(name), other.get(name), _below(path, name))
    elif isinstance(value, list | tuple) and isinstance(other, list | tuple):
        for ours, theirs in align_rows(value, other):
            if ours is None and theirs is not None:
                yield Disagreement(path, None, to_json(other[theirs]))
            elif ours is not None:
                row = None if theirs is None else other[theirs]
                yield from _compare(value[ours], row, _below(path, ours))
    else:
        yield Disagreement(path, _as_json(value), _as_json(other))


def align_rows(rows: Sequence[object], others: Sequence[object]) -> list[Pair]:
    """The rows of two lists that are the same or nearly so, in pairs of their places, in order."""
    keys = [hash(comparison_key(row)) for row in rows]
    other_keys = [hash(comparison_key(row)) for row in others]
    pairs: list[Pair] = []
    matcher = SequenceMatcher(None, keys, other_keys, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        ours, theirs = range(start, end), range(other_start, other_end)
        if kind == "equal" or len(ours) * len(theirs) > MAX_COMPARISONS:
            pairs += _in_order(ours, theirs)
        elif kind == "replace":
            pairs += _align_similar(rows, others, ours, theirs)
        else:
            pairs += [(k, None) for k in ours] + [(None, k) for k in theirs]
    return pairs


def _in_order(ours: range, theirs: range) -> list[Pair]:
    shared = min(len(ours), len(theirs))
    both: list[Pair] = list(zip(ours, theirs, strict=False))
    return [
        *both,
        *((k, None) for k in ours[shared:]),
        *((None, k) for k in theirs[shared:]),
    ]


def _align_similar(
    rows: Sequence[object], others: Sequence[object], ours: range, theirs: range
) -> list[Pair]:
    """Pairs with as many equal values as possible, in the order of both lists."""
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])]
    values, other_values = [_values(rows[k]) for k in ours], [_values(others[j]) for j in theirs]
    scores = [[_similarity(row, other) for other in other_values] for row in values]
    # The best sum for the rows from k and j on.
    best = [[0.0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for k in reversed(range(len(ours))):
        for j in reversed(range(len(theirs))):
            paired = scores[k][j] + best[k + 1][j + 1] if scores[k][j] >= SAME_ROW else 0.0
            best[k][j] = max(paired, best[k + 1][j], best[k][j + 1])
    pairs: list[Pair] = []
    k = j = 0
    while k < len(ours) and j < len(theirs):
        if scores[k][j] >= SAME_ROW and best[k][j] == scores[k][j] + best[k + 1][j + 1]:
            pairs.append((ours[k], theirs[j]))
            k, j = k + 1, j + 1
        elif best[k][j] == best[k + 1][j]:
            pairs.append((ours[k], None))
            k += 1
        else:
            pairs.append((None, theirs[j]))
            j += 1
    return [*pairs, *((k, None) for k in ours[k:]), *((None, k) for k in theirs[j:])]


def _similarity(values: Mapping[str, object], others: Mapping[str, object]) -> float:
    """The share of values that two rows have in common, 0..1."""
    names = values.keys() | others.keys()
    equal = sum(values.get(name) == others.get(name) for name in names)
    return equal / len(names) if names else 1.0


def _values(row: object) -> Mapping[str, object]:
    """The values of a row, as they are compared, by their names."""
    cells = row if isinstance(row, Mapping) else {"": row}
    keys = {str(name): comparison_key(value) for name, value in cells.items()}
    return {name: key for name, key in keys.items() if key is not None}


def _as_json(value: object) -> str | None:
    return None if value is None else to_json(value)


def _below(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
