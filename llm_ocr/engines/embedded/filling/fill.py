"""A schema filled from what was read of a page: labels and values, tables, letterheads.

Nothing is made up: each value is a text of the page, or its number, date, choice or currency. What
is not found is null; a list of which nothing is found is empty.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from llm_ocr.engines.embedded.filling.columns import Table, table_for
from llm_ocr.engines.embedded.filling.currencies import page_currency
from llm_ocr.engines.embedded.filling.labels import Label, Labels, labels_on
from llm_ocr.engines.embedded.filling.numbers import Notation, notation_of
from llm_ocr.engines.embedded.filling.owners import Owners
from llm_ocr.engines.embedded.filling.pairs import Pair, pairs_on
from llm_ocr.engines.embedded.filling.parties import HEAD, parties_on
from llm_ocr.engines.embedded.filling.phrases import Paper
from llm_ocr.engines.embedded.filling.roles import stand_ins
from llm_ocr.engines.embedded.filling.values import read
from llm_ocr.parsing.schema_fields import (
    ArrayField,
    ObjectField,
    ScalarField,
    SchemaField,
    ValueKind,
    schema_fields,
)
from llm_ocr.text.normalize import normalized_words

Values = dict[str, object]

_DOCUMENT_TYPE = {
    normalized_words("document type"),
    normalized_words("type of document"),
    normalized_words("Dokumenttyp"),
}


def filled(schema: Mapping[str, Any], paper: Paper) -> dict[str, Any]:
    """An object of the schema with what the page has for it."""
    shape, notation = schema_fields(schema), notation_of(paper.text)
    leaves, groups = list(shape.leaves()), list(shape.objects())
    labels = labels_on(paper, Labels([*leaves, *groups, *shape.arrays()]))
    tables = {one.path: table_for(paper, one, labels, notation) for one in shape.arrays()}
    taken = frozenset[int]().union(*(table.taken for table in tables.values()))
    owners = _owners(paper, shape, labels, taken)
    values: Values = {
        f"{party.group.path}.{name}": value
        for party in owners.parties
        if party.group in groups
        for name, value in party.values.items()
    }
    _assign(values, pairs_on(paper, labels, taken, notation), owners)
    values |= owners.contacts(leaves, values)
    for leaf in leaves:
        if leaf.path not in values:
            values[leaf.path] = _unlabeled(leaf, paper)
    lists = {
        one.path: _listed(one, tables[one.path], paper, labels, notation) for one in shape.arrays()
    }
    return {name: _built(node, values, lists) for name, node in shape.fields.items()}


def _owners(
    paper: Paper, shape: ObjectField, labels: Mapping[int, Sequence[Label]], taken: frozenset[int]
) -> Owners:
    leaves, groups = list(shape.leaves()), list(shape.objects())
    others = stand_ins(leaves, groups)
    if others:
        labels = labels_on(paper, Labels([*leaves, *groups, *shape.arrays(), *others]))
    parties = parties_on(paper, [*groups, *others], labels, taken)
    return Owners(paper, parties, groups, labels)


def _assign(values: Values, pairs: Sequence[Pair], owners: Owners) -> None:
    """Each field gets its best pair, each pair one field."""
    used: set[tuple[int, int, str]] = set()
    for pair in pairs:
        key = (pair.label.number, pair.phrase.number, repr(pair.value))
        if values.get(pair.leaf.path) is not None or key in used:
            continue
        if not owners.may_have(pair):
            continue
        values[pair.leaf.path] = pair.value
        used.add(key)


def _unlabeled(leaf: ScalarField, paper: Paper) -> object:
    """What needs no label: a currency by its signs, a document's type by its title."""
    if leaf.names.has("currency", "wahrung"):
        return page_currency(leaf, [phrase.text for phrase in paper.phrases])
    if leaf.kind is ValueKind.CHOICE and any(name in _DOCUMENT_TYPE for name in leaf.names.own):
        alone = [row[0] for row in paper.rows if len(row) == 1]
        titles = {normalized_words(one.text) for one in alone if one.rect[1] < _title_end(paper)}
        titled = [member for member in leaf.members if normalized_words(str(member)) in titles]
        return titled[0] if len(titled) == 1 else None
    return None


def _title_end(paper: Paper) -> float:
    top, bottom = paper.edges[1], paper.edges[3]
    return top + HEAD * (bottom - top)


def _listed(
    listing: ArrayField,
    table: Table,
    paper: Paper,
    labels: Mapping[int, Sequence[Label]],
    notation: Notation,
) -> list[object]:
    if isinstance(listing.item, ObjectField):
        return [_item(listing.item, item) for item in table.items]
    if isinstance(listing.item, ArrayField):
        return []
    for phrase in paper.phrases:
        for label in labels.get(phrase.number, ()):
            if label.field is listing:
                texts = _enumerated(label, paper, labels)
                values = [read(listing.item, text, notation) for text in texts]
                return [value for value in values if value is not None]
    return []


def _enumerated(label: Label, paper: Paper, labels: Mapping[int, Sequence[Label]]) -> list[str]:
    """What is listed behind, beside or below a label, with commas or line by line."""
    lines = [label.rest] if not label.is_whole else []
    beside = [one.text for one in paper.right_of(label.phrase) if one.number not in labels]
    lines += beside[:1] if not lines else []
    at = label.phrase
    while not label.rest.strip(" :") or lines:
        below = next(paper.below(at, 1.1), None)
        if below is None or below.number in labels or len(lines) > 60:
            break
        lines.append(below.text)
        at = below
    parts = [part for line in lines for part in re.split(r"[,;•·|]", line)]
    return [part.strip(" :-–*") for part in parts if part.strip(" :-–*")]


def _item(group: ObjectField, found: Mapping[str, object]) -> dict[str, object]:
    return {name: found.get(name, _empty(node)) for name, node in group.fields.items()}


def _empty(node: SchemaField) -> object:
    if isinstance(node, ArrayField):
        return []
    if isinstance(node, ObjectField):
        return {name: _empty(inner) for name, inner in node.fields.items()}
    return None


def _built(node: SchemaField, values: Values, lists: Mapping[str, list[object]]) -> object:
    if isinstance(node, ArrayField):
        return lists[node.path]
    if isinstance(node, ObjectField):
        return {name: _built(inner, values, lists) for name, inner in node.fields.items()}
    return values.get(node.path)
