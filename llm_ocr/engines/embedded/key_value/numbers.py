"""Which number of a text is a field's value; or none of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from llm_ocr.engines.embedded.key_value.currencies import CODES, has_mark
from llm_ocr.parsing.schema_fields import ScalarField, ValueKind
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import WordSpan, normalized_words, words_in
from llm_ocr.text.notation import count_format_votes, resolve_numbers
from llm_ocr.text.numbers import NumberMention, numbers_in

NUMERIC = (ValueKind.NUMBER, ValueKind.INTEGER)
PERCENT = frozenset(normalized_words("percent percentage prozent satz steuersatz"))
# What a rate is of, where it is one in per cent: the rate of a line is a price.
TAXED = frozenset(normalized_words("vat tax gst interest discount mwst ust"))
# What sums of money are called, and the ends of such words in German.
MONEY = frozenset(
    normalized_words(
        "vat tax gst mwst ust subtotal price cost costs fee netto brutto steuer porto rabatt saldo "
        "trinkgeld skonto"
    )
)
_MONEY_ENDS = ("betrag", "summe", "preis", "steuer", "kosten", "saldo")
# These are sums of money where nothing else is named with them: not in `total hours`.
_SUMS = frozenset(
    normalized_words("amount total net gross sum balance due discount shipping tip gesamt")
)
_PLAIN = frozenset(
    normalized_words(
        "invoice bill order receipt line grand sub to pay paid payable incl excl including "
        "excluding before after value of the in opening closing new old previous start end final "
        "money eur usd gbp chf"
    )
)
_COUNTED = frozenset(normalized_words("id number no nr nummer count percent satz code"))
# What may stand beside a number without making a sentence of it.
LOOSE_WORDS = 2
# Words beside a number that make another one of it, or refer to something by it.
QUALIFIERS = frozenset(
    normalized_words(
        "up from ab bis over über under unter min max least most less more not nicht kein keine of "
        "on auf x thousand million billion tausend mio mrd millionen milliarden dozen see siehe "
        "page pages seite seiten section item line note no nr number nummer room tel"
    )
)
UNITS = frozenset(
    normalized_words("g kg mg t ml cl l mm cm m km h hrs std stk st pcs oz lb lbs kwh min")
)
MONEY_WORDS = frozenset(
    normalized_words(
        "euro euros dollar dollars cent cents pound pounds pence franken kr rs fr sfr zł kč"
    )
)
# Digits in a row without a separator: more are no sum of money.
_MOST_DIGITS = 6
# Letters and no more digits than this may be a size: EU 42.
_FEWEST_DIGITS = 4
_CENTS = re.compile(r"[.,]\d{2}\)?-?$")
# A short token right before an amount is a currency: RM12.50, THB40.00.
_GLUED_CURRENCY = re.compile(r"(?<![^\W_])([^\W\d_]{1,4}\.?)(?=-?\d[\d.,]*[.,]\d{2}(?!\d))")
_DASHES = re.compile(r"\s?[.,][-–—]{1,2}(?!\d)")
# Capitals in front of digits: GB 312 4567 08.
_LETTERED = re.compile(r"(?<![^\W_])([A-Z]{1,4})[ .:/-]{0,2}\d[\d ./-]*\d")
_CLOCK = re.compile(r"\d{1,2}:\d{2}")


@dataclass(frozen=True)
class Notation:
    """How a page writes what could be two things: 1.234 and 03/04/2024.

    `marked`: its sums of money have decimals or a currency.
    """

    decimal_comma: bool = False
    month_first: bool = False
    marked: bool = False


def notation_of(text: str) -> Notation:
    """The notation that a page's unambiguous numbers and dates are in."""
    told = count_format_votes(text)
    marked = any(is_marked(line) for line in text.splitlines())
    return Notation(told.commas > told.points, told.months_first > told.days_first, marked)


def separate_currency(text: str) -> str:
    """The text with a space between an amount and a currency's letters before it: RM 12.50."""
    return _GLUED_CURRENCY.sub(r"\1 ", text)


def number(leaf: ScalarField, text: str, notation: Notation) -> Decimal | int | None:
    """The number that a text has for a field, with the decimals that it has there: of several the
    last one."""
    text = separate_currency(text)
    rate = is_rate(leaf)
    found = [
        one
        for one in _outermost(text)
        if one.percent == rate and (rate or not _is_another(text, one, leaf))
    ]
    if is_money(leaf):
        found = _sums(leaf, text, found)
    if not found or _is_prose(text):
        return None
    value = resolve_numbers(found[-1].values, notation.decimal_comma)[0]
    if rate and leaf.is_fraction:
        value /= 100
    is_whole = value == value.to_integral_value()
    if leaf.kind is ValueKind.INTEGER:
        return int(value) if is_whole else None
    # Decimals that were written are kept, be they zeros.
    return int(value) if is_whole and "." not in f"{value:f}" else value


