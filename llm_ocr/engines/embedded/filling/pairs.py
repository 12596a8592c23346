"""Values beside, below or behind their labels."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.filling.labels import Label
from llm_ocr.engines.embedded.filling.phrases import Paper, Phrase
from llm_ocr.engines.embedded.filling.values import Notation, is_identifier, read
from llm_ocr.parsing.shape import Kind, Leaf

BEHIND, BESIDE, BELOW = 3.0, 2.0, 1.5
# How far below a label its value may stand, in heights of its line.
REACH = 1.8
# What is set larger than a line by this is a title: it has nothing beside or below it.
TITLE = 1.5
# A rate beside an amount's label (VAT 20 %) is no part of the amount, nor a label of its own.
_RATE = re.compile(r"[\s.(@]*(?:at|of|mit|von)?\s*\d+(?:[.,]\d+)?\s*%[\s)]*[:.]?\s*", re.IGNORECASE)
_PARTED = re.compile(r"^\s*[.)]?\s*[:#=]\s*")


@dataclass(frozen=True)
class Pair:
    """A value that a label was found for, how good a find it is, and the phrase that it is in."""

    leaf: Leaf
    value: object
    score: float
    label: Phrase
    phrase: Phrase


def pairs_on(
    paper: Paper,
    labels: Mapping[int, Sequence[Label]],
    taken: Collection[int],
    notation: Notation,
) -> list[Pair]:
    """Every value that stands by a label, of phrases that are not taken; the best ones first."""
    found: list[Pair] = []
    for number, some in labels.items():
        if number in taken:
            continue
        for label in some:
            if isinstance(label.field, Leaf):
                found += _of_label(paper, label, label.field, labels, taken, notation)
    return sorted(found, key=lambda pair: (-pair.score, pair.label.number))


def _of_label(
    paper: Paper,
    label: Label,
    leaf: Leaf,
    labels: Mapping[int, Sequence[Label]],
    taken: Collection[int],
    notation: Notation,
) -> Iterator[Pair]:
    # Longer wordings say more; the first of two equal ones is the one at the top.
    sure = label.weight + min(label.length, 30) / 100
    behind = _behind(label, leaf, notation)
    if behind is not None:
        yield Pair(leaf, behind, BEHIND * sure, label.phrase, label.phrase)
        return
    if not label.is_whole and not _RATE.fullmatch(label.rest):
        return
    if label.phrase.height > TITLE * paper.height:
        return
    plain = {k for k, some in labels.items() if any(_is_label(one) for one in some)}
    beside = [
        (value, phrase)
        for phrase in _until_label(paper.right_of(label.phrase), plain)
        if phrase.number not in taken and (value := read(leaf, phrase.text, notation)) is not None
    ]
    if beside:
        # Sums stand at the end of a row, behind what they are reckoned from.
        value, phrase = beside[-1 if leaf.kind is Kind.NUMBER else 0]
        yield Pair(leaf, value, BESIDE * sure, label.phrase, phrase)
    for phrase in paper.below(label.phrase, REACH):
        if phrase.number in plain:
            break
        value = read(leaf, phrase.text, notation)
        if value is not None and phrase.number not in taken:
            aligned = _in_strip(paper, label.phrase, plain)
            score = BESIDE + 0.2 if aligned else BELOW
            yield Pair(leaf, value, score * sure, label.phrase, phrase)
            break


def _behind(label: Label, leaf: Leaf, notation: Notation) -> object:
    """The value in the label's own phrase."""
    if label.is_whole:
        return None
    parted = _PARTED.match(label.rest) is not None
    rest = _PARTED.sub("", label.rest).strip(" .")
    if leaf.kind is Kind.TEXT and not parted:
        # Without a colon only what can be nothing else: a number behind `Invoice no.`.
        first = rest.split()[:1]
        if not is_identifier(leaf) or not first or not re.search(r"\d", rest):
            return None
        if not re.search(r"\d", first[0]) and not first[0].isupper():
            return None
    return read(leaf, rest, notation)


def _is_label(label: Label) -> bool:
    return label.is_whole or _RATE.fullmatch(label.rest) is not None


def _until_label(phrases: Iterator[Phrase], plain: Collection[int]) -> Iterator[Phrase]:
    for phrase in phrases:
        if phrase.number in plain:
            return
        yield phrase


def _in_strip(paper: Paper, phrase: Phrase, plain: Collection[int]) -> bool:
    """Whether a label has another one beside it: their values stand below them."""
    row = paper.rows[phrase.row]
    at = next(k for k, one in enumerate(row) if one.number == phrase.number)
    return any(row[k].number in plain for k in (at - 1, at + 1) if 0 <= k < len(row))
