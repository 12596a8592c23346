"""Write the files of an evaluation: all results as JSON, and the failures as HTML."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_ocr.evaluation.comparison import Comparison
from llm_ocr.evaluation.diagnostics import SampleEvaluation
from llm_ocr.evaluation.ground_truth import GroundTruthEvaluation
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation
from llm_ocr.evaluation.predictions import Predictions, RunPredictions
from llm_ocr.evaluation.reporters.html import (
    render_comparison,
    render_ground_truth,
    render_page_tests,
    render_sample,
)
from llm_ocr.evaluation.reporters.json import to_json
from llm_ocr.evaluation.runner import EvaluationResult
from llm_ocr.messages import ProblemCode
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.storage.store import StorageError

# The folder in a run for files whose path is not given.
FOLDER = "evaluation"


def write_reports(
    results: Sequence[EvaluationResult],
    predictions: Predictions,
    other: Predictions | None,
    json_file: Path | None,
    html_file: Path | None,
) -> Iterator[tuple[Path, str]]:
    """Write each result; yields the paths with a description. Files whose path is not given go into
    the run's folder, or are not written if it isn't on a local disk. Raises StorageError."""
    for k, result in enumerate(results):
        name = _name(result)
        for given, suffix, what in (
            (html_file, ".html", "failures, beside their pages"),
            (json_file, ".json", "all results"),
        ):
            path = _path(given, name, suffix, predictions, is_first=k == 0)
            if path is None:
                continue
            text = _html(result, predictions, other) if suffix == ".html" else _json(result)
            _write(path, text)
            yield path, what


def _name(result: EvaluationResult) -> str:
    if isinstance(result, Comparison):
        return f"against-{result.by}"
    if isinstance(result, SampleEvaluation):
        return "sample"
    return "tests" if isinstance(result, PageTestEvaluation) else "truth"


def _path(
    given: Path | None, name: str, suffix: str, predictions: Predictions, *, is_first: bool
) -> Path | None:
    if given is not None:
        # Page tests and ground truth together make two files.
        return given if is_first else given.with_stem(f"{given.stem}-{name}")
    folder = predictions.store.folder if isinstance(predictions, RunPredictions) else None
    return None if folder is None else folder / FOLDER / f"{name}{suffix}"


def _json(result: EvaluationResult) -> str:
    return json.dumps(to_json(result), ensure_ascii=False, indent=1)


def _html(result: EvaluationResult, predictions: Predictions, other: Predictions | None) -> str:
    if isinstance(result, PageTestEvaluation):
        return render_page_tests(result, predictions)
    if isinstance(result, GroundTruthEvaluation):
        return render_ground_truth(result, predictions)
    if isinstance(result, SampleEvaluation):
        return render_sample(result, predictions)
    return render_comparison(result, predictions, other or predictions)


def _write(path: Path, text: str) -> None:
    try:
        with atomic_write(path) as target:
            target.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}", ProblemCode.REPORT_UNWRITABLE
        ) from error
