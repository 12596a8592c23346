"""Choose a document's date and total among all dates and amounts of its page.

Each candidate has features: words in its row, position, agreement with other amounts. A softmax
over the candidates, and over the case that there is none, gives their probabilities. The weights
are in `field_weights`, learned by `benchmarks/field_weights.py`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

from llm_ocr.engines.embedded.key_value.field_weights import DATE, TOTAL
from llm_ocr.engines.embedded.key_value.numbers import Notation, separate_currency
from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.engines.embedded.key_value.rated_values import (
    RatedValue,
    log_odds,
    rate_value,
    weighted_sum,
)
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import normalized_words
from llm_ocr.text.notation import resolve_dates, resolve_numbers
from llm_ocr.text.numbers import numbers_in

NONE = "none"
WEIGHTS = {"date": DATE, "total": TOTAL}


def _words(text: str) -> frozenset[str]:
    return frozenset(normalized_words(text))


_TOTAL_WORDS = _words(
    "total totals ttl amount amt due payable pay gesamt gesamtbetrag gesamtsumme summe betrag "
    "rechnungsbetrag endbetrag zahlen totale importe montant payer pagar pagare jumlah bayar "
    "razem suma zaplaty totaal betalen valor balance bill ttc complessivo celkem att betala "
    "yhteensa"
)
_FINAL = _words(
    "grand nett net final rounded due payable payer zahlen pagar pagare bayar zaplaty betalen "
    "ttc inclusive incl inc including complessivo gesamtbetrag endbetrag rechnungsbetrag after"
)
_KINDS = {
    "subtotal": _words(
        "subtotal sub zwischensumme netto nettobetrag excl excluding exclusive before ht base "
        "imponible subtotale subtotaal taxable without ex sous summary"
    ),
    "tax": _words(
        "tax gst vat sst mwst ust tva iva btw ptu service charge impostos sr zr srv svc moms dph"
    ),
    "cash": _words(
        "cash tendered tender paid visa master mastercard amex card debit credit received "
        "payment bar gegeben ec especes cb efectivo tarjeta contanti pagamento contant pin "
        "dinheiro cartao gotowka tunai bank"
    ),
    "change": _words(
        "change ruckgeld zuruck rendu monnaie cambio resto wisselgeld troco reszta baki balance"
    ),
    "rounding": _words("rounding round adj adjustment rundung pembundaran"),
    "count": _words("qty quantity items item pcs points price unit each anzahl menge x"),
}
_DATE_WORDS = _words(
    "date dated datum fecha data tarikh tanggal dt bizdate datetime transdate rechnungsdatum "
    "belegdatum factuurdatum issued issue emission emissao wystawienia le tag"
)
_OTHER_DATES = _words(
    "due delivery deliver expiry expires expire exp valid until till period from order birth "
    "effective since printed print best before ship payment pay fallig lieferdatum bestelldatum "
    "gultig bis zahlbar leistungsdatum start end value booking echeance vencimiento scadenza "
    "pickup return"
)
_CENTS = re.compile(r"\d[.,]\s?\d{2}(?!\d)")
_CLOCK = re.compile(r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?\s*(?:[AaPp]\.?[Mm])?")
# A date without separators: 20190109, 09012019.
_COMPACT = re.compile(r"(?<![\w/-])(?:(20\d\d)(\d\d)(\d\d)|(\d\d)(\d\d)(20\d\d))(?![\w/-])")
# Letters of a month directly before or behind digits, as 25MAY2017.
_GLUED = re.compile(r"(?<=\d)(?=[A-Za-z]{3,9}\d)|(?<=[A-Za-z]{3})(?=\d{1,2}:)")
MOST_CANDIDATES = 60
# On a page of fewer rows there is nothing to compare a candidate with: only labels count.
FEWEST_ROWS = 6
# The smallest coin where prices are not: totals are rounded to it, 41.52 to 41.50.
NEAR = Decimal("0.05")


@dataclass(frozen=True)
class Candidate:
    """A possible value, its text as it is printed, and its features."""

    value: object
    printed: str
    phrase: Phrase
    features: Mapping[str, float]


def best_of(candidates: Sequence[Candidate], name: str, *, as_text: bool) -> RatedValue | None:
    """The likeliest of some candidates for "date" or "total", or its text; None if none is
    likelier."""
    if not candidates:
        return None
    chances = probabilities(candidates, WEIGHTS[name])
    k = max(range(len(candidates)), key=chances.__getitem__)
    if chances[k] < chances[-1]:
        return None
    given = {f"chosen {name}": log_odds(chances[k]), f"is {name}": 1.0}
    value = candidates[k].printed if as_text else candidates[k].value
    return rate_value(value, [candidates[k].phrase], given)


def probabilities(candidates: Sequence[Candidate], weights: Mapping[str, float]) -> list[float]:
    """Of each candidate and, last, of none of them; they add up to 1."""
    scores = [weighted_sum(one.features, weights) for one in candidates]
    scores.append(weights.get(NONE, 0.0))
    top = max(scores)
    parts = [math.exp(score - top) for score in scores]
    return [part / sum(parts) for part in parts]


def date_candidates(
    paper: Paper, notation: Notation, labeled: Mapping[int, str]
) -> list[Candidate]:
    """Each day on the page once, with the features of the place that says most; `labeled` maps a
    phrase's number to "own" or "other": a label of the field, or of another one, is at it."""
    places: dict[str, list[tuple[Phrase, str, dict[str, float]]]] = defaultdict(list)
    top, bottom = paper.edges[1], paper.edges[3]
    for phrase in paper.phrases:
        row = paper.rows[phrase.row]
        before = " ".join(one.text for one in row if one.rect[0] <= phrase.rect[0])
        for start, end, value, compact in dates_of(phrase.text, notation):
            left = (before[: -len(phrase.text)] if len(row) > 1 else "") + phrase.text[:start]
            words = set(normalized_words(left)[-4:])
            beside = phrase.text[:start] + phrase.text[end:]
            beside += " ".join(one.text for one in row if one is not phrase)
            features = {
                "own label": float(labeled.get(phrase.number) == "own"),
                "other label": float(labeled.get(phrase.number) == "other"),
                "date word": float(bool(words & _DATE_WORDS)),
                "other date": float(bool(words & _OTHER_DATES)),
                "time": float(bool(_CLOCK.search(beside))),
                "compact": float(compact),
                "alone": float(not any(map(str.isalnum, beside))),
                "depth": (phrase.middle - top) / max(1.0, bottom - top),
            }
            places[value].append((phrase, phrase.text[start:end], features))
    days = list(places.items())[:MOST_CANDIDATES]
    candidates = []
    for k, (value, spots) in enumerate(days):
        best = max(spots, key=lambda place: weighted_sum(place[2], DATE))
        extra = {
            "first": float(k == 0),
            "only": float(len(days) == 1),
            "latest": float(value == max(places)),
        }
        candidates.append(Candidate(value, best[1], best[0], {**best[2], **extra}))
    return candidates


