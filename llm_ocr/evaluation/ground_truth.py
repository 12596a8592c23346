"""Evaluate predictions against ground truth: the text of pages or documents."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from llm_ocr.evaluation.headings import HeadingScore, score_headings
from llm_ocr.evaluation.intervals import Mean, estimate_mean
from llm_ocr.evaluation.predictions import (
    DocumentMatches,
    InputProblem,
    PagePrediction,
    Predictions,
    match_documents,
    parse_file_name,
)
from llm_ocr.evaluation.reading_order import find_paragraphs, measure_reading_order
from llm_ocr.evaluation.table_similarity import match_tables
from llm_ocr.evaluation.text_similarity import edit_distance, strip_markup
from llm_ocr.text.table_markup import is_markdown_row, read_tables, split_at_tables

# Categories that OmniDocBench does not evaluate as text: headers, footers and what is not text.
_IGNORED_CATEGORIES = frozenset(
    {
        *("header", "footer", "page_number", "page_footnote", "figure", "need_mask", "abandon"),
        *("text_mask", "table_mask", "equation_caption", "organic_chemical_formula_mask"),
    }
)


@dataclass(frozen=True)
class GroundTruth:
    """The text of a page as Markdown or plain text; of the whole document if `page` is None.

    `document` is a path as in a page test; `source` is the file (and entry) of the ground truth.
    """

    document: str
    page: int | None
    text: str
    source: str


@dataclass(frozen=True)
class PageMetrics:
    """A page or document compared with its ground truth. Distances are 0..1, where 0 is identical;
    TEDS is 0..1, where 1 is identical, with one value for each table of the ground truth."""

    truth: GroundTruth
    document: str
    page_id: str | None
    prediction: str
    error: str | None
    edit_distance: float
    order_distance: float
    teds: tuple[float, ...]
    teds_structure: tuple[float, ...]
    headings: HeadingScore


@dataclass(frozen=True)
class GroundTruthEvaluation:
    """The metrics of pages with ground truth, and ground truth that could not be used."""

    uri: str
    pages: tuple[PageMetrics, ...]
    problems: tuple[InputProblem, ...]

    @cached_property
    def means(self) -> Mapping[str, Mean]:
        """The means over pages or tables by name, without those that have no values."""
        means = {
            "edit distance": self._mean(lambda page: (page.edit_distance,)),
            "reading order distance": self._mean(lambda page: (page.order_distance,)),
            "TEDS of tables": self._mean(lambda page: page.teds),
            "TEDS of their structure": self._mean(lambda page: page.teds_structure),
        }
        return {name: mean for name, mean in means.items() if mean is not None}

    @property
    def headings(self) -> HeadingScore:
        return sum((page.headings for page in self.pages), HeadingScore(0, 0, 0, 0))

    @property
    def failed_pages(self) -> int:
        return sum(page.error is not None for page in self.pages)

    def _mean(self, values: Callable[[PageMetrics], Sequence[float]]) -> Mean | None:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            by_document[page.document] += values(page)
        return estimate_mean(by_document)


def load_ground_truth(
    files: Sequence[tuple[Path, Path]],
) -> tuple[list[GroundTruth], list[InputProblem]]:
    """The ground truth in Markdown, text and OmniDocBench JSON files, each with the folder that its
    name is relative to."""
    ground_truths: list[GroundTruth] = []
    problems: list[InputProblem] = []
    for file, folder in files:
        try:
            text = file.read_text("utf-8-sig")
            if file.suffix.lower() == ".json":
                ground_truths += _parse_omnidocbench(file, text, problems)
            else:
                name, page, _ = parse_file_name(file.relative_to(folder))
                ground_truths.append(GroundTruth(f"{name}{file.suffix}", page, text, str(file)))
        except UnicodeDecodeError as error:
            problems.append(
                InputProblem(str(file), f"is not UTF-8 ({error.reason}); save it as UTF-8")
            )
        except OSError as error:
            problems.append(InputProblem(str(file), f"can't be read: {error.strerror}"))
        except json.JSONDecodeError as error:
            problems.append(InputProblem(f"{file}:{error.lineno}", f"invalid JSON: {error.msg}"))
    return ground_truths, problems


def _parse_omnidocbench(
    file: Path, text: str, problems: list[InputProblem]
) -> Iterator[GroundTruth]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        problems.append(InputProblem(str(file), "is not a list of pages as in OmniDocBench"))
        return
    for k, entry in enumerate(entries):
        location = f"{file}[{k}]"
        try:
            name = Path(str(entry["page_info"]["image_path"])).name
            boxes = sorted(_text_boxes(entry["layout_dets"]), key=lambda box: box["order"])
            yield GroundTruth(
                name, 1, "\n\n".join(filter(None, map(_to_markdown, boxes))), location
            )
        except (KeyError, TypeError, AttributeError) as error:
            message = f"is not a page of OmniDocBench: {type(error).__name__} {error}"
            problems.append(InputProblem(location, message))


def _text_boxes(boxes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for box in boxes:
        is_text = box["category_type"] not in _IGNORED_CATEGORIES and not box.get("ignore")
        if is_text and box.get("order") is not None:
            yield box


def _to_markdown(box: Mapping[str, Any]) -> str:
    kind, text = box["category_type"], str(box.get("text") or "")
    if kind == "table":
        return str(box.get("html") or text)
    if kind == "equation_isolated":
        return f"$${str(box.get('latex') or text).strip('$ ')}$$"
    return f"# {text}" if kind == "title" and text else text


def evaluate(
    predictions: Predictions, truths: Sequence[GroundTruth], problems: Sequence[InputProblem]
) -> GroundTruthEvaluation:
    """The metrics of pages (or whole documents) that have ground truth; ground truth without a page
    is reported as a problem. Pages are read once."""
    documents = match_documents({truth.document for truth in truths}, predictions.page_numbers())
    wanted: dict[tuple[str, int | None], GroundTruth] = {}
    all_problems = [*problems]
    for truth in truths:
        reason = _missing_page(predictions.uri, truth, documents)
        if reason is None:
            wanted[documents.matched[truth.document][0], truth.page] = truth
        else:
            all_problems.append(InputProblem(truth.source, reason))
    pages = tuple(_measure_pages(predictions.pages({name for name, _ in wanted}), wanted))
    return GroundTruthEvaluation(predictions.uri, pages, tuple(all_problems))


def _missing_page(uri: str, truth: GroundTruth, documents: DocumentMatches) -> str | None:
    if truth.document in documents.ambiguous:
        names = ", ".join(documents.ambiguous[truth.document][:3])
        return f"{truth.document} is ambiguous in {uri}: {names}; give more of its path"
    if truth.document not in documents.matched:
        return f"{uri} has no document {truth.document}"
    numbers = documents.matched[truth.document][1]
    if truth.page is None or truth.page in numbers or numbers == {0}:
        return None
    return f"{truth.document} has no page {truth.page} in {uri}"


def _measure_pages(
    pages: Iterable[PagePrediction], wanted: Mapping[tuple[str, int | None], GroundTruth]
) -> Iterator[PageMetrics]:
    documents: dict[str, list[PagePrediction]] = defaultdict(list)
    for page in pages:
        if (page.document, None) in wanted:
            documents[page.document].append(page)
        for key, truth in wanted.items() if not page.number else ():
            # A document that could not be opened.
            if key[0] == page.document and key[1] is not None:
                yield _measure(truth, page.document, [page])
        own = wanted.get((page.document, page.number)) if page.number else None
        if own is not None:
            yield _measure(own, page.document, [page])
    for document, document_pages in documents.items():
        document_pages.sort(key=lambda page: page.number)
        yield _measure(wanted[document, None], document, document_pages)


def _measure(truth: GroundTruth, document: str, pages: Sequence[PagePrediction]) -> PageMetrics:
    prediction = "\n\n".join(page.markdown for page in pages)
    error = next((page.error for page in pages if page.error is not None), None)
    matches = match_tables(read_tables(truth.text), read_tables(prediction))
    return PageMetrics(
        *(truth, document, pages[0].page_id, prediction, error),
        edit_distance=edit_distance(
            strip_markup(without_tables(truth.text)), strip_markup(without_tables(prediction))
        ),
        order_distance=measure_reading_order(find_paragraphs(truth.text), prediction).distance,
        teds=tuple(match.teds for match in matches),
        teds_structure=tuple(match.teds_structure for match in matches),
        headings=score_headings(truth.text, prediction),
    )


def without_tables(markdown: str) -> str:
    """A text without its tables, which TEDS compares."""
    pieces = (piece for is_table, piece in split_at_tables(markdown) if not is_table)
    lines = "\n\n".join(pieces).split("\n")
    return "\n".join(line for line in lines if not is_markdown_row(line))
