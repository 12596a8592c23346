"""Compare the texts of two runs of the same pages, where nobody knows the right one: how far they
agree, page by page, and which pages only one of them has.

Nothing here says which run is better: two models may agree on the same mistake.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import zip_longest

from llm_ocr.evaluation.ground_truth import without_tables
from llm_ocr.evaluation.headings import HeadingScore, score_headings
from llm_ocr.evaluation.intervals import Mean, Proportion, estimate_mean, estimate_proportion
from llm_ocr.evaluation.predictions import (
    InputProblem,
    NothingToEvaluateError,
    PagePrediction,
    Predictions,
    RunPredictions,
)
from llm_ocr.evaluation.reading_order import find_paragraphs, measure_reading_order
from llm_ocr.evaluation.table_similarity import match_tables
from llm_ocr.evaluation.text_similarity import edit_distance, strip_markup
from llm_ocr.inference.agreement import agreement
from llm_ocr.tables.read import read_table
from llm_ocr.text.table_markup import read_tables

# A document's name in run A, and a page number.
PageKey = tuple[str, int]


class PageGap(StrEnum):
    """Why the texts of a page can't be compared."""

    ONLY_A = "only in A"
    ONLY_B = "only in B"
    FAILED_A = "failed in A"
    FAILED_B = "failed in B"
    FAILED_BOTH = "failed in both"


@dataclass(frozen=True)
class UncomparedPage:
    """A page that one of the runs doesn't have or could not read; `errors` are those of A and B.
    Number 0 is a document that could not be opened."""

    document: str
    number: int
    gap: PageGap
    errors: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class PageAgreement:
    """How far the two texts of a page agree; every measure is 0..1, where 1 is the same.

    `text`: characters in order, without markup and tables. `words`: words in any order. `order`:
    the order of paragraphs. `tables`: TEDS, where a table that only one text has counts as 0.
    `headings`: the share of headings that are in both. The last two are None where neither text has
    any. `name_in_b` is the document's name in B; `statuses` are those of A and B, None for files.
    """

    document: str
    number: int
    name_in_b: str
    text: float
    words: float
    order: float
    tables: float | None
    headings: float | None
    statuses: tuple[str | None, str | None] = (None, None)

    @property
    def key(self) -> PageKey:
        return self.document, self.number

    @property
    def overall(self) -> float:
        """The mean of `text`, `order`, `tables` and `headings`, of those that there are."""
        measures = (self.text, self.order, self.tables, self.headings)
        known = [measure for measure in measures if measure is not None]
        return sum(known) / len(known)


# The measures of `PageAgreement` by their names for people.
MEASURES: Mapping[str, Callable[[PageAgreement], float | None]] = {
    "overall": lambda page: page.overall,
    "text": lambda page: page.text,
    "words in any order": lambda page: page.words,
    "reading order": lambda page: page.order,
    "tables (TEDS)": lambda page: page.tables,
    "headings": lambda page: page.headings,
}


@dataclass(frozen=True)
class RunAgreement:
    """Runs `a` and `b` on the pages that both could read.

    `common` counts the pages that both have, of which `sampled` were compared (all, if no sample
    was wanted). `problems` are documents of the same name that are different files.
    """

    a: str
    b: str
    pages: tuple[PageAgreement, ...]
    uncompared: tuple[UncomparedPage, ...]
    common: int
    sampled: int
    problems: tuple[InputProblem, ...] = ()

    @cached_property
    def means(self) -> Mapping[str, Mean]:
        """The means over pages by measure, with bootstrap intervals over documents; without those
        that no page has."""
        means = {name: self._mean(measure) for name, measure in MEASURES.items()}
        return {name: mean for name, mean in means.items() if mean is not None}

    @cached_property
    def identical(self) -> Proportion:
        """The share of pages on which the runs agree in every measure."""
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            by_document[page.document].append(float(page.overall == page.words == 1))
        return estimate_proportion(by_document)

    def count(self, gap: PageGap) -> int:
        return sum(page.gap is gap for page in self.uncompared)

    def most_different(self, count: int) -> list[PageAgreement]:
        """The pages that agree least, without those that agree in every measure."""
        different = [page for page in self.pages if page.overall < 1 or page.words < 1]
        return sorted(different, key=lambda page: (page.overall, page.words, page.key))[:count]

    def _mean(self, measure: Callable[[PageAgreement], float | None]) -> Mean | None:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            value = measure(page)
            if value is not None:
                by_document[page.document].append(value)
        return estimate_mean(by_document)


