"""Find the issuer's name and address at the top of a page with a linear-chain CRF.

The lines at the top are a sequence; each is before the name, of the name, between, of the address
or after it. States only move forward, so there is one name and one address. The weights are in
`field_weights`, learned by `benchmarks/field_weights.py`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Rect, hull
from llm_ocr.engines.embedded.key_value.field_weights import ADDRESS, NAME, TRANSITIONS
from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.engines.embedded.key_value.rated_values import RatedValue, log_odds, rate_value
from llm_ocr.engines.embedded.key_value.wording import is_known_label
from llm_ocr.text.dates import dates_in
from llm_ocr.text.normalize import normalized_words

Floats = npt.NDArray[np.float64]
Features = Mapping[str, float]

STATES = ("before", "name", "between", "address", "after")
# State -> the states that may follow it.
FOLLOWING = {
    "before": ("before", "name"),
    "name": ("name", "between", "address", "after"),
    "between": ("between", "address"),
    "address": ("address", "after"),
    "after": ("after",),
}
FIRST = ("before", "name")
# A letterhead is in the first lines of a page.
MAX_LINES = 24
# Phrases of a row with a smaller gap, in their heights, are one line.
JOINING_GAP = 2.0
# A line higher than this many usual lines stands out.
LARGE = 1.1
# How much less likely (in logarithms) a labeled registration number is of a name.
UNLIKELY = 4.0
# What is at the top of a page: this share of its height.
HEAD = 0.2
# A line follows the one above it within this many of its heights.
CHAIN_GAP = 2.5

_LEGAL = frozenset(
    normalized_words(
        "ltd limited llc llp inc incorporated corp corporation co company plc gmbh ag kg ohg "
        "gbr ug ev sa sas sarl srl spa sl bv nv oy oyj ab as asa aps kk pte pty bhd sdn berhad "
        "tbk pt cv ltda eireli zoo sro kft doo pvt private sb jsc ooo kabushiki enterprise "
        "enterprises holdings group gruppe"
    )
)
# Digits that OCR takes letters for, in a word of letters: 5DN 8HD, 5/B.
_LETTERS = str.maketrans("5081", "SOBI")
_MISREAD = re.compile(r"(?<![\w/])(?=[\w/]*[5081])(?=[\w/]*[A-Z])[A-Z5081/]{3,6}(?![\w/])")
_TRADE = frozenset(
    normalized_words(
        "restaurant restoran ristorante restaurante cafe kafe coffee bistro bar grill kitchen "
        "diner pizzeria bakery bakeries backerei boulangerie panaderia confectionery store "
        "stores shop shoppe market mart supermarket supermercado hypermarket markt boutique "
        "pharmacy apotheke farmacia pharmacie hotel hostel motel hardware stationery "
        "electronics electrical trading traders supplies supply services service books "
        "bookstore sports garage motors auto fashion foods food seafood electric distributors "
        "distributor marketing resources kedai syarikat perniagaan warung toko magasin libreria "
        "librairie ferreteria tienda handel handels studio clinic dental optical salon florist "
        "jewellery works industries systems solutions"
    )
)
_STREET = frozenset(
    normalized_words(
        "street st road rd avenue ave lane ln drive dr boulevard blvd way square sq highway hwy "
        "parkway court terrace crescent close quay jalan jln lorong lrg lebuh persiaran kampung "
        "strasse str weg platz gasse allee ring rue place quai chemin cours calle avenida av "
        "paseo plaza carrera via viale corso piazza largo rua travessa rodovia laan straat "
        "plein gade vej gatan vagen gata ulica ul aleja soi thanon jl gang nagar marg sector "
        "phase cross floor flr fl level lvl suite ste unit lot no nos nr block blk building "
        "bldg tower mall centre center complex taman bandar seksyen section sek plot po box "
        "ground kawasan industrial estate district city town apt chome ku shi"
    )
)
# Long ones are also found in words that OCR has joined: JALANSS25, Lindenstraße.
_STREET_ENDS = ("weg", "vej", *(word for word in _STREET if len(word) > 4))
_STREET_STARTS = tuple(word for word in _STREET if len(word) > 4)
_LEGAL_ENDS = ("bhd", "gmbh", "ltd")
TITLE_WORDS = frozenset(
    normalized_words(
        "invoice rechnung receipt quittung bill statement order purchase tax original copy page "
        "seite credit note gutschrift facture factura fattura fatura recibo ricevuta recu "
        "ticket bon kassenbon kvittering kvitto faktura resit cash simplified slip beleg nota "
        "memo duplicate reprint factuur kassabon scontrino"
    )
)
_REGISTERED = frozenset(
    normalized_words(
        "gst vat tin ust uid mwst abn acn gstin siret siren nif rfc cif cnpj cuit tax taxid tva "
        "iva btw kvk reg regn registration roc ssm brn uen npwp nip mva steuernummer"
    )
)
_CONTACT_WORDS = frozenset(
    normalized_words(
        "tel telephone phone fax mobile mobil hp handphone whatsapp hotline careline contact "
        "email mail web website telefon tlf tfno fono ph office"
    )
)
_GREETING = frozenset(
    normalized_words(
        "welcome thank thanks you hours open opening closed daily mon monday sun sunday am pm "
        "bienvenue willkommen benvenuti bienvenidos danke merci gracias grazie terima kasih "
        "customer attn ship deliver owned managed cashier server table guest terminal pos "
        "register counter order queue"
    )
)
POSTAL_CODE = re.compile(
    r"\b[A-Z]{1,2}\d[A-Z\d]?\s*\d[A-Z]{2}\b|\b\d{4}\s?[A-Z]{2}\b|\b[A-Z]{2,3}\.?\s+\d{4,6}(?:-\d{4})?\b"
    r"|(?<![\d-])(?:[A-Z]{1,2}-)?\d{4,6}(?![\d-])[\s,.]+[^\W\d_]{2,}|[^\W\d_]{2,}[\s,.-]+\d{5,6}[.,]?$"
    r"|\(\d{6}\)|\b\d{5}-\d{3}\b|\b\d{2}-\d{3}\b|\b\d{3}\s\d{2}\b|〒"
)
_HOUSE = re.compile(r"\d+[A-Za-z]?\s?[-/&]\s?\d*[A-Za-z]?\d*|\b[A-Z]{1,3}\d+[A-Z]?/\d+")
_PHONE = re.compile(r"\+?\(?\d[\d ()./-]{6,}\d")
# What separates a name and the parts of its address where they are in one line.
_SENDER = re.compile(r"[·•|]|\s[-–—]\s")
_URL = re.compile(r"@|\bwww\b|https?:|\.(?:com|net|org|co|de|fr|my|uk|eu)\b", re.IGNORECASE)
# A line that is a registration number, with its label or without.
_REGISTRATION = re.compile(
    r"\W*(?P<label>(?:co|company|business|regn?|registration|in|england|roc|brn?|ssm|uen|ein|abn"
    r"|acn|gst|sst|vat|tax|tin)\b[ .:#(]*(?:(?:no|number|nr|id)\b[ .:#(]*)*)*[A-Z]{0,4}\s?-?"
    r"(?:\d{2,3}-)?\d{4,}[\s-]*[A-Z0-9]{0,3}(?:\s*\(\d{4,}\s?-?\s?[A-Z]{0,2}\))?\W*",
    re.IGNORECASE,
)
# A line that names a branch or another company: the owner, or what the issuer was called before.
_OTHER_NAME = re.compile(
    r"\W*(?:t/a\b|f\.?k\.?a\b|d\.?b\.?a\b|trading as\b|doing business as\b"
    r"|(?:formerly|previously)\b|(?:a )?(?:member|division|subsidiary) of\b"
    r"|(?:licen[sc]ee|franchisee)\b|(?:owned|operated|managed)(?: (?:&|and) \w+)? by\b"
    r"|authori[sz]ed (?:dealer|agent|distributor|retailer)\b"
    r"|(?:branch|outlet|cawangan|filiale|sucursal)\s*:|.*\bbranch\W*$)",
    re.IGNORECASE,
)
# A registration number behind a name: NAME LTD (519537-X), NAME LTD 273500-U (GKJ).
_NAME_END = re.compile(
    r"[\s(\[]+(?:(?:co|regn?|company|roc|br|brn|ssm|gst|vat|tax|tin|id|no)\b[ .:#]*)*"
    r"[A-Z]{0,3}-?\d{4,}\s?-?\s?\w{0,2}\)?.*$",
    re.IGNORECASE,
)
# What is before an address in the same line: its label, or a registration number.
_ADDRESS_START = re.compile(
    r"\W*(?:(?:address|addr?|head office|registered office|h\.?q|adresse|anschrift|alamat|indirizzo"
    r"|direcci[oó]n|endere[cç]o|adres)\.?\s*:\s*"
    r"|(?:(?:co|company|business|regn?|roc|br|brn|ssm|no)\b[ .:#]*)*\(?\d{5,}\s?-\s?[A-Z]{1,2}\)?"
    r"[\s,;:]+(?=.*[^\W\d]))",
    re.IGNORECASE,
)
# What is behind an address in the same line: contact data, a tax or registration number.
_DETAIL_LABEL = (
    r"(?:tel|telephone|phone|ph|fax|h/p|hp|mobile|hotline|contact|office:|[tfm]:|gst|vat|sst"
    r"|tax\s*(?:id|no|reg)|roc|ssm|brn?|(?:co|company|business)[\s.]*(?:no|reg)|reg\.?\s*no)"
    r"(?![^\W\d_])(?:[\s.:#/&-]*\b(?:tel|fax|h/p|reg|no|nos|number|id)\b)*"
)
_PHONE_ALONE = (
    r"(?:\+\d{1,3}[\s-]?\(?0?\)?\d{1,3}|\(?0\d{1,3}\)?)[\s-]\d{3,4}[\s-]?\d{3,4}\b(?!\s*[^\W\d])"
)
_ADDRESS_END = re.compile(
    rf"[\s,;(/]+(?:{_DETAIL_LABEL}[\s.:#-]*[(+\w]*(?=(?:[\s()./+-]*\d){{6}})|{_PHONE_ALONE}"
    r"|\d{5,}\s?-?\s?[A-Z]{1,2}\)|\d{5,}\s?-\s?[A-Z]\W*$|e-?mail\b|www\.|[\w.+-]+@\w).*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class HeadLine:
    """A line at the top of a page: phrases of one row that stand together."""

    phrases: tuple[Phrase, ...]

    @cached_property
    def text(self) -> str:
        """As it is printed: legal forms without the digits that OCR took their letters for."""
        return " ".join(
            phrase.text if phrase.score >= 1 else _MISREAD.sub(_legal_form, phrase.text)
            for phrase in self.phrases
        )

    @cached_property
    def rect(self) -> Rect:
        return hull(phrase.rect for phrase in self.phrases)

    @property
    def height(self) -> float:
        return self.rect[3] - self.rect[1]


@dataclass(frozen=True)
class Issuer:
    """The name and address of who issued a document, and the lines that they are in."""

    name: RatedValue | None = None
    address: RatedValue | None = None
    address_in_one_line: RatedValue | None = None
    name_lines: tuple[HeadLine, ...] = ()
    address_lines: tuple[HeadLine, ...] = ()


def issuer_on(paper: Paper, used: frozenset[int] = frozenset()) -> Issuer:
    """The issuer of a page; `used` are the numbers of phrases that are something else."""
    lines = [
        line
        for line in head_lines(paper)
        if not any(phrase.number in used for phrase in line.phrases)
    ]
    if not lines:
        return Issuer()
    scores = line_scores(features_of(paper, lines))
    numbers = [k for k, line in enumerate(lines) if _is_labeled_number(line.text)]
    scores.states[numbers, STATES.index("name")] -= UNLIKELY
    path = best_path(scores)
    name = tuple(line for line, state in zip(lines, path, strict=True) if state == "name")
    address = tuple(line for line, state in zip(lines, path, strict=True) if state == "address")
    return Issuer(
        _rate(joined_name(name), name, scores, path, "name"),
        _rate(joined_address(address), address, scores, path, "address"),
        _rate(joined_address(address, ", "), address, scores, path, "address"),
        name,
        address,
    )


def _rate(
    text: str, lines: Sequence[HeadLine], scores: "LineScores", path: Sequence[str], state: str
) -> RatedValue | None:
    if not text:
        return None
    phrases = [phrase for line in lines for phrase in line.phrases]
    chance = log_odds(_probability_of(scores, path, state))
    return rate_value(text, phrases, {f"letterhead {state}": chance, f"is {state}": 1.0})


def joined_name(lines: Sequence[HeadLine]) -> str:
    """The name without a registration number behind it."""
    text = " ".join(line.text for line in lines)
    shorter = _NAME_END.sub("", text)
    return (shorter if sum(map(str.isalpha, shorter)) > 1 else text).strip(" ,;:*-|")


def joined_address(lines: Sequence[HeadLine], between: str = " ") -> str:
    """The lines of an address; what else is in them, as a telephone number, is left out."""
    trimmed = " ,;" if between.strip() else " "
    texts = [_place(line.text).strip(trimmed) for line in lines]
    return between.join(filter(None, texts)).strip(" ;:*|")


def head_lines(paper: Paper) -> list[HeadLine]:
    """The lines at the top of a page, column by column: each behind the one that it stands under,
    at most `MAX_LINES`."""
    lines: list[HeadLine] = []
    for row in paper.rows[: 2 * MAX_LINES]:
        parts: list[list[Phrase]] = []
        for phrase in row:
            gap = phrase.rect[0] - parts[-1][-1].rect[2] if parts else math.inf
            if gap < JOINING_GAP * max(phrase.height, 1.0):
                parts[-1].append(phrase)
            else:
                parts.append([phrase])
        lines += [HeadLine(tuple(part)) for part in parts]
    chains: list[list[HeadLine]] = []
    for line in lines:
        if len(_SENDER.findall(line.text)) > 1:
            continue
        above = [chain for chain in chains if _follows(line, chain[-1])]
        if above:
            max(above, key=lambda chain: chain[-1].rect[3]).append(line)
        else:
            chains.append([line])
    # The column with the largest line at the top comes first: a name may be beside its address.
    limit = paper.edges[1] + HEAD * (paper.edges[3] - paper.edges[1])
    tall = [line.height for line in lines if line.rect[1] < limit]
    largest = max(tall, default=0.0)
    if largest > LARGE * paper.height:
        chains.sort(
            key=lambda chain: (
                not any(line.height == largest and line.rect[1] < limit for line in chain)
            )
        )
    return [line for chain in chains for line in chain][:MAX_LINES]


def _follows(line: HeadLine, above: HeadLine) -> bool:
    height = max(line.height, above.height)
    gap = line.rect[1] - above.rect[3]
    shared = min(line.rect[2], above.rect[2]) - max(line.rect[0], above.rect[0])
    return -0.6 * height < gap < CHAIN_GAP * height and shared > 0


def features_of(paper: Paper, lines: Sequence[HeadLine]) -> list[dict[str, float]]:
    """The features of each line; those of a pair of lines are at the second one, behind `>`."""
    left, top, right, bottom = paper.edges
    width = max(1.0, right - left)
    largest = max(line.height for line in lines)
    found: list[dict[str, float]] = []
    after_title = False
    senders = {
        normalized_words(_SENDER.split(phrase.text)[0])
        for phrase in paper.phrases
        if len(_SENDER.findall(phrase.text)) > 1
    }
    for k, line in enumerate(lines):
        above = lines[k - 1] if k else None
        text = _without_details(line.text, above.text if above else "")
        words = normalized_words(text)
        known = set(words)
        length = max(1, len(text.replace(" ", "")))
        letters = [char for char in text if char.isalpha()]
        digits = sum(char.isdigit() for char in text) / length
        has_number = any(char.isdigit() for char in text)
        middle = (line.rect[0] + line.rect[2]) / 2
        gap = (line.rect[1] - above.rect[3]) / paper.height if above else 0.0
        is_new_chain = above is not None and not _follows(line, above)
        is_labeled = _is_labeled_number(text)
        postal = bool(POSTAL_CODE.search(text)) and not is_labeled
        street = _is_street(words) and not is_labeled
        phone = bool(_PHONE.search(text))
        registered = bool(known & _REGISTERED) and has_number
        one = {
            "bias": 1.0,
            "first": float(k == 0),
            "second or third": float(k in (1, 2)),
            "fourth to sixth": float(3 <= k < 6),
            "seventh or later": float(k >= 6),
            "depth on page": min(1.0, (line.rect[1] - top) / max(1.0, bottom - top)),
            "height": max(-1.0, min(1.5, math.log(max(line.height, 1.0) / paper.height))),
            "largest": float(line.height >= 0.97 * largest and line.height > 1.15 * paper.height),
            "centered": float(abs(middle - (left + right) / 2) < 0.05 * width),
            "at the left": float(line.rect[0] - left < 0.03 * width),
            "narrow": float(line.rect[2] - line.rect[0] < 0.3 * width),
            "digits": digits,
            "has digits": float(has_number),
            "capitals": sum(char.isupper() for char in letters) / max(1, len(letters)),
            "one word": float(len(words) == 1),
            "many words": float(len(words) > 7),
            "legal form": float(_is_legal(words) and not is_labeled),
            "trade": float(bool(known & _TRADE)),
            "street": float(street),
            "street and number": float(street and has_number),
            "house number": float(bool(_HOUSE.search(text)) or bool(re.match(r"\d+\w?,?\s", text))),
            "postal code": float(postal),
            "comma": float("," in text),
            "comma at the end": float(text.rstrip().endswith(",")),
            "colon": float(":" in text),
            "in brackets": float(text.startswith("(") and text.endswith(")")),
            "phone number": float(phone),
            "contact word": float(bool(known & _CONTACT_WORDS)),
            "contact and phone": float(bool(known & _CONTACT_WORDS) and phone),
            "tax number": float(registered),
            "registration alone": float(bool(_REGISTRATION.fullmatch(text))),
            "url": float(bool(_URL.search(text))),
            "title": float(bool(known & TITLE_WORDS)),
            "only title": float(bool(words) and known <= TITLE_WORDS),
            "greeting": float(bool(known & _GREETING) or bool(_OTHER_NAME.match(text))),
            "date": float(next(dates_in(text), None) is not None),
            "in the sender line": float(words in senders),
            "label": float(is_known_label(text)),
            "below a title": float(after_title),
        }
        if above is not None:
            similar = abs(math.log(max(line.height, 1.0) / max(above.height, 1.0)))
            one |= {
                ">gap": max(0.0, min(2.0, gap)),
                ">wide gap": float(gap > 1.2),
                ">another column": float(is_new_chain),
                ">other height": min(1.0, similar),
                ">comma above": float(above.text.rstrip().endswith((",", "(", "&", "-"))),
                ">postal code above": float(bool(POSTAL_CODE.search(above.text))),
                ">number above": float(bool(_NAME_END.search(above.text))),
                ">few words": float(len(words) <= 2),
                ">digits": float(has_number),
            }
        found.append(one)
        after_title = after_title or bool(known & TITLE_WORDS)
    return found


def _is_labeled_number(text: str) -> bool:
    """Whether a line is a registration number with its label; one alone may be a postal code."""
    match = _REGISTRATION.fullmatch(text)
    return match is not None and match["label"] is not None


def _place(text: str) -> str:
    """A line of an address without what is before and behind it."""
    return _ADDRESS_END.sub("", f" {_ADDRESS_START.sub('', text)}").strip()


def _without_details(text: str, above: str) -> str:
    """A line without what is before and behind the part of an address in it, if it has one."""
    place = _place(text)
    is_place = (
        "," in place
        or (bool(place) and above.rstrip().endswith(","))
        or bool(POSTAL_CODE.search(place))
        or _is_street(normalized_words(place))
    )
    return place if is_place else text


def _legal_form(word: re.Match[str]) -> str:
    """A word with letters for digits if that makes a legal form of it."""
    letters = word.group().translate(_LETTERS)
    return letters if letters.lower().replace("/", "") in _LEGAL else word.group()


def _is_street(words: Sequence[str]) -> bool:
    return any(
        word in _STREET
        or (len(word) > 6 and (word.endswith(_STREET_ENDS) or word.startswith(_STREET_STARTS)))
        for word in words
    )


def _is_legal(words: Sequence[str]) -> bool:
    return any(word in _LEGAL or word.endswith(_LEGAL_ENDS) for word in words)


@dataclass(frozen=True)
class LineScores:
    """Log-potentials of a sequence: of its states (lines x 5), and of moving from a state to the
    next line's (lines - 1 x 5 x 5)."""

    states: Floats
    moves: Floats