def is_rate(leaf: ScalarField) -> bool:
    """Whether a number is in per cent."""
    words = {word for phrase in leaf.names.own[:2] for word in phrase}
    return bool(words & PERCENT) or ("rate" in words and bool(words & TAXED))


def is_money(leaf: ScalarField) -> bool:
    """Whether a field is a sum of money, by its names."""
    words = {word for phrase in leaf.names.own for word in phrase}
    if leaf.kind is not ValueKind.NUMBER or is_rate(leaf) or words & _COUNTED:
        return False
    if any(word in MONEY or word.endswith(_MONEY_ENDS) for word in words):
        return True
    return any(_SUMS & {*phrase} and {*phrase} <= _SUMS | _PLAIN for phrase in leaf.names.own)


def is_marked(text: str) -> bool:
    """Whether a text has a number with decimals, or with a currency."""
    return any(not one.percent and _is_marked(text, one) for one in _outermost(text))


def first_number(text: str) -> int:
    """Where the first number of a text begins."""
    return min((one.start for one in _outermost(text)), default=len(text))


def loose_words(text: str) -> list[WordSpan]:
    """The words of a text that are no number, date or currency."""
    taken = [(one.start, one.end) for one in _outermost(text)]
    taken += [(one.start, one.end) for one in dates_in(text)]
    return [
        word
        for word in words_in(text)
        if not any(start < word.end and word.start < end for start, end in taken)
        and word.text.upper() not in CODES
        and word.text not in MONEY_WORDS
    ]


def _sums(leaf: ScalarField, text: str, found: list[NumberMention]) -> list[NumberMention]:
    """The sums of money among numbers: those that are written as such, else a number alone."""
    marked = [one for one in found if _is_marked(text, one)]
    words = {word.text for word in loose_words(text)}
    is_alone = words <= (UNITS if leaf.names.has("amount") else frozenset())
    is_sum = is_alone and not re.search(rf"\d{{{_MOST_DIGITS + 1}}}", text)
    return marked or (found if len(found) == 1 and is_sum else [])


def _is_marked(text: str, one: NumberMention) -> bool:
    before, written, after = text[: one.start], text[one.start : one.end], text[one.end :]
    beside = re.split(r"[\s(]", before.rstrip())[-1] + " " + "".join(after.split()[:1])
    named = bool(MONEY_WORDS.intersection(normalized_words(beside)))
    if has_mark(beside) or named or _DASHES.match(after):
        return True
    return _CENTS.search(written) is not None


def _is_another(text: str, one: NumberMention, leaf: ScalarField) -> bool:
    """Whether a number is part of a date, a time or an identifier."""
    dated = [] if leaf.names.has("year", "jahr") else [(d.start, d.end) for d in dates_in(text)]
    timed = [match.span() for match in _CLOCK.finditer(text)]
    if any(start <= one.start < end for start, end in (*dated, *timed)):
        return True
    return any(_is_part(match, one, leaf) for match in _LETTERED.finditer(text))


def _is_part(identifier: re.Match[str], one: NumberMention, leaf: ScalarField) -> bool:
    letters = identifier[1]
    if letters in CODES or {letters.lower()} & (UNITS | MONEY_WORDS):
        return False
    is_inside = identifier.start() < one.start < identifier.end()
    is_long = is_money(leaf) or len(re.sub(r"\D", "", identifier.group())) > _FEWEST_DIGITS
    return is_inside and is_long and not _CENTS.search(identifier.string[one.start : one.end])


def _outermost(text: str) -> Iterator[NumberMention]:
    """The numbers of a text, none of them a part of another."""
    amounts = sorted(numbers_in(text), key=lambda one: (one.start, -one.end))
    end = -1
    for one in amounts:
        if one.start >= end:
            end = one.end
            yield one


def _is_prose(text: str) -> bool:
    """Whether there are more words beside a number than a unit or a currency, or ones that make
    something else of it: `up to 12`, `see page 12`, `12 million`."""
    words = [word.text for word in loose_words(text)]
    return len(words) > LOOSE_WORDS or not QUALIFIERS.isdisjoint(words)
