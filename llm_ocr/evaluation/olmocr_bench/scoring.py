"""Run page tests over predictions and compute pass rates by kind and by document."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.evaluation.intervals import Proportion, estimate_proportion
from llm_ocr.evaluation.olmocr_bench.page_tests import LoadedTests, PageTest, create_baseline_test
from llm_ocr.evaluation.olmocr_bench.page_view import PageView
from llm_ocr.evaluation.olmocr_bench.rules import OrderRule, RuleResult, RuleVerdict, TextRule
from llm_ocr.evaluation.predictions import (
    DocumentMatches,
    InputProblem,
    PagePrediction,
    Predictions,
    match_documents,
)
from llm_ocr.messages import pluralize

KINDS = ("present", "absent", "order", "table", "math", "baseline")


@dataclass(frozen=True)
class PageTestResult:
    """The result of a page test: `score` (0..1) is the share of the page's predictions that passed.

    `page_error` says why the page itself failed; all tests of a failed page fail.
    """

    test: PageTest
    document: str
    page_id: str | None
    verdict: RuleVerdict
    score: float
    rule_result: RuleResult
    page_error: str | None = None

    __test__ = False


@dataclass(frozen=True)
class PassRate:
    """The proportion of tests passed; `failed_pages` counts the tests that failed because the page
    failed; `skipped` tests are not included in the proportion."""

    proportion: Proportion
    failed_pages: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class PageTestEvaluation:
    """The results of page tests, and the problems of tests that could not be used."""

    uri: str
    results: tuple[PageTestResult, ...]
    problems: tuple[InputProblem, ...]
    rejected: int = 0

    @property
    def overall(self) -> PassRate:
        return pass_rate(self.results)

    @property
    def without_absent(self) -> PassRate:
        """Without tests of kind "absent", which an empty page passes."""
        return pass_rate(result for result in self.results if result.test.kind != "absent")

    @property
    def by_kind(self) -> Mapping[str, PassRate]:
        kinds = {
            kind: [result for result in self.results if result.test.kind == kind] for kind in KINDS
        }
        return {kind: pass_rate(results) for kind, results in kinds.items() if results}

    @property
    def by_document(self) -> Mapping[str, PassRate]:
        documents: dict[str, list[PageTestResult]] = defaultdict(list)
        for result in self.results:
            documents[result.document].append(result)
        return {name: pass_rate(results) for name, results in documents.items()}

    @property
    def failures(self) -> Iterator[PageTestResult]:
        return (result for result in self.results if result.verdict is not RuleVerdict.PASSED)


def pass_rate(results: Iterable[PageTestResult]) -> PassRate:
    """The pass rate of some results."""
    scores: dict[str, list[float]] = defaultdict(list)
    failed_pages = skipped = 0
    for result in results:
        if result.verdict is RuleVerdict.SKIPPED:
            skipped += 1
            continue
        scores[result.document].append(result.score)
        failed_pages += result.page_error is not None
    return PassRate(estimate_proportion(scores), failed_pages, skipped)


def evaluate(predictions: Predictions, loaded: LoadedTests) -> PageTestEvaluation:
    """Run the tests over their pages; tests without a page are reported as problems.

    Only pages of documents that have tests are read, each once.
    """
    documents = match_documents({test.pdf for test in loaded.tests}, predictions.page_numbers())
    all_tests = [*loaded.tests, *_missing_baseline_tests(loaded.tests)]
    tests, problems = assign_documents(predictions.uri, all_tests, documents)
    outcomes: dict[str, list[tuple[RuleResult, PagePrediction]]] = defaultdict(list)
    by_page: dict[tuple[str, int], list[PageTest]] = defaultdict(list)
    by_document: dict[str, list[PageTest]] = defaultdict(list)
    for test, document in tests:
        by_page[document, test.page].append(test)
        by_document[document].append(test)
    for page in predictions.pages({document for _, document in tests}):
        view = PageView(page.markdown)
        page_tests = (
            by_page[page.document, page.number] if page.number else by_document[page.document]
        )
        for test in page_tests:
            outcomes[test.id].append((_check(test, page, view), page))
    results = tuple(_combine(test, document, outcomes[test.id]) for test, document in tests)
    return PageTestEvaluation(
        predictions.uri, results, (*loaded.problems, *problems), loaded.rejected
    )


def _check(test: PageTest, page: PagePrediction, view: PageView) -> RuleResult:
    if page.error is not None:
        return RuleResult(RuleVerdict.FAILED, f"the page failed: {page.error}")
    return test.rule.check(view)


def _missing_baseline_tests(tests: Sequence[PageTest]) -> Iterator[PageTest]:
    """A baseline test for each document that has none."""
    expected: dict[str, list[str]] = defaultdict(list)
    tested = {test.pdf for test in tests if test.kind == "baseline"}
    for test in tests:
        rule = test.rule
        if isinstance(rule, TextRule) and not rule.absent:
            expected[test.pdf].append(rule.text)
        elif isinstance(rule, OrderRule):
            expected[test.pdf] += [rule.before, rule.after]
        else:
            expected[test.pdf].append(str(getattr(rule, "cell", "")))
    for pdf, texts in expected.items():
        if pdf not in tested:
            yield create_baseline_test(pdf, " ".join(texts))


def assign_documents(
    uri: str, tests: Sequence[PageTest], documents: DocumentMatches
) -> tuple[list[tuple[PageTest, str]], list[InputProblem]]:
    """Tests with the names of their documents, and problems for tests whose page does not exist."""
    assigned: list[tuple[PageTest, str]] = []
    problems: list[InputProblem] = []
    for test in tests:
        reason = _missing_page(uri, test, documents)
        if reason is None:
            assigned.append((test, documents.matched[test.pdf][0]))
        elif test.source:
            problems.append(InputProblem(test.source, f"test {test.id}: {reason}"))
    return assigned, problems


def _missing_page(uri: str, test: PageTest, documents: DocumentMatches) -> str | None:
    if test.pdf in documents.ambiguous:
        names = ", ".join(documents.ambiguous[test.pdf][:3])
        return f"{test.pdf} is ambiguous in {uri}: {names}; give more of its path"
    if test.pdf not in documents.matched:
        return f"{uri} has no document {test.pdf}"
    name, numbers = documents.matched[test.pdf]
    # A document that could not be opened has only page 0: all its tests fail.
    if test.page in numbers or numbers == {0}:
        return None
    if not test.source and numbers:
        return "its first page was not read"
    return f"{name} has no page {test.page} in {uri}, only {_format_page_numbers(numbers)}"


def _format_page_numbers(numbers: Iterable[int]) -> str:
    known = sorted(numbers)
    if known == list(range(1, len(known) + 1)):
        return "page 1" if len(known) == 1 else pluralize(len(known), "page")
    return "pages " + ", ".join(map(str, known[:10])) + (" …" if len(known) > 10 else "")


def _combine(
    test: PageTest, document: str, outcomes: Sequence[tuple[RuleResult, PagePrediction]]
) -> PageTestResult:
    """The result of a test over all predictions of its page: passed if most of them pass."""
    verdicts = [result.verdict for result, _ in outcomes]
    passed = sum(verdict is RuleVerdict.PASSED for verdict in verdicts)
    decided = sum(verdict is not RuleVerdict.SKIPPED for verdict in verdicts)
    rate = passed / decided if decided else 0.0
    verdict = (
        RuleVerdict.PASSED if rate > 0.5 else RuleVerdict.FAILED if decided else RuleVerdict.SKIPPED
    )
    typical = next((outcome for outcome in outcomes if outcome[0].verdict is verdict), outcomes[0])
    result, page = typical
    return PageTestResult(test, document, page.page_id, verdict, rate, result, page.error)
