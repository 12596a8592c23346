"""The currencies that a text names by a sign: $, CA$, US$."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Signs that may touch a number without being part of a word with it.
CURRENCY_SIGNS = {"€": "EUR", "£": "GBP", "$": "USD", "¥": "JPY", "₹": "INR", "₩": "KRW"}
_LETTERS = {
    "$": {
        "US": "USD",
        "USD": "USD",
        "CA": "CAD",
        "CAD": "CAD",
        "CDN": "CAD",
        "C": "CAD",
        "A": "AUD",
        "AU": "AUD",
        "AUD": "AUD",
        "NZ": "NZD",
        "HK": "HKD",
        "S": "SGD",
        "SG": "SGD",
        "R": "BRL",
        "MX": "MXN",
        "NT": "TWD",
    },
    "£": {"GB": "GBP", "E": "EGP"},
    "¥": {"JP": "JPY", "CN": "CNY", "RMB": "CNY"},
}
_ANY = re.compile(f"[{''.join(CURRENCY_SIGNS)}]")
_LEAD = re.compile(r"(?<![^\W\d_])[A-Z]{1,3}\Z")
_CODE = re.compile(r"(?<![^\W_])[A-Z]{3}(?![^\W_])")


@dataclass(frozen=True)
class CurrencyMention:
    """A currency at `start` to `end` of a text; `bare`: the sign has no letters in front."""

    start: int
    end: int
    sign: str
    code: str
    bare: bool


def currencies_in(text: str) -> Iterator[CurrencyMention]:
    """The currency signs of a text, with the letters that tell whose they are."""
    for match in _ANY.finditer(text):
        sign = match.group()
        lead = _LEAD.search(text[max(0, match.start() - 4) : match.start()])
        code = _LETTERS.get(sign, {}).get(lead[0]) if lead else None
        if lead and code:
            yield CurrencyMention(match.start() - len(lead[0]), match.end(), sign, code, bare=False)
        else:
            yield CurrencyMention(match.start(), match.end(), sign, CURRENCY_SIGNS[sign], bare=True)


def named_currencies(text: str, sign: str) -> set[str]:
    """Which of the currencies that share a sign a text names by a code or by letters before it."""
    letters = _LETTERS.get(sign, {})
    codes = {**letters, **{code: code for code in letters.values()}}
    found = {one.code for one in currencies_in(text) if one.sign == sign and not one.bare}
    return found | {codes[word] for word in _CODE.findall(text) if word in codes}
