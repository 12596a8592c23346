"""Whose a value is: the issuer has what stands by no one, a recipient only what stands by them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.key_value.pairs import Pair
from llm_ocr.engines.embedded.key_value.parties import ContactBlock
from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.engines.embedded.key_value.rated_values import RatedValue, rate_value
from llm_ocr.engines.embedded.key_value.roles import OPEN, Role, is_in, role_of, role_of_group, says
from llm_ocr.engines.embedded.key_value.values import EMAIL, IBAN, is_email
from llm_ocr.parsing.schema_fields import ObjectField, ScalarField, ValueKind

# What stands below a party within this many heights of a line is theirs.
BELOW = 1.8


@dataclass(frozen=True)
class Owners:
    """The parties of a page, and the groups of a schema."""

    paper: Paper
    parties: Sequence[ContactBlock]
    groups: Sequence[ObjectField]

    def may_have(self, pair: Pair) -> bool:
        """Whether a labeled value is not one of another party."""
        wording = pair.label.wording
        is_told_apart = {*wording} <= OPEN or self._party(pair.leaf) is not None
        if says(wording, self._role(pair.leaf)) or not is_told_apart:
            return True
        return self._is_of(pair.leaf, pair.label.phrase)

    def contacts(
        self, leaves: Sequence[ScalarField], values: Mapping[str, RatedValue]
    ) -> dict[str, RatedValue]:
        """E-mail addresses and IBANs without a label: those that only one field may have, which
        may have no other."""
        contacts: dict[str, RatedValue] = {}
        texts = [leaf for leaf in leaves if leaf.kind is ValueKind.TEXT]
        mails = [leaf for leaf in texts if is_email(leaf)]
        ibans = [leaf for leaf in texts if leaf.names.has("iban")]
        for some, pattern in ((mails, EMAIL), (ibans, IBAN)):
            used = {values[leaf.path].value for leaf in some if leaf.path in values}
            spots = [
                (match.group(), phrase)
                for phrase in self.paper.phrases
                for match in pattern.finditer(phrase.text)
                if match.group() not in used
            ]
            claims = {
                leaf.path: {value: phrase for value, phrase in spots if self._is_of(leaf, phrase)}
                for leaf in some
                if leaf.path not in values and self._role(leaf) is not Role.OTHER
            }
            counts = Counter(value for claim in claims.values() for value in claim)
            contacts |= {
                path: rate_value(value, [phrase], {"contact": 1.0})
                for path, claim in claims.items()
                for value, phrase in claim.items()
                if len(claim) == 1 and counts[value] == 1
            }
        return contacts

    def _is_of(self, leaf: ScalarField, phrase: Phrase) -> bool:
        """Whether what stands at a phrase may be a field's: it is by the field's party. What
        stands by no party is not the recipient's."""
        role, own = self._role(leaf), self._party(leaf)
        near = [one for one in self.parties if _is_by(phrase, one, self.paper.height)]
        if own is not None and near:
            return own in near
        is_by_recipient = any(role_of_group(one.group) is Role.RECIPIENT for one in near)
        if role in (Role.ISSUER, Role.RECIPIENT):
            return is_by_recipient == (role is Role.RECIPIENT)
        return True

    def _role(self, leaf: ScalarField) -> Role:
        return role_of(leaf, self._around(leaf))

    def _around(self, leaf: ScalarField) -> list[ObjectField]:
        return [group for group in self.groups if is_in(leaf, group)]

    def _party(self, leaf: ScalarField) -> ContactBlock | None:
        """Whose a field is: its group's; where that has no place, who is of the same role."""
        around, role = self._around(leaf), self._role(leaf)
        own = [party for party in self.parties if party.group in around]
        same = [party for party in self.parties if role_of_group(party.group) is role]
        known = role in (Role.ISSUER, Role.RECIPIENT)
        return own[-1] if own else same[0] if same and known else None


def _is_by(phrase: Phrase, party: ContactBlock, height: float) -> bool:
    """Whether a phrase is of a party's block or directly below it."""
    x1, _, x2, _ = phrase.rect
    left, top, right, bottom = party.region
    beside = min(x2, right) > max(x1, left)
    return beside and top < phrase.middle < bottom + BELOW * height
