"""People and companies: a name with an address below it, under a label or without one."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.filling.labels import Label
from llm_ocr.engines.embedded.filling.phrases import Paper, Phrase
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
_LEGAL = re.compile(
    r"\b(ltd|limited|llc|inc|plc|gmbh|ag|kg|ohg|gbr|ug|e\.?\s?v|s\.?a|sarl|bv|co)\b\.?", re.I
)
_CONTACT = re.compile(r"@|www\.|https?:|^\W*(tel|phone|fax|mobil|e-?mail|web)\w*\W", re.I)
_DOTS = re.compile(r"\s*[·•|]\s*|\s+[-–—]\s+|,\s+")
TITLES = frozenset(
    normalized_words(
        "invoice rechnung receipt quittung bill statement kontoauszug order purchase bestellung "
        "tax sales copy original page seite credit note gutschrift"
    )
)


@dataclass(frozen=True)
class ContactBlock:
    """A group's name and address, and where they stand."""

    group: ObjectField
    values: Mapping[str, str]
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
    found: list[ContactBlock] = []
    for group in wanted:
        party = _labeled(paper, group, labels, taken)
        found += [] if party is None else [party]
    for roles, seek in ((ISSUER, _issuer), (RECIPIENT, _recipient)):
        for group in wanted:
            missing = all(party.group is not group for party in found)
            if missing and group.names.has(*roles):
                used = taken.union(*(party.phrases for party in found))
                lines = seek(paper, labels, used)
                found += [_party(group, lines)] if lines else []
    return found


def _leaf(group: ObjectField, words: tuple[str, ...]) -> str | None:
    """The name of a group's field that has one of some words in its own name."""
    leaves = {name: one for name, one in group.fields.items() if isinstance(one, ScalarField)}
    return next((name for name, leaf in leaves.items() if leaf.names.has(*words)), None)


@dataclass(frozen=True)
class _Line:
    text: str
    phrase: Phrase


def _party(group: ObjectField, lines: Sequence[_Line]) -> ContactBlock:
    name, address = _leaf(group, NAME), _leaf(group, ADDRESS)
    values: dict[str, str] = {}
    rest = list(lines)
    if name is not None:
        values[name] = rest.pop(0).text
    if address is not None and rest:
        values[address] = ", ".join(line.text.strip(" ,;") for line in rest)
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
                    return _party(group, lines)
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
    paper: Paper, labels: Mapping[int, Sequence[Label]], used: frozenset[int]
) -> list[_Line]:
    """The letterhead: the name that stands out at the top, and the first address that is its."""
    top, bottom = paper.edges[1], paper.edges[3]
    limit = top + HEAD * (bottom - top)
    heads = [
        phrase
        for phrase in paper.phrases
        if phrase.rect[1] < limit and phrase.number not in used and _is_name(phrase, labels)
    ]
    if not heads:
        return []
    first = max(
        heads,
        key=lambda one: (
            _LEGAL.search(one.text) is not None,
            round(one.height / paper.height, 1),
            -one.number,
        ),
    )
    tallest = max(heads, key=lambda one: (one.height, -one.number))
    name = tallest if tallest.height > 1.25 * paper.height else first
    return [_Line(name.text, name), *_its_address(paper, name, labels, used)]


def _is_name(phrase: Phrase, labels: Mapping[int, Sequence[Label]]) -> bool:
    words = normalized_words(phrase.text)
    plain = phrase.number not in labels and not TITLES.intersection(words)
    letters = sum(char.isalpha() for char in phrase.text) > 0.6 * len(phrase.text.replace(" ", ""))
    return plain and letters and not _CONTACT.search(phrase.text) and not _PLACE.search(phrase.text)


def _its_address(
    paper: Paper, name: Phrase, labels: Mapping[int, Sequence[Label]], used: frozenset[int]
) -> list[_Line]:
    """The line with the name again and the address behind it, or the block around the first
    postal code."""
    letters = "".join(normalized_words(name.text))
    for phrase in paper.phrases:
        parts = _DOTS.split(phrase.text)
        own = "".join(normalized_words(parts[0])) == letters
        if own and len(parts) > 1 and _PLACE.search(phrase.text):
            return [_Line(part, phrase) for part in parts[1:] if part]
    for phrase in paper.phrases:
        if phrase.number in used or phrase.number in labels or not _PLACE.search(phrase.text):
            continue
        if phrase.rect[1] > paper.edges[1] + HEAD * (paper.edges[3] - paper.edges[1]):
            break
        above = [line for line in _block_above(paper, phrase, labels) if line.phrase is not name]
        return [*above, _Line(phrase.text, phrase)]
    return []


def _recipient(
    paper: Paper, labels: Mapping[int, Sequence[Label]], used: frozenset[int]
) -> list[_Line]:
    """The first block in the upper half that ends in a postal code, as in a letter's window."""
    limit = paper.edges[1] + UPPER * (paper.edges[3] - paper.edges[1])
    for phrase in paper.phrases:
        if phrase.number in used or phrase.number in labels or phrase.rect[1] > limit:
            continue
        if _PLACE.search(phrase.text) and len(_DOTS.split(phrase.text)) < 3:
            above = _block_above(paper, phrase, labels)
            if above:
                return [*above, _Line(phrase.text, phrase)]
    return []


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
