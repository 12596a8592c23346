"""How near a field's label is to a place on a page."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from llm_ocr.parsing.seeking import Index
from llm_ocr.parsing.tokens import Occurrence
from llm_ocr.parsing.words import Word, bare
from llm_ocr.parsing.yes_no import is_denied, offered

# How far in front of a value its label may end, in words; in the piece before it counts as
# further off.
REACH = 8
PIECE_BEFORE = 3

Labels = Mapping[str, Sequence[str]]
_Phrases = Sequence[tuple[str, ...]]


class Labelling:
    """The labels of fields, sought in front of places or at the top of their columns."""

    def __init__(self, index: Index, labels: Labels) -> None:
        self._index, self._labels = index, labels
        self._phrases: dict[str, _Phrases] = {}
        self._plain = lru_cache(maxsize=None)(_plain)
        self._words = lru_cache(maxsize=None)(self._words_said)
        self._heading = lru_cache(maxsize=None)(bare)

    def plain(self, path: str) -> str:
        """A path without the numbers of list items."""
        return self._plain(path)

    def score(self, path: str, value: object, one: Occurrence) -> float:
        """How near a label ends in front of a place, or whether one heads its column."""
        labels = self._phrases_of(self.plain(path))
        heading = self._heading(self._index.pieces[one.first].heading)
        before = self._before(one)
        texts = [text for text, _ in before]
        known = set(texts)
        best = 0.0
        for label in labels:
            if heading and heading[: len(label)] == label:
                best = max(best, float(len(label)))
            if label[-1] not in known:
                continue
            for end in range(len(before), len(label) - 1, -1):
                start = end - len(label)
                if tuple(texts[start:end]) != label:
                    continue
                if not isinstance(value, bool) or not is_denied(value, texts[:start], texts[end:]):
                    best = max(best, len(label) / (1 + before[end - 1][1]))
                break
        return best

    def _phrases_of(self, plain: str) -> _Phrases:
        if plain not in self._phrases:
            given = self._labels.get(plain) or [plain.rpartition(".")[2]]
            self._phrases[plain] = [words for words in map(bare, given) if words]
        return self._phrases[plain]

    def _words_said(self, piece: int) -> Sequence[Word]:
        """The words of a piece, blank where they are answers that are offered and not given."""
        words, not_said = self._index.words[piece], offered(self._index.pieces[piece].text)
        if not not_said:
            return words
        return [replace(one, text="") if one.start in not_said else one for one in words]

    def _before(self, one: Occurrence) -> list[tuple[str, int]]:
        """The words in front of a place, and how many words off each of them ends."""
        words = self._words(one.first)
        count = bisect_right(words, one.start, key=lambda word: word.end)
        found = [(words[k].text, count - 1 - k) for k in range(max(0, count - REACH), count)]
        if count < REACH and one.first > 0:
            pieces = self._index.pieces
            same_row = pieces[one.first].row is not None and (
                pieces[one.first].row == pieces[one.first - 1].row
            )
            off = count + (0 if same_row else PIECE_BEFORE)
            tail = self._words(one.first - 1)[-REACH:]
            found = [(w.text, len(tail) - 1 - k + off) for k, w in enumerate(tail)] + found
        return found


def _plain(path: str) -> str:
    return ".".join(part for part in path.split(".") if not part.isdecimal())
