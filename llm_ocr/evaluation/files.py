"""The files that an evaluation leaves: all of it as JSON, and pages to look at."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_ocr.evaluation.as_json import as_json
from llm_ocr.evaluation.asking import Result
from llm_ocr.evaluation.comparing import Comparison
from llm_ocr.evaluation.html_pages import comparison_page, sample_page, tests_page, truth_page
from llm_ocr.evaluation.readings import Readings, RunReadings
from llm_ocr.evaluation.sampling import SampleEvaluation
from llm_ocr.evaluation.scoring import Evaluation
from llm_ocr.evaluation.truth import TruthEvaluation
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.storage.store import StorageError

# Below a run's folder, where nothing else is given.
FOLDER = "evaluation"


def write(
    results: Sequence[Result],
    readings: Readings,
    other: Readings | None,
    json_file: Path | None,
    html_file: Path | None,
) -> Iterator[tuple[Path, str]]:
    """Write each result, and tell where and what it is. Without files given they go into a run's
    folder, and nowhere if that isn't on this machine's disk. Raises StorageError."""
    for k, result in enumerate(results):
        name = _name(result)
        for given, suffix, what in (
            (html_file, ".html", "what is wrong, beside the pages"),
            (json_file, ".json", "all results"),
        ):
            path = _place(given, name, suffix, readings, is_first=k == 0)
            if path is None:
                continue
            text = _page(result, readings, other) if suffix == ".html" else _json(result)
            _write(path, text)
            yield path, what


def _name(result: Result) -> str:
    if isinstance(result, Comparison):
        return f"against-{result.by}"
    if isinstance(result, SampleEvaluation):
        return "sample"
    return "tests" if isinstance(result, Evaluation) else "truth"


def _place(
    given: Path | None, name: str, suffix: str, readings: Readings, *, is_first: bool
) -> Path | None:
    if given is not None:
        # Tests and truth given together make two files.
        return given if is_first else given.with_stem(f"{given.stem}-{name}")
    folder = readings.store.folder if isinstance(readings, RunReadings) else None
    return None if folder is None else folder / FOLDER / f"{name}{suffix}"


def _json(result: Result) -> str:
    return json.dumps(as_json(result), ensure_ascii=False, indent=1)


def _page(result: Result, readings: Readings, other: Readings | None) -> str:
    if isinstance(result, Evaluation):
        return tests_page(result, readings)
    if isinstance(result, TruthEvaluation):
        return truth_page(result, readings)
    if isinstance(result, SampleEvaluation):
        return sample_page(result, readings)
    return comparison_page(result, readings, other or readings)


def _write(path: Path, text: str) -> None:
    try:
        with atomic_write(path) as target:
            target.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}; give --json and --html files elsewhere"
        ) from error
