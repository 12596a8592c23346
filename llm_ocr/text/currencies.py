"""Read currencies from their signs: $, CA$, US$."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Signs that may directly precede or follow a number, and the currency that each usually means.
CURRENCY_SIGNS = {"€": "EUR", "£": "GBP", "$": "USD", "¥": "JPY", "₹": "INR", "₩": "KRW"}
# Sign -> letters before it -> the currency they stand for together.
CURRENCY_LETTERS = {
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
    """A currency sign at `start` to `end` of a text; `bare`: there are no letters before it."""

    start: int
    end: int
    sign: str
    code: str
    bare: bool


def currencies_in(text: str) -> Iterator[CurrencyMention]:
    """The currency signs of a text, with the letters before them that identify the currency."""
    for match in _ANY.finditer(text):
        sign = match.group()
        lead = _LEAD.search(text[max(0, match.start() - 4) : match.start()])
        code = CURRENCY_LETTERS.get(sign, {}).get(lead[0]) if lead else None
        if lead and code:
            yield CurrencyMention(match.start() - len(lead[0]), match.end(), sign, code, bare=False)
        else:
            yield CurrencyMention(match.start(), match.end(), sign, CURRENCY_SIGNS[sign], bare=True)


def named_currencies(text: str, sign: str) -> set[str]:
    """The currencies with this sign that a text names, by a code or by letters before the sign."""
    letters = CURRENCY_LETTERS.get(sign, {})
    codes = {**letters, **{code: code for code in letters.values()}}
    found = {
        mention.code for mention in currencies_in(text) if mention.sign == sign and not mention.bare
    }
    return found | {codes[word] for word in _CODE.findall(text) if word in codes}
