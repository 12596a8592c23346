"""A text as a value of a schema: its number, its date, its choice; or nothing."""

import re
from collections.abc import Sequence

from llm_ocr.engines.embedded.key_value.currencies import currency, currency_for, fits
from llm_ocr.engines.embedded.key_value.numbers import (
    LOOSE_WORDS,
    NUMERIC,
    QUALIFIERS,
    Notation,
    loose_words,
    number,
)
from llm_ocr.parsing.schema_fields import ScalarField, ValueKind
from llm_ocr.text.dates import dates_in
from llm_ocr.text.negation import EMPTY_BOXES, NO_WORDS, TICKED_BOXES, YES_WORDS
from llm_ocr.text.normalize import normalize, normalized_words, words_in
from llm_ocr.text.notation import resolve_dates

# Fields that hold no prose: a text for them has a digit in it.
IDENTIFIER = ("number", "no", "nr", "nummer", "id", "code", "iban", "phone", "reference", "sku")
LONGEST = 400
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# No word is taken for a part of it: behind the first four, each has a digit.
IBAN = re.compile(
    r"\b[A-Z]{2}\d{2}\s?[A-Z0-9]{4}(?:\s?(?=[A-Z]{0,3}\d)[A-Z0-9]{4}){1,6}(?:\s?\d[A-Z0-9]{0,3})?\b"
)
PHONE = ("phone", "telephone", "tel", "telefon", "telefonnummer", "mobile", "mobil", "handy", "fax")
_PHONE = re.compile(
    r"(?<![\w.])\+?\(?\d[\d\s()/.–-]{3,}\d(?:\s*(?:ext|x|dw|durchwahl)\.?\s*\d+)?", re.IGNORECASE
)
_HOURS = re.compile(r"\d{1,2}[.:]\d{2}\s*[-–]\s*\d{1,2}[.:]\d{2}")
FEWEST_DIGITS = 5
_NOT = frozenset(normalized_words("not no never nicht kein keine nie non without ohne un"))
# What a choice may begin with, and what may follow it without a mark between.
_LEADING = frozenset(
    normalized_words("the a an is ist der die das by per via mit with in bar paid bezahlt")
)
_FOLLOWING = frozenset(
    normalized_words("on by at since in from via per with until am an mit bis seit vom von")
)
_RELATIVE = frozenset(normalized_words("after nach within innerhalb days tage tagen weeks wochen"))
_UNTIL = frozenset(normalized_words("from ab bis on of"))


def read(leaf: ScalarField, text: str, notation: Notation) -> object:
    """The value that a text has for a field; None where it has none of its kind."""
    text = text.strip().lstrip(":#").strip()
    if not text or len(text) > LONGEST:
        return None
    if leaf.kind in NUMERIC:
        return number(leaf, text, notation)
    if leaf.kind is ValueKind.DATE:
        return _date(text, notation)
    if leaf.kind is ValueKind.BOOLEAN:
        return _boolean(text)
    if leaf.kind is ValueKind.CHOICE:
        return _choice(leaf, text)
    return _text(leaf, text)


def _date(text: str, notation: Notation) -> str | None:
    found = next(dates_in(text), None)
    if found is None:
        return None
    before = [word.text for word in loose_words(text) if word.start < found.start]
    if len(before) > LOOSE_WORDS or {*before} & (QUALIFIERS | _RELATIVE) - _UNTIL:
        return None
    return resolve_dates(found.values, notation.month_first)[0].isoformat()


def _boolean(text: str) -> bool | None:
    words = normalize(text)
    if words in {*YES_WORDS, *TICKED_BOXES}:
        return True
    return False if words in {*NO_WORDS, *EMPTY_BOXES} else None


def _choice(leaf: ScalarField, text: str) -> object:
    """The member that the text begins with, where nothing behind it makes something else of it."""
    words = list(words_in(text))
    members = sorted(leaf.members, key=lambda member: -len(normalized_words(str(member))))
    for first in range(len(words)):
        for member in members:
            wanted = normalized_words(str(member))
            end = first + len(wanted)
            if wanted and tuple(word.text for word in words[first:end]) == wanted:
                rest = text[words[end - 1].end :]
                return member if _is_all(rest, [one for one in members if one != member]) else None
        if words[first].text not in _LEADING:
            break
    code = currency(text)
    return code if code in leaf.members else None


def _is_all(rest: str, others: Sequence[object]) -> bool:
    """Whether what follows a choice leaves it as it is: a date, what is in brackets; but no `not`,
    no other member, and no word right behind it."""
    words = normalized_words(rest)
    if _NOT.intersection(words) or (
        re.match(r"\s*[-.,/]?\d", rest) and not next(dates_in(rest), None)
    ):
        return False
    if any(_has(words, normalized_words(str(one))) for one in others):
        return False
    return not rest.lstrip()[:1].isalpha() or words[0] in _FOLLOWING


def _has(words: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    spans = range(len(words) - len(wanted) + 1)
    return bool(wanted) and any(words[k : k + len(wanted)] == wanted for k in spans)


def _text(leaf: ScalarField, text: str) -> str | None:
    if leaf.names.has("currency", "wahrung"):
        return currency_for(leaf, text)
    if (
        pattern := EMAIL if is_email(leaf) else IBAN if leaf.names.has("iban") else None
    ) is not None:
        found = pattern.search(text)
        return found.group() if found else None
    if leaf.names.has(*PHONE):
        text = _phone(text)
    elif is_identifier(leaf):
        text = _identifier(text)
    if leaf.pattern is not None and not fits(leaf.pattern, text):
        return None
    return text if re.search(r"\w", text) else None


def is_email(leaf: ScalarField) -> bool:
    is_named = any(_has(phrase, ("e", "mail")) for phrase in leaf.names.own)
    return is_named or leaf.format == "email" or leaf.names.has("email")


def is_identifier(leaf: ScalarField) -> bool:
    last = [phrase[-1] for phrase in leaf.names.own[:2]]
    return any(word in IDENTIFIER or word.endswith(("nummer", "nr")) for word in last)


def _phone(text: str) -> str:
    """The first telephone number of a text, with few words in front of it."""
    other = [(one.start, one.end) for one in dates_in(text)]
    other += [match.span() for match in _HOURS.finditer(text)]
    for match in _PHONE.finditer(text):
        before = {word.text for word in loose_words(text) if word.start < match.start()}
        if len(before) > LOOSE_WORDS + 1 or before & (_NOT | QUALIFIERS) - {*PHONE, "no", "nr"}:
            return ""
        start, end = match.span()
        digits = len(re.sub(r"\D", "", match.group()))
        if digits >= FEWEST_DIGITS and not any(a < end and start < b for a, b in other):
            return match.group().strip()
    return ""


def _identifier(text: str) -> str:
    """What a text has before its first word in small letters; empty where that has no digit."""
    kept: list[str] = []
    for word in text.split():
        if len(word) > 1 and word.strip(".,;:()").isalpha() and word.islower():
            break
        kept.append(word)
    said = " ".join(kept).rstrip(",;(")
    return said if re.search(r"\d", said) and "%" not in said else ""