@dataclass(frozen=True)
class PairedPage:
    """A page of two runs, with the document's name and the page number in A."""

    key: PageKey
    a: PagePrediction | None
    b: PagePrediction | None


@dataclass(frozen=True)
class DocumentNames:
    """The names in A of the documents of B that are named differently there, and documents of the
    same name that are different files."""

    in_a: Mapping[str, str]
    problems: tuple[InputProblem, ...] = ()

    def key(self, page: PagePrediction) -> PageKey:
        """The key of a page of B."""
        return self.in_a.get(page.document, page.document), page.number

    def in_b(self, documents: Collection[str]) -> set[str]:
        """The names in B of documents of A."""
        renamed = {name: in_b for in_b, name in self.in_a.items()}
        return {renamed.get(name, name) for name in documents}


@dataclass(frozen=True)
class RunPair:
    """Two runs, and how the names of their documents correspond."""

    a: Predictions
    b: Predictions
    names: DocumentNames

    def pages(self, documents: Collection[str]) -> Iterator[PairedPage]:
        """The pages of documents, by their names in A."""
        others = self.b.pages(self.names.in_b(documents))
        return pair_pages(self.a.pages(documents), others, self.names)

    def pages_with_images(self, keys: Collection[PageKey]) -> Iterator[PairedPage]:
        """Some pages with their images."""
        renamed = {name: in_b for in_b, name in self.names.in_a.items()}
        in_b = frozenset((renamed.get(name, name), number) for name, number in keys)
        others = self.b.pages_with_images(in_b)
        return pair_pages(self.a.pages_with_images(frozenset(keys)), others, self.names)


def pair_runs(a: Predictions, b: Predictions) -> RunPair:
    """Match the documents of two runs: by name, the others by the content of their files."""
    return RunPair(a, b, _match_names(a, b))


def _match_names(a: Predictions, b: Predictions) -> DocumentNames:
    hashes, others = _content_hashes(a), _content_hashes(b)
    problems = tuple(
        InputProblem(name, "the runs read different files of this name")
        for name, digest in hashes.items()
        if digest and others.get(name) and others[name] != digest
    )
    unmatched: dict[str, list[str]] = defaultdict(list)
    for name, digest in hashes.items():
        if digest and name not in others:
            unmatched[digest].append(name)
    renamed: dict[str, str] = {}
    for name, digest in others.items():
        # Of files with the same content, the first ones are paired.
        if digest and name not in hashes and unmatched[digest]:
            renamed[name] = unmatched[digest].pop(0)
    return DocumentNames(renamed, problems)


def _content_hashes(predictions: Predictions) -> dict[str, str | None]:
    """The documents of a run, with the hash of each one's bytes; None for Markdown files."""
    if isinstance(predictions, RunPredictions):
        rows = read_table(predictions.store, "pages", ["name", "content_hash"])
        return {row["name"]: row["content_hash"] for row in rows}
    return {name: None for name, _ in predictions.page_numbers()}


def pair_pages(
    a: Iterable[PagePrediction], b: Iterable[PagePrediction], names: DocumentNames
) -> Iterator[PairedPage]:
    """Pair the pages of two runs, both read once and side by side.

    Pages wait in memory until their counterpart comes: a few for runs of the same inputs, which
    have the same order. Of several predictions of a page the first is taken.
    """
    waiting: tuple[dict[PageKey, PagePrediction], dict[PageKey, PagePrediction]] = {}, {}
    for first, second in zip_longest(_only_first(a), _only_first(b)):
        for side, page in enumerate((first, second)):
            if page is None:
                continue
            key = names.key(page) if side else (page.document, page.number)
            other = waiting[1 - side].pop(key, None)
            if other is None:
                waiting[side][key] = page
            else:
                yield PairedPage(key, *((other, page) if side else (page, other)))
    yield from (PairedPage(key, page, None) for key, page in waiting[0].items())
    yield from (PairedPage(key, None, page) for key, page in waiting[1].items())


def _only_first(pages: Iterable[PagePrediction]) -> Iterator[PagePrediction]:
    return (page for page in pages if page.repeat == 1)


