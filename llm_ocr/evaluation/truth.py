"""Ground truth: what pages or documents say, and how near a reading comes to it."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from llm_ocr.evaluation.headings import HeadingScore, score_headings
from llm_ocr.evaluation.intervals import Mean, mean
from llm_ocr.evaluation.order import paragraphs, reading_order
from llm_ocr.evaluation.page_tests import Problem
from llm_ocr.evaluation.readings import Documents, PageRead, Readings, find_documents, page_file
from llm_ocr.evaluation.tables import match_tables, tables_of
from llm_ocr.evaluation.text import edit_distance, plain
from llm_ocr.text.table_markup import is_markdown_row, split_at_tables

# What OmniDocBench marks but leaves out of its text: what runs on every page, and what is no text.
_LEFT_OUT = frozenset(
    {
        *("header", "footer", "page_number", "page_footnote", "figure", "need_mask", "abandon"),
        *("text_mask", "table_mask", "equation_caption", "organic_chemical_formula_mask"),
    }
)


@dataclass(frozen=True)
class Truth:
    """What a page says, as Markdown or plain text; a whole document where `page` is None.

    `document` is a path, as that of a test; `source` the file (and entry) it is from.
    """

    document: str
    page: int | None
    text: str
    source: str


@dataclass(frozen=True)
class Measured:
    """How near a page, or a document, comes to its truth. Distances are 0..1, 0 being the same;
    TEDS is 0..1, 1 being the same, one for each table of the truth."""

    truth: Truth
    document: str
    page_id: str | None
    said: str
    error: str | None
    edits: float
    order: float
    teds: tuple[float, ...]
    structure: tuple[float, ...]
    headings: HeadingScore


@dataclass(frozen=True)
class TruthEvaluation:
    """The pages of ground truth as they were read, and what of it could not be used."""

    place: str
    pages: tuple[Measured, ...]
    problems: tuple[Problem, ...]

    @cached_property
    def means(self) -> Mapping[str, Mean]:
        """The measures by name, over pages or tables; those that there are."""
        found = {
            "edit distance": self._mean(lambda one: (one.edits,)),
            "reading order distance": self._mean(lambda one: (one.order,)),
            "TEDS of tables": self._mean(lambda one: one.teds),
            "TEDS of their structure": self._mean(lambda one: one.structure),
        }
        return {name: one for name, one in found.items() if one is not None}

    @property
    def headings(self) -> HeadingScore:
        return sum((page.headings for page in self.pages), HeadingScore(0, 0, 0, 0))

    @property
    def failed_pages(self) -> int:
        return sum(page.error is not None for page in self.pages)

    def _mean(self, values: Callable[[Measured], Sequence[float]]) -> Mean | None:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            by_document[page.document] += values(page)
        return mean(by_document)


def load_truth(files: Sequence[tuple[Path, Path]]) -> tuple[list[Truth], list[Problem]]:
    """The truth in Markdown, text and OmniDocBench's JSON files, each given with the folder that
    names count from."""
    found: list[Truth] = []
    problems: list[Problem] = []
    for file, folder in files:
        try:
            text = file.read_text("utf-8-sig")
            if file.suffix.lower() == ".json":
                found += _omnidocbench(file, text, problems)
            else:
                name, page, _ = page_file(file.relative_to(folder))
                found.append(Truth(f"{name}{file.suffix}", page, text, str(file)))
        except UnicodeDecodeError as error:
            problems.append(Problem(str(file), f"is no UTF-8 ({error.reason}); save it as UTF-8"))
        except OSError as error:
            problems.append(Problem(str(file), f"can't be read: {error.strerror}"))
        except json.JSONDecodeError as error:
            problems.append(Problem(f"{file}:{error.lineno}", f"no JSON: {error.msg}"))
    return found, problems


def _omnidocbench(file: Path, text: str, problems: list[Problem]) -> Iterator[Truth]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        problems.append(Problem(str(file), "is no list of pages, as OmniDocBench's is"))
        return
    for k, entry in enumerate(entries):
        place = f"{file}[{k}]"
        try:
            name = Path(str(entry["page_info"]["image_path"])).name
            boxes = sorted(_kept(entry["layout_dets"]), key=lambda box: box["order"])
            yield Truth(name, 1, "\n\n".join(filter(None, map(_said, boxes))), place)
        except (KeyError, TypeError, AttributeError) as error:
            why = f"is no page of OmniDocBench: {type(error).__name__} {error}"
            problems.append(Problem(place, why))


def _kept(boxes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for box in boxes:
        is_text = box["category_type"] not in _LEFT_OUT and not box.get("ignore")
        if is_text and box.get("order") is not None:
            yield box


def _said(box: Mapping[str, Any]) -> str:
    kind, text = box["category_type"], str(box.get("text") or "")
    if kind == "table":
        return str(box.get("html") or text)
    if kind == "equation_isolated":
        return f"$${str(box.get('latex') or text).strip('$ ')}$$"
    return f"# {text}" if kind == "title" and text else text


def compare(
    readings: Readings, truths: Sequence[Truth], problems: Sequence[Problem]
) -> TruthEvaluation:
    """The measures of pages (or of whole documents) that there is truth of; truth of no page is a
    problem. Pages are read once."""
    documents = find_documents({one.document for one in truths}, readings.numbers())
    wanted: dict[tuple[str, int | None], Truth] = {}
    lost = [*problems]
    for truth in truths:
        why = _unplaced(readings.place, truth, documents)
        if why is None:
            wanted[documents.found[truth.document][0], truth.page] = truth
        else:
            lost.append(Problem(truth.source, why))
    pages = tuple(_measured(readings.pages({name for name, _ in wanted}), wanted))
    return TruthEvaluation(readings.place, pages, tuple(lost))


def _unplaced(place: str, truth: Truth, documents: Documents) -> str | None:
    if truth.document in documents.ambiguous:
        names = ", ".join(documents.ambiguous[truth.document][:3])
        return f"{truth.document} may be {names} of {place}; name more of its folders"
    if truth.document not in documents.found:
        return f"{truth.document} is no document of {place}"
    numbers = documents.found[truth.document][1]
    if truth.page is None or truth.page in numbers or numbers == {0}:
        return None
    return f"{truth.document} has no page {truth.page} in {place}"


def _measured(
    pages: Iterable[PageRead], wanted: Mapping[tuple[str, int | None], Truth]
) -> Iterator[Measured]:
    whole: dict[str, list[PageRead]] = defaultdict(list)
    for page in pages:
        if (page.document, None) in wanted:
            whole[page.document].append(page)
        for key, truth in wanted.items() if not page.number else ():
            # A document that could not be opened.
            if key[0] == page.document and key[1] is not None:
                yield _measure(truth, page.document, [page])
        own = wanted.get((page.document, page.number)) if page.number else None
        if own is not None:
            yield _measure(own, page.document, [page])
    for document, some in whole.items():
        some.sort(key=lambda page: page.number)
        yield _measure(wanted[document, None], document, some)


def _measure(truth: Truth, document: str, pages: Sequence[PageRead]) -> Measured:
    said = "\n\n".join(page.markdown for page in pages)
    error = next((page.error for page in pages if page.error is not None), None)
    matches = match_tables(tables_of(truth.text), tables_of(said))
    return Measured(
        *(truth, document, pages[0].page_id, said, error),
        edits=edit_distance(plain(without_tables(truth.text)), plain(without_tables(said))),
        order=reading_order(paragraphs(truth.text), said).distance,
        teds=tuple(match.teds for match in matches),
        structure=tuple(match.structure for match in matches),
        headings=score_headings(truth.text, said),
    )


def without_tables(markdown: str) -> str:
    """A text without its tables, which TEDS is for."""
    pieces = (piece for is_table, piece in split_at_tables(markdown) if not is_table)
    lines = "\n\n".join(pieces).split("\n")
    return "\n".join(line for line in lines if not is_markdown_row(line))
