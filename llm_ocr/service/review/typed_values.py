"""Convert what a reviewer types, or points at on the page, into a value of a field's type."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from llm_ocr.parsing.schema_fields import ValueKind
from llm_ocr.service.review.edits import InvalidEditError
from llm_ocr.text.dates import dates_in
from llm_ocr.text.numbers import numbers_in, possible_numbers

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_typed(text: str, kind: str) -> Sequence[Any]:
    """The values that a text may stand for in JSON, most likely first: some schemas have numbers as
    strings. Numbers and dates may be written as on the page, with a currency, a unit or a label.

    Raises InvalidEditError if the text is ambiguous or isn't of this kind.
    """
    text = text.strip()
    if kind in (ValueKind.NUMBER, ValueKind.INTEGER):
        numbers = [mention for mention in numbers_in(text) if not mention.partial]
        within = numbers[0].values if len(numbers) == 1 else ()
        values = possible_numbers(text) or within
        number = _only(text, values, "number", "without thousands separators")
        return [str(number), int(number) if number == int(number) else float(number)]
    if kind == ValueKind.DATE:
        dates = list(dates_in(text))
        days = [day.isoformat() for day in dates[0].values] if len(dates) == 1 else []
        return [_only(text, days, "date", "as YYYY-MM-DD")]
    if kind == ValueKind.BOOLEAN:
        if text.lower() not in _BOOLEANS:
            raise InvalidEditError(f"{text!r} is neither yes nor no")
        return [_BOOLEANS[text.lower()]]
    return [text]


def format_value(value: Any) -> str:  # noqa: ANN401
    """A field's value as text; empty without a value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _only(text: str, found: Sequence[Decimal] | Sequence[str], kind: str, how: str) -> Any:  # noqa: ANN401
    distinct = list(dict.fromkeys(found))
    if not distinct:
        raise InvalidEditError(f"{text!r} is not a {kind}")
    if len(distinct) > 1:
        either = " or ".join(map(str, distinct))
        raise InvalidEditError(f"{text!r} can be {either}; write the {kind} {how}")
    return distinct[0]
