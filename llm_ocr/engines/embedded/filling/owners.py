"""Whose a value is: the issuer has what stands by no one, a recipient only what stands by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.filling.labels import Label
from llm_ocr.engines.embedded.filling.pairs import Pair
from llm_ocr.engines.embedded.filling.parties import LINE_GAP, ContactBlock
from llm_ocr.engines.embedded.filling.phrases import Paper, Phrase
from llm_ocr.engines.embedded.filling.rated_values import RatedValue, rate_value
from llm_ocr.engines.embedded.filling.roles import OPEN, Role, is_in, role_of, role_of_group, says
from llm_ocr.engines.embedded.filling.values import EMAIL, IBAN, is_email
from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.parsing.schema_fields import ObjectField, ScalarField, ValueKind

MOST_LINES = 6


@dataclass(frozen=True)
class Owners:
    """The parties of a page, and the groups of a schema."""

    paper: Paper
    parties: Sequence[ContactBlock]
    groups: Sequence[ObjectField]
    labels: Mapping[int, Sequence[Label]]

    def may_have(self, pair: Pair) -> bool:
        """Whether a labeled value is not one of another party."""
        leaf, role = pair.leaf, self._role(pair.leaf)
        is_open = {*pair.wording} <= OPEN
        if says(pair.wording, role) or not (is_open or self._around(leaf)):
            return True
        own = self._party(leaf)
        if role is Role.RECIPIENT and leaf.names.has("iban"):
            return own is not None and pair.label.number in self._lines(own)
        near = [one for one in self.parties if _is_by(pair.label.rect, one, self.paper.height)]
        if own is None:
            others = any(role_of_group(party.group) is Role.RECIPIENT for party in near)
            is_others = role is Role.RECIPIENT or (role is Role.ISSUER and others)
            return not (is_open and is_others)
        if near:
            return own in near
        # What stands by none is the issuer's: letterheads and footers are.
        issuers = [one for one in self.parties if role_of_group(one.group) is Role.ISSUER]
        return own in issuers if issuers else role is not Role.RECIPIENT

    def contacts(
        self, leaves: Sequence[ScalarField], values: Mapping[str, RatedValue]
    ) -> dict[str, RatedValue]:
        """E-mail addresses and IBANs that stand without a label."""
        contacts: dict[str, RatedValue] = {}
        texts = [leaf for leaf in leaves if leaf.kind is ValueKind.TEXT]
        mails = [leaf for leaf in texts if is_email(leaf)]
        ibans = [leaf for leaf in texts if leaf.names.has("iban")]
        for some, pattern in ((mails, EMAIL), (ibans, IBAN)):
            used = {values[leaf.path].value for leaf in some if leaf.path in values}
            missing = [leaf for leaf in some if leaf.path not in values]
            spots = [
                (match.group(), phrase)
                for phrase in self.paper.phrases
                for match in pattern.finditer(phrase.text)
                if match.group() not in used
            ]
            phrases = {value: [phrase] for value, phrase in spots}
            contacts |= {
                path: rate_value(value, phrases[value], {"contact": 1.0})
                for path, value in self._shared_out(missing, spots).items()
            }
        return contacts

    def _role(self, leaf: ScalarField) -> Role:
        return role_of(leaf, self._around(leaf))

    def _shared_out(
        self, leaves: Sequence[ScalarField], spots: Sequence[tuple[str, Phrase]]
    ) -> dict[str, str]:
        """Each value to one field: where two could have it, to the one that it stands by or that
        is the issuer's, else to none."""
        claims: dict[str, list[tuple[int, str]]] = {}
        for leaf in leaves:
            own = self._party(leaf)
            lines = self._lines(own) if own is not None else frozenset[int]()
            by_own = {value for value, phrase in spots if phrase.number in lines}
            free = {value for value, phrase in spots if self._is_free(phrase)}
            role = self._role(leaf)
            if len(by_own) == 1:
                claims.setdefault(by_own.pop(), []).append((2, leaf.path))
            elif role in (Role.ISSUER, Role.OPEN) and not by_own:
                all_spots = free if role is Role.ISSUER else {value for value, _ in spots}
                if len(all_spots) == 1:
                    rank = int(role is Role.ISSUER)
                    claims.setdefault(all_spots.pop(), []).append((rank, leaf.path))
        shared: dict[str, str] = {}
        for value, some in claims.items():
            best = [path for rank, path in some if rank == max(some)[0]]
            if len(best) == 1:
                shared[best[0]] = value
        return shared

    def _is_free(self, phrase: Phrase) -> bool:
        others = [party for party in self.parties if role_of_group(party.group) is not Role.ISSUER]
        return not any(phrase.number in self._lines(party) for party in others)

    def _around(self, leaf: ScalarField) -> list[ObjectField]:
        return [group for group in self.groups if is_in(leaf, group)]

    def _party(self, leaf: ScalarField) -> ContactBlock | None:
        """Whose a field is: its group's; where that has no place, who is of the same role."""
        around, role = self._around(leaf), self._role(leaf)
        own = [party for party in self.parties if party.group in around]
        same = [party for party in self.parties if role_of_group(party.group) is role]
        known = role in (Role.ISSUER, Role.RECIPIENT)
        return own[-1] if own else same[0] if same and known else None

    def _lines(self, party: ContactBlock) -> frozenset[int]:
        """The phrases of a party, and those that follow right below it."""
        numbers = set(party.phrases)
        inside = [phrase for phrase in self.paper.phrases if phrase.number in numbers]
        at = max(inside, key=lambda phrase: phrase.rect[3])
        for _ in range(MOST_LINES):
            below = next(self.paper.below(at, LINE_GAP), None)
            if below is None or self._is_party_label(below):
                break
            numbers.add(below.number)
            at = below
        return frozenset(numbers)

    def _is_party_label(self, phrase: Phrase) -> bool:
        some = self.labels.get(phrase.number, ())
        return any(
            isinstance(label.field, ObjectField) and not label.rest.strip(" :") for label in some
        )


def _is_by(rect: Rect, party: ContactBlock, height: float) -> bool:
    x1, y1, x2, y2 = rect
    left, top, right, bottom = party.region
    beside = min(x2, right) > max(x1, left)
    return beside and top - height < (y1 + y2) / 2 < bottom + 2.5 * height
