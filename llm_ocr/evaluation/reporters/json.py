"""Evaluations as JSON, with all pages and tests."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from llm_ocr.evaluation.comparison import Comparison, PageScore, PairOutcome
from llm_ocr.evaluation.diagnostics import PageDiagnostics, SampleEvaluation
from llm_ocr.evaluation.ground_truth import GroundTruthEvaluation, PageMetrics
from llm_ocr.evaluation.intervals import Mean, Proportion
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation, PageTestResult, PassRate
from llm_ocr.evaluation.runner import EvaluationResult

Json = Mapping[str, Any]


def to_json(result: EvaluationResult) -> Json:
    """The content of the JSON report."""
    if isinstance(result, PageTestEvaluation):
        return _page_tests(result)
    if isinstance(result, GroundTruthEvaluation):
        return _ground_truth(result)
    if isinstance(result, SampleEvaluation):
        return _sample(result)
    return _comparison(result)


def _page_tests(evaluation: PageTestEvaluation) -> Json:
    return {
        "run": evaluation.uri,
        "by": "tests",
        "overall": _pass_rate(evaluation.overall),
        "without_absent": _pass_rate(evaluation.without_absent),
        "by_kind": {kind: _pass_rate(rate) for kind, rate in evaluation.by_kind.items()},
        "by_document": {name: _pass_rate(rate) for name, rate in evaluation.by_document.items()},
        "rejected": evaluation.rejected,
        "tests": [_test_result(result) for result in evaluation.results],
        "problems": [asdict(problem) for problem in evaluation.problems],
    }


def _pass_rate(rate: PassRate) -> Json:
    counts = {"failed_pages": rate.failed_pages, "skipped": rate.skipped}
    return {**_proportion(rate.proportion), **counts}


def _proportion(proportion: Proportion) -> Json:
    return {
        "passed": proportion.passed,
        "total": proportion.total,
        "share": proportion.value,
        "low": proportion.low,
        "high": proportion.high,
    }


def _test_result(result: PageTestResult) -> Json:
    return {
        "id": result.test.id,
        "kind": result.test.kind,
        "document": result.document,
        "page": result.test.page,
        "page_id": result.page_id,
        "verdict": result.verdict.value,
        "score": result.score,
        "page_error": result.page_error,
        "reason": result.rule_result.reason,
        "expected": result.rule_result.expected,
        "found": [asdict(excerpt) for excerpt in result.rule_result.found],
        "source": result.test.source,
    }


def _mean(mean: Mean) -> Json:
    return {"mean": mean.value, "count": mean.count, "low": mean.low, "high": mean.high}


def _ground_truth(evaluation: GroundTruthEvaluation) -> Json:
    score = evaluation.headings
    headings = {
        **asdict(score),
        "precision": score.precision,
        "recall": score.recall,
        "level_accuracy": score.level_accuracy,
    }
    return {
        "run": evaluation.uri,
        "by": "truth",
        "means": {name: _mean(mean) for name, mean in evaluation.means.items()},
        "headings": headings,
        "failed_pages": evaluation.failed_pages,
        "pages": [_metrics(page) for page in evaluation.pages],
        "problems": [asdict(problem) for problem in evaluation.problems],
    }


def _metrics(page: PageMetrics) -> Json:
    return {
        "document": page.document,
        "page": page.truth.page,
        "page_id": page.page_id,
        "truth": page.truth.source,
        "edit_distance": page.edit_distance,
        "reading_order_distance": page.order_distance,
        "teds": list(page.teds),
        "teds_structure": list(page.teds_structure),
        "headings": asdict(page.headings),
        "page_error": page.error,
    }


def _sample(evaluation: SampleEvaluation) -> Json:
    proportions = evaluation.proportions.items()
    return {
        "run": evaluation.uri,
        "by": "diagnostics",
        "pages_in_run": evaluation.total,
        "seed": evaluation.seed,
        "statuses": dict(evaluation.statuses),
        "agreement_of_all_pages": evaluation.all_agreement,
        "means": {name: _mean(mean) for name, mean in evaluation.means.items()},
        "shares": {name: _proportion(proportion) for name, proportion in proportions},
        "scripts": dict(evaluation.scripts),
        "pages": [_diagnostics(page) for page in evaluation.pages],
    }


def _diagnostics(page: PageDiagnostics) -> Json:
    return {name: value for name, value in asdict(page).items() if name != "markdown"}


def _comparison(comparison: Comparison) -> Json:
    difference = comparison.difference
    return {
        "a": comparison.a,
        "b": comparison.b,
        "by": comparison.by,
        **{outcome.value: comparison.count(outcome) for outcome in PairOutcome},
        "p_value": comparison.p_value,
        "difference": None if difference is None else _mean(difference),
        "unpaired_pages": comparison.unpaired,
        "pages": [
            {
                "page": pair.number or None,
                "outcome": pair.outcome.value,
                "difference": pair.difference,
                "a": _page_score(pair.a),
                "b": _page_score(pair.b),
            }
            for pair in comparison.pairs
        ],
        "problems": [asdict(problem) for problem in comparison.problems],
    }


def _page_score(score: PageScore) -> Json:
    return {"document": score.document, "score": score.value, "remarks": list(score.remarks)}
