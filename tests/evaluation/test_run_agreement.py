"""Two runs of the same pages, of which nobody knows which is right."""

from pathlib import Path

import pytest

from llm_ocr.evaluation.predictions import NothingToEvaluateError, open_predictions
from llm_ocr.evaluation.run_agreement import (
    PageAgreement,
    PageGap,
    RunAgreement,
    measure_runs,
    pair_runs,
)
from tests.evaluation.runs import page, write_run

FIRST = "The bridge was closed for seven weeks in spring."
SECOND = "Four hundred barges took the northern canal instead."
TABLE = "<table><tr><td>May</td><td>71</td></tr><tr><td>June</td><td>64</td></tr></table>"


def measure(a: str, b: str, sample: int | None = None, seed: int = 0) -> RunAgreement:
    runs = pair_runs(open_predictions(a), open_predictions(b))
    return measure_runs(runs, sample=sample, seed=seed)


def agreement_of(tmp_path: Path, a: str, b: str) -> PageAgreement:
    first = write_run(tmp_path / "a", page("x", 1, a))
    (found,) = measure(first, write_run(tmp_path / "b", page("x", 1, b))).pages
    return found


def test_texts_that_differ_in_markup_alone_agree_fully(tmp_path: Path) -> None:
    a = f"# Report\n\n{FIRST}\n\n| Month | mm |\n| --- | --- |\n| May | 71 |"
    b = (
        f"<h1>Report</h1>\n\n**The bridge** {FIRST[11:]}\n\n<table><tr><th>Month</th><th>mm</th>"
        "</tr><tr><td>May</td><td>71</td></tr></table>"
    )
    found = agreement_of(tmp_path, a, b)
    assert (found.text, found.words, found.order, found.tables, found.headings) == (1,) * 5
    assert found.overall == 1


def test_each_measure_sees_its_own_kind_of_difference(tmp_path: Path) -> None:
    swapped = agreement_of(tmp_path / "1", f"{FIRST}\n\n{SECOND}", f"{SECOND}\n\n{FIRST}")
    assert swapped.words == 1
    assert swapped.order < 1
    assert swapped.text < 1
    assert (swapped.tables, swapped.headings) == (None, None)
    number = agreement_of(
        tmp_path / "2", f"{FIRST}\n\n{TABLE}", f"{FIRST}\n\n{TABLE[:-30]}9{TABLE[-29:]}"
    )
    assert (number.text, number.order) == (1, 1)
    assert number.tables is not None
    assert 0.5 < number.tables < 1
    assert number.words < 1
    lost = agreement_of(tmp_path / "3", f"{FIRST}\n\n{TABLE}", FIRST)
    assert lost.tables == 0
    heading = agreement_of(tmp_path / "4", f"# Closed\n\n{FIRST}", f"Closed\n\n{FIRST}")
    assert (heading.text, heading.headings) == (1, 0)


def test_the_order_of_the_runs_does_not_change_how_far_they_agree(tmp_path: Path) -> None:
    a, b = f"# Report\n\n{FIRST}\n\n{SECOND}", f"{SECOND}\n\n{TABLE}\n\nReport"
    one, other = agreement_of(tmp_path / "1", a, b), agreement_of(tmp_path / "2", b, a)
    assert one.overall == pytest.approx(other.overall)
    assert one.words == other.words


def test_pages_that_one_run_lacks_or_could_not_read_are_listed(tmp_path: Path) -> None:
    failed = {"status": "failed", "error": "broken", "blocks": []}
    a = write_run(
        tmp_path / "a",
        page("x", 1, FIRST),
        page("x", 2, "", **failed),
        page("x", 3, FIRST),
        page("x", 4, "", **failed),
        page("y", 0, "", **{**failed, "error": "is encrypted"}),
        page("gone", 0, "", **failed),
    )
    b = write_run(
        tmp_path / "b",
        page("x", 2, FIRST),
        page("x", 1, FIRST),
        page("x", 4, "", **failed),
        page("y", 1, FIRST),
        page("y", 2, FIRST),
    )
    found = measure(a, b)
    assert [one.key for one in found.pages] == [("x", 1)]
    gaps = {(one.document, one.number): (one.gap, *one.errors) for one in found.uncompared}
    assert gaps == {
        ("x", 2): (PageGap.FAILED_A, "broken", None),
        ("x", 3): (PageGap.ONLY_A, None, None),
        ("x", 4): (PageGap.FAILED_BOTH, "broken", "broken"),
        # The document could not be opened in A: its pages are not missing, they failed.
        ("y", 1): (PageGap.FAILED_A, "is encrypted", None),
        ("y", 2): (PageGap.FAILED_A, "is encrypted", None),
        ("gone", 0): (PageGap.ONLY_A, "broken", None),
    }
    assert found.common == 3


def test_documents_are_matched_by_name_and_else_by_content(tmp_path: Path) -> None:
    a = write_run(
        tmp_path / "a",
        page("scans/x", 1, FIRST, content_hash="same"),
        page("y", 1, FIRST, content_hash="one"),
    )
    b = write_run(
        tmp_path / "b",
        page("x", 1, SECOND, content_hash="same"),
        page("y", 1, FIRST, content_hash="another"),
    )
    found = measure(a, b)
    assert {one.key: one.name_in_b for one in found.pages} == {("scans/x", 1): "x", ("y", 1): "y"}
    assert [problem.location for problem in found.problems] == ["y"]
    assert found.most_different(5)[0].document == "scans/x"


def test_a_run_is_compared_with_files_of_another_tool(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, FIRST))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x_pg1_repeat1.md").write_text(FIRST)
    (tmp_path / "b" / "x_pg1_repeat2.md").write_text("of another repeat")
    found = measure(a, str(tmp_path / "b"))
    assert found.identical.passed == 1
    assert found.pages[0].statuses == ("ok", None)


def test_a_sample_is_random_and_reproducible(tmp_path: Path) -> None:
    pages = [page(f"d{k:02}", 1, FIRST) for k in range(30)]
    a = write_run(tmp_path / "a", *pages, page("alone", 1, FIRST))
    b = write_run(tmp_path / "b", *reversed(pages))
    drawn = [{one.document for one in measure(a, b, 8, seed).pages} for seed in (0, 0, 1)]
    assert [len(one) for one in drawn] == [8, 8, 8]
    assert drawn[0] == drawn[1] != drawn[2]
    found = measure(a, b, 8)
    assert (found.common, found.sampled) == (30, 8)
    assert [(one.document, one.gap) for one in found.uncompared] == [("alone", PageGap.ONLY_A)]


def test_intervals_are_over_documents(tmp_path: Path) -> None:
    """One document with many pages that differ says less than as many documents."""
    a = write_run(
        tmp_path / "a",
        *(page("long", k, FIRST) for k in range(1, 9)),
        *(page(f"d{k}", 1, FIRST) for k in range(8)),
    )
    b = write_run(
        tmp_path / "b",
        *(page("long", k, SECOND) for k in range(1, 9)),
        *(page(f"d{k}", 1, FIRST) for k in range(8)),
    )
    mean = measure(a, b).means["text"]
    assert mean.count == 16
    assert mean.high == 1, "resamples without the long document have no difference"
    assert mean.low < mean.value < mean.high


def test_runs_of_other_documents_can_not_be_compared(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, FIRST))
    b = write_run(tmp_path / "b", page("y", 1, FIRST))
    with pytest.raises(NothingToEvaluateError, match="no page in common"):
        measure(a, b)
