"""Find runs of words that differ from a text by a few characters."""

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from llm_ocr.parsing.schema import MatchType
from llm_ocr.parsing.text_spans import Occurrence, TextToken, TokenSequence, occurrence_between
from llm_ocr.text.negation import CHARACTERS_PER_ERROR, contradict
from llm_ocr.text.normalize import distance, same_digits, words_in

# One of the parts of a word, which one, and the words of one length that have it at that place.
_Parts = dict[tuple[int, str], list[str]]


class EditDistanceIndex:
    """Some words, asked for those that differ from another in few characters.

    With `most` characters wrong, at least one of `most + 1` parts of a word is right, and at most
    `most` places off: only words that share such a part are compared.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._by_length: dict[int, list[str]] = defaultdict(list)
        for word in words:
            self._by_length[len(word)].append(word)
        self._parted: dict[tuple[int, int], _Parts] = {}

    def like(self, word: str, most: int) -> Iterator[str]:
        """The words that are at most `most` characters from one, in no order."""
        for length in range(max(1, len(word) - most), len(word) + most + 1):
            if length in self._by_length:
                for one in self._sharing(word, length, most):
                    if distance(word, one, most) <= most:
                        yield one

    def _sharing(self, word: str, length: int, most: int) -> set[str]:
        """Words of a length that have one of their `most + 1` parts in common with a word."""
        if length <= most:
            return set(self._by_length[length])
        parted = self._in_parts(length, most + 1)
        found: set[str] = set()
        for number, (start, end) in enumerate(_cuts(length, most + 1)):
            for at in range(max(0, start - most), min(len(word), start + most) + 1):
                found.update(parted.get((number, word[at : at + end - start]), ()))
        return found

    def _in_parts(self, length: int, count: int) -> _Parts:
        """The words of a length by each of their parts; made once."""
        if (length, count) not in self._parted:
            parted: _Parts = defaultdict(list)
            cuts = list(enumerate(_cuts(length, count)))
            for word in self._by_length[length]:
                for number, (start, end) in cuts:
                    parted[number, word[start:end]].append(word)
            self._parted[length, count] = parted
        return self._parted[length, count]


def _cuts(length: int, count: int) -> Iterator[tuple[int, int]]:
    for k in range(count):
        yield k * length // count, (k + 1) * length // count


MAX_ERRORS = 12
# How many words of a value are looked up to find texts like it, and at how many places each.
SEEDS, PLACES = 3, 24
# How many letters are told apart, and in texts up to which length.
LETTERS, LONGEST = 32, 16_000
# Between fewer of a letter and more of it than a value has.
_MIDDLE = 1 << 15
_MIDDLES = sum(_MIDDLE << (16 * k) for k in range(LETTERS))


class FuzzyMatcher:
    """The runs of words that are like a text."""

    def __init__(self, tokens: TokenSequence) -> None:
        self._tokens = tokens
        self._places = tokens.places

    @cached_property
    def _near_words(self) -> EditDistanceIndex:
        return EditDistanceIndex(self._places)

    @cached_property
    def _letters(self) -> list[int]:
        """What each word is made of."""
        known = {text: _letters(text) for text in self._places}
        return [known[token.text] for token in self._tokens.all]

    @cached_property
    def _ends(self) -> list[int]:
        """How many characters there are before each word, and behind the last."""
        return [0, *accumulate(len(token.text) for token in self._tokens.all)]

    def places(self, value: str) -> list[Occurrence]:
        """The runs that differ from a text by few characters, the likest ones."""
        words = [word.text for word in words_in(value)]
        joined = "".join(words)
        most = min(MAX_ERRORS, len(joined) // CHARACTERS_PER_ERROR)
        if not words:
            return []
        best, found = most + 1, dict[tuple[int, int], Occurrence]()
        for first, count in self._likely(joined, sorted(set(self._windows(words))), most):
            allowed = min(best, most)
            run = self._tokens.run(first, count)
            apart = distance(joined, "".join(token.text for token in run), allowed)
            if apart > allowed or not _says_the_same(value, words, run, apart):
                continue
            if apart < best:
                best, found = apart, {}
            how = MatchType.FUZZY if apart else MatchType.NORMALIZED
            key = (run[0].span, run[0].start)
            found[key] = occurrence_between(how, run[0], run[-1], 1 - apart / len(joined))
        return list(found.values())

    def _likely(
        self, joined: str, windows: Iterable[tuple[int, int]], most: int
    ) -> Iterator[tuple[int, int]]:
        """Those runs that can be within `most` characters, by what letters they are made of."""
        ends, size = self._ends, len(joined)
        letters = _letters(joined) + _MIDDLES if size < LONGEST else None
        for first, count in windows:
            last = first + count
            if first < 0 or last >= len(ends):
                continue
            more = ends[last] - ends[first] - size
            if not -most <= more <= most:
                continue
            missing = 0
            if letters is not None:
                apart = letters - sum(self._letters[first:last])
                fields = array("H", apart.to_bytes(2 * LETTERS, sys.byteorder))
                missing = sum([one - _MIDDLE for one in fields if one > _MIDDLE])
            if missing <= most and missing + more <= most:
                yield first, count

    def _windows(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Runs of words that may be like these: the first word and how many."""
        known = [k for k in range(len(words)) if words[k] in self._places]
        known.sort(key=lambda k: len(self._places[words[k]]))
        for k in known[:SEEDS]:
            yield from self._around(words, k, self._places[words[k]])
        if not known:
            longest = max(range(len(words)), key=lambda k: len(words[k]))
            for near in self._near(words[longest]):
                yield from self._around(words, longest, self._places[near])
            # What was run together with its neighbors is like no word of the value.
            for glued in self._glued(words):
                yield from self._around(words, 0, self._places[glued])

    def _around(
        self, words: Sequence[str], k: int, places: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Runs that have the word `k` at one of some places, give or take a word."""
        for at in places[:PLACES]:
            for first in range(at - k - 1, at - k + 2):
                for count in range(max(1, len(words) - 1), len(words) + 2):
                    if first <= at:
                        yield first, count
        if len(words) > 2:
            yield from (
                (at - k, count) for at in places[:PLACES] for count in range(1, len(words) - 1)
            )

    def _near(self, word: str) -> Iterator[str]:
        if len(word) >= 4:
            most = max(1, len(word) // CHARACTERS_PER_ERROR)
            yield from self._near_words.like(word, min(most, MAX_ERRORS))

    def _glued(self, words: Sequence[str]) -> Iterator[str]:
        whole = "".join(words)
        if len(words) > 1:
            starts = (whole[:length] for length in range(6, len(whole) + 1))
            yield from (one for one in starts if one in self._places)


def _letters(text: str) -> int:
    """How often each letter is in a text, in 16 bits each; the rarer ones share with others."""
    made_of = 0
    for char in text[: LONGEST + MAX_ERRORS]:
        made_of += 1 << (16 * (ord(char) % LETTERS))
    return made_of


def _says_the_same(value: str, words: Sequence[str], run: Sequence[TextToken], apart: int) -> bool:
    texts = [token.text for token in run]
    if not same_digits(value, " ".join(texts)):
        return False
    return apart == 0 or not contradict(words, texts)