def measure_runs(
    runs: RunPair,
    *,
    sample: int | None = None,
    seed: int = 0,
    on_page: Callable[[], None] = lambda: None,
) -> RunAgreement:
    """Compare the texts of all pages that two runs have, or of `sample` random ones; calls
    `on_page` for each. Raises NothingToEvaluateError if they have no page in common."""
    a, b, names = runs.a, runs.b, runs.names
    keys = set(a.page_numbers())
    others = {(names.in_a.get(name, name), number) for name, number in b.page_numbers()}
    common = keys & others
    if not common:
        raise NothingToEvaluateError(
            f"{a.uri} and {b.uri} have no page in common: their documents have neither the same "
            "names nor the same content; compare runs of the same documents"
        )
    chosen = common if sample is None else _draw(common, sample, seed)
    documents = {name for name, _ in (chosen if sample is not None else keys | others)}
    pages: list[PageAgreement] = []
    uncompared: list[UncomparedPage] = []
    for pair in runs.pages(documents):
        if pair.key in common and pair.key not in chosen:
            continue
        gap = _gap(pair)
        if gap is not None:
            errors = (pair.a.error if pair.a else None, pair.b.error if pair.b else None)
            uncompared.append(UncomparedPage(*pair.key, gap, errors))
        elif pair.a is not None and pair.b is not None:
            pages.append(measure_page(pair.key, pair.a, pair.b))
        if pair.key in chosen:
            on_page()
    if sample is not None:
        # Pages that only one run has are known without reading them, and all of them are.
        uncompared = [page for page in uncompared if page.gap not in _GAP_IF_UNOPENED]
        uncompared += [UncomparedPage(*key, PageGap.ONLY_A) for key in sorted(keys - others)]
        uncompared += [UncomparedPage(*key, PageGap.ONLY_B) for key in sorted(others - keys)]
    return RunAgreement(
        *(a.uri, b.uri, tuple(pages), tuple(_with_unopened(uncompared)), len(common), len(chosen)),
        problems=names.problems,
    )


# What a page that only one run has is called where the other could not open the document.
_GAP_IF_UNOPENED = {PageGap.ONLY_A: PageGap.FAILED_B, PageGap.ONLY_B: PageGap.FAILED_A}


def _with_unopened(pages: Collection[UncomparedPage]) -> Iterator[UncomparedPage]:
    """The pages of documents that one run could not open as pages that failed there."""
    unopened = {(page.document, page.gap): page for page in pages if not page.number}
    opened = {(page.document, page.gap) for page in pages if page.number}
    for page in pages:
        other = PageGap.ONLY_A if page.gap is PageGap.ONLY_B else PageGap.ONLY_B
        is_alone = page.gap in _GAP_IF_UNOPENED
        if is_alone and page.number and (found := unopened.get((page.document, other))):
            yield replace(page, gap=_GAP_IF_UNOPENED[page.gap], errors=found.errors)
        elif not (is_alone and not page.number and (page.document, other) in opened):
            yield page


def _draw(keys: Collection[PageKey], count: int, seed: int) -> set[PageKey]:
    ordered = sorted(keys)
    return set(random.Random(seed).sample(ordered, min(count, len(ordered))))


def _gap(pair: PairedPage) -> PageGap | None:
    if pair.a is None:
        return PageGap.ONLY_B
    if pair.b is None:
        return PageGap.ONLY_A
    failed = pair.a.error is not None, pair.b.error is not None
    if all(failed):
        return PageGap.FAILED_BOTH
    return PageGap.FAILED_A if failed[0] else PageGap.FAILED_B if failed[1] else None


def measure_page(key: PageKey, a: PagePrediction, b: PagePrediction) -> PageAgreement:
    """How far the two texts of a page agree."""
    texts = [strip_markup(without_tables(page.markdown)) for page in (a, b)]
    orders = [
        measure_reading_order(find_paragraphs(one.markdown), other.markdown).distance
        for one, other in ((a, b), (b, a))
    ]
    return PageAgreement(
        *(*key, b.document),
        text=1 - edit_distance(*texts),
        words=agreement(strip_markup(a.markdown), strip_markup(b.markdown)),
        order=1 - min(1.0, sum(orders) / 2),
        tables=_table_agreement(a.markdown, b.markdown),
        headings=_heading_agreement(score_headings(a.markdown, b.markdown)),
        statuses=(a.status, b.status),
    )


def _table_agreement(a: str, b: str) -> float | None:
    tables, others = read_tables(a), read_tables(b)
    count = max(len(tables), len(others))
    return sum(match.teds for match in match_tables(tables, others)) / count if count else None


def _heading_agreement(score: HeadingScore) -> float | None:
    count = score.expected + score.predicted
    return 2 * score.matched / count if count else None
