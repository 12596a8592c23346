"""Propose page tests from a run of your documents, for a person to confirm.

A run can't prove itself right: sentences are proposed as predicted, with the reason to trust or
doubt them from the PDF's own text, if it has any. A person confirms them by looking at the page.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pypdfium2 as pdfium
from rapidfuzz import fuzz

from llm_ocr.evaluation.diagnostics import draw_sample
from llm_ocr.evaluation.ground_truth import without_tables
from llm_ocr.evaluation.olmocr_bench.fuzzy_search import find_nearest
from llm_ocr.evaluation.predictions import body_markdown
from llm_ocr.evaluation.text_similarity import normalize_text, strip_markup
from llm_ocr.records import FURNITURE_LABELS, PageStatus
from llm_ocr.sources.text_layer import PdfTextPage
from llm_ocr.storage.store import open_snapshot
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import unescape_markdown
from llm_ocr.text.table_markup import TableCell, TableGrid, read_tables

# Sentences long enough to be unique, and short enough to be checked by eye.
MIN_LENGTH, MAX_LENGTH = 30, 120
# One character in this many may differ.
CHARACTERS_PER_DIFF = 40
# Pages sampled per test, so that tests come from many pages.
PAGES_PER_TEST = 2
MIN_SIMILARITY = 90.0
_SENTENCE_BREAK = re.compile(r"(?<=[.!?。])\s+")
_COLUMNS = ["page_id", "name", "source_uri", "page_number", "markdown", "blocks", "status"]
T = TypeVar("T")
_NUMBER = re.compile(r"[-+(]?[\d.,]*\d[\d.,]*[%)]?")


@dataclass(frozen=True)
class Proposal:
    """A test as in a line of a JSONL file, and the reason to propose it."""

    test: Mapping[str, Any]
    reason: str

    def with_fields(self, **fields: object) -> "Proposal":
        """The proposal with some fields of the test replaced, to correct it."""
        return replace(self, test={**self.test, **fields})


@dataclass(frozen=True)
class _Page:
    """A page to propose tests for."""

    pdf: str
    number: int
    text: str
    furniture: Sequence[str]
    layer: str | None
    generator: random.Random = field(repr=False)

    @property
    def paragraphs(self) -> list[str]:
        pieces = without_tables(self.text).split("\n\n")
        return [text for piece in pieces if len(text := strip_markup(piece)) >= MIN_LENGTH]


def propose_tests(run: str | Path, count: int = 20, seed: int = 0) -> list[Proposal]:
    """Propose about `count` tests of random pages, of all kinds that the pages allow."""
    store = open_snapshot(str(run))
    generator = random.Random(seed)
    sampled = draw_sample(store, PAGES_PER_TEST * count, seed).page_ids
    by_kind: dict[str, list[Proposal]] = {kind: [] for kind in _PROPOSERS}
    for row in read_table(store, "pages", _COLUMNS, ("page_id", sampled)):
        if row["status"] != PageStatus.FAILED:
            page = _read_page(row, generator)
            for kind, proposals in _PROPOSERS.items():
                by_kind[kind] += proposals(page)
    for of_kind in by_kind.values():
        generator.shuffle(of_kind)
    # Round-robin over the kinds, so that rare ones are included.
    rounds = zip_longest(*by_kind.values())
    mixed = (proposal for turn in rounds for proposal in turn if proposal is not None)
    chosen = list(islice(mixed, count))
    chosen.sort(key=lambda proposal: (proposal.test["pdf"], proposal.test["page"]))
    return [_with_id(proposal, k) for k, proposal in enumerate(chosen, 1)]


def write_tests(path: Path, proposals: Iterable[Proposal]) -> int:
    """Write tests to a JSONL file, one per line; returns how many."""
    lines = [json.dumps(dict(proposal.test), ensure_ascii=False) + "\n" for proposal in proposals]
    path.write_text("".join(lines), "utf-8")
    return len(lines)


def _with_id(proposal: Proposal, number: int) -> Proposal:
    stem = PurePosixPath(proposal.test["pdf"]).stem
    return proposal.with_fields(id=f"{stem}_{proposal.test['type']}_{number:02d}")


def _read_page(row: Row, generator: random.Random) -> _Page:
    furniture = [
        strip_markup(block["text"] or "")
        for block in row["blocks"] or ()
        if block["label"] in FURNITURE_LABELS
    ]
    extension = PurePosixPath(row["source_uri"]).suffix
    # As olmOCR-bench names documents: the path relative to the input, with its extension.
    pdf = row["name"] + (extension if "#" not in extension else "")
    text, layer = body_markdown(row), _read_text_layer(row)
    return _Page(pdf, row["page_number"], text, furniture, layer, generator)


def _read_text_layer(row: Row) -> str | None:
    """The PDF's own text, if the file is on this machine and has a usable text layer."""
    path = Path(row["source_uri"].removeprefix("file://"))
    if path.suffix.lower() != ".pdf" or not path.is_file():
        return None
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError:
        return None
    try:
        page = document[row["page_number"] - 1]
        text = PdfTextPage(page)
        layer = text.layer(0, (round(page.get_width()), round(page.get_height())), with_lines=False)
        text.close()
    except (pdfium.PdfiumError, IndexError):
        return None
    finally:
        document.close()
    return strip_markup(layer.text) if layer is not None and layer.is_usable else None