def dates_of(text: str, notation: Notation) -> Iterator[tuple[int, int, str, bool]]:
    """`(start, end, day, compact)` of each date in a text, also of 20190109 and 25MAY2017."""
    glued = _GLUED.sub(" ", text)
    shift = len(glued) - len(text)
    any_found = False
    for one in dates_in(glued):
        any_found = True
        day = resolve_dates(one.values, notation.month_first)[0].isoformat()
        yield min(one.start, len(text)), max(0, one.end - shift), day, False
    if any_found:
        return
    for match in _COMPACT.finditer(text):
        year, month, day = match.group(1, 2, 3) if match[1] else match.group(6, 5, 4)
        for values in (one.values for one in dates_in(f"{year}-{month}-{day}")):
            yield match.start(), match.end(), values[0].isoformat(), True


@dataclass(frozen=True)
class _Mention:
    value: Decimal
    printed: str
    phrase: Phrase
    kinds: frozenset[str]


def total_candidates(
    paper: Paper, notation: Notation, labeled: Collection[object]
) -> list[Candidate]:
    """Each amount of money on the page once; `labeled` are those with a label of the field."""
    mentions = list(islice(_mentions(paper, notation), 400))
    if not mentions:
        return []
    by_value: dict[Decimal, list[_Mention]] = defaultdict(list)
    for one in mentions:
        if one.value > 0:
            by_value[one.value].append(one)
    largest = max(by_value, default=Decimal(0))
    unpaid = [one.value for one in mentions if not one.kinds & {"cash", "change"}]
    kinds = {
        kind: {one.value for one in mentions if kind in one.kinds} for kind in (*_KINDS, "total")
    }
    rounded = {one: (one / NEAR).to_integral_value() * NEAR for one in by_value if one % NEAR}
    totals = [one for one in mentions if "total" in one.kinds and one.kinds <= {"total", "final"}]
    candidates = []
    for value, places in by_value.items():
        said = [place.kinds for place in places]
        clean = [kind for kind in said if kind <= {"total", "final"} and kind]
        given = {
            "labeled": float(any(_same(value, one) for one in labeled)),
            "total": float(any("total" in one for one in clean)),
            "final": float(any({"total", "final"} <= one for one in clean)),
            "total and tax": float(
                any({"total", "tax"} <= one and "subtotal" not in one for one in said)
            ),
            "unlabeled": float(not any(said)),
            "largest": float(value == largest),
            "largest unpaid": float(value == max(unpaid, default=None)),
            "twice": float(len(places) == 2),
            "more often": float(len(places) > 2),
            "last total": float(bool(totals) and value == totals[-1].value),
            "first total": float(bool(totals) and value == totals[0].value),
            "paid and change": float(
                any(cash - change == value for cash in kinds["cash"] for change in kinds["change"])
            ),
            "paid": float(value in kinds["cash"]),
            "net and tax": float(
                any(
                    abs(net + tax - value) <= NEAR and tax > 0
                    for net in kinds["subtotal"] | kinds["total"]
                    for tax in kinds["tax"]
                    if net != value
                )
            ),
            "rounded": float(
                bool(kinds["rounding"])
                and any(
                    net + adjustment == value and net != value
                    for net in kinds["total"] | kinds["subtotal"]
                    for adjustment in (sign * one for one in kinds["rounding"] for sign in (1, -1))
                )
            ),
            "rounded twin": float(value in rounded.values()),
            "unrounded twin": float(rounded.get(value) in by_value),
            "height": max(
                -0.5, min(1.0, math.log(max(p.phrase.height for p in places) / paper.height))
            ),
        }
        for kind in _KINDS:
            given[kind] = float(any(kind in one for one in said))
            given[f"only {kind}"] = float(all(kind in one for one in said))
        best = max(
            places, key=lambda one: ("total" in one.kinds, "final" in one.kinds, -len(one.kinds))
        )
        candidates.append(Candidate(value, best.printed, best.phrase, given))
    return candidates


