"""Tests for one's own documents, proposed from a run of them, for a person to confirm.

What a run read can't prove itself right: a sentence is proposed as read, and where the PDF has text
of its own, what that says is set beside it. Whoever confirms looks at the page.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pypdfium2 as pdfium
from rapidfuzz import fuzz

from llm_ocr.evaluation.grids import PageTable, tables_of
from llm_ocr.evaluation.near import nearest
from llm_ocr.evaluation.readings import body
from llm_ocr.evaluation.sampling import draw
from llm_ocr.evaluation.text import normalized, plain
from llm_ocr.evaluation.truth import without_tables
from llm_ocr.markdown import unescaped
from llm_ocr.records import FURNITURE_LABELS, PageStatus
from llm_ocr.sources.text_layer import PageText
from llm_ocr.storage.store import open_snapshot
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row

# Sentences that are long enough to stand in one place, and short enough to be checked by eye.
SHORTEST, LONGEST = 30, 120
# Characters to each one that may be read otherwise.
CHARACTERS_A_DIFF = 40
# Pages that are looked at for each test, so that tests come from many of them.
PAGES_A_TEST = 2
ALIKE = 90.0
_SENTENCE = re.compile(r"(?<=[.!?。])\s+")
_COLUMNS = ["page_id", "name", "source_uri", "page_number", "markdown", "blocks", "status"]
T = TypeVar("T")
_NUMBER = re.compile(r"[-+(]?[\d.,]*\d[\d.,]*[%)]?")


@dataclass(frozen=True)
class Proposal:
    """A test as a line of a JSONL file would hold it, and why it is proposed."""

    test: Mapping[str, Any]
    why: str

    def with_text(self, **fields: object) -> "Proposal":
        """The proposal, put right: with other fields of the test."""
        return replace(self, test={**self.test, **fields})


@dataclass(frozen=True)
class _Page:
    """A page that tests are proposed of."""

    pdf: str
    number: int
    text: str
    furniture: Sequence[str]
    layer: str | None
    chance: random.Random = field(repr=False)

    @property
    def paragraphs(self) -> list[str]:
        pieces = without_tables(self.text).split("\n\n")
        return [text for piece in pieces if len(text := plain(piece)) >= SHORTEST]


def propose(run: str | Path, count: int = 20, seed: int = 0) -> list[Proposal]:
    """About `count` tests of a run's pages, of all kinds that the pages allow, drawn by chance."""
    store = open_snapshot(str(run))
    chance = random.Random(seed)
    drawn = draw(store, PAGES_A_TEST * count, seed).page_ids
    by_kind: dict[str, list[Proposal]] = {kind: [] for kind in _PROPOSERS}
    for row in read_table(store, "pages", _COLUMNS, ("page_id", drawn)):
        if row["status"] != PageStatus.FAILED:
            page = _page(row, chance)
            for kind, proposals in _PROPOSERS.items():
                by_kind[kind] += proposals(page)
    for some in by_kind.values():
        chance.shuffle(some)
    # By turns, so that a kind of which there are few is not drowned by the others.
    turns = (one for turn in zip_longest(*by_kind.values()) for one in turn if one is not None)
    chosen = [one for one, _ in zip(turns, range(count), strict=False)]
    chosen.sort(key=lambda one: (one.test["pdf"], one.test["page"]))
    return [_numbered(one, k) for k, one in enumerate(chosen, 1)]


def write_tests(path: Path, proposals: Iterable[Proposal]) -> int:
    """Write tests as a JSONL file, a line each; returns how many."""
    lines = [json.dumps(dict(one.test), ensure_ascii=False) + "\n" for one in proposals]
    path.write_text("".join(lines), "utf-8")
    return len(lines)


def _numbered(proposal: Proposal, number: int) -> Proposal:
    stem = PurePosixPath(proposal.test["pdf"]).stem
    return proposal.with_text(id=f"{stem}_{proposal.test['type']}_{number:02d}")


def _page(row: Row, chance: random.Random) -> _Page:
    furniture = [
        plain(block["text"] or "")
        for block in row["blocks"] or ()
        if block["label"] in FURNITURE_LABELS
    ]
    ending = PurePosixPath(row["source_uri"]).suffix
    # As olmOCR-bench names documents: the path below the input, with its ending.
    pdf = row["name"] + (ending if "#" not in ending else "")
    return _Page(pdf, row["page_number"], body(row), furniture, _layer(row), chance)


