from pathlib import Path

import pytest

from llm_ocr.evaluation.comparison import Comparison, PairOutcome
from llm_ocr.evaluation.predictions import NothingToEvaluateError, open_predictions
from llm_ocr.evaluation.runner import compare, compare_without_references, load_references
from llm_ocr.messages import ProblemCode
from tests.evaluation.runs import page, present, write_lines, write_run

PROSE = "Pages of ordinary words, one after the other, as documents have them. " * 3


def compare_runs(a: str, b: str, tests: Path) -> Comparison:
    (found,) = compare(open_predictions(a), open_predictions(b), load_references([str(tests)]))
    return found


def test_two_runs_by_tests(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, "one two"), page("x", 2, "one"), page("y", 1, "one"))
    b = write_run(tmp_path / "b", page("x", 1, "one"), page("x", 2, "one"), page("y", 1, "one two"))
    tests = write_lines(
        tmp_path / "t.jsonl",
        *(present(f"{pdf}{k}{word}", word, f"{pdf}.pdf", k)
          for pdf, k in (("x", 1), ("x", 2), ("y", 1)) for word in ("one", "two")),
        present("of a alone", "three", "z.pdf"),
    )  # fmt: skip
    found = compare_runs(a, b, tests)
    outcomes = {(pair.document, pair.number): pair.outcome for pair in found.pairs}
    assert outcomes == {
        ("x", 1): PairOutcome.WIN,
        ("x", 2): PairOutcome.TIE,
        ("y", 1): PairOutcome.LOSS,
    }
    assert found.p_value == 1.0
    assert found.difference is not None
    win = next(pair for pair in found.examples if pair.outcome is PairOutcome.WIN)
    # Two texts and the baseline test of a first page.
    assert win.difference == pytest.approx(1 / 3)
    assert "x1two" in win.b.remarks[0]
    assert {problem.message for problem in found.problems} == {
        f"test of a alone: {a} has no document z.pdf",
        f"test of a alone: {b} has no document z.pdf",
    }


def test_runs_below_other_folders_are_of_the_same_pages(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("in/x", 1, "one"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x_pg1_repeat1.md").write_text("two")
    tests = write_lines(tmp_path / "t.jsonl", present("1", "one", "x.pdf"))
    (pair,) = compare_runs(a, str(tmp_path / "b"), tests).pairs
    assert (pair.outcome, pair.a.document, pair.b.document) == (PairOutcome.WIN, "in/x", "x")


def test_two_runs_by_truth(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, PROSE), page("x", 2, PROSE.replace("o", "0")))
    b = write_run(tmp_path / "b", page("x", 1, PROSE + "."), page("x", 2, PROSE))
    (tmp_path / "truth").mkdir()
    for number in (1, 2):
        (tmp_path / "truth" / f"x_pg{number}.md").write_text(PROSE)
    found = compare_runs(a, b, tmp_path / "truth")
    # A full stop too many is within the margin.
    assert [pair.outcome for pair in found.pairs] == [PairOutcome.TIE, PairOutcome.LOSS]


def test_runs_without_truth_or_tests_are_not_compared(tmp_path: Path) -> None:
    a = write_run(
        tmp_path / "a",
        page("x", 1, PROSE, agreement=0.99),
        page("x", 2, "", status="failed", error="broken", blocks=[]),
        page("x", 3, PROSE),
        page("x", 4, PROSE),
    )
    b = write_run(
        tmp_path / "b",
        page("x", 1, PROSE, agreement=0.4),
        page("x", 2, PROSE),
        page("x", 3, PROSE, agreement=0.99),
    )
    found = compare_without_references(open_predictions(a), open_predictions(b), 10, 0)
    outcomes = {pair.number: pair.outcome for pair in found.pairs}
    assert outcomes == {1: PairOutcome.WIN, 2: PairOutcome.LOSS, 3: PairOutcome.TIE}
    assert found.unpaired == 1
    assert [pair.number for pair in found.examples] == [2, 1]


def test_files_without_tests_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "x_pg1.md").write_text("one")
    folder = open_predictions(str(tmp_path))
    with pytest.raises(NothingToEvaluateError, match="without page images") as refused:
        compare_without_references(folder, folder, 10, 0)
    assert refused.value.code is ProblemCode.NO_PAGE_IMAGES