def line_scores(features: Sequence[Features]) -> LineScores:
    states = np.zeros((len(features), len(STATES)))
    moves = np.full((max(0, len(features) - 1), len(STATES), len(STATES)), -np.inf)
    for k, one in enumerate(features):
        for state, weights in (("name", NAME), ("address", ADDRESS)):
            states[k, STATES.index(state)] = sum(
                weights.get(key, 0.0) * value for key, value in one.items() if key[0] != ">"
            )
        for state, following in FOLLOWING.items():
            for other in following if k else ():
                weights = TRANSITIONS.get(f"{state} > {other}", {})
                score = weights.get("bias", 0.0) + sum(
                    weights.get(key, 0.0) * value for key, value in one.items() if key[0] == ">"
                )
                moves[k - 1, STATES.index(state), STATES.index(other)] = score
    for k, state in enumerate(STATES):
        if state not in FIRST:
            states[0, k] = -np.inf
    return LineScores(states, moves)


def best_path(scores: LineScores) -> list[str]:
    """The most likely state of each line together (Viterbi)."""
    best, origins = scores.states[0], []
    for state, move in zip(scores.states[1:], scores.moves, strict=True):
        reached = best[:, None] + move
        origins.append(reached.argmax(axis=0))
        best = reached.max(axis=0) + state
    path = [int(best.argmax())]
    for origin in reversed(origins):
        path.insert(0, int(origin[path[0]]))
    return [STATES[k] for k in path]


def log_partition(scores: LineScores) -> float:
    """The logarithm of the sum over all paths (forward algorithm)."""
    total = scores.states[0]
    for state, move in zip(scores.states[1:], scores.moves, strict=True):
        total = np.logaddexp.reduce(total[:, None] + move, axis=0) + state
    return float(np.logaddexp.reduce(total))


def _probability_of(scores: LineScores, path: Sequence[str], wanted: str) -> float:
    """The probability that exactly the lines that have a state in `path` have it."""
    states = scores.states.copy()
    at = STATES.index(wanted)
    for k, state in enumerate(path):
        if state == wanted:
            states[k, np.arange(len(STATES)) != at] = -np.inf
        else:
            states[k, at] = -np.inf
    return math.exp(log_partition(LineScores(states, scores.moves)) - log_partition(scores))
