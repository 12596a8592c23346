"""What `llm-ocr eval` does: the files that are given, and the evaluation they ask for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.evaluation import scoring, truth
from llm_ocr.evaluation.comparing import Comparison, by_signs, by_tests, by_truth
from llm_ocr.evaluation.page_tests import LoadedTests, Problem, load_tests
from llm_ocr.evaluation.readings import NothingToEvaluateError, Readings, RunReadings
from llm_ocr.evaluation.sampling import SampleEvaluation, sample
from llm_ocr.evaluation.scoring import Evaluation
from llm_ocr.evaluation.truth import Truth, TruthEvaluation

TRUTH_SUFFIXES = (".md", ".txt", ".json")


@dataclass(frozen=True)
class Given:
    """The tests and the ground truth of some files."""

    tests: LoadedTests
    truths: tuple[Truth, ...] = ()
    problems: tuple[Problem, ...] = ()


Result = Evaluation | TruthEvaluation | SampleEvaluation | Comparison


def load(paths: Sequence[str]) -> Given:
    """The tests (`.jsonl`) and ground truth (`.md`, `.txt`, OmniDocBench's `.json`) of files and
    folders. Raises NothingToEvaluateError for what isn't there or holds none."""
    tests: list[Path] = []
    truths: list[tuple[Path, Path]] = []
    for path in map(Path, paths):
        found = list(_files(path))
        if not found:
            raise NothingToEvaluateError(
                f"{path}: no tests (.jsonl) and no ground truth (.md, .txt, .json) are there"
            )
        tests += [file for file, _ in found if file.suffix.lower() == ".jsonl"]
        truths += [one for one in found if one[0].suffix.lower() in TRUTH_SUFFIXES]
    loaded, problems = truth.load_truth(truths)
    return Given(load_tests(tests), tuple(loaded), tuple(problems))


def _files(path: Path) -> Iterator[tuple[Path, Path]]:
    """Files with the folder that names count from; truth in a folder that has tests is none, but
    some tool's output that lies beside them."""
    if path.is_file():
        yield path, path.parent
        return
    tests = sorted(path.glob("*.jsonl"))
    for file in tests or sorted(path.rglob("*")):
        if tests or file.suffix.lower() in TRUTH_SUFFIXES:
            yield file, path


def evaluate(readings: Readings, given: Given) -> list[Evaluation | TruthEvaluation]:
    """A run by tests, by ground truth, or by both, as given."""
    results: list[Evaluation | TruthEvaluation] = []
    if given.tests.tests or given.tests.problems:
        results.append(scoring.evaluate(readings, given.tests))
    if given.truths or given.problems:
        results.append(truth.compare(readings, given.truths, given.problems))
    return results


def compare(a: Readings, b: Readings, given: Given) -> list[Comparison]:
    """Two runs by tests, by ground truth, or by both."""
    found: list[Comparison] = []
    for mine, theirs in zip(evaluate(a, given), evaluate(b, given), strict=True):
        if isinstance(mine, Evaluation) and isinstance(theirs, Evaluation):
            found.append(by_tests(mine, theirs))
        elif isinstance(mine, TruthEvaluation) and isinstance(theirs, TruthEvaluation):
            found.append(by_truth(mine, theirs))
    return found


def compare_without(a: Readings, b: Readings, count: int, seed: int) -> Comparison:
    """Two runs by what a sample of their pages gives away. Raises NothingToEvaluateError for files
    that are no run."""
    return by_signs(_run(a), _run(b), count, seed)


def look_at(readings: Readings, count: int, seed: int) -> SampleEvaluation:
    """A sample of a run's pages. Raises NothingToEvaluateError for files that are no run."""
    return sample(_run(readings).store, count, seed)


def _run(readings: Readings) -> RunReadings:
    if isinstance(readings, RunReadings):
        return readings
    raise NothingToEvaluateError(
        f"{readings.place} holds Markdown files without page images; give --tests"
    )


def problems_of(results: Sequence[Result]) -> list[Problem]:
    """What of the tests and the truth could not be used, each once."""
    found: dict[Problem, None] = {}
    for result in results:
        if not isinstance(result, SampleEvaluation):
            found |= dict.fromkeys(result.problems)
    return list(found)
