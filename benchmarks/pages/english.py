"""English that nobody wrote before: sentences out of a grammar, about ten matters.

The words are real and the sentences are whole, so that a recogniser has what it has on paper:
names, numbers, dates, quotations, brackets and the common short words between them.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.pages.vocabulary import (
    ADJECTIVES,
    ADVERBS,
    CAUSES,
    FAMILY_NAMES,
    FIRST_NAMES,
    INTRANSITIVE,
    MATTERS,
    MONTHS,
    PLACES,
    REPORTING,
    TIMES,
    TRANSITIVE,
    UNITS,
    Matter,
)

_TEMPLATES = (
    "{The} {adj} {thing} {vt} the {thing} {where}, {cause}.",
    "{Time}, {people} {vt} {number} {things} {where}.",
    "{Adverb}, the {things} of {place} {vi} {when}.",
    "{Person} {says} that the {thing} {vi} {where}.",
    "Of the {number} {things} {where}, only {small} {vi} {when}.",
    "“The {thing} {vi},” {says} {person}, “and nobody {vt} the {things}.”",
    "{The} {thing} ({number} {unit}) {vt} {a_adj} {thing} than the one in {place}.",
    "{Although} the {things} {vi} {when}, the {thing} {vt} the {adj} {things}.",
    "{Between} {year} and {later} {people} {vt} the {thing} {twice}, {cause}.",
    "There is {a_adj} {thing} {where}; it {vt} most of the {things}.",
    "How the {thing} {vt} the {things}, {person} could not say.",
    "{Neither} the {thing} nor the {things} {vi} {where}.",
    "{People} {vt} the {things} {adverb}, and the {thing} {vi} {when}.",
    "It costs about {money} a {unit1} to keep {a_adj} {thing} {where}.",
    "{The} share of {adj} {things} rose from {percent} to {percent2} in {year}.",
    "{Since} {person} {vt} the {thing}, its {things} {vi} {adverb}.",
    "If the {thing} {vi} {when}, {people} {will} look at the {adj} {things} first.",
    "{The} {adj}, {adj2} {thing} of {place} {vt} {people}: {number} {things} in {later}.",
    "What {people} call {a_adj} {thing} is {adverb} {a_adj2} one.",
    "By {month} {year} the {thing} {where} {vt} every {thing} of {place}.",
    "{Few} {things} {vi} as {adverb} as those {where}.",
    "All {things} are {adj}, {adj2} and {adverb} kept by {people}.",
)
_OPENINGS = {
    "The": ("The", "This", "Every", "Each", "The same", "No", "One", "Another"),
    "Although": ("Although", "While", "Because", "Even where", "Whenever", "Now that"),
    "Between": ("Between", "In the years between", "Somewhere between"),
    "Neither": ("Neither", "Even then neither", "As a rule neither"),
    "Since": ("Since", "Ever since", "Soon after", "Long before"),
    "Few": ("Few", "Hardly any", "Not many", "Only the oldest"),
    "twice": ("twice", "three times", "again", "with great care", "in part", "as a whole"),
    "will": ("will", "should", "must", "ought to", "may", "might"),
}


@dataclass(frozen=True)
class English:
    """Writes about one matter, with the chance it is given."""

    chance: random.Random
    matter: Matter

    @classmethod
    def drawn(cls, chance: random.Random) -> "English":
        return cls(chance, chance.choice(MATTERS))

    def sentence(self) -> str:
        text = self.chance.choice(_TEMPLATES).format_map(_Slots(self))
        return begun(text)

    def sentences(self, least: int, most: int) -> list[str]:
        return [self.sentence() for _ in range(self.chance.randint(least, most))]

    def paragraph(self, least: int = 3, most: int = 6) -> str:
        return " ".join(self.sentences(least, most))

    def heading(self) -> str:
        """Two to six words without a full stop."""
        thing, adj, things = self.thing(), self._one(ADJECTIVES), self.things()
        return self._one(
            (
                f"The {thing} and its {things}",
                f"{begun(adj)} {things}",
                f"{begun(things)} of {self._one(PLACES)}",
                f"How the {thing} was found",
                f"Notes on {adj} {things}",
                f"{begun(thing)} or {self.thing()}?",
                f"Keeping the {adj} {thing}",
                f"Results for {things}",
                f"{self._one(PLACES)} after {self.year()}",
                f"What remains of the {thing}",
            )
        )

    def title(self) -> str:
        """Six to twelve words."""
        return self._one(
            (
                f"{self.heading()}: a study of {self.things()} in {self._one(PLACES)}",
                f"On the {self._one(ADJECTIVES)} {self.things()} of {self._one(PLACES)} and "
                f"their {self.thing()}",
                f"From {self.things()} to {self.things()}: {self._one(PLACES)} in {self.year()}",
                f"Why the {self._one(ADJECTIVES)} {self.thing()} matters to {self.people()}",
            )
        )

    def phrase(self) -> str:
        """Three to eight words, as in a list."""
        return self._one(
            (
                f"{self._one(ADJECTIVES)} {self.things()} {self._one(self.matter.where)}",
                f"the {self.thing()} of {self._one(PLACES)}",
                f"{self.things()} and {self._one(ADJECTIVES)} {self.things()}",
                f"one {self._one(ADJECTIVES)} {self.thing()} for {self.people()}",
                f"{self.chance.randint(2, 90)} {self.things()} {self._one(self.matter.where)}",
            )
        )

    def thing(self) -> str:
        return self.chance.choice(self.matter.things)[0]

    def things(self) -> str:
        return self.chance.choice(self.matter.things)[1]

    def people(self) -> str:
        return self._one(self.matter.people)

    def person(self) -> str:
        return f"{self._one(FIRST_NAMES)} {self._one(FAMILY_NAMES)}"

    def place(self) -> str:
        return self._one(PLACES)

    def year(self) -> str:
        return str(self.chance.randint(1790, 1989))

    def date(self) -> str:
        return f"{self.chance.randint(1, 28)} {self._one(MONTHS)} {self.chance.randint(1991, 2025)}"

    def number(self) -> str:
        value = self.chance.choice((40, 400, 4000, 40000))
        return f"{self.chance.randint(value // 10, value):,}"

    def _one(self, of: Sequence[str]) -> str:
        return self.chance.choice(of)


def begun(text: str) -> str:
    """With a capital at its start, and the others as they are."""
    return text[0].upper() + text[1:]


class _Slots(dict[str, str]):
    """What stands in a template's braces, drawn again for each."""

    def __init__(self, writer: English) -> None:
        super().__init__()
        self._writer = writer

    def __missing__(self, slot: str) -> str:
        writer, chance = self._writer, self._writer.chance
        if slot in _OPENINGS:
            return chance.choice(_OPENINGS[slot])
        drawn: dict[str, Callable[[], str]] = {
            "thing": writer.thing,
            "things": writer.things,
            "people": writer.people,
            "person": writer.person,
            "place": writer.place,
            "number": writer.number,
            "year": writer.year,
            "later": lambda: str(chance.randint(1990, 2025)),
            "small": lambda: chance.choice(("one", "two", "three", "a dozen", "seven", "none")),
            "percent": lambda: f"{chance.randint(2, 30)}.{chance.randint(0, 9)}%",
            "percent2": lambda: f"{chance.randint(31, 98)}.{chance.randint(0, 9)}%",
            "money": lambda: f"{chance.choice('$£')}{chance.randint(200, 98000) / 100:.2f}",
            "where": lambda: chance.choice(writer.matter.where),
            "vt": lambda: chance.choice(TRANSITIVE),
            "vi": lambda: chance.choice(INTRANSITIVE),
            "says": lambda: chance.choice(REPORTING),
            "adj": lambda: chance.choice(ADJECTIVES),
            "adj2": lambda: chance.choice(ADJECTIVES),
            "adverb": lambda: chance.choice(ADVERBS),
            "cause": lambda: chance.choice(CAUSES),
            "when": lambda: chance.choice(TIMES),
            "month": lambda: chance.choice(MONTHS),
            "unit": lambda: chance.choice(UNITS)[1],
            "unit1": lambda: chance.choice(UNITS)[0],
            "Time": lambda: chance.choice(TIMES).capitalize(),
            "Adverb": lambda: chance.choice(ADVERBS).capitalize(),
            "Person": writer.person,
            "People": lambda: writer.people().capitalize(),
        }
        if slot.startswith("a_adj"):
            adjective = chance.choice(ADJECTIVES)
            return f"{'an' if adjective[0] in 'aeiou' else 'a'} {adjective}"
        return drawn[slot]()
