"""`llm-ocr classifier`, as a process."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.classification_pages import generate_page
from tests.classification.drawn_pages import KINDS, STRANGE, write_pages
from tests.cli.test_commands import llm_ocr


def run(*arguments: object, **environment: str) -> str:
    done = llm_ocr("classifier", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_a_classifier_reads_the_titles_of_pages_and_is_used_from_the_registry(
    tmp_path: Path,
) -> None:
    examples = write_pages(tmp_path / "examples", KINDS, range(10))
    others = write_pages(tmp_path / "others", (*KINDS, *STRANGE), range(50, 55))
    state = {
        "LLM_OCR_DATABASE": str(tmp_path / "service.sqlite"),
        "LLM_OCR_STORAGE": str(tmp_path / "storage"),
    }
    reference = run("fit", examples, "--register", "pages", **state).splitlines()[-1]
    assert reference.startswith("pages/")
    done = llm_ocr("registry", "promote", reference, "production", "--reason", "first", **state)
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(run("evaluate", "pages@production", others, "--json", **state))
    # The twins have the same picture: their titles were read.
    assert sum(one["right"] for one in evaluation["known"].values()) >= 17
    assert evaluation["mistakes"] == []
    assert {name: one["accepted"] for name, one in evaluation["unknown"].items()} == {
        "grid": 0,
        "poster": 0,
    }


def test_pages_are_classified_by_pictures_from_a_csv_file_of_examples(tmp_path: Path) -> None:
    kinds = ("form", "letter", "invoice")
    write_pages(tmp_path / "scans", (*kinds, "poster"), range(12))
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "class"])
        rows.writerows(
            [f"scans/{kind}/{kind}-{k}.png", f"a {kind}"] for kind in kinds for k in range(8)
        )
    without_models = ("--no-words", "--embedder", "layout")
    said = run("fit", tmp_path / "labels.csv", "--out", tmp_path / "index", *without_models)
    assert "24 examples: a form 8, a invoice 8, a letter 8" in said
    assert "vote  error  fallback  unknown accepted" in said
    new = [
        tmp_path / "scans" / kind / f"{kind}-{k}.png"
        for kind in (*kinds, "poster")
        for k in range(8, 12)
    ]
    lines = [json.loads(line) for line in run("predict", tmp_path / "index", *new).splitlines()]
    assert [line["class"] for line in lines[:12]] == [f"a {kind}" for kind in kinds for _ in "1234"]
    assert sum(line["accepted"] for line in lines[:12]) >= 9
    assert not any(line["accepted"] for line in lines[12:])
    out = tmp_path / "why.html"
    said = run("explain", tmp_path / "index", new[-1], "--out", out)
    assert said.startswith("Not accepted: ")
    html = out.read_text("utf-8")
    assert "unlike the known pages" in html
    assert html.count("<img") == 13
    assert html.count("data:image/jpeg;base64,") == 13


@pytest.mark.long
def test_a_folder_of_unlike_pages_is_named_when_it_is_fitted(tmp_path: Path) -> None:
    kinds = [
        "invoice",
        "purchase-order",
        "bank-statement",
        "application-form",
        "memo",
        "certificate",
    ]
    others = [
        "contract",
        "timetable",
        "receipt",
        "report",
        "resume",
        "letter",
        "delivery-note",
        "payslip",
    ]
    pages = [(kind, generate_page(kind, number, 1)) for kind in kinds for number in range(4)]
    pages += [("various", generate_page(kind, k, 1)) for k, kind in enumerate(others)]
    for name, page in pages:
        (tmp_path / "examples" / name).mkdir(parents=True, exist_ok=True)
        page.image.save(tmp_path / "examples" / name / f"{page.name}.png")
    done = llm_ocr("classifier", "fit", tmp_path / "examples", "--out", tmp_path / "index")
    assert done.returncode == 0, done.stderr
    assert "The class various may hold several kinds of pages" in done.stderr
    assert "Make each kind a class of its own" in done.stderr
    assert done.stderr.count("The class ") == 1


def test_what_cannot_be_used_is_named_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong.csv").write_text("file,kind\na.png,letter\n")
    broken = tmp_path / "broken"
    write_pages(broken, ("form", "letter"), range(3))
    (broken / "form" / "torn.pdf").write_bytes(b"%PDF-1.7 nothing")
    for arguments, message in (
        (("fit", tmp_path / "empty", "--out", tmp_path / "index"), "has no subfolders"),
        (
            ("fit", tmp_path / "wrong.csv", "--out", tmp_path / "index"),
            "the columns path and class",
        ),
        (
            ("fit", broken, "--out", tmp_path / "index", "--no-words", "--embedder", "layout"),
            "torn.pdf can't be read",
        ),
        (("fit", broken), "either --out or --register"),
        (
            ("fit", broken, "--out", tmp_path / "index", "--embedder", "http://127.0.0.1:1/v1"),
            "give --embedder-model with the address of a server",
        ),
        (("predict", tmp_path / "empty", broken), "is not a classifier: index.json is missing"),
        (("predict", "nowhere", broken), "is not a classifier"),
    ):
        done = llm_ocr("classifier", *arguments)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
