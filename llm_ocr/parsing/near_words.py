"""Which of many words are like one: few characters put in, taken out or changed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from llm_ocr.parsing.words import distance

# One of the parts of a word, which one, and the words of one length that have it at that place.
_Parts = dict[tuple[int, str], list[str]]


class NearWords:
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
