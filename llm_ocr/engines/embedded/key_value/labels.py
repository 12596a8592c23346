"""Which phrases of a page are labels, and of which fields."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rapidfuzz.distance import Levenshtein

from llm_ocr.engines.embedded.key_value.phrases import Paper, Phrase
from llm_ocr.parsing.schema_fields import ArrayField, FieldNames, ObjectField, ScalarField
from llm_ocr.parsing.synonyms import Phrase as Words
from llm_ocr.text.normalize import normalized_words

# Words that a label may begin with.
FILLERS = frozenset(
    normalized_words("zzgl plus incl inkl inklusive the your our ihre ihr unsere unser")
)
# A label this long, without its spaces, may have a character wrong.
FORGIVING = 7
# A rate in front of what it is of: `zzgl. 19 % MwSt.`
_RATE = re.compile(r"\W*(?:[^\W\d_]+\W+)?\d+(?:[.,]\d+)?\s*%\s*")
# A word goes on behind what is no hyphen of a label's: Peter's, USt-IdNr, INVOICE-555.
_GOES_ON = re.compile(r"'|-\w")
OWN, OTHERS, HINTS = 1.0, 0.9, 0.5


@dataclass(frozen=True)
class Label:
    """A field's label at the beginning of a phrase; `rest` is what follows it there.

    `length` is how many characters of the phrase it explains; `weight` how sure its wording is.
    """

    field: ScalarField | ObjectField | ArrayField
    phrase: Phrase
    rest: str
    length: int
    weight: float

    @cached_property
    def is_whole(self) -> bool:
        """Whether nothing else is said in the phrase."""
        return not any(char.isalnum() for char in self.rest)

    @property
    def wording(self) -> Words:
        """The words of the phrase that are the label."""
        return normalized_words(self.phrase.text.removesuffix(self.rest))


Book = dict[str, list[tuple[ScalarField | ObjectField | ArrayField, float]]]


class Labels:
    """The labels of some fields, by their letters: `Rechnungs-Nr.` is `rechnungsnr`."""

    def __init__(self, fields: Iterable[ScalarField | ObjectField | ArrayField]) -> None:
        self._book: Book = {}
        for field in fields:
            for words, weight in _weights(field.names):
                self._book.setdefault("".join(words), []).append((field, weight))
        self._longest = max(map(len, self._book), default=0)
        self._by_first: dict[str, list[str]] = {}
        for letters in self._book:
            if len(letters) >= FORGIVING:
                self._by_first.setdefault(letters[0], []).append(letters)

    def of(self, phrase: Phrase) -> list[Label]:
        """The labels that a phrase begins with: those of the longest wording, and where its first
        words may be left out or are a rate, those without them."""
        found = self._from(phrase, 0)
        rate = _RATE.match(phrase.text)
        start = 0 if rate is None else rate.end()
        first = sum(word.end <= start for word in phrase.words)
        if first == 0 and phrase.words and phrase.words[0].text in FILLERS:
            first = 1
        if 0 < first < len(phrase.words):
            known = [label.field.path for label in found]
            found += [one for one in self._from(phrase, first) if one.field.path not in known]
        return found

    def _from(self, phrase: Phrase, first: int) -> list[Label]:
        letters = ""
        best: list[Label] = []
        for word in phrase.words[first:]:
            letters += word.text
            if len(letters) > self._longest + 1:
                break
            rest = phrase.text[word.end :]
            if _GOES_ON.match(rest):
                continue
            for known in self._like(letters):
                found = [
                    Label(field, phrase, rest, len(letters), weight)
                    for field, weight in self._book[known]
                ]
                best = found if not best or best[0].length < len(letters) else [*best, *found]
        return best

    def _like(self, letters: str) -> list[str]:
        if letters in self._book:
            return [letters]
        if len(letters) < FORGIVING or any(char.isdigit() for char in letters):
            return []
        near = self._by_first.get(letters[0], [])
        # A letter more or less at the end is the next word's, not a mistake.
        whole = [one for one in near if not (one.startswith(letters) or letters.startswith(one))]
        return [one for one in whole if Levenshtein.distance(one, letters, score_cutoff=1) <= 1][:1]


def labels_on(paper: Paper, labels: Labels) -> dict[int, list[Label]]:
    """By phrase number, the phrases that are or begin with labels."""
    return {phrase.number: found for phrase in paper.phrases if (found := labels.of(phrase))}


def _weights(names: FieldNames) -> Sequence[tuple[Words, float]]:
    weights = [(names.own, OWN), (names.others, OTHERS), (names.hints, HINTS)]
    found: dict[Words, float] = {}
    for phrases, weight in weights:
        for phrase in phrases:
            found.setdefault(phrase, weight)
    return list(found.items())