def _present(page: _Page) -> Iterator[Proposal]:
    """Sentences of the prediction, and sentences of the text layer missing from it."""
    predicted = normalize_text(unescape_markdown(page.text))
    for sentence in _draw_two(page, _split_sentences(page.paragraphs)):
        yield _propose(page, "present", _compare_with_layer(page, sentence), text=sentence)
    for sentence in _draw_two(page, _split_sentences([page.layer] if page.layer else [])):
        if fuzz.partial_ratio(sentence, predicted) < MIN_SIMILARITY:
            reason = "in the PDF's own text, but not in the prediction"
            yield _propose(page, "present", reason, text=sentence)


def _absent(page: _Page) -> Iterator[Proposal]:
    """Running headers and footers, which are not part of the body text."""
    body_text = strip_markup(page.text)
    for text in page.furniture:
        if len(text) >= 4 and text not in body_text:
            yield _propose(page, "absent", "predicted as header, footer or page number", text=text)


def _order(page: _Page) -> Iterator[Proposal]:
    """The end of a paragraph and the beginning of the next one."""
    paragraphs = page.paragraphs
    for before, after in _draw_two(page, list(pairwise(paragraphs))):
        texts = {"before": before[-60:].partition(" ")[2], "after": after[:60].rpartition(" ")[0]}
        if all(len(text) >= MIN_LENGTH / 2 for text in texts.values()):
            yield _propose(page, "order", "consecutive in the prediction", **texts)


def _table(page: _Page) -> Iterator[Proposal]:
    """A cell with a number, with the heading of its column and of its row."""
    for table in read_tables(page.text):
        cells = [cell for cell in table.cells if _is_value(table, cell)]
        for cell in _draw_two(page, cells):
            above, left = table.at(0, cell.column), table.at(cell.row, 0)
            headings = {"top_heading": above, "left_heading": left}
            texts = {
                side: strip_markup(heading.text)
                for side, heading in headings.items()
                if heading and heading.text
            }
            if texts:
                reason = _compare_with_layer(page, strip_markup(cell.text))
                yield _propose(page, "table", reason, cell=strip_markup(cell.text), **texts)


def _is_value(table: TableGrid, cell: TableCell) -> bool:
    is_inner = cell.row > 0 and cell.column > 0
    top = table.at(cell.row, cell.column)
    return is_inner and top is not None and _NUMBER.fullmatch(top.text.strip()) is not None


_PROPOSERS: Mapping[str, Callable[[_Page], Iterator[Proposal]]] = {
    "present": _present,
    "table": _table,
    "order": _order,
    "absent": _absent,
}


def _draw_two(page: _Page, candidates: Sequence[T]) -> list[T]:
    """Two random candidates: more of one page would add little."""
    return page.generator.sample(candidates, min(2, len(candidates)))


def _split_sentences(paragraphs: Iterable[str]) -> list[str]:
    """The sentences of suitable length."""
    sentences = (part for paragraph in paragraphs for part in _SENTENCE_BREAK.split(paragraph))
    return [sentence for sentence in sentences if MIN_LENGTH <= len(sentence) <= MAX_LENGTH]


def _compare_with_layer(page: _Page, text: str) -> str:
    if page.layer is None:
        return "predicted; the page has no text layer to compare with"
    if fuzz.partial_ratio(text, page.layer) >= 99.9:
        return "predicted, and in the PDF's own text"
    nearest = find_nearest(text, page.layer, context=0)
    return f"predicted, but the PDF's own text says: {nearest.match if nearest else ''}"


def _propose(page: _Page, kind: str, reason: str, **fields: str) -> Proposal:
    """`max_diffs` lets one letter in forty differ, but no digit of a number."""
    longest = max(map(len, fields.values()))
    diffs = 0 if kind == "table" else longest // CHARACTERS_PER_DIFF
    test = {"pdf": page.pdf, "page": page.number, "id": "", "type": kind, **fields}
    return Proposal({**test, "max_diffs": diffs}, reason)
