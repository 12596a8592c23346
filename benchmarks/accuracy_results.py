"""What the engines of `benchmarks.accuracy` reached."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy_engines import DOUBTS, Cost
from benchmarks.page_scores import PageScore, score_page
from benchmarks.page_totals import Totals, totals
from benchmarks.pages.truth import read_page
from llm_ocr.evaluation.olmocr_bench.page_tests import load_tests
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestResult, evaluate
from llm_ocr.evaluation.predictions import open_predictions

KINDS = ("present", "absent", "order", "table")
HANDWRITTEN = "mattsnotes"


@dataclass(frozen=True)
class Passed:
    """So many of so many tests."""

    passed: int
    tests: int


@dataclass(frozen=True)
class BenchResult:
    """Tests of printed documents but those of formulas: by kind, together, and without those that
    an empty page passes; and of the handwritten document. `doubts` are the lines said to be
    doubtful, of printed documents and of the handwritten one; None of a reader that says nothing
    of the kind."""

    kinds: Mapping[str, Passed]
    all: Passed
    without_absent: Passed
    handwritten: Passed
    failed: Sequence[str]
    doubts: tuple[Passed, Passed] | None = None


@dataclass(frozen=True)
class Results:
    """By engine and set of pages. `pages` are the documents of each set."""

    scores: Mapping[tuple[str, str], Sequence[PageScore]]
    bench: Mapping[tuple[str, str], BenchResult]
    costs: Mapping[tuple[str, str], Cost]
    backend: str
    pages: Mapping[str, int]

    def totals(self, engine: str, name: str, columns: int = 1) -> Totals | None:
        """Of the pages with at least so many columns."""
        scores = [one for one in self.scores.get((engine, name), ()) if one.columns >= columns]
        return totals(scores) if scores else None

    def as_json(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "sets": [
                {"engine": engine, "set": name, "pages": [asdict(one) for one in scores]}
                for (engine, name), scores in self.scores.items()
            ],
            "bench": [
                {"engine": engine, "set": name, **asdict(result)}
                for (engine, name), result in self.bench.items()
            ],
            "costs": [
                {"engine": engine, "set": name, **asdict(cost), "cpu_a_page": cost.cpu_a_page}
                for (engine, name), cost in self.costs.items()
            ],
        }


def page_scores(truth: Path, said: Path) -> list[PageScore]:
    """Of every page that there is truth for; one that wasn't read is empty."""
    scores = []
    for path in sorted(truth.glob("*.json")):
        text = said / f"{path.stem}_pg1.md"
        scores.append(score_page(read_page(path), text.read_text("utf-8") if text.exists() else ""))
    return scores


def bench_result(folder: Path, tests: Path) -> BenchResult:
    """The tests run over a folder of Markdown files."""
    evaluation = evaluate(open_predictions(str(folder)), load_tests([tests]))
    asked = [one for one in evaluation.results if one.test.kind in KINDS]
    written = [one for one in asked if HANDWRITTEN in one.test.pdf]
    printed = [one for one in asked if HANDWRITTEN not in one.test.pdf]
    return BenchResult(
        {kind: _passed([one for one in printed if one.test.kind == kind]) for kind in KINDS},
        _passed(printed),
        _passed([one for one in printed if one.test.kind != "absent"]),
        _passed(written),
        [one.test.id for one in asked if one.verdict is not RuleVerdict.PASSED],
        _doubts(folder / DOUBTS),
    )


def _doubts(path: Path) -> tuple[Passed, Passed] | None:
    if not path.exists():
        return None
    known: dict[str, tuple[int, int]] = json.loads(path.read_text())
    printed, written = (
        Passed(sum(one[0] for one in lines), sum(one[1] for one in lines))
        for lines in (
            [lines for name, lines in known.items() if HANDWRITTEN not in name],
            [lines for name, lines in known.items() if HANDWRITTEN in name],
        )
    )
    return printed, written


def _passed(results: Sequence[PageTestResult]) -> Passed:
    return Passed(sum(one.verdict is RuleVerdict.PASSED for one in results), len(results))
