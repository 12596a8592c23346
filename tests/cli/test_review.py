"""`llm-ocr review`: what reviewers corrected, as a table, as ground truth, and as a report."""

import csv
import json
from pathlib import Path

import httpx

from llm_ocr.service.database import Database
from tests.cli.test_commands import llm_ocr
from tests.service.gateway_server import Gateway, serving_gateway
from tests.service.review_documents import MISREAD, PRINTED, UNKNOWN_PAGE, submit_for_review


def review(reviewer: httpx.Client, document_id: str, corrections: dict[str, str]) -> None:
    """Claim a document, correct these fields, confirm its currency, and approve it."""
    path = f"/v1/review/{document_id}"
    answer = reviewer.post(f"{path}:claim")
    edits = [{"path": name, "value": value} for name, value in corrections.items()]
    for edit in (*edits, {"path": "currency", "action": "confirm"}):
        headers = {"If-Match": answer.headers["ETag"]}
        answer = reviewer.post(f"{path}/corrections", json=edit, headers=headers)
        assert answer.status_code == 200, answer.text
    headers = {"If-Match": answer.headers["ETag"]}
    assert reviewer.post(f"{path}:approve", headers=headers).status_code == 200


def submit_and_review(gateway: Gateway) -> None:
    wrong = {name: PRINTED[name] for name in ("invoice_number", "invoice_date", "total")}
    with gateway.client() as client, gateway.client("default", "review") as reviewer:
        review(reviewer, submit_for_review(gateway, client), wrong)
        # A mistake that the model was sure of, and three values of low confidence that were right.
        sure = {**PRINTED, "subtotal": "700.00"}
        review(reviewer, submit_for_review(gateway, client, read=sure), {"subtotal": "100.00"})
        submit_for_review(gateway, client, read=MISREAD)


def test_corrections_are_exported_and_confidences_reported(tmp_path: Path) -> None:
    state = {
        "LLM_OCR_DATABASE": str(tmp_path / "service.sqlite"),
        "LLM_OCR_STORAGE": str(tmp_path / "storage"),
    }
    database = Database(state["LLM_OCR_DATABASE"])
    database.migrate()
    with serving_gateway(database, tmp_path / "storage") as gateway:
        submit_and_review(gateway)
    database.close()

    def run(*arguments: object) -> str:
        done = llm_ocr("review", *arguments, **state)
        assert done.returncode == 0, done.stderr
        return done.stdout

    table, tests = tmp_path / "corrections.csv", tmp_path / "tests.jsonl"
    run("export", table)
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [row["action"] for row in rows] == [*["correct"] * 3, "confirm", "correct", "confirm"]
    first = rows[0]
    assert (json.loads(first["old"]), json.loads(first["new"])) == ("2O26-0042", "2026-0042")
    assert (first["path"], first["page"], first["confidence"]) == ("invoice_number", "1", "0.41")
    assert len(json.loads(first["old_box"])) == 4

    run("export", tests, "--format", "eval")
    truths = [json.loads(line) for line in tests.read_text().splitlines()]
    texts = [truth["text"] for truth in truths]
    assert texts == ["2026-0042", "EUR", "EUR"], "no numbers and no dates"
    # It is ground truth as it stands: a folder of pages passes or fails it.
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "scan_pg1.md").write_text("Invoice 2O26-0042\n\nAll prices in EUR\n")
    done = llm_ocr("eval", pages, "--tests", tests, "--json", tmp_path / "eval.json")
    assert done.returncode == 0, done.stderr
    overall = json.loads((tmp_path / "eval.json").read_text())["overall"]
    # `eval` adds one of its own: that the page has text at all.
    assert (overall["passed"], overall["total"]) == (3, 4), overall

    said = run("report", "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    everything = [row for row in report["rows"] if row["field"] == "all fields"]
    at = {row["threshold"]: row for row in everything}
    # Of each document's values three have a low confidence; one wrong value has a high one.
    assert (at[0.8]["reviewed"], at[0.8]["changed"], at[0.8]["missed"]) == (6, 4, 1)
    assert at[0.5]["reviewed"] == 2
    assert at[0.5]["missed"] == 3
    values = at[0.8]["values"]
    share, missed = 6 / values, 1 / values
    assert f"at 0.8 you review {share:.1%} of the values and miss {missed:.1%}" in said
    (subtotal,) = (
        row for row in report["rows"] if (row["field"], row["threshold"]) == ("subtotal", 0.8)
    )
    assert (subtotal["values"], subtotal["changed"], subtotal["missed"]) == (2, 1, 1)
    assert "lines.*.amount" in said
    done = llm_ocr("review", "report", "--only-random", **state)
    assert "no approved documents" in done.stderr


def test_pages_that_reviewers_classified_are_examples_for_a_classifier(tmp_path: Path) -> None:
    state = {
        "LLM_OCR_DATABASE": str(tmp_path / "service.sqlite"),
        "LLM_OCR_STORAGE": str(tmp_path / "storage"),
    }
    database = Database(state["LLM_OCR_DATABASE"])
    database.migrate()
    with (
        serving_gateway(database, tmp_path / "storage") as gateway,
        gateway.client() as client,
        gateway.client("default", "review") as reviewer,
    ):
        # A page that nobody says anything about is no example, nor is one of a document that isn't
        # approved.
        said = [*["letter"] * 3, *["receipt"] * 3, None, "letter"]
        for number, name in enumerate(said):
            guessed = submit_for_review(gateway, client, page_classes=[UNKNOWN_PAGE])
            path = f"/v1/review/{guessed}"
            answer = reviewer.post(f"{path}:claim")
            if name is not None:
                # Of a document of one page, this is the class of the page too.
                of_page = {"page": 1} if number % 2 else {}
                edit = {"action": "reclassify", "value": name, **of_page}
                headers = {"If-Match": answer.headers["ETag"]}
                answer = reviewer.post(f"{path}/corrections", json=edit, headers=headers)
            headers = {"If-Match": answer.headers["ETag"]}
            if number < 7:
                assert reviewer.post(f"{path}:approve", headers=headers).status_code == 200
    database.close()

    folder = tmp_path / "examples"
    export = ("review", "export", "--format", "classifier-examples")
    done = llm_ocr(*export, "--out", folder, **state)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{folder}/letter: 3 pages", f"{folder}/receipt: 3 pages"]
    fitted = llm_ocr("classifier", "fit", folder, "--no-words", "--out", tmp_path / "index")
    assert fitted.returncode == 0, fitted.stderr
    classes = json.loads((tmp_path / "index" / "index.json").read_text())["classes"]
    assert classes == {"letter": 3, "receipt": 3}
    again = llm_ocr(*export, "--out", folder, **state)
    assert again.returncode == 2
    assert "give a new folder" in " ".join(again.stderr.split())
    missing = llm_ocr(*export, tmp_path / "examples.csv", **state)
    assert missing.returncode == 2
