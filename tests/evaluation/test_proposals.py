import json
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

from llm_ocr.evaluation.olmocr_bench.page_tests import load_tests
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict
from llm_ocr.evaluation.olmocr_bench.scoring import evaluate
from llm_ocr.evaluation.predictions import open_predictions
from llm_ocr.evaluation.proposals import Proposal, propose_tests, write_tests
from tests.evaluation.runs import block, page, write_run

SENTENCES = [
    "The river rose by two metres in a single night.",
    "Nobody had seen something like it since the war.",
    "Engineers closed both locks before the morning.",
    "Farmers moved their animals to higher ground.",
    "By Thursday the water had gone back to its bed.",
    "A committee wrote a report that few have read.",
]
TABLE = (
    "<table><tr><th>Year</th><th>Rain</th></tr><tr><td>1990</td><td>812.4</td></tr>"
    "<tr><td>1991</td><td>790.1</td></tr></table>"
)


def run_of(folder: Path, **columns: object) -> str:
    text = "\n\n".join([*SENTENCES[:5], TABLE])
    blocks = [block("header", "Annual report of the river"), block("text", text)]
    return write_run(folder, page("sub/a", 1, text, **{"blocks": blocks, **columns}))


def of(kind: str, proposals: list[Proposal]) -> list[Proposal]:
    return [one for one in proposals if one.test["type"] == kind]


def test_tests_of_all_kinds_that_the_run_passes(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    proposals = propose_tests(run, 20)
    assert {one.test["type"] for one in proposals} == {"present", "absent", "order", "table"}
    assert of("absent", proposals)[0].test["text"] == "Annual report of the river"
    assert of("table", proposals)[0].test["top_heading"] == "Rain"
    count = write_tests(tmp_path / "tests.jsonl", proposals)
    loaded = load_tests([tmp_path / "tests.jsonl"])
    assert (count, len(loaded.tests), loaded.problems) == (len(proposals), count, ())
    found = evaluate(open_predictions(run), loaded)
    assert {one.verdict for one in found.results} == {RuleVerdict.PASSED}
    assert found.problems == ()


def test_proposals_show_the_text_layer_next_to_the_answer(tmp_path: Path) -> None:
    pdf = tmp_path / "a.pdf"
    sheet = Canvas(str(pdf), pagesize=(500, 400))
    said = [SENTENCES[0], SENTENCES[1].replace("something", "anything"), *SENTENCES[2:]]
    for k, text in enumerate(said):
        sheet.drawString(30, 350 - 30 * k, text)
    sheet.save()
    reasons: dict[str, str] = {}
    run = run_of(tmp_path / "run", source_uri=str(pdf))
    for seed in range(12):
        for one in of("present", propose_tests(run, 20, seed)):
            reasons[one.test["text"]] = one.reason
    assert reasons[SENTENCES[0]] == "predicted, and in the PDF's own text"
    assert "anything" in reasons[SENTENCES[1]]
    assert reasons[SENTENCES[5]] == "in the PDF's own text, but not in the prediction"


def test_proposals_can_be_corrected(tmp_path: Path) -> None:
    one = propose_tests(run_of(tmp_path / "run"), 4)[0].with_fields(page=2, checked="verified")
    write_tests(tmp_path / "tests.jsonl", [one])
    line = json.loads((tmp_path / "tests.jsonl").read_text())
    assert (line["page"], line["checked"]) == (2, "verified")


def test_a_failed_page_proposes_nothing(tmp_path: Path) -> None:
    assert propose_tests(run_of(tmp_path / "run", status="failed"), 20) == []


def test_header_repeated_in_the_text_is_not_proposed_as_absent(tmp_path: Path) -> None:
    text = "\n\n".join(SENTENCES)
    blocks = [block("header", SENTENCES[0]), block("page_number", "12"), block("text", text)]
    assert of("absent", propose_tests(run_of(tmp_path / "run", blocks=blocks), 20)) == []
