from pathlib import Path

import pytest

from llm_ocr.evaluation.olmocr_bench.page_tests import load_tests
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation, evaluate
from llm_ocr.evaluation.predictions import NothingToEvaluateError, match_documents, open_predictions
from tests.evaluation.runs import block, page, present, write_lines, write_run


def evaluate_run(run: str, file: Path, include_headers_footers: bool = False) -> PageTestEvaluation:
    return evaluate(open_predictions(run, include_headers_footers), load_tests([file]))


def verdicts(found: PageTestEvaluation) -> dict[str, RuleVerdict]:
    return {one.test.id: one.verdict for one in found.results}


def test_tests_are_run_over_their_pages(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        page("a", 1, "The first page."),
        page("a", 2, "The second page."),
        page("sub/b", 1, "Another document."),
    )
    file = write_lines(
        tmp_path / "tests.jsonl",
        present("1", "first page"),
        present("2", "first page", page=2),
        present("3", "Another", "sub/b.pdf"),
        {**present("4", "second", "a.pdf"), "type": "absent"},
    )
    found = evaluate_run(run, file)
    passed, failed = RuleVerdict.PASSED, RuleVerdict.FAILED
    assert verdicts(found) == {
        "1": passed,
        "2": failed,
        "3": passed,
        "4": passed,
        "a.pdf_baseline": passed,
        "sub/b.pdf_baseline": passed,
    }
    assert found.problems == ()
    kinds = {kind: score.proportion for kind, score in found.by_kind.items()}
    assert {kind: (one.passed, one.total) for kind, one in kinds.items()} == {
        "present": (2, 3),
        "absent": (1, 1),
        "baseline": (2, 2),
    }
    assert (found.overall.proportion.passed, found.overall.proportion.total) == (5, 6)
    assert (found.without_absent.proportion.passed, found.without_absent.proportion.total) == (4, 5)
    assert found.by_document["a"].proportion.total == 4


def test_headers_and_footers_count_only_on_request(tmp_path: Path) -> None:
    blocks = [block("header", "ACME Corp."), block("text", "Body."), block("page_number", "7")]
    run = write_run(tmp_path / "run", page("a", 1, "ACME Corp.\n\nBody.\n\n7", blocks=blocks))
    file = write_lines(
        tmp_path / "t.jsonl",
        {**present("1", "ACME Corp."), "type": "absent"},
        present("2", "Body."),
    )
    assert verdicts(evaluate_run(run, file))["1"] is RuleVerdict.PASSED
    assert verdicts(evaluate_run(run, file))["2"] is RuleVerdict.PASSED
    assert (
        verdicts(evaluate_run(run, file, include_headers_footers=True))["1"] is RuleVerdict.FAILED
    )


def test_failed_page_fails_its_tests_and_is_counted_separately(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        page("a", 1, "", status="failed", error="the engine died", blocks=[]),
        page("b", 0, "", status="failed", error="encrypted", blocks=[], image=None),
    )
    file = write_lines(
        tmp_path / "t.jsonl",
        present("1", "text"),
        {**present("2", "no text"), "type": "absent"},
        present("3", "text", "b.pdf", page=9),
    )
    found = evaluate_run(run, file)
    assert set(verdicts(found).values()) == {RuleVerdict.FAILED}
    assert found.overall.failed_pages == found.overall.proportion.total == 5
    errors = {one.test.id: one.page_error for one in found.results}
    assert (errors["2"], errors["3"]) == ("the engine died", "encrypted")


def test_tests_without_a_page_are_reported_and_not_counted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", page("a", 1, "Text."), page("a", 2, "Text."))
    file = write_lines(
        tmp_path / "t.jsonl",
        present("1", "Text."),
        present("2", "Text.", "other.pdf"),
        present("3", "Text.", page=3),
    )
    found = evaluate_run(run, file)
    assert set(verdicts(found)) == {"1", "a.pdf_baseline"}
    assert [str(one) for one in found.problems] == [
        f"{file}:2: test 2: {run} has no document other.pdf",
        f"{file}:3: test 3: a has no page 3 in {run}, only 2 pages",
    ]


def test_repeated_readings_are_averaged_and_the_majority_passes(tmp_path: Path) -> None:
    for repeat, text in enumerate(["right", "right", "wrong"], 1):
        (tmp_path / f"doc_pg1_repeat{repeat}.md").write_text(text)
    file = write_lines(tmp_path / "t.jsonl", present("1", "right", "doc.pdf"))
    (result, _) = evaluate_run(str(tmp_path), file).results
    assert result.verdict is RuleVerdict.PASSED
    assert result.score == pytest.approx(2 / 3)


def test_folder_of_markdown_is_scored_like_a_run(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a b_pg2.md").write_text("two")
    (tmp_path / "whole.md").write_text("whole")
    (tmp_path / "of_pg.md").write_text("odd")
    file = write_lines(
        tmp_path / "t.jsonl",
        present("1", "two", "sub/a b.pdf", page=2),
        present("2", "whole", "whole.pdf"),
        present("3", "odd", "of_pg.pdf"),
    )
    found = evaluate_run(str(tmp_path), file)
    assert set(verdicts(found).values()) == {RuleVerdict.PASSED}
    # Its first page is not there: no baseline test is made up.
    assert "sub/a b.pdf_baseline" not in verdicts(found)


def test_baseline_test_accepts_expected_scripts(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", page("a", 1, "中文的一页"), page("b", 1, "中文的一页"))
    file = write_lines(
        tmp_path / "t.jsonl", present("1", "中文"), present("2", "x", "b.pdf"),
    )  # fmt: skip
    found = verdicts(evaluate_run(run, file))
    assert found["a.pdf_baseline"] is RuleVerdict.PASSED
    assert found["b.pdf_baseline"] is RuleVerdict.FAILED


@pytest.mark.parametrize(
    ("asked", "names", "expected"),
    [
        ("a.pdf", ["a"], "a"),
        ("a.b.pdf", ["a.b", "a"], "a.b"),
        ("sub/a.pdf", ["sub/a", "a"], "sub/a"),
        # Several documents of a name have their ending behind it.
        ("a.PNG", ["a", "a-png"], "a-png"),
        ("a.pdf", ["a", "a-png"], "a"),
        # The input was a folder above, or below, that of the tests.
        ("a.pdf", ["in/2024/a"], "in/2024/a"),
        ("sub/a.pdf", ["a"], "a"),
        ("x/sub/a.pdf", ["sub/a", "other/a"], "sub/a"),
        ("Ä ö?.pdf", ["Ä ö_"], "Ä ö_"),
        ("a.pdf", ["b"], None),
        ("a.pdf", ["xa"], None),
    ],
)
def test_documents_are_found_by_their_paths(
    asked: str, names: list[str], expected: str | None
) -> None:
    found = match_documents([asked], [(name, 1) for name in names])
    assert found.ambiguous == {}
    assert found.matched == ({} if expected is None else {asked: (expected, frozenset({1}))})


def test_ambiguous_path_is_reported(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", page("x/a", 1, "One."), page("y/a", 1, "Two."))
    file = write_lines(tmp_path / "t.jsonl", present("1", "One."))
    found = evaluate_run(run, file)
    assert found.results == ()
    assert ": x/a, y/a; give more of its path" in str(found.problems[0])


def test_empty_run_has_nothing_to_evaluate(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(NothingToEvaluateError, match=str(place)):
            open_predictions(str(place))
