"""Two runs page by page: which one reads a page better, and whether that is more than chance."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from llm_ocr.evaluation.intervals import Mean, mean, sign_test
from llm_ocr.evaluation.page_tests import Problem
from llm_ocr.evaluation.readings import RunReadings
from llm_ocr.evaluation.rules import Verdict
from llm_ocr.evaluation.sampling import PageSigns, draw, signs_of
from llm_ocr.evaluation.scoring import Evaluation, TestResult
from llm_ocr.evaluation.truth import Measured, TruthEvaluation

# Scores that differ less are a tie: of tests, of distances to the truth, and of doubts.
TESTS_MARGIN, TRUTH_MARGIN, SIGNS_MARGIN = 1e-9, 0.01, 0.1

Key = tuple[str, int]


class Side(StrEnum):
    """Whose reading of a page is better."""

    WIN = "win"
    TIE = "tie"
    LOSS = "loss"


@dataclass(frozen=True)
class PageScore:
    """How good a reading of a page of `document` is (more is better), and what is said of it."""

    document: str
    value: float
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PagePair:
    """A page as both runs read it; `side` is how the first one fares."""

    number: int
    a: PageScore
    b: PageScore
    side: Side

    @property
    def document(self) -> str:
        """Its name in the first run."""
        return self.a.document

    @property
    def difference(self) -> float:
        return self.a.value - self.b.value


@dataclass(frozen=True)
class Comparison:
    """Run `a` against run `b`: `by` says what pages are compared by. `unpaired` are pages that only
    one of them has."""

    a: str
    b: str
    by: str
    pairs: tuple[PagePair, ...]
    unpaired: int
    problems: tuple[Problem, ...] = ()

    def count(self, side: Side) -> int:
        return sum(pair.side is side for pair in self.pairs)

    @cached_property
    def p_value(self) -> float:
        """How likely wins and losses as uneven as these are by chance: the sign test's, two-sided,
        over pages."""
        return sign_test(self.count(Side.WIN), self.count(Side.LOSS))

    @cached_property
    def difference(self) -> Mean | None:
        """The mean difference of scores, with a bootstrap interval over documents: pages of one
        document are not independent, which the sign test takes them for."""
        by_document: dict[str, list[float]] = defaultdict(list)
        for pair in self.pairs:
            by_document[pair.document].append(pair.difference)
        return mean(by_document)

    @property
    def examples(self) -> list[PagePair]:
        """The pages in which one is better, the plainest ones first."""
        uneven = [pair for pair in self.pairs if pair.side is not Side.TIE]
        return sorted(uneven, key=lambda pair: -abs(pair.difference))


def by_tests(a: Evaluation, b: Evaluation) -> Comparison:
    """By the share of a page's tests that pass."""
    both = {one.test.id for one in a.results} & {one.test.id for one in b.results}
    scores = [_of_tests(one, both) for one in (a, b)]
    problems = dict.fromkeys((*a.problems, *b.problems))
    return _compared(a.place, b.place, "tests", scores, TESTS_MARGIN, tuple(problems))


def _of_tests(evaluation: Evaluation, both: set[str]) -> dict[Key, PageScore]:
    pages: dict[Key, list[TestResult]] = defaultdict(list)
    for one in evaluation.results:
        if one.test.id in both and one.verdict is not Verdict.SKIPPED:
            # By the test's name: the two may have the document below other folders.
            pages[one.test.pdf, one.test.page].append(one)
    return {key: _score(found) for key, found in pages.items()}


def _score(found: Sequence[TestResult]) -> PageScore:
    remarks = (
        f"{one.test.kind} {one.test.id}: {one.outcome.why}" for one in found if one.score < 1
    )
    value = sum(one.score for one in found) / len(found)
    return PageScore(found[0].document, value, tuple(remarks))


def by_truth(a: TruthEvaluation, b: TruthEvaluation) -> Comparison:
    """By the mean of what a page has of: 1 less the edit distance, 1 less the distance of reading
    orders, and the TEDS of its tables."""
    scores = [
        {(one.truth.document, one.truth.page or 0): _of_truth(one) for one in evaluation.pages}
        for evaluation in (a, b)
    ]
    problems = dict.fromkeys((*a.problems, *b.problems))
    return _compared(a.place, b.place, "truth", scores, TRUTH_MARGIN, tuple(problems))


def _of_truth(page: Measured) -> PageScore:
    parts = [1 - page.edits, 1 - page.order]
    remarks = [f"edit distance {page.edits:.3f}", f"reading order distance {page.order:.3f}"]
    if page.teds:
        parts.append(sum(page.teds) / len(page.teds))
        remarks.append(f"TEDS {parts[-1]:.3f}")
    return PageScore(page.document, sum(parts) / len(parts), tuple(remarks))


def by_signs(a: RunReadings, b: RunReadings, count: int, seed: int) -> Comparison:
    """By what `count` pages, drawn by chance, give away about themselves: see `sampling`."""
    drawn = draw(a.store, count, seed).page_ids
    mine = {(one.document, one.number): one for one in signs_of(a.store, drawn)}
    ids = frozenset(b.ids_of(mine.keys()))
    theirs = {(one.document, one.number): one for one in signs_of(b.store, ids)}
    scores = [{key: _of_signs(one) for key, one in some.items()} for some in (mine, theirs)]
    return _compared(a.place, b.place, "signs", scores, SIGNS_MARGIN, ())


def _of_signs(page: PageSigns) -> PageScore:
    return PageScore(page.document, -page.doubt, page.remarks)


def _compared(
    a: str,
    b: str,
    by: str,
    scores: Sequence[Mapping[Key, PageScore]],
    margin: float,
    problems: tuple[Problem, ...],
) -> Comparison:
    mine, theirs = scores
    pairs = tuple(
        PagePair(key[1], score, theirs[key], _side(score.value - theirs[key].value, margin))
        for key, score in mine.items()
        if key in theirs
    )
    return Comparison(a, b, by, pairs, len(mine.keys() ^ theirs.keys()), problems)


def _side(difference: float, margin: float) -> Side:
    if abs(difference) <= margin:
        return Side.TIE
    return Side.WIN if difference > 0 else Side.LOSS
