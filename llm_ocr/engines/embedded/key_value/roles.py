"""Who a part of a schema is about: who issued a document, whom it is for, or someone else."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from llm_ocr.parsing.schema_fields import FieldNames, ObjectField, ScalarField, ValueKind
from llm_ocr.parsing.synonyms import synonyms
from llm_ocr.text.normalize import normalized_words

ISSUER = frozenset(
    normalized_words(
        "seller supplier vendor issuer merchant store shop sender company bank payee creditor "
        "verkäufer lieferant aussteller absender rechnungssteller"
    )
)
RECIPIENT = frozenset(
    normalized_words(
        "buyer customer client recipient purchaser bill payer debtor kunde käufer empfänger "
        "rechnungsempfänger auftraggeber besteller"
    )
)
# These are someone's role only in the name of a group.
_VAGUE = frozenset(normalized_words("bill bank company store shop"))
# Words that leave open whose a value is.
OPEN = frozenset(
    normalized_words(
        "email e mail address iban bic phone telephone tel telefon mobile fax number no nr "
        "nummer id vat tax ust idnr reg registration name adresse anschrift contact kontakt "
        "account bank main general"
    )
)
# Groups that are the one person that a page is about.
_ANYONE = frozenset(
    normalized_words(
        "contact contacts person applicant candidate holder profile personal info details basics"
    )
)
_BESIDE = frozenset(normalized_words("to from by party details info data contact address"))
_ADDRESS = frozenset(normalized_words("address adresse anschrift"))
_DATES = frozenset(
    normalized_words("date datum rechnungsdatum belegdatum kaufdatum fecha data issued")
)
_TOTALS = frozenset(normalized_words("total gesamt gesamtbetrag summe gesamtsumme endbetrag"))
_SUMS = frozenset(normalized_words("amount grand gross sum price value to pay paid payable due"))
_DOCUMENT = frozenset(
    normalized_words(
        "invoice receipt bill document purchase transaction issue of the rechnung beleg billing "
        "sale"
    )
)
# A word that begins like one of a role is of it, if it is long: Kundennummer.
_LONG = 5


class Role(StrEnum):
    """What someone is on a page; OPEN where a name leaves it open, OTHER where it is another."""

    ISSUER = "issuer"
    RECIPIENT = "recipient"
    OPEN = "open"
    OTHER = "other"


_WORDS = {Role.ISSUER: ISSUER, Role.RECIPIENT: RECIPIENT}
_CALLED = {Role.ISSUER: ("seller",), Role.RECIPIENT: ("buyer",)}


def role_of_group(group: ObjectField) -> Role:
    words = [{*phrase} - _BESIDE for phrase in group.names.own]
    for role, known in _WORDS.items():
        if any(some and some <= known for some in words):
            return role
    return Role.OPEN if all(some <= _ANYONE | OPEN for some in words) else Role.OTHER


def role_of(leaf: ScalarField, around: Sequence[ObjectField]) -> Role:
    """Whose a value is: of the group that it is in, else by its own name."""
    roles = [role_of_group(group) for group in around]
    known = [role for role in roles if role in _WORDS]
    if known:
        return known[-1]
    words = {word for phrase in leaf.names.own for word in phrase}
    for role, some in _WORDS.items():
        if words & (some - _VAGUE) or (role is Role.RECIPIENT and {"bill", "to"} <= words):
            return role
    return Role.OPEN if words <= OPEN and Role.OTHER not in roles else Role.OTHER


def says(wording: Iterable[str], role: Role) -> bool:
    """Whether a label has a word of a role in it: `Customer no.`, `Kundennummer`."""
    known = _WORDS.get(role, frozenset())
    long = tuple(word for word in known if len(word) >= _LONG)
    return any(word in known or word.startswith(long) for word in wording)


def stand_ins(
    leaves: Sequence[ScalarField], groups: Sequence[ObjectField], has_flat_issuer: bool
) -> list[ObjectField]:
    """The issuer and the recipient where a schema asks for values of the one or the other, but not
    for both with their names: what is the one's is not the other's.

    `has_flat_issuer`: the schema has the issuer's name or address without a group for them.
    """
    around = {leaf.path: [one for one in groups if is_in(leaf, one)] for leaf in leaves}
    roles = {role_of(leaf, around[leaf.path]) for leaf in leaves}
    named = {role_of_group(group) for group in groups if _has_name(group)}
    if not roles & _WORDS.keys() and not has_flat_issuer:
        return []
    return [_stand_in(role) for role in _WORDS if role not in named]


def issuer_fields(leaves: Sequence[ScalarField]) -> dict[str, ScalarField]:
    """The fields of a flat schema that are the issuer's `name` and `address`."""
    found: dict[str, ScalarField] = {}
    for leaf in leaves:
        if leaf.kind is not ValueKind.TEXT or not leaf.names.own:
            continue
        words = {*leaf.names.own[0]}
        if words <= ISSUER | {"name"} and words & ISSUER:
            found.setdefault("name", leaf)
        elif words <= ISSUER | _ADDRESS and words & _ADDRESS:
            found.setdefault("address", leaf)
    return found


def is_document_date(leaf: ScalarField) -> bool:
    """Whether a field is the date of the document itself, by its name."""
    words = {*leaf.names.own[0]} if leaf.names.own else set()
    known = leaf.kind in (ValueKind.DATE, ValueKind.TEXT)
    return known and bool(words & _DATES) and words <= _DATES | _DOCUMENT


def is_document_total(leaf: ScalarField) -> bool:
    """Whether a field is what a document's amounts come to, by its name."""
    words = {*leaf.names.own[0]} if leaf.names.own else set()
    known = leaf.kind in (ValueKind.NUMBER, ValueKind.TEXT)
    return known and bool(words & _TOTALS) and words <= _TOTALS | _DOCUMENT | _SUMS


def is_in(leaf: ScalarField, group: ObjectField) -> bool:
    return leaf.path.startswith(f"{group.path}.")


def _has_name(group: ObjectField) -> bool:
    inner = [one for one in group.fields.values() if isinstance(one, ScalarField)]
    return any(leaf.names.has("name", "address") for leaf in inner)


def _stand_in(role: Role) -> ObjectField:
    called = (_CALLED[role],)
    parts = ("name", "address")
    fields = {
        part: ScalarField(f"{role}.{part}", FieldNames(((part,),)), ValueKind.TEXT)
        for part in parts
    }
    return ObjectField(f" {role}", FieldNames(called, synonyms(called, column=False)), fields)
