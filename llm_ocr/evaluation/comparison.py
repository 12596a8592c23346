"""Compare two runs page by page, and test whether the difference is significant."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from llm_ocr.evaluation.diagnostics import PageDiagnostics, diagnose_pages, draw_sample
from llm_ocr.evaluation.ground_truth import GroundTruthEvaluation, PageMetrics
from llm_ocr.evaluation.intervals import Mean, estimate_mean, sign_test
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation, PageTestResult
from llm_ocr.evaluation.predictions import InputProblem, RunPredictions

# Scores that differ by less are a tie: pass rates, distances to ground truth, and doubts.
TESTS_MARGIN, GROUND_TRUTH_MARGIN, DIAGNOSTICS_MARGIN = 1e-9, 0.01, 0.1

Key = tuple[str, int]


class PairOutcome(StrEnum):
    """The outcome of a page for the first run."""

    WIN = "win"
    TIE = "tie"
    LOSS = "loss"


@dataclass(frozen=True)
class PageScore:
    """The score of a page of `document` (higher is better), and remarks on it."""

    document: str
    value: float
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PagePair:
    """A page in both runs; `outcome` is that of the first run."""

    number: int
    a: PageScore
    b: PageScore
    outcome: PairOutcome

    @property
    def document(self) -> str:
        """The document's name in the first run."""
        return self.a.document

    @property
    def difference(self) -> float:
        return self.a.value - self.b.value


@dataclass(frozen=True)
class Comparison:
    """Run `a` against run `b`. Pages are compared `by` tests, truth or diagnostics; `unpaired`
    counts the pages that only one of the runs has."""

    a: str
    b: str
    by: str
    pairs: tuple[PagePair, ...]
    unpaired: int
    problems: tuple[InputProblem, ...] = ()

    def count(self, outcome: PairOutcome) -> int:
        return sum(pair.outcome is outcome for pair in self.pairs)

    @cached_property
    def p_value(self) -> float:
        """The two-sided p-value of the sign test over pages."""
        return sign_test(self.count(PairOutcome.WIN), self.count(PairOutcome.LOSS))

    @cached_property
    def difference(self) -> Mean | None:
        """The mean difference of scores, with a bootstrap interval over documents: the sign test
        takes pages for independent, but those of one document are not."""
        by_document: dict[str, list[float]] = defaultdict(list)
        for pair in self.pairs:
            by_document[pair.document].append(pair.difference)
        return estimate_mean(by_document)

    @property
    def examples(self) -> list[PagePair]:
        """The pages that one run reads better, the largest difference first."""
        decided = [pair for pair in self.pairs if pair.outcome is not PairOutcome.TIE]
        return sorted(decided, key=lambda pair: -abs(pair.difference))


def compare_tests(a: PageTestEvaluation, b: PageTestEvaluation) -> Comparison:
    """Compare pages by the share of their tests that pass."""
    common = {result.test.id for result in a.results} & {result.test.id for result in b.results}
    scores = [_score_tests(evaluation, common) for evaluation in (a, b)]
    problems = dict.fromkeys((*a.problems, *b.problems))
    return _compare(a.uri, b.uri, "tests", scores, TESTS_MARGIN, tuple(problems))


def _score_tests(evaluation: PageTestEvaluation, test_ids: set[str]) -> dict[Key, PageScore]:
    pages: dict[Key, list[PageTestResult]] = defaultdict(list)
    for result in evaluation.results:
        if result.test.id in test_ids and result.verdict is not RuleVerdict.SKIPPED:
            # By the path in the test: the runs may name the document differently.
            pages[result.test.pdf, result.test.page].append(result)
    return {key: _score_results(results) for key, results in pages.items()}


def _score_results(results: Sequence[PageTestResult]) -> PageScore:
    remarks = (
        f"{result.test.kind} {result.test.id}: {result.rule_result.reason}"
        for result in results
        if result.score < 1
    )
    value = sum(result.score for result in results) / len(results)
    return PageScore(results[0].document, value, tuple(remarks))


def compare_ground_truth(a: GroundTruthEvaluation, b: GroundTruthEvaluation) -> Comparison:
    """Compare pages by the mean of 1 - edit distance, 1 - reading order distance and, where there
    are tables, their TEDS."""
    scores = [
        {(page.truth.document, page.truth.page or 0): _score_metrics(page) for page in result.pages}
        for result in (a, b)
    ]
    problems = dict.fromkeys((*a.problems, *b.problems))
    return _compare(a.uri, b.uri, "truth", scores, GROUND_TRUTH_MARGIN, tuple(problems))


def _score_metrics(page: PageMetrics) -> PageScore:
    parts = [1 - page.edit_distance, 1 - page.order_distance]
    remarks = [
        f"edit distance {page.edit_distance:.3f}",
        f"reading order distance {page.order_distance:.3f}",
    ]
    if page.teds:
        parts.append(sum(page.teds) / len(page.teds))
        remarks.append(f"TEDS {parts[-1]:.3f}")
    return PageScore(page.document, sum(parts) / len(parts), tuple(remarks))


def compare_samples(a: RunPredictions, b: RunPredictions, count: int, seed: int) -> Comparison:
    """Compare the doubt of `count` pages drawn at random; see `diagnostics`."""
    sampled = draw_sample(a.store, count, seed).page_ids
    pages = _score_diagnostics(diagnose_pages(a.store, sampled))
    others = diagnose_pages(b.store, frozenset(b.page_ids_of(pages.keys())))
    scores = [pages, _score_diagnostics(others)]
    return _compare(a.uri, b.uri, "diagnostics", scores, DIAGNOSTICS_MARGIN, ())


def _score_diagnostics(pages: Iterable[PageDiagnostics]) -> dict[Key, PageScore]:
    return {
        (page.document, page.number): PageScore(page.document, -page.doubt, page.remarks)
        for page in pages
    }


def _compare(
    a: str,
    b: str,
    by: str,
    scores: Sequence[Mapping[Key, PageScore]],
    margin: float,
    problems: tuple[InputProblem, ...],
) -> Comparison:
    firsts, seconds = scores
    pairs = tuple(
        PagePair(key[1], score, seconds[key], _outcome(score.value - seconds[key].value, margin))
        for key, score in firsts.items()
        if key in seconds
    )
    return Comparison(a, b, by, pairs, len(firsts.keys() ^ seconds.keys()), problems)


def _outcome(difference: float, margin: float) -> PairOutcome:
    if abs(difference) <= margin:
        return PairOutcome.TIE
    return PairOutcome.WIN if difference > 0 else PairOutcome.LOSS
