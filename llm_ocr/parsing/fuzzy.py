"""Find runs of words that differ from a text by a few characters."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from rapidfuzz.distance import Levenshtein

from llm_ocr.parsing.text_spans import Occurrence, TextToken, TokenSequence, occurrence_between
from llm_ocr.records import MatchType
from llm_ocr.text.negation import CHARACTERS_PER_ERROR, contradict
from llm_ocr.text.normalize import same_digits, words_in

# Wrong characters, however long the value is.
MAX_ERRORS = 12
# How many words of a value are looked up to find similar text, and at how many positions each.
SEEDS, POSITIONS_PER_SEED = 3, 24
# Words shorter than this resemble too many others to be looked up by similarity.
MIN_SIMILAR_CHARACTERS = 4
# The shortest word that is taken for several words of the value with the spaces lost.
MIN_MERGED_CHARACTERS = 6

# A number of a part, and the part -> the words of one length with that part in that place.
_WordsByPart = dict[tuple[int, str], list[str]]


class EditDistanceIndex:
    """Words, to be searched for those within an edit distance of another word.

    With `max_errors` wrong characters, at least one of `max_errors + 1` parts of a word is intact
    and shifted by `max_errors` at most: only words that share such a part are compared. For 500
    look-ups among 50,000 words this takes a seventh of the time that comparing with all of a
    similar length does.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._by_length: dict[int, list[str]] = defaultdict(list)
        for word in words:
            self._by_length[len(word)].append(word)
        self._by_part: dict[tuple[int, int], _WordsByPart] = {}

    def within(self, word: str, max_errors: int) -> Iterator[str]:
        """The words that are at most `max_errors` edits away, in no particular order."""
        for length in range(max(1, len(word) - max_errors), len(word) + max_errors + 1):
            if length not in self._by_length:
                continue
            for candidate in self._candidates(word, length, max_errors):
                if Levenshtein.distance(word, candidate, score_cutoff=max_errors) <= max_errors:
                    yield candidate

    def _candidates(self, word: str, length: int, max_errors: int) -> set[str]:
        """Words of a length that share one of their `max_errors + 1` parts with a word."""
        if length <= max_errors:
            return set(self._by_length[length])
        by_part = self._words_by_part(length, max_errors + 1)
        candidates: set[str] = set()
        for number, (start, end) in enumerate(_part_bounds(length, max_errors + 1)):
            for at in range(max(0, start - max_errors), min(len(word), start + max_errors) + 1):
                candidates.update(by_part.get((number, word[at : at + end - start]), ()))
        return candidates

    def _words_by_part(self, length: int, count: int) -> _WordsByPart:
        """The words of a length by each of their `count` parts; built once."""
        if (length, count) not in self._by_part:
            by_part: _WordsByPart = defaultdict(list)
            bounds = list(enumerate(_part_bounds(length, count)))
            for word in self._by_length[length]:
                for number, (start, end) in bounds:
                    by_part[number, word[start:end]].append(word)
            self._by_part[length, count] = by_part
        return self._by_part[length, count]


def _part_bounds(length: int, count: int) -> Iterator[tuple[int, int]]:
    for k in range(count):
        yield k * length // count, (k + 1) * length // count


class FuzzyMatcher:
    """Finds the runs of words of a document that are similar to a text."""

    def __init__(self, tokens: TokenSequence) -> None:
        self._tokens = tokens
        self._positions = tokens.positions

    @cached_property
    def _similar_words(self) -> EditDistanceIndex:
        return EditDistanceIndex(self._positions)

    @cached_property
    def _text(self) -> str:
        """All words, without spaces."""
        return "".join(self._tokens.texts)

    @cached_property
    def _ends(self) -> list[int]:
        """Where each word begins in `_text`, and where the last one ends."""
        return [0, *accumulate(map(len, self._tokens.texts))]

    def occurrences(self, value: str) -> list[Occurrence]:
        """The runs that differ from a text by a few characters: those with the fewest errors."""
        words = [word.text for word in words_in(value)]
        joined = "".join(words)
        max_errors = min(MAX_ERRORS, len(joined) // CHARACTERS_PER_ERROR)
        fewest, found = max_errors, dict[tuple[int, int], Occurrence]()
        for first, count in sorted(set(self._candidate_runs(words))):
            errors = self._errors(joined, first, count, fewest)
            if errors > fewest:
                continue
            run = self._tokens.run(first, count)
            if not run or not _means_the_same(value, words, run, errors):
                continue
            if errors < fewest:
                fewest, found = errors, {}
            how = MatchType.FUZZY if errors else MatchType.NORMALIZED
            key = (run[0].span, run[0].start)
            found[key] = occurrence_between(how, run[0], run[-1], 1 - errors / len(joined))
        return list(found.values())

    def _errors(self, joined: str, first: int, count: int, most: int) -> int:
        """The edit distance between a text and a run of words; `most + 1` where it is larger."""
        ends, last = self._ends, first + count
        if first < 0 or last >= len(ends):
            return most + 1
        start, end = ends[first], ends[last]
        if abs(end - start - len(joined)) > most:
            return most + 1
        return Levenshtein.distance(joined, self._text[start:end], score_cutoff=most)

    def _candidate_runs(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Runs of words that may be similar to these: the first word and how many."""
        if not words:
            return
        known = [k for k in range(len(words)) if words[k] in self._positions]
        known.sort(key=lambda k: len(self._positions[words[k]]))
        for k in known[:SEEDS]:
            yield from self._runs_around(words, k, self._positions[words[k]])
        if not known:
            longest = max(range(len(words)), key=lambda k: len(words[k]))
            for similar in self._words_similar_to(words[longest]):
                yield from self._runs_around(words, longest, self._positions[similar])
            # Words of the value that are merged into one on the page resemble none of its words.
            for merged in self._merged_words(words):
                yield from self._runs_around(words, 0, self._positions[merged])

    def _runs_around(
        self, words: Sequence[str], k: int, positions: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Runs that have the word `k` at one of some positions, give or take a word."""
        for at in positions[:POSITIONS_PER_SEED]:
            for first in range(at - k - 1, at - k + 2):
                for count in range(max(1, len(words) - 1), len(words) + 2):
                    if first <= at:
                        yield first, count
        if len(words) > 2:
            yield from (
                (at - k, count)
                for at in positions[:POSITIONS_PER_SEED]
                for count in range(1, len(words) - 1)
            )

    def _words_similar_to(self, word: str) -> Iterator[str]:
        if len(word) >= MIN_SIMILAR_CHARACTERS:
            max_errors = max(1, len(word) // CHARACTERS_PER_ERROR)
            yield from self._similar_words.within(word, min(max_errors, MAX_ERRORS))

    def _merged_words(self, words: Sequence[str]) -> Iterator[str]:
        """Words of the page that begin the value when its spaces are removed."""
        joined = "".join(words)
        if len(words) > 1:
            beginnings = (joined[:end] for end in range(MIN_MERGED_CHARACTERS, len(joined) + 1))
            yield from (word for word in beginnings if word in self._positions)


def _means_the_same(
    value: str, words: Sequence[str], run: Sequence[TextToken], errors: int
) -> bool:
    texts = [token.text for token in run]
    if not same_digits(value, " ".join(texts)):
        return False
    return errors == 0 or not contradict(words, texts)
