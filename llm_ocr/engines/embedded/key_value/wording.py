"""What stands between a label and its value: does it leave the label what it is?

`VAT 20%: 5.00` is a label with its value. `VAT Reg No 5`, `Total excl. tax 5.00` and `Date of
birth` are other labels that begin like it.
"""

import re

from llm_ocr.engines.embedded.key_value.currencies import CODES
from llm_ocr.engines.embedded.key_value.labels import Label
from llm_ocr.engines.embedded.key_value.numbers import (
    MONEY_WORDS,
    NUMERIC,
    UNITS,
    Notation,
    first_number,
    is_marked,
    is_money,
    is_rate,
)
from llm_ocr.engines.embedded.key_value.values import read
from llm_ocr.parsing.schema_fields import ScalarField, ValueKind
from llm_ocr.parsing.synonyms import FIELDS
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import normalized_words

# A rate beside an amount's label (VAT 20 %), and what it is of.
_SUM = r"[^\w\s]?\s*(?:[A-Z]{3}\s*)?\d[\d.,' ]*"
_RATE = re.compile(
    r"(?:\b(?:at|of|mit|von)\s*)?\b\d+(?:[.,]\d+)?\s*%"
    rf"(?:\)?\s*(?:of|von|aus)\s*{_SUM})?|\b(?:on|auf)\s*{_SUM}",
    re.IGNORECASE,
)
# A number of a rate, of days or of items may follow a label of money: `Net 30`, `Total 3`.
_COUNT = re.compile(r"[\s(]*\d{1,2}[\s).:]*")
_PARTED = re.compile(r"(?<!\d)[:=#]|[:=#](?!\d)")
_LEADING = frozenset(
    normalized_words("in is ist are at @ of von mit the der die das zu approx ca circa about")
)
_PRICED = frozenset(
    normalized_words(
        "amount betrag sum summe price preis value cost charge charges invoice now due payable"
    )
)
_DUE = frozenset(normalized_words("by on bis am zum"))
_DATED = frozenset(
    normalized_words(
        "on am den dem der vom by bis is ist the at until til till before dd mm yy yyyy tt jj jjjj "
        "of issue issued monday tuesday wednesday thursday friday saturday sunday mon tue wed thu "
        "fri sat sun montag dienstag mittwoch donnerstag freitag samstag sonntag mo di mi do fr sa "
        "so"
    )
)
_WITH_TAX = re.compile(
    r"\b(?:incl|inc|including|inclusive|inkl|inklusive|einschl|einschließlich|mit|with)\b\.?\s*"
    r"(?:of\s+)?(?:all\s+)?(?:vat|tax|taxes|gst|mwst|ust|steuern?|umsatzsteuer|mehrwertsteuer)\b\.?",
    re.IGNORECASE,
)
# Kinds of values that are not words.
WORDLESS = (*NUMERIC, ValueKind.DATE)
_GROSS = frozenset({"incl", "including", "inkl", "brutto", "gross"})


# What fields of any schema are called; but for words that are as often values.
_VALUES = frozenset(
    normalized_words(
        "bank store shop markt company mobile mail post porto frei service goods invoice rechnung "
        "receipt bestellung from to an von start end tag note item items cost amount each text work"
    )
)
_KNOWN = frozenset(
    "".join(words)
    for line in FIELDS.strip().splitlines()
    for part in line.split(",")
    if (words := normalized_words(part)) and not (len(words) == 1 and words[0] in _VALUES)
)


def is_known_label(text: str) -> bool:
    """Whether a text is, or begins before a colon with, what some field is called on paper."""
    return "".join(normalized_words(text.partition(":")[0])) in _KNOWN


def has_value_elsewhere(label: Label) -> bool:
    """Whether a phrase is a label alone, with no value in it."""
    leaf = label.field
    if label.is_whole or not isinstance(leaf, ScalarField):
        return label.is_whole
    return leaf.kind in WORDLESS and is_same(label, leaf, label.rest)


def value_behind(label: Label, leaf: ScalarField, notation: Notation) -> object:
    """The value in a label's own phrase; for fields that are no texts."""
    rest = label.rest
    parted = _PARTED.search(rest)
    if parted is not None and _is_before(leaf, rest, parted.start(), notation):
        rest, parted = rest[: parted.start()], None
    if parted is not None:
        head, rest = rest[: parted.start()], rest[parted.end() :]
    else:
        head = rest[: _start(leaf, rest)]
        # Where sums are marked as such, a number with neither colon nor mark is no sum.
        if is_money(leaf) and notation.marked and not is_marked(rest):
            return None
    return read(leaf, rest.strip(" ."), notation) if is_same(label, leaf, head) else None


def _is_before(leaf: ScalarField, text: str, colon: int, notation: Notation) -> bool:
    """Whether the value stands before a colon: `Total 5.00 (VAT: 1.00)`, not `Total 2023: 5`."""
    before = text[:colon]
    is_clear = is_rate(leaf) or is_marked(before) or leaf.kind not in NUMERIC
    return is_clear and read(leaf, before, notation) is not None


def _start(leaf: ScalarField, text: str) -> int:
    if leaf.kind in NUMERIC:
        return first_number(text)
    if leaf.kind is ValueKind.DATE:
        return min((one.start for one in dates_in(text)), default=len(text))
    return 0


def is_same(label: Label, leaf: ScalarField, head: str) -> bool:
    """Whether the words behind a label say the same again, or nothing that matters."""
    names = leaf.names.all
    if is_money(leaf):
        for one in reversed(list(dates_in(head))):
            head = f"{head[: one.start]} {head[one.end :]}"
        head = "" if _COUNT.fullmatch(head) else head
    head = _RATE.sub(" ", head)
    if any(_GROSS.intersection(name) for name in names):
        head = _WITH_TAX.sub(" ", head)
    known = _usual_words(leaf).union(*(name for name in names if len(name) == 1))
    words = tuple(word for word in normalized_words(head) if word not in known)
    return not any(map(str.isdigit, head)) and words in {(), *names}


def _usual_words(leaf: ScalarField) -> frozenset[str]:
    if leaf.kind is ValueKind.DATE:
        return _DATED
    if leaf.kind not in NUMERIC:
        return frozenset()
    money = _PRICED | _DUE if is_money(leaf) else UNITS
    return _LEADING | MONEY_WORDS | {code.lower() for code in CODES} | money
