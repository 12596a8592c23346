"""Compare values of records by what they say: numbers, dates, and text without case and spaces."""

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation

from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import fold_case
from llm_ocr.text.numbers import possible_numbers

_NUMBER = re.compile(r"[-−+]?\d[\d.,'’ \u00a0\u2009\u202f]*")
# A number as an identifier is written: 0381 is not 381.
_LEADING_ZERO = re.compile(r"[-−+]?0\d")


def same_value(value: object, other: object) -> bool:
    """Whether two JSON values say the same.

    Numbers count, not their notation (1,234.50 and 1234.5), as do dates that have one meaning, and
    text without case and with one space for any white space. Null, an empty text and an empty list
    are the same; lists have to have their items in the same order. Keys with no value don't count.
    """
    return comparison_key(value) == comparison_key(other)


def comparison_key(value: object) -> object:
    """A hashable object that is equal for values which say the same; None for no value."""
    if isinstance(value, Mapping):
        pairs = ((str(key), comparison_key(item)) for key, item in value.items())
        return tuple(sorted((pair for pair in pairs if pair[1] is not None), key=_name)) or None
    if isinstance(value, list | tuple):
        return ("list", *map(comparison_key, value)) if value else None
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return _number_key(str(value))
    return None if value is None else _text_key(str(value))


def _name(pair: tuple[str, object]) -> str:
    return pair[0]


def _text_key(text: str) -> object:
    plain = " ".join(fold_case(text).split())
    if not plain:
        return None
    if _NUMBER.fullmatch(plain) and not _LEADING_ZERO.match(plain):
        return _number_key(plain)
    dates = list(dates_in(plain))
    if len(dates) == 1 and (dates[0].start, dates[0].end) == (0, len(plain)):
        only: tuple[date, ...] = dates[0].values
        if len(only) == 1:
            return ("date", only[0].isoformat())
    return plain


def _number_key(written: str) -> object:
    try:
        number = Decimal(written)
    except InvalidOperation:
        sign = -1 if written[0] in "-−" else 1
        found = possible_numbers(written.strip("-−+ "))
        # 1.234 may be either; taken for one of the two, it would be equal to what it may not be.
        if len(found) != 1:
            return written
        number = sign * found[0]
    return ("number", number)
