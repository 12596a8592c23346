"""The words of a record's pages in reading order, and stretches of them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.parsing.places import Piece
from llm_ocr.parsing.record import Found
from llm_ocr.parsing.words import Word, words_in


@dataclass(frozen=True)
class Occurrence:
    """A stretch of pieces: from `start` in the first to `end` in the last, of one page.

    `doubtful`: what stands there may as well be something else (03/04/2024).
    """

    found: Found
    first: int
    last: int
    start: int
    end: int
    likeness: float = 1.0
    doubtful: bool = False


@dataclass(frozen=True)
class Token:
    """A word as it is compared, and where in which piece it stands."""

    text: str
    piece: int
    start: int
    end: int


class Tokens:
    """The words of some pieces, one after the other."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.words: list[list[Word]] = [list(words_in(piece.text)) for piece in pieces]
        self.all = [
            Token(word.text, k, word.start, word.end)
            for k, words in enumerate(self.words)
            for word in words
        ]
        self.texts = [token.text for token in self.all]
        self.places: dict[str, list[int]] = defaultdict(list)
        for at, text in enumerate(self.texts):
            self.places[text].append(at)

    def run(self, first: int, count: int) -> Sequence[Token]:
        """`count` words from a place on, if all of them are there, on one page."""
        if first < 0 or first + count > len(self.all):
            return ()
        run = self.all[first : first + count]
        pages = self.pieces[run[0].piece].page, self.pieces[run[-1].piece].page
        return run if pages[0] == pages[1] else ()


def stretch(found: Found, first: Token, last: Token, likeness: float = 1.0) -> Occurrence:
    """From one word to another."""
    return Occurrence(found, first.piece, last.piece, first.start, last.end, likeness)
