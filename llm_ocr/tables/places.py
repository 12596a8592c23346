"""The order of a shard's documents, also of those that only reading will count."""

import itertools
from collections.abc import Iterator, Sequence

from llm_ocr.documents import Document

# Rows of one planned document stand between it and the next: no file holds as many.
ROWS_AT_MOST = 1 << 40
# A file in a tar takes a block of 512 bytes at least.
BYTES_A_SAMPLE = 512


class Places(dict[str, int]):
    """`doc_id` -> a number that grows as the documents do in the shard.

    The rows of a document that stands for many are among them. Where nobody counted those, they
    are numbered until the one that is asked for is found.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        super().__init__()
        self._uncounted: list[Iterator[tuple[str, int]]] = []
        for k, document in enumerate(documents):
            place = k * ROWS_AT_MOST
            self[document.doc_id] = place
            if document.row_count is None:
                self._uncounted.append(_rows(document, place))
            else:
                self.update(_rows(document, place))

    def __missing__(self, doc_id: str) -> int:
        while self._uncounted:
            for rows in list(self._uncounted):
                following = dict(itertools.islice(rows, 1024))
                self.update(following)
                if not following:
                    self._uncounted.remove(rows)
            if doc_id in self:
                return self[doc_id]
        raise KeyError(doc_id)


def _rows(document: Document, place: int) -> Iterator[tuple[str, int]]:
    for first, last in document.ranges:
        end = document.size // BYTES_A_SAMPLE if last is None else last
        for number in range(first, end + 1):
            yield document.row(number).doc_id, place + number
