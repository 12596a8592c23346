"""Tests run over pages: what passed, by kind and by document."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.evaluation.intervals import Share, share
from llm_ocr.evaluation.page_tests import LoadedTests, PageTest, Problem, baseline_of
from llm_ocr.evaluation.readings import Documents, PageRead, Readings, find_documents
from llm_ocr.evaluation.rules import OrderRule, Outcome, TextRule, Verdict
from llm_ocr.evaluation.said import Said
from llm_ocr.messages import counted

KINDS = ("present", "absent", "order", "table", "math", "baseline")


@dataclass(frozen=True)
class TestResult:
    """What became of a test: `score` (0..1) is the share of a page's readings that passed.

    `page_error` is why the page itself failed; the test has failed with it, whatever it asks.
    """

    test: PageTest
    document: str
    page_id: str | None
    verdict: Verdict
    score: float
    outcome: Outcome
    page_error: str | None = None

    __test__ = False


@dataclass(frozen=True)
class Score:
    """A share of tests passed; `failed_pages` of those that failed did with their pages; `skipped`
    ones are not among them."""

    share: Share
    failed_pages: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Evaluation:
    """The results of tests, and what of the tests could not be used."""

    place: str
    results: tuple[TestResult, ...]
    problems: tuple[Problem, ...]
    rejected: int = 0

    @property
    def overall(self) -> Score:
        return score_of(self.results)

    @property
    def without_absent(self) -> Score:
        """Of all but the tests that an empty page passes."""
        return score_of(one for one in self.results if one.test.kind != "absent")

    @property
    def by_kind(self) -> Mapping[str, Score]:
        kinds = {kind: [one for one in self.results if one.test.kind == kind] for kind in KINDS}
        return {kind: score_of(results) for kind, results in kinds.items() if results}

    @property
    def by_document(self) -> Mapping[str, Score]:
        documents: dict[str, list[TestResult]] = defaultdict(list)
        for result in self.results:
            documents[result.document].append(result)
        return {name: score_of(results) for name, results in documents.items()}

    @property
    def failures(self) -> Iterator[TestResult]:
        return (one for one in self.results if one.verdict is not Verdict.PASSED)


def score_of(results: Iterable[TestResult]) -> Score:
    """The score of some results."""
    scores: dict[str, list[float]] = defaultdict(list)
    failed_pages = skipped = 0
    for result in results:
        if result.verdict is Verdict.SKIPPED:
            skipped += 1
            continue
        scores[result.document].append(result.score)
        failed_pages += result.page_error is not None
    return Score(share(scores), failed_pages, skipped)


def evaluate(readings: Readings, loaded: LoadedTests) -> Evaluation:
    """The tests run over the pages they are of; those of no page are problems.

    Pages are read once, those of documents that are tested alone.
    """
    documents = find_documents({test.pdf for test in loaded.tests}, readings.numbers())
    tests, problems = placed(readings.place, [*loaded.tests, *_baselines(loaded.tests)], documents)
    found: dict[str, list[tuple[Outcome, PageRead]]] = defaultdict(list)
    by_page: dict[tuple[str, int], list[PageTest]] = defaultdict(list)
    whole: dict[str, list[PageTest]] = defaultdict(list)
    for test, document in tests:
        by_page[document, test.page].append(test)
        whole[document].append(test)
    for page in readings.pages({document for _, document in tests}):
        said = Said(page.markdown)
        asked = by_page[page.document, page.number] if page.number else whole[page.document]
        for test in asked:
            found[test.id].append((_judged(test, page, said), page))
    results = tuple(_result(test, document, found[test.id]) for test, document in tests)
    return Evaluation(readings.place, results, (*loaded.problems, *problems), loaded.rejected)


def _judged(test: PageTest, page: PageRead, said: Said) -> Outcome:
    if page.error is not None:
        return Outcome(Verdict.FAILED, f"the page failed: {page.error}")
    return test.rule.judge(said)


def _baselines(tests: Sequence[PageTest]) -> Iterator[PageTest]:
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
            yield baseline_of(pdf, " ".join(texts))


def placed(
    place: str, tests: Sequence[PageTest], documents: Documents
) -> tuple[list[tuple[PageTest, str]], list[Problem]]:
    """Tests with the names of their documents, and those of pages that are not there."""
    kept: list[tuple[PageTest, str]] = []
    problems: list[Problem] = []
    for test in tests:
        why = _no_page(place, test, documents)
        if why is None:
            kept.append((test, documents.found[test.pdf][0]))
        elif test.source:
            problems.append(Problem(test.source, f"test {test.id}: {why}"))
    return kept, problems


def _no_page(place: str, test: PageTest, documents: Documents) -> str | None:
    if test.pdf in documents.ambiguous:
        names = ", ".join(documents.ambiguous[test.pdf][:3])
        return f"{test.pdf} may be {names} of {place}; name more of its folders"
    if test.pdf not in documents.found:
        return f"{test.pdf} is no document of {place}"
    name, numbers = documents.found[test.pdf]
    # A document that could not be opened has page 0 alone: all its tests fail.
    if test.page in numbers or numbers == {0}:
        return None
    if not test.source and numbers:
        return "its first page was not read"
    return f"{name} has no page {test.page} in {place}, which has {_numbered(numbers)} of it"


def _numbered(numbers: Iterable[int]) -> str:
    known = sorted(numbers)
    if known == list(range(1, len(known) + 1)):
        return "page 1" if len(known) == 1 else counted(len(known), "page")
    return "pages " + ", ".join(map(str, known[:10])) + (" …" if len(known) > 10 else "")


def _result(test: PageTest, document: str, found: Sequence[tuple[Outcome, PageRead]]) -> TestResult:
    """One result of a page's readings: passed if most of them have."""
    outcomes = [outcome for outcome, _ in found]
    passed = sum(one.verdict is Verdict.PASSED for one in outcomes)
    decided = sum(one.verdict is not Verdict.SKIPPED for one in outcomes)
    rate = passed / decided if decided else 0.0
    verdict = Verdict.PASSED if rate > 0.5 else Verdict.FAILED if decided else Verdict.SKIPPED
    shown = next((one for one in found if one[0].verdict is verdict), found[0])
    outcome, page = shown
    return TestResult(test, document, page.page_id, verdict, rate, outcome, page.error)
