"""People and companies: a name with an address below it, under a label or without one."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.filling.labels import Label
from llm_ocr.engines.embedded.filling.letterhead import issuer_on
from llm_ocr.engines.embedded.filling.phrases import Paper, Phrase
from llm_ocr.engines.embedded.filling.rated_values import RatedValue, rate_value
from llm_ocr.engines.embedded.filling.roles import ISSUER, RECIPIENT
from llm_ocr.engines.embedded.geometry import Rect, hull
from llm_ocr.parsing.schema_fields import ObjectField, ScalarField
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import normalized_words

MOST_LINES = 7
# Lines of an address are no farther apart than this many of their heights.
LINE_GAP = 1.1
# A letterhead stands in this share of the page, addresses of letters in that one.
HEAD, UPPER = 0.25, 0.5
NAME = ("name", "firma", "company")
ADDRESS = ("address", "adresse", "anschrift", "street")
_PLACE = re.compile(
    r"\b[A-Z]{1,2}\d[A-Z\d]?\s*\d[A-Z]{2}\b"  # United Kingdom
    r"|\b(?:[A-Z]{1,2}-)?\d{4,5}\s+[A-ZÄÖÜ][^\W\d_]{2,}"  # most of Europe
    r"|\b[A-Z]{2}\s+\d{5}(?:-\d{4})?\b"  # United States
)
_CONTACT = re.compile(r"@|www\.|https?:|^\W*(tel|phone|fax|mobil|e-?mail|web)\w*\W", re.I)
_DOTS = re.compile(r"\s*[·•|]\s*|\s+[-–—]\s+|,\s+")


@dataclass(frozen=True)
class ContactBlock:
    """A group's name and address with their probabilities, and where they stand."""

    group: ObjectField
    values: Mapping[str, RatedValue]
    region: Rect
    phrases: frozenset[int]


def parties_on(
    paper: Paper,
    groups: Sequence[ObjectField],
    labels: Mapping[int, Sequence[Label]],
    taken: frozenset[int],
) -> list[ContactBlock]:
    """One for each group that has a name or an address and is found.

    Those with labels first; then who issued the document, by its letterhead; then to whom, by the
    address that is left.
    """
    wanted = [group for group in groups if _leaf(group, NAME) or _leaf(group, ADDRESS)]
    parties: list[ContactBlock] = []
    for group in wanted:
        party = _labeled(paper, group, labels, taken)
        parties += [] if party is None else [party]
    for roles, seek in ((ISSUER, _issuer), (RECIPIENT, _recipient)):
        for group in wanted:
            missing = all(party.group is not group for party in parties)
            if missing and group.names.has(*roles):
                used = taken.union(*(party.phrases for party in parties))
                party = seek(paper, group, labels, used)
                parties += [] if party is None else [party]
    return parties


def _leaf(group: ObjectField, words: tuple[str, ...]) -> str | None:
    """The name of a group's field that has one of some words in its own name."""
    leaves = {name: one for name, one in group.fields.items() if isinstance(one, ScalarField)}
    return next((name for name, leaf in leaves.items() if leaf.names.has(*words)), None)


@dataclass(frozen=True)
class _Line:
    text: str
    phrase: Phrase


def _party(group: ObjectField, lines: Sequence[_Line], source: str) -> ContactBlock:
    name, address = _leaf(group, NAME), _leaf(group, ADDRESS)
    values: dict[str, RatedValue] = {}
    rest = list(lines)
    if name is not None:
        first = rest.pop(0)
        values[name] = rate_value(first.text, [first.phrase], {source: 1.0})
    if address is not None and rest:
        text = ", ".join(line.text.strip(" ,;") for line in rest)
        values[address] = rate_value(text, [line.phrase for line in rest], {source: 1.0})
    phrases = [line.phrase for line in lines]
    numbers = frozenset(phrase.number for phrase in phrases)
    return ContactBlock(group, values, hull(phrase.rect for phrase in phrases), numbers)


def _labeled(
    paper: Paper, group: ObjectField, labels: Mapping[int, Sequence[Label]], taken: frozenset[int]
) -> ContactBlock | None:
    for phrase in paper.phrases:
        for label in labels.get(phrase.number, ()):
            if label.field is group and phrase.number not in taken:
                lines = _under(paper, label, {*labels, *taken})
                if lines and re.search(r"[^\W\d_]{2}", lines[0].text):
                    return _party(group, lines, "labeled party")
    return None


def _under(paper: Paper, label: Label, ends: Collection[int]) -> list[_Line]:
    """The lines behind, below or beside a group's label; `ends`: the phrases that are no part."""
    rest = label.rest.lstrip(" :.").strip()
    if not label.is_whole:
        if not label.rest.lstrip().startswith(":"):
            return []
        below = _lines_from(paper, label.phrase, ends)
        return [_Line(rest, label.phrase), *below]
    below = _lines_from(paper, label.phrase, ends)
    if below:
        return below
    beside = next(paper.right_of(label.phrase), None)
    if beside is None or beside.number in ends:
        return []
    return [_Line(beside.text, beside), *_lines_from(paper, beside, ends)]