def _layer(row: Row) -> str | None:
    """The text of the PDF itself, where it lies on this machine and has any."""
    path = Path(row["source_uri"].removeprefix("file://"))
    if path.suffix.lower() != ".pdf" or not path.is_file():
        return None
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError:
        return None
    try:
        page = document[row["page_number"] - 1]
        text = PageText(page)
        layer = text.layer(0, (round(page.get_width()), round(page.get_height())), with_lines=False)
        text.close()
    except (pdfium.PdfiumError, IndexError):
        return None
    finally:
        document.close()
    return plain(layer.text) if layer is not None and layer.is_usable else None


def _present(page: _Page) -> Iterator[Proposal]:
    """Sentences as read, and sentences of the text layer that were not read."""
    read = normalized(unescaped(page.text))
    for sentence in _some(page, _sentences(page.paragraphs)):
        yield _test(page, "present", _said_by(page, sentence), text=sentence)
    for sentence in _some(page, _sentences([page.layer] if page.layer else [])):
        if fuzz.partial_ratio(sentence, read) < ALIKE:
            yield _test(page, "present", "in the PDF's own text, and not read", text=sentence)


def _absent(page: _Page) -> Iterator[Proposal]:
    """Running headers and footers, which are no part of the text."""
    body_text = plain(page.text)
    for text in page.furniture:
        if len(text) >= 4 and text not in body_text:
            yield _test(page, "absent", "read as a header, footer or page number", text=text)


def _order(page: _Page) -> Iterator[Proposal]:
    """A paragraph's end and the beginning of the next one."""
    paragraphs = page.paragraphs
    for before, after in _some(page, list(pairwise(paragraphs))):
        texts = {"before": before[-60:].partition(" ")[2], "after": after[:60].rpartition(" ")[0]}
        if all(len(text) >= SHORTEST / 2 for text in texts.values()):
            yield _test(page, "order", "read one after the other", **texts)


def _table(page: _Page) -> Iterator[Proposal]:
    """A cell with a number, its heading and what begins its row."""
    for table in tables_of(page.text):
        cells = [one for one in table.cells if _is_value(table, one.row, one.column)]
        for cell in _some(page, cells):
            above, left = table.at(0, cell.column), table.at(cell.row, 0)
            asked = {"top_heading": above, "left_heading": left}
            texts = {side: plain(one.text) for side, one in asked.items() if one and one.text}
            if texts:
                why = _said_by(page, plain(cell.text))
                yield _test(page, "table", why, cell=plain(cell.text), **texts)


def _is_value(table: PageTable, row: int, column: int) -> bool:
    cell = table.at(row, column)
    is_inner = row > 0 and column > 0
    return is_inner and cell is not None and _NUMBER.fullmatch(cell.text.strip()) is not None


_PROPOSERS: Mapping[str, Callable[[_Page], Iterator[Proposal]]] = {
    "present": _present,
    "table": _table,
    "order": _order,
    "absent": _absent,
}


def _some(page: _Page, all_of_them: Sequence[T]) -> list[T]:
    """Two of a page, by chance: the others would say much the same."""
    return page.chance.sample(all_of_them, min(2, len(all_of_them)))


def _sentences(paragraphs: Iterable[str]) -> list[str]:
    found = (one for paragraph in paragraphs for one in _SENTENCE.split(paragraph))
    return [one for one in found if SHORTEST <= len(one) <= LONGEST]


def _said_by(page: _Page, text: str) -> str:
    if page.layer is None:
        return "read; the page has no text of its own to compare"
    alike = fuzz.partial_ratio(text, page.layer)
    if alike >= 99.9:
        return "read, and in the PDF's own text"
    near = nearest(text, page.layer, around=0)
    return f"read, but the PDF's own text says: {near.match if near else ''}"


def _test(page: _Page, kind: str, why: str, **fields: str) -> Proposal:
    """`max_diffs` lets a letter in forty differ, but no number's digit."""
    longest = max(map(len, fields.values()))
    diffs = 0 if kind == "table" else longest // CHARACTERS_A_DIFF
    test = {"pdf": page.pdf, "page": page.number, "id": "", "type": kind, **fields}
    return Proposal({**test, "max_diffs": diffs}, why)
