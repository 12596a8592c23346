"""Texts on pages that differ from a value by few characters."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from llm_ocr.parsing.near_words import NearWords
from llm_ocr.parsing.opposites import CHARACTERS_PER_ERROR, are_opposed
from llm_ocr.parsing.record import Found
from llm_ocr.parsing.tokens import Occurrence, Token, Tokens, stretch
from llm_ocr.parsing.words import distance, same_digits, words_in

MOST_ERRORS = 12
# How many words of a value are looked up to find texts like it, and at how many places each.
SEEDS, PLACES = 3, 24


class Alike:
    """The runs of words that are like a text."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._places = tokens.places

    @cached_property
    def _near_words(self) -> NearWords:
        return NearWords(self._places)

    @cached_property
    def _letters(self) -> list[int]:
        """For each word the set of its characters, as bits."""
        known = {text: _letters(text) for text in self._places}
        return [known[token.text] for token in self._tokens.all]

    def places(self, value: str) -> list[Occurrence]:
        """The runs that differ from a text by few characters, the likest ones."""
        words = [word.text for word in words_in(value)]
        joined = "".join(words)
        most = min(MOST_ERRORS, len(joined) // CHARACTERS_PER_ERROR)
        if not words:
            return []
        letters = _letters(joined)
        best, found = most + 1, dict[tuple[int, int], Occurrence]()
        for first, count in sorted(set(self._windows(words))):
            allowed = min(best, most)
            if not self._may_be(joined, letters, first, count, allowed):
                continue
            run = self._tokens.run(first, count)
            apart = distance(joined, "".join(token.text for token in run), allowed)
            if apart > allowed or not _says_the_same(value, words, run, apart):
                continue
            if apart < best:
                best, found = apart, {}
            how = Found.FUZZY if apart else Found.NORMALISED
            key = (run[0].piece, run[0].start)
            found[key] = stretch(how, run[0], run[-1], 1 - apart / len(joined))
        return list(found.values())

    def _may_be(self, joined: str, letters: int, first: int, count: int, most: int) -> bool:
        """Whether a run can be within `most` characters, by its length and what it is made of."""
        if first < 0 or abs(self._tokens.length(first, count) - len(joined)) > most:
            return False
        theirs = 0
        for one in self._letters[first : first + count]:
            theirs |= one
        return (
            theirs != 0
            and max((letters & ~theirs).bit_count(), (theirs & ~letters).bit_count()) <= most
        )

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
            # What was run together with its neighbours is like no word of the value.
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
            yield from self._near_words.like(word, min(most, MOST_ERRORS))

    def _glued(self, words: Sequence[str]) -> Iterator[str]:
        whole = "".join(words)
        if len(words) > 1:
            starts = (whole[:length] for length in range(6, len(whole) + 1))
            yield from (one for one in starts if one in self._places)


def _letters(text: str) -> int:
    """The characters of a text as bits; some of them share one."""
    bits = 0
    for char in text:
        bits |= 1 << (ord(char) & 127)
    return bits


def _says_the_same(value: str, words: Sequence[str], run: Sequence[Token], apart: int) -> bool:
    texts = [token.text for token in run]
    if not same_digits(value, " ".join(texts)):
        return False
    return apart == 0 or not are_opposed(words, texts)
