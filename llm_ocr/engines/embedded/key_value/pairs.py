"""Values beside, below or behind their labels."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from llm_ocr.engines.embedded.key_value.labels import HINTS, OWN, Label
from llm_ocr.engines.embedded.key_value.numbers import (
    Notation,
    is_marked,
    is_money,
    loose_words,
)
from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.engines.embedded.key_value.values import is_identifier, read
from llm_ocr.engines.embedded.key_value.wording import (
    WORDLESS,
    has_value_elsewhere,
    is_known_label,
    is_same,
    value_behind,
)
from llm_ocr.parsing.schema_fields import ScalarField, ValueKind

BEHIND, BESIDE, BELOW = 3.0, 2.0, 1.5
# How far below a label its value may stand, in heights of its line.
REACH = 1.8
# What is set larger than a line by this is a title: it has nothing beside or below it.
TITLE = 1.5
# What an identifier may begin with: GB 312 4567 08.
_LETTERS = re.compile(r"[A-Z]{1,4}[.:/-]?")
_PARTED = re.compile(r"^\s*[.)]?\s*[:#=]\s*")


@dataclass(frozen=True)
class Pair:
    """A value that a label was found for, the phrase that it is in, where that is from the label,
    and how good a find it is."""

    leaf: ScalarField
    label: Label
    value: object
    phrase: Phrase
    place: str
    score: float

    @property
    def is_bare(self) -> bool:
        """Whether a sum of money is not written as one."""
        return is_money(self.leaf) and not is_marked(self.phrase.text)

    def evidence(self, rivals: int) -> dict[str, float]:
        """Features of the pair; `rivals` is how many values there are for its field."""
        return {
            self.place: 1.0,
            "own wording": float(self.label.weight >= OWN),
            "hint": float(self.label.weight <= HINTS),
            "short wording": float(len("".join(self.label.wording)) < 5),
            "rivals": min(1.0, (rivals - 1) / 3),
            f"{self.leaf.kind}": 1.0,
            "bare amount": float(self.is_bare),
        }


def pairs_on(
    paper: Paper,
    labels: Mapping[int, Sequence[Label]],
    taken: Collection[int],
    notation: Notation,
) -> list[Pair]:
    """Every value that stands by a label, of phrases that are not taken; the best ones first."""
    found: list[Pair] = []
    own = {k for k, some in labels.items() if any(map(has_value_elsewhere, some))}
    others = {one.number for one in paper.phrases if is_known_label(one.text)}
    for number, some in labels.items():
        if number in taken:
            continue
        for label in some:
            if isinstance(label.field, ScalarField):
                ends = own if label.field.kind is ValueKind.CHOICE else own | others
                found += _of_label(paper, label, label.field, ends, taken, notation)
    return sorted(found, key=lambda pair: (pair.is_bare, -pair.score, pair.label.phrase.number))


def _of_label(
    paper: Paper,
    label: Label,
    leaf: ScalarField,
    ends: Collection[int],
    taken: Collection[int],
    notation: Notation,
) -> Iterator[Pair]:
    # Longer wordings say more; the first of two equal ones is the one at the top.
    sure = label.weight + min(label.length, 30) / 100
    behind = _behind(label, leaf, notation)
    if behind is not None:
        yield Pair(leaf, label, behind, label.phrase, "behind", BEHIND * sure)
    if behind is not None or not has_value_elsewhere(label):
        return
    if label.phrase.height > TITLE * paper.height:
        return
    open_to = [phrase for phrase in paper.right_of(label.phrase) if phrase.number not in taken]
    beside = list(_values(open_to, label, leaf, ends, notation))
    if beside:
        # Sums stand at the end of a row, behind what they are reckoned from.
        sums = [one for one in beside if is_money(leaf) and is_marked(one[1].text)]
        value, phrase = (sums or beside)[-1 if leaf.kind is ValueKind.NUMBER else 0]
        yield Pair(leaf, label, value, phrase, "beside", BESIDE * sure)
    below = _in_column(paper, label.phrase, ends) or paper.below(label.phrase, REACH)
    open_to = [one for one in below if one.number not in taken]
    for value, phrase in islice(_values(open_to, label, leaf, ends, notation), 1):
        # A number beside its label is no label of a column.
        is_beside = beside and (is_identifier(leaf) or leaf.kind is not ValueKind.TEXT)
        if not is_beside and _in_strip(paper, label.phrase, ends):
            yield Pair(leaf, label, value, phrase, "below in a row", (BESIDE + 0.2) * sure)
        else:
            yield Pair(leaf, label, value, phrase, f"{leaf.kind} below", BELOW * sure)


def _behind(label: Label, leaf: ScalarField, notation: Notation) -> object:
    """The value in the label's own phrase."""
    if label.is_whole:
        return None
    if leaf.kind is not ValueKind.TEXT:
        return value_behind(label, leaf, notation)
    rest = _PARTED.sub("", label.rest).strip(" .")
    if _PARTED.match(label.rest) is None:
        # Without a colon only what can be nothing else: a number behind `Invoice no.`.
        first = rest.split()[:1]
        if not is_identifier(leaf) or not first or not re.search(r"\d", rest):
            return None
        if not re.search(r"\d", first[0]) and not _LETTERS.fullmatch(first[0]):
            return None
    return read(leaf, rest, notation)


def _values(
    phrases: Sequence[Phrase],
    label: Label,
    leaf: ScalarField,
    ends: Collection[int],
    notation: Notation,
) -> Iterator[tuple[object, Phrase]]:
    """The values of some phrases, to the first label or to words where a number is wanted: they
    may be the label of what follows."""
    wordless = leaf.kind in WORDLESS or is_identifier(leaf)
    for phrase in phrases:
        if phrase.number in ends:
            return
        value = read(leaf, phrase.text, notation)
        if value is not None:
            yield value, phrase
        elif wordless and loose_words(phrase.text) and not is_same(label, leaf, phrase.text):
            return


def _in_column(paper: Paper, phrase: Phrase, ends: Collection[int]) -> list[Phrase]:
    """What stands below a label in a row of nothing but labels, above a row of as many values."""
    labels = paper.rows[phrase.row]
    values = paper.rows[phrase.row + 1] if phrase.row + 1 < len(paper.rows) else ()
    if len(labels) < 2 or len(values) != len(labels):
        return []
    value = values[[one.number for one in labels].index(phrase.number)]
    limit = phrase.rect[3] + REACH * max(phrase.height, paper.height)
    is_strip = all(one.number in ends for one in labels)
    return [value] if is_strip and value.rect[1] <= limit else []


def _in_strip(paper: Paper, phrase: Phrase, plain: Collection[int]) -> bool:
    """Whether a label has another one beside it: their values stand below them."""
    row = paper.rows[phrase.row]
    at = next(k for k, one in enumerate(row) if one.number == phrase.number)
    return any(row[k].number in plain for k in (at - 1, at + 1) if 0 <= k < len(row))