def _lines_from(
    paper: Paper,
    start: Phrase,
    ends: Collection[int],
) -> list[_Line]:
    """The lines below a phrase that begin or end where it does, each close to the one above."""
    lines: list[_Line] = []
    above = start
    while len(lines) < MOST_LINES:
        below = next(_aligned(paper, above, start), None)
        if below is None or below.number in ends:
            break
        if _CONTACT.search(below.text) or next(dates_in(below.text), None):
            break
        lines.append(_Line(below.text, below))
        above = below
    return lines


def _aligned(paper: Paper, above: Phrase, start: Phrase) -> Iterator[Phrase]:
    reach = LINE_GAP if above is not start else 1.6 * LINE_GAP
    slack = 1.5 * paper.height
    for phrase in paper.below(above, reach):
        left = abs(phrase.rect[0] - start.rect[0]) < slack
        right = abs(phrase.rect[2] - above.rect[2]) < slack
        if left or right:
            yield phrase


def _issuer(
    paper: Paper,
    group: ObjectField,
    labels: Mapping[int, Sequence[Label]],
    used: frozenset[int],
) -> ContactBlock | None:
    """The letterhead; its address may also be in one line with the name, above the recipient."""
    issuer = issuer_on(paper, used)
    if issuer.name is None:
        return None
    name, address = _leaf(group, NAME), _leaf(group, ADDRESS)
    values: dict[str, RatedValue] = {}
    phrases = [phrase for line in issuer.name_lines for phrase in line.phrases]
    if name is not None:
        values[name] = issuer.name
    sender = _sender_line(paper, str(issuer.name.value))
    if address is not None and sender is not None:
        parts, phrase = sender
        values[address] = rate_value(", ".join(parts), [phrase], {"labeled party": 1.0})
        phrases.append(phrase)
    elif address is not None and issuer.address is not None:
        in_one_line = issuer.address_in_one_line or issuer.address
        values[address] = issuer.address if group.path.startswith(" ") else in_one_line
        phrases += [phrase for line in issuer.address_lines for phrase in line.phrases]
    numbers = frozenset(phrase.number for phrase in phrases)
    return ContactBlock(group, values, hull(phrase.rect for phrase in phrases), numbers)


def _sender_line(paper: Paper, name: str) -> tuple[list[str], Phrase] | None:
    """The line with a name and, behind it, the address: what a letter's window shows above the
    recipient."""
    letters = "".join(normalized_words(name))
    for phrase in paper.phrases:
        parts = [part for part in _DOTS.split(phrase.text) if part]
        is_sender = len(parts) > 1 and "".join(normalized_words(parts[0])) == letters
        if is_sender and _PLACE.search(phrase.text):
            return parts[1:], phrase
    return None


def _recipient(
    paper: Paper,
    group: ObjectField,
    labels: Mapping[int, Sequence[Label]],
    used: frozenset[int],
) -> ContactBlock | None:
    """The first block in the upper half that ends in a postal code, as in a letter's window."""
    limit = paper.edges[1] + UPPER * (paper.edges[3] - paper.edges[1])
    for phrase in paper.phrases:
        if phrase.number in used or phrase.number in labels or phrase.rect[1] > limit:
            continue
        if _PLACE.search(phrase.text) and len(_DOTS.split(phrase.text)) < 3:
            above = _block_above(paper, phrase, labels)
            if above:
                return _party(group, [*above, _Line(phrase.text, phrase)], "recipient")
    return None


def _block_above(paper: Paper, last: Phrase, labels: Mapping[int, Sequence[Label]]) -> list[_Line]:
    """The lines right above one that begin or end where it does, from the top."""
    lines: list[_Line] = []
    below = last
    for row in reversed(paper.rows[: last.row]):
        near = [one for one in row if _is_over(one, below, paper.height)]
        if not near:
            if below.rect[1] - max(one.rect[3] for one in row) > LINE_GAP * paper.height:
                break
            continue
        if near[0].number in labels or len(lines) == MOST_LINES - 1 or _DOTS.search(near[0].text):
            break
        lines.insert(0, _Line(near[0].text, near[0]))
        below = near[0]
    return lines


def _is_over(one: Phrase, below: Phrase, height: float) -> bool:
    left = abs(one.rect[0] - below.rect[0]) < 1.5 * height
    right = abs(one.rect[2] - below.rect[2]) < 1.5 * height
    return (left or right) and -0.5 * height < below.rect[1] - one.rect[3] < LINE_GAP * height
