"""Evaluations as JSON: all that they hold, pages and tests one by one."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from llm_ocr.evaluation.comparing import Comparison, PageScore, Side
from llm_ocr.evaluation.intervals import Mean, Share
from llm_ocr.evaluation.page_tests import Problem
from llm_ocr.evaluation.sampling import PageSigns, SampleEvaluation
from llm_ocr.evaluation.scoring import Evaluation, Score, TestResult
from llm_ocr.evaluation.truth import Measured, TruthEvaluation

Json = Mapping[str, Any]


def as_json(result: Evaluation | TruthEvaluation | SampleEvaluation | Comparison) -> Json:
    """What becomes the file of --json."""
    if isinstance(result, Evaluation):
        return _evaluation(result)
    if isinstance(result, TruthEvaluation):
        return _truth(result)
    if isinstance(result, SampleEvaluation):
        return _sample(result)
    return _comparison(result)


def _evaluation(found: Evaluation) -> Json:
    return {
        "run": found.place,
        "by": "tests",
        "overall": _score(found.overall),
        "without_absent": _score(found.without_absent),
        "by_kind": {kind: _score(score) for kind, score in found.by_kind.items()},
        "by_document": {name: _score(score) for name, score in found.by_document.items()},
        "rejected": found.rejected,
        "tests": [_test(one) for one in found.results],
        "problems": [_problem(one) for one in found.problems],
    }


def _score(score: Score) -> Json:
    return {**_share(score.share), "failed_pages": score.failed_pages, "skipped": score.skipped}


def _share(share: Share) -> Json:
    bounds = {"low": share.low, "high": share.high}
    return {"passed": share.passed, "total": share.total, "share": share.value, **bounds}


def _test(one: TestResult) -> Json:
    return {
        "id": one.test.id,
        "kind": one.test.kind,
        "document": one.document,
        "page": one.test.page,
        "page_id": one.page_id,
        "verdict": one.verdict.value,
        "score": one.score,
        "page_error": one.page_error,
        "why": one.outcome.why,
        "expected": one.outcome.expected,
        "found": [asdict(excerpt) for excerpt in one.outcome.found],
        "source": one.test.source,
    }


def _problem(one: Problem) -> Json:
    return {"place": one.place, "message": one.message}


def _mean(one: Mean) -> Json:
    return {"mean": one.value, "count": one.count, "low": one.low, "high": one.high}


def _truth(found: TruthEvaluation) -> Json:
    score = found.headings
    headings = {
        **asdict(score),
        "precision": score.precision,
        "recall": score.recall,
        "level_accuracy": score.level_accuracy,
    }
    return {
        "run": found.place,
        "by": "truth",
        "means": {name: _mean(one) for name, one in found.means.items()},
        "headings": headings,
        "failed_pages": found.failed_pages,
        "pages": [_measured(one) for one in found.pages],
        "problems": [_problem(one) for one in found.problems],
    }


def _measured(page: Measured) -> Json:
    return {
        "document": page.document,
        "page": page.truth.page,
        "page_id": page.page_id,
        "truth": page.truth.source,
        "edit_distance": page.edits,
        "reading_order_distance": page.order,
        "teds": list(page.teds),
        "teds_structure": list(page.structure),
        "headings": asdict(page.headings),
        "page_error": page.error,
    }


def _sample(found: SampleEvaluation) -> Json:
    return {
        "run": found.place,
        "by": "signs",
        "pages_in_run": found.total,
        "seed": found.seed,
        "statuses": dict(found.statuses),
        "agreement_of_all_pages": found.all_agreement,
        "means": {name: _mean(one) for name, one in found.means.items()},
        "shares": {name: _share(one) for name, one in found.shares.items()},
        "scripts": dict(found.scripts),
        "pages": [_signs(one) for one in found.pages],
    }


def _signs(page: PageSigns) -> Json:
    return {name: value for name, value in asdict(page).items() if name != "markdown"}


def _comparison(found: Comparison) -> Json:
    return {
        "a": found.a,
        "b": found.b,
        "by": found.by,
        **{f"{side.value}": found.count(side) for side in Side},
        "p_value": found.p_value,
        "difference": None if found.difference is None else _mean(found.difference),
        "unpaired_pages": found.unpaired,
        "pages": [
            {
                "page": pair.number or None,
                "side": pair.side.value,
                "difference": pair.difference,
                "a": _page_score(pair.a),
                "b": _page_score(pair.b),
            }
            for pair in found.pairs
        ],
        "problems": [_problem(one) for one in found.problems],
    }


def _page_score(score: PageScore) -> Json:
    return {"document": score.document, "score": score.value, "remarks": list(score.remarks)}
