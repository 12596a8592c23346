"""Currencies by their codes and signs: which one a text names, and which one a page is in."""

import re
from collections import Counter
from collections.abc import Iterable

from llm_ocr.parsing.schema_fields import ScalarField, ValueKind
from llm_ocr.text.currencies import CURRENCY_LETTERS, CURRENCY_SIGNS

# ISO 4217, but for codes that are English words in capitals (ALL, TOP, TRY, CUP, PEN, MOP ...).
CODES = (
    *("MYR", "THB", "IDR", "PHP", "TWD", "VND", "AED", "SAR", "QAR", "KWD", "JOD", "OMR", "ILS"),
    *("EGP", "NGN", "KES", "GHS", "TND", "PKR", "BDT", "LKR", "NPR", "RUB", "UAH", "KZT", "RON"),
    *("BGN", "RSD", "ISK", "CLP", "COP", "ARS", "UYU", "CRC", "DOP", "GTQ", "BND", "KHR", "MVR"),
    *("EUR", "GBP", "USD", "CHF", "JPY", "SEK", "NOK", "DKK", "PLN", "CZK", "CAD", "AUD", "INR"),
    *("NZD", "HKD", "SGD", "ZAR", "BRL", "MXN", "CNY", "HUF", "KRW"),
)
# What may stand in front of a dollar sign, and whose dollar it is then.
DOLLARS = {
    letters: CURRENCY_LETTERS["$"][letters]
    for letters in ("US", "CA", "C", "AU", "A", "NZ", "HK", "S", "R", "MX")
}
# Letters before an amount, or in brackets, that are neither a sign nor a code.
LETTERS = {"RM": "MYR", "Rs": "INR", "Rp": "IDR"}
# More than one currency writes these signs.
SHARED = {"$": frozenset({"USD", *DOLLARS.values()}), "¥": frozenset({"JPY", "CNY"})}
_LONGEST_FIRST = sorted(DOLLARS, key=len, reverse=True)
_SIGN = rf"(?<![^\W_])(?:{'|'.join(_LONGEST_FIRST)})\$|[{''.join(CURRENCY_SIGNS)}]"
_CODE = rf"(?<![^\W\d_])(?:{'|'.join(CODES)})(?![^\W\d_])"
_LETTERED = rf"(?<![^\W_])(?:{'|'.join(LETTERS)})(?=\.?\s?\d|\))"
_MARK = re.compile(f"{_SIGN}|{_CODE}|{_LETTERED}")


def currency(text: str) -> str | None:
    """The code of the currency that a text names; by a code rather than by a sign."""
    return next((code_of(mark) for mark in _codes_first(_MARK.findall(text))), None)


def currency_for(leaf: ScalarField, text: str) -> str | None:
    """The currency that a text names: as it is, or as a code where only codes are allowed."""
    return next(
        (one for mark in _codes_first(_MARK.findall(text)) if (one := _as(leaf, mark))), None
    )


def page_currency(leaf: ScalarField, text: str) -> str | None:
    """The currency that a page has most often.

    A sign that several currencies share is the one that the page has a code of.
    """
    counted = [mark for mark, _ in Counter(_MARK.findall(text)).most_common()]
    sign = next((mark for mark in counted if mark not in CODES), None)
    meant = SHARED.get(sign, frozenset({code_of(sign)})) if sign else frozenset[str]()
    told = [mark for mark in counted if mark not in SHARED and code_of(mark) in meant]
    ordered = [*_codes_first(told), *counted]
    return next((one for mark in ordered if (one := _as(leaf, mark))), None)


def code_of(mark: str) -> str:
    if mark in CODES or mark in LETTERS:
        return LETTERS.get(mark, mark)
    return DOLLARS[mark[:-1]] if len(mark) > 1 else CURRENCY_SIGNS[mark]


def has_mark(text: str) -> bool:
    return _MARK.search(text) is not None


def _codes_first(marks: Iterable[str]) -> list[str]:
    return sorted(marks, key=lambda mark: mark not in CODES)


def _as(leaf: ScalarField, mark: str) -> str | None:
    wanted = (mark, code_of(mark))
    if leaf.kind is ValueKind.CHOICE:
        return next((one for one in wanted if one in leaf.members), None)
    return next((one for one in wanted if fits(leaf.pattern or "", one)), None)


def fits(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern; one that can't be read is none."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True
