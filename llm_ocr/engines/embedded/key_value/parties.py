"""People and companies: a name with an address below it, under a label or without one."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from llm_ocr.engines.embedded.geometry import Rect, hull
from llm_ocr.engines.embedded.key_value.labels import Label
from llm_ocr.engines.embedded.key_value.letterhead import (
    POSTAL_CODE,
    TITLE_WORDS,
    issuer_on,
)
from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.engines.embedded.key_value.rated_values import RatedValue, rate_value
from llm_ocr.engines.embedded.key_value.roles import ISSUER, RECIPIENT
from llm_ocr.parsing.schema_fields import ObjectField, ScalarField
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import normalized_words

MOST_LINES = 7
# Lines of an address are no farther apart than this many of their heights, nor from their label.
LINE_GAP, LABEL_GAP = 1.1, 1.8
# A letterhead stands in this share of the page, addresses of letters in that one.
HEAD, UPPER = 0.25, 0.5
NAME = ("name", "firma", "company")
ADDRESS = ("address", "adresse", "anschrift", "street")
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
        party = _party_at_label(paper, group, labels, taken)
        # A seller without an address is a person: `Sold by: J. Miller`.
        is_person = group.names.has(*ISSUER) and _leaf(group, ADDRESS) and _leaf(group, NAME)
        if party is not None and not (is_person and len(party.values) == 1):
            parties.append(party)
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


def _party(group: ObjectField, lines: Sequence[Phrase], source: str) -> ContactBlock:
    name, address = _leaf(group, NAME), _leaf(group, ADDRESS)
    values: dict[str, RatedValue] = {}
    rest = list(lines)
    if name is not None:
        first = rest.pop(0)
        values[name] = rate_value(first.text, [first], {source: 1.0})
    if address is not None and rest:
        text = ", ".join(line.text.strip(" ,;") for line in rest)
        values[address] = rate_value(text, rest, {source: 1.0})
    numbers = frozenset(line.number for line in lines)
    return ContactBlock(group, values, hull(line.rect for line in lines), numbers)


def _party_at_label(
    paper: Paper, group: ObjectField, labels: Mapping[int, Sequence[Label]], taken: frozenset[int]
) -> ContactBlock | None:
    for phrase in paper.phrases:
        for label in labels.get(phrase.number, ()):
            if label.field is group and phrase.number not in taken:
                lines = _under(paper, label, {*labels, *taken})
                if lines and re.search(r"[^\W\d_]{2}", lines[0].text):
                    return _party(group, lines, "labeled party")
    return None


def _under(paper: Paper, label: Label, ends: Collection[int]) -> list[Phrase]:
    """The lines behind, below or beside a group's label; `ends`: the phrases that are no part."""
    below = _lines_from(paper, label.phrase, ends)
    if not label.is_whole:
        rest = label.rest.lstrip()
        first = replace(label.phrase, text=rest.lstrip(" :.").strip())
        return [first, *below] if rest.startswith(":") else []
    beside = next(paper.right_of(label.phrase), None)
    if below or beside is None or beside.number in ends:
        return below
    return [beside, *_lines_from(paper, beside, ends)]


def _lines_from(
    paper: Paper, start: Phrase, ends: Collection[int], reach: float = LABEL_GAP
) -> list[Phrase]:
    """The lines below a phrase that begin or end where it does, each close to the one above; the
    first one within `reach` of its heights."""
    lines: list[Phrase] = []
    above, slack = start, 1.5 * paper.height
    while len(lines) < MOST_LINES:
        aligned = (
            one
            for one in paper.below(above, LINE_GAP if lines else reach)
            if abs(one.rect[0] - start.rect[0]) < slack or abs(one.rect[2] - above.rect[2]) < slack
        )
        below = next(aligned, None)
        if below is None or below.number in ends:
            break
        if _CONTACT.search(below.text) or next(dates_in(below.text), None) or _is_title(below):
            break
        lines.append(below)
        above = below
    return lines


def _is_title(phrase: Phrase) -> bool:
    """Whether a phrase only says what kind of document it is on."""
    return TITLE_WORDS.issuperset(normalized_words(phrase.text))


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
        if is_sender and POSTAL_CODE.search(phrase.text):
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
    ends = {*labels, *used}
    for phrase in paper.phrases:
        is_sender = len(_DOTS.split(phrase.text)) > 2
        is_head = _is_title(phrase) or phrase.text[-1] == ":"
        if phrase.number in ends or is_sender or is_head or phrase.rect[1] > limit:
            continue
        lines = [phrase, *_lines_from(paper, phrase, ends, LINE_GAP)]
        while len(lines) > 1 and not POSTAL_CODE.search(lines[-1].text):
            lines.pop()
        if len(lines) > 1:
            return _party(group, lines, "recipient")
    return None
