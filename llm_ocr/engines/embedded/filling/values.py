"""A text as a value of a schema: its number, its date, its choice; or nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from llm_ocr.parsing.amounts import SIGNS, Amount, amounts_in
from llm_ocr.parsing.dates import dates_in
from llm_ocr.parsing.notation import dates_meant, numbers_meant, tally
from llm_ocr.parsing.opposites import EMPTY, NO, TICKED, YES
from llm_ocr.parsing.shape import Kind, Leaf
from llm_ocr.parsing.words import bare, folded, words_in

CODES = ("EUR", "GBP", "USD", "CHF", "JPY", "SEK", "NOK", "DKK", "PLN", "CZK", "CAD", "AUD", "INR")
PERCENT = frozenset(bare("percent percentage prozent satz steuersatz"))
# What a rate is of, where it is one in per cent: the rate of a line is a price.
TAXED = frozenset(bare("vat tax gst interest discount mwst ust"))
# Fields that hold no prose: a text for them has a digit in it.
IDENTIFIER = ("number", "no", "nr", "nummer", "id", "code", "iban", "phone", "reference", "sku")
# What may stand beside a number without making a sentence of it.
LOOSE_WORDS = 2
LONGEST = 400
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


@dataclass(frozen=True)
class Notation:
    """How a page writes what could be two things: 1.234 and 03/04/2024."""

    decimal_comma: bool = False
    month_first: bool = False


def notation_of(text: str) -> Notation:
    """The notation that a page's unambiguous numbers and dates are in."""
    told = tally(text)
    return Notation(told.commas > told.points, told.months_first > told.days_first)


def read(leaf: Leaf, text: str, notation: Notation) -> object:
    """The value that a text has for a field; None where it has none of its kind."""
    text = text.strip().lstrip(":#").strip()
    if not text or len(text) > LONGEST:
        return None
    if leaf.kind in (Kind.NUMBER, Kind.WHOLE):
        return _number(leaf, text, notation)
    if leaf.kind is Kind.DATE:
        return _date(text, notation)
    if leaf.kind is Kind.BOOLEAN:
        return _boolean(text)
    if leaf.kind is Kind.CHOICE:
        return _choice(leaf, text)
    return _text(leaf, text)


def _number(leaf: Leaf, text: str, notation: Notation) -> float | int | None:
    rate = is_rate(leaf)
    found = [one for one in _outermost(text) if one.percent == rate]
    if not found or _is_prose(text, found):
        return None
    value = numbers_meant(found[-1].readings, notation.decimal_comma)[0]
    if rate and leaf.share:
        value /= 100
    if value == value.to_integral_value() and (leaf.kind is Kind.WHOLE or not _has_cents(value)):
        return int(value)
    return None if leaf.kind is Kind.WHOLE else float(value)


def _has_cents(value: Decimal) -> bool:
    """Whether decimals were written, be they zeros."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent < 0


def is_rate(leaf: Leaf) -> bool:
    """Whether a number is in per cent."""
    words = {word for phrase in leaf.names.own[:2] for word in phrase}
    return bool(words & PERCENT) or ("rate" in words and bool(words & TAXED))


def _outermost(text: str) -> Iterator[Amount]:
    """The numbers of a text, none of them a part of another."""
    amounts = sorted(amounts_in(text), key=lambda one: (one.start, -one.end))
    end = -1
    for one in amounts:
        if one.start >= end:
            end = one.end
            yield one


def _is_prose(text: str, found: list[Amount]) -> bool:
    """Whether there are more words beside the numbers than a unit or a currency."""
    loose = [
        word
        for word in words_in(text)
        if not any(one.start < word.end and word.start < one.end for one in _outermost(text))
        and word.text.upper() not in CODES
    ]
    return len(loose) > LOOSE_WORDS or not found


def _date(text: str, notation: Notation) -> str | None:
    found = next(dates_in(text), None)
    if found is None:
        return None
    return dates_meant(found.readings, notation.month_first)[0].isoformat()


def _boolean(text: str) -> bool | None:
    words = folded(text)
    return True if words in {*YES, *TICKED} else False if words in {*NO, *EMPTY} else None


def _choice(leaf: Leaf, text: str) -> object:
    """The one member that the text names; the longest of several that are parts of each other."""
    words = bare(text)
    named = [member for member in leaf.members if _has(words, bare(str(member)))]
    if not named and (code := currency(text)) in leaf.members:
        return code
    longest = sorted(named, key=lambda member: -len(bare(str(member))))
    if len(longest) > 1 and not _has(bare(str(longest[0])), bare(str(longest[1]))):
        return None
    return longest[0] if longest else None


def _has(words: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    spans = range(len(words) - len(wanted) + 1)
    return bool(wanted) and any(words[k : k + len(wanted)] == wanted for k in spans)


def currency(text: str) -> str | None:
    """The currency that a text names by its code or sign."""
    for word in re.findall(r"[A-Za-z]{3}", text):
        if word.upper() in CODES and word.isupper():
            return str(word)
    return next((code for sign, code in SIGNS.items() if sign in text), None)


def currency_for(leaf: Leaf, text: str) -> str | None:
    """The first sign or code in a text: as it is, or as a code where only codes are allowed."""
    found = re.search(rf"[{''.join(SIGNS)}]|\b(?:{'|'.join(CODES)})\b", text)
    if found is None:
        return None
    code = currency(found.group())
    wanted = [found.group(), code]
    if leaf.kind is Kind.CHOICE:
        return next((one for one in wanted if one in leaf.members), None)
    pattern = leaf.pattern or ""
    return next((one for one in wanted if one and _matches(pattern, one)), None)


def _text(leaf: Leaf, text: str) -> str | None:
    if leaf.names.has("currency", "wahrung"):
        return currency_for(leaf, text)
    if leaf.format == "email" or leaf.names.has("email"):
        found = _EMAIL.search(text)
        return found.group() if found else None
    if is_identifier(leaf) and not re.search(r"\d", text):
        return None
    if leaf.pattern is not None and not _matches(leaf.pattern, text):
        return None
    return text if re.search(r"\w", text) else None


def is_identifier(leaf: Leaf) -> bool:
    return any(phrase[-1] in IDENTIFIER for phrase in leaf.names.own[:2])


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True
