"""Run evaluations: load references (page tests and ground truth) and evaluate predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.evaluation import ground_truth
from llm_ocr.evaluation.comparison import (
    Comparison,
    compare_ground_truth,
    compare_samples,
    compare_tests,
)
from llm_ocr.evaluation.diagnostics import SampleEvaluation, diagnose_sample
from llm_ocr.evaluation.ground_truth import GroundTruth, GroundTruthEvaluation
from llm_ocr.evaluation.olmocr_bench import scoring
from llm_ocr.evaluation.olmocr_bench.page_tests import LoadedTests, load_tests
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation
from llm_ocr.evaluation.predictions import (
    InputProblem,
    NothingToEvaluateError,
    Predictions,
    RunPredictions,
)
from llm_ocr.messages import ProblemCode

GROUND_TRUTH_SUFFIXES = (".md", ".txt", ".json")


@dataclass(frozen=True)
class References:
    """The page tests and ground truth to evaluate predictions with."""

    tests: LoadedTests
    ground_truths: tuple[GroundTruth, ...] = ()
    problems: tuple[InputProblem, ...] = ()


EvaluationResult = PageTestEvaluation | GroundTruthEvaluation | SampleEvaluation | Comparison


def load_references(paths: Sequence[str]) -> References:
    """The tests (`.jsonl`) and ground truth (`.md`, `.txt`, OmniDocBench's `.json`) in files and
    folders. Raises NothingToEvaluateError for a path that doesn't exist or has none."""
    tests: list[Path] = []
    ground_truths: list[tuple[Path, Path]] = []
    for path in map(Path, paths):
        found = list(_find_files(path))
        if not found:
            raise NothingToEvaluateError(
                f"{path}: no tests (.jsonl) or ground truth (.md, .txt, .json) found"
            )
        tests += [file for file, _ in found if file.suffix.lower() == ".jsonl"]
        ground_truths += [pair for pair in found if pair[0].suffix.lower() in GROUND_TRUTH_SUFFIXES]
    loaded, problems = ground_truth.load_ground_truth(ground_truths)
    return References(load_tests(tests), tuple(loaded), tuple(problems))


def _find_files(path: Path) -> Iterator[tuple[Path, Path]]:
    """Files, each with the folder that its name is relative to. Markdown in a folder with tests is
    the output of some tool, not ground truth."""
    if path.is_file():
        yield path, path.parent
        return
    tests = sorted(path.glob("*.jsonl"))
    for file in tests or sorted(path.rglob("*")):
        if tests or file.suffix.lower() in GROUND_TRUTH_SUFFIXES:
            yield file, path


def evaluate(
    predictions: Predictions, references: References
) -> list[PageTestEvaluation | GroundTruthEvaluation]:
    """Evaluate predictions with page tests, ground truth, or both."""
    results: list[PageTestEvaluation | GroundTruthEvaluation] = []
    if references.tests.tests or references.tests.problems:
        results.append(scoring.evaluate(predictions, references.tests))
    if references.ground_truths or references.problems:
        results.append(
            ground_truth.evaluate(predictions, references.ground_truths, references.problems)
        )
    return results


def compare(a: Predictions, b: Predictions, references: References) -> list[Comparison]:
    """Compare two sets of predictions with page tests, ground truth, or both."""
    comparisons: list[Comparison] = []
    for first, second in zip(evaluate(a, references), evaluate(b, references), strict=True):
        if isinstance(first, PageTestEvaluation) and isinstance(second, PageTestEvaluation):
            comparisons.append(compare_tests(first, second))
        elif isinstance(first, GroundTruthEvaluation) and isinstance(second, GroundTruthEvaluation):
            comparisons.append(compare_ground_truth(first, second))
    return comparisons


def compare_without_references(a: Predictions, b: Predictions, count: int, seed: int) -> Comparison:
    """Compare two runs by diagnostics of a sample of pages. Raises NothingToEvaluateError unless
    both are runs."""
    return compare_samples(_require_run(a), _require_run(b), count, seed)


def evaluate_sample(predictions: Predictions, count: int, seed: int) -> SampleEvaluation:
    """Diagnose a sample of a run's pages. Raises NothingToEvaluateError unless it is a run."""
    return diagnose_sample(_require_run(predictions).store, count, seed)


def _require_run(predictions: Predictions) -> RunPredictions:
    if isinstance(predictions, RunPredictions):
        return predictions
    raise NothingToEvaluateError(
        f"{predictions.uri} has Markdown files without page images",
        ProblemCode.NO_PAGE_IMAGES,
    )


def collect_problems(results: Sequence[EvaluationResult]) -> list[InputProblem]:
    """The problems of all results, without duplicates."""
    problems: dict[InputProblem, None] = {}
    for result in results:
        if not isinstance(result, SampleEvaluation):
            problems |= dict.fromkeys(result.problems)
    return list(problems)