def _same(value: Decimal, other: object) -> bool:
    return isinstance(other, int | Decimal) and value == other


def _mentions(paper: Paper, notation: Notation) -> Iterator[_Mention]:
    """The amounts of a page, with the words of their rows."""
    has_cents = bool(_CENTS.search(paper.text))
    above: tuple[str, ...] = ()
    for row in paper.rows:
        amounts: list[tuple[Phrase, str, Decimal]] = []
        for phrase in row:
            text = separate_currency(phrase.text)
            dated = [(one.start, one.end) for one in dates_in(text)]
            dated += [match.span() for match in _CLOCK.finditer(text) if ":" in match.group()]
            for one in numbers_in(text):
                written = text[one.start : one.end]
                if one.percent or any(start <= one.start < end for start, end in dated):
                    continue
                if one.partial or (has_cents and not _CENTS.search(written)):
                    continue
                if len(re.sub(r"\D", "", written)) > (9 if _CENTS.search(written) else 6):
                    continue
                value = resolve_numbers(one.values, notation.decimal_comma)[0]
                amounts.append((phrase, written, value))
        words = normalized_words(" ".join(phrase.text for phrase in row))
        words = tuple(word for word in words if not word.isdigit())
        said = frozenset(words if any(len(word) > 2 for word in words) else (*above, *words))
        for phrase, written, value in amounts:
            yield _Mention(value, written, phrase, _kinds(said))
        above = () if amounts else words


def _kinds(words: frozenset[str]) -> frozenset[str]:
    kinds = {kind for kind, known in _KINDS.items() if words & known}
    if words & _TOTAL_WORDS:
        kinds.add("total")
    if words & _FINAL:
        kinds.add("final")
    return frozenset(kinds)
