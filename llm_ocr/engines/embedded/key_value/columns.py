"""Lists of objects from tables: a row of headings, and the rows below it."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.key_value.labels import Label, Labels
from llm_ocr.engines.embedded.key_value.numbers import NUMERIC, Notation
from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.engines.embedded.key_value.values import read
from llm_ocr.engines.embedded.key_value.wording import has_value_elsewhere
from llm_ocr.parsing.schema_fields import ArrayField, ObjectField, ScalarField

# Headings that must be known for a row to be a table's head.
FEWEST_HEADINGS = 2
# A gap between rows of this many times their usual distance ends a table.
LONGEST_GAP = 2.5


@dataclass(frozen=True)
class _Column:
    """A heading and its field, None where no field is called so."""

    phrase: Phrase
    leaf: ScalarField | None


@dataclass(frozen=True)
class Table:
    """The items of a list, and the numbers of the phrases that they came from."""

    items: tuple[dict[str, object], ...]
    taken: frozenset[int]


NO_TABLE = Table((), frozenset())


def table_for(
    paper: Paper, listing: ArrayField, sums: Mapping[int, Sequence[Label]], notation: Notation
) -> Table:
    """The rows of the page's best table for a list of objects.

    `sums` are the labels of fields outside of the list, at which a table ends.
    """
    if not isinstance(listing.item, ObjectField):
        return NO_TABLE
    leaves = [leaf for leaf in listing.item.fields.values() if isinstance(leaf, ScalarField)]
    labels = Labels(leaves)
    best: tuple[int, list[_Column]] = (FEWEST_HEADINGS - 1, [])
    for row in paper.rows:
        columns = _columns(row, labels)
        known = sum(column.leaf is not None for column in columns)
        if known > best[0]:
            best = known, columns
    if not best[1]:
        return NO_TABLE
    return _rows(paper, best[1], sums, notation)


def _columns(row: Sequence[Phrase], labels: Labels) -> list[_Column]:
    """A row's phrases as headings, each field under one of them, the surest one."""
    found = [
        (label.weight, label.length, -k, label)
        for k, phrase in enumerate(row)
        for label in labels.of(phrase)
        if label.is_whole
    ]
    leaves: dict[int, ScalarField] = {}
    for _, _, k, label in sorted(found, key=lambda one: one[:3], reverse=True):
        if (
            isinstance(label.field, ScalarField)
            and -k not in leaves
            and label.field not in leaves.values()
        ):
            leaves[-k] = label.field
    return [_Column(phrase, leaves.get(k)) for k, phrase in enumerate(row)]


def _rows(
    paper: Paper,
    columns: Sequence[_Column],
    sums: Mapping[int, Sequence[Label]],
    notation: Notation,
) -> Table:
    head = columns[0].phrase.row
    items: list[dict[str, object]] = []
    taken = {column.phrase.number for column in columns}
    last, pitches = columns[0].phrase.middle, list[float]()
    for row in paper.rows[head + 1 :]:
        gap = statistics.mean(phrase.middle for phrase in row) - last
        usual = statistics.median(pitches) if pitches else max(gap, 3 * paper.height)
        if gap > LONGEST_GAP * usual or _is_sum(row, sums):
            break
        texts = _by_column(row, columns)
        item = _item(texts, columns, notation)
        filled = [value for value in item.values() if value is not None]
        if _is_row(item, columns):
            items.append(item)
            pitches.append(gap)
        elif items and len(filled) == 1 and gap < 1.6 * paper.height and _goes_on(items[-1], item):
            pass
        elif not items:
            continue
        else:
            break
        last += gap
        taken |= {phrase.number for phrase in row}
    return Table(tuple(items), frozenset(taken) if items else frozenset())


def _is_sum(row: Sequence[Phrase], sums: Mapping[int, Sequence[Label]]) -> bool:
    """Whether a row begins with the label of a field outside of the list, with no more words."""
    first = next(
        (phrase for phrase in row if any(word.text.isalpha() for word in phrase.words)), None
    )
    found = sums.get(first.number, ()) if first is not None else ()
    return any(
        not any(char.isalpha() for char in label.rest) or has_value_elsewhere(label)
        for label in found
        if isinstance(label.field, ScalarField) and label.field.kind in NUMERIC
    )


def _by_column(row: Sequence[Phrase], columns: Sequence[_Column]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for phrase in row:
        k = min(range(len(columns)), key=lambda k: _apart(phrase, columns[k].phrase))
        texts[k] = f"{texts[k]} {phrase.text}" if k in texts else phrase.text
    return texts


def _apart(phrase: Phrase, heading: Phrase) -> float:
    """How far a cell is from a heading: where they overlap, by how much (below zero); else by the
    nearer edges."""
    shared = min(phrase.rect[2], heading.rect[2]) - max(phrase.rect[0], heading.rect[0])
    if shared > 0:
        return -shared
    left = abs(phrase.rect[0] - heading.rect[0])
    right = abs(phrase.rect[2] - heading.rect[2])
    return min(left, right)


def _item(
    texts: Mapping[int, str], columns: Sequence[_Column], notation: Notation
) -> dict[str, object]:
    return {
        name_in(column.leaf): read(column.leaf, texts[k], notation) if k in texts else None
        for k, column in enumerate(columns)
        if column.leaf is not None
    }


def name_in(leaf: ScalarField) -> str:
    """What a field is called in its object."""
    return leaf.path.rpartition(".")[2]


def _is_row(item: Mapping[str, object], columns: Collection[_Column]) -> bool:
    """Whether a row has an item's values: at least two, one of them a number where there are such
    columns."""
    kinds = {
        name_in(column.leaf): column.leaf.kind for column in columns if column.leaf is not None
    }
    counted = {key for key, kind in kinds.items() if kind in NUMERIC}
    filled = {key for key, value in item.items() if value is not None}
    return len(filled) >= 2 and (not counted or bool(filled & counted))


def _goes_on(above: dict[str, object], item: Mapping[str, object]) -> bool:
    """A text that goes on in the line below is put behind what it goes on from."""
    for key, value in item.items():
        if isinstance(value, str) and isinstance(above.get(key), str):
            above[key] = f"{above[key]} {value}"
            return True
    return False
