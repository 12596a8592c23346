import json
from pathlib import Path

import pytest

from llm_ocr.evaluation.ground_truth import GroundTruthEvaluation
from llm_ocr.evaluation.predictions import NothingToEvaluateError, open_predictions
from llm_ocr.evaluation.runner import evaluate, load_references
from tests.evaluation.runs import page, present, write_lines, write_run

TEXT = "# A title\n\nThe first paragraph is here.\n\nThe second paragraph is there."
TABLE = "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>"


def against(run: str, folder: Path) -> GroundTruthEvaluation:
    (found,) = evaluate(open_predictions(run), load_references([str(folder)]))
    assert isinstance(found, GroundTruthEvaluation)
    return found


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    (tmp_path / "truth").mkdir()
    return tmp_path / "truth"


def test_pages_against_their_truth(tmp_path: Path, truth: Path) -> None:
    run = write_run(
        tmp_path / "run",
        page("a", 1, TEXT),
        page("a", 2, f"Words.\n\n{TABLE}".replace("2", "3")),
    )
    (truth / "a_pg1.md").write_text(TEXT.replace("here", "hare"))
    (truth / "a_pg2.md").write_text("Words.\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    found = against(run, truth)
    first, second = found.pages
    assert 0 < first.edit_distance < 0.05
    assert (first.order_distance, first.teds, first.headings.recall) == (0.0, (), 1.0)
    assert second.edit_distance == 0.0
    assert second.teds[0] == pytest.approx(6 / 7)
    assert second.teds_structure == (1.0,)
    assert found.means["TEDS of tables"].count == 1
    assert found.means["edit distance"].value == pytest.approx(first.edit_distance / 2)


def test_a_whole_document(tmp_path: Path, truth: Path) -> None:
    pages = TEXT.split("\n\n")
    run = write_run(tmp_path / "run", *(page("a", k, text) for k, text in enumerate(pages, 1)))
    (truth / "a.txt").write_text(TEXT)
    (found,) = against(run, truth).pages
    assert (found.edit_distance, found.order_distance, found.truth.page) == (0.0, 0.0, None)


def test_names_with_dots(tmp_path: Path, truth: Path) -> None:
    run = write_run(tmp_path / "run", page("plan.v2", 1, TEXT), page("plan", 1, "other"))
    (truth / "plan.v2_pg1.md").write_text(TEXT)
    (truth / "plan.v3_pg1.md").write_text(TEXT)
    found = against(run, truth)
    assert [(one.document, one.edit_distance) for one in found.pages] == [("plan.v2", 0.0)]
    assert "has no document plan.v3.md" in str(found.problems[0])


def test_failed_page_has_the_maximum_distance(tmp_path: Path, truth: Path) -> None:
    run = write_run(tmp_path / "run", page("a", 1, "", status="failed", error="broken", blocks=[]))
    (truth / "a_pg1.md").write_text(f"{TEXT}\n\n{TABLE}")
    found = against(run, truth)
    (only,) = found.pages
    assert (only.edit_distance, only.order_distance, only.teds, only.error) == (
        1.0,
        1.0,
        (0.0,),
        "broken",
    )
    assert found.failed_pages == 1


def test_truth_without_a_page_is_reported(tmp_path: Path, truth: Path) -> None:
    run = write_run(tmp_path / "run", page("a", 1, TEXT))
    (truth / "a_pg2.md").write_text(TEXT)
    (truth / "b.md").write_text(TEXT)
    (truth / "broken.txt").write_bytes(b"\xff\xfe\xfa")
    found = against(run, truth)
    assert found.pages == ()
    said = sorted(str(one) for one in found.problems)
    assert said[0] == f"{truth}/a_pg2.md: a.md has no page 2 in {run}"
    assert said[1] == f"{truth}/b.md: {run} has no document b.md"
    assert "UTF-8" in said[2]


def omni(name: str, *boxes: tuple[int | None, str, str]) -> dict[str, object]:
    return {
        "page_info": {"image_path": name, "page_no": 0},
        "layout_dets": [
            {"category_type": kind, "order": order, "html" if kind == "table" else "text": text}
            for order, kind, text in boxes
        ],
    }


def test_omnidocbench(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", page("page_001", 1, f"# Head\n\nFirst text.\n\n{TABLE}"))
    file = tmp_path / "OmniDocBench.json"
    boxes = [
        (3, "table", TABLE),
        (None, "page_number", "7"),
        (0, "header", "left out"),
        (2, "text_block", "First text."),
        (1, "title", "Head"),
    ]
    entries = [omni("images/page_001.jpg", *boxes), {"page_info": {}}, omni("page_9.jpg")]
    file.write_text(json.dumps(entries))
    found = against(run, file)
    (only,) = found.pages
    assert (only.edit_distance, only.order_distance, only.teds) == (0.0, 0.0, (1.0,))
    assert only.headings.recall == 1.0
    assert [one.location for one in found.problems] == [f"{file}[1]", f"{file}[2]"]


def test_invalid_json_truth_is_reported(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", page("a", 1, "Text."))
    (tmp_path / "broken.json").write_text('[\n{"page_info": ]')
    (tmp_path / "object.json").write_text("{}")
    assert f"{tmp_path}/broken.json:2: invalid JSON" in str(
        against(run, tmp_path / "broken.json").problems[0]
    )
    assert "not a list of pages" in str(against(run, tmp_path / "object.json").problems[0])


def test_tests_and_truth_together(tmp_path: Path, truth: Path) -> None:
    run = write_run(tmp_path / "run", page("a", 1, TEXT))
    (truth / "a_pg1.md").write_text(TEXT)
    tests = write_lines(tmp_path / "tests.jsonl", present("1", "first paragraph"))
    found = evaluate(open_predictions(run), load_references([str(tests), str(truth)]))
    assert [type(one).__name__ for one in found] == ["PageTestEvaluation", "GroundTruthEvaluation"]


def test_folder_with_tests_is_not_ground_truth(tmp_path: Path, truth: Path) -> None:
    """Candidates and PDFs lie beside olmOCR-bench's tests."""
    write_lines(truth / "tests.jsonl", present("1", "text"))
    (truth / "candidate").mkdir()
    (truth / "candidate" / "a_pg1_repeat1.md").write_text("text")
    given = load_references([str(truth)])
    assert (len(given.tests.tests), given.ground_truths) == (1, ())


def test_nothing_given(tmp_path: Path, truth: Path) -> None:
    for place in (truth, tmp_path / "missing.jsonl"):
        with pytest.raises(NothingToEvaluateError, match=str(place)):
            load_references([str(place)])
