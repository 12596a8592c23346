from pathlib import Path

import pytest

from llm_ocr.evaluation.asking import compare, compare_without, load
from llm_ocr.evaluation.comparing import Comparison, Side
from llm_ocr.evaluation.readings import NothingToEvaluateError, open_readings
from tests.evaluation.readings import page, present, write_lines, write_run

PROSE = "Pages of ordinary words, one after the other, as documents have them. " * 3


def compared(a: str, b: str, tests: Path) -> Comparison:
    (found,) = compare(open_readings(a), open_readings(b), load([str(tests)]))
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
    found = compared(a, b, tests)
    sides = {(pair.document, pair.number): pair.side for pair in found.pairs}
    assert sides == {("x", 1): Side.WIN, ("x", 2): Side.TIE, ("y", 1): Side.LOSS}
    assert found.p_value == 1.0
    assert found.difference is not None
    win = next(pair for pair in found.examples if pair.side is Side.WIN)
    # Two texts and the baseline test of a first page.
    assert win.difference == pytest.approx(1 / 3)
    assert "x1two" in win.b.remarks[0]
    assert {problem.message for problem in found.problems} == {
        f"test of a alone: z.pdf is no document of {a}",
        f"test of a alone: z.pdf is no document of {b}",
    }


def test_runs_below_other_folders_are_of_the_same_pages(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("in/x", 1, "one"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x_pg1_repeat1.md").write_text("two")
    tests = write_lines(tmp_path / "t.jsonl", present("1", "one", "x.pdf"))
    (pair,) = compared(a, str(tmp_path / "b"), tests).pairs
    assert (pair.side, pair.a.document, pair.b.document) == (Side.WIN, "in/x", "x")


def test_two_runs_by_truth(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, PROSE), page("x", 2, PROSE.replace("o", "0")))
    b = write_run(tmp_path / "b", page("x", 1, PROSE + "."), page("x", 2, PROSE))
    (tmp_path / "truth").mkdir()
    for number in (1, 2):
        (tmp_path / "truth" / f"x_pg{number}.md").write_text(PROSE)
    found = compared(a, b, tmp_path / "truth")
    # A full stop too many is within the margin.
    assert [pair.side for pair in found.pairs] == [Side.TIE, Side.LOSS]


def test_two_runs_without_anything_to_hold_them_against(tmp_path: Path) -> None:
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
    found = compare_without(open_readings(a), open_readings(b), 10, 0)
    sides = {pair.number: pair.side for pair in found.pairs}
    assert sides == {1: Side.WIN, 2: Side.LOSS, 3: Side.TIE}
    assert found.unpaired == 1
    assert [pair.number for pair in found.examples] == [2, 1]


def test_files_without_tests_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "x_pg1.md").write_text("one")
    folder = open_readings(str(tmp_path))
    with pytest.raises(NothingToEvaluateError, match="give --tests"):
        compare_without(folder, folder, 10, 0)
