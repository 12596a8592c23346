"""`llm-ocr compare`, as a process."""

import json
import re
from pathlib import Path

from tests.cli.test_commands import llm_ocr
from tests.evaluation.runs import page, write_run

TEXT = "The bridge was closed for seven weeks in spring."


def test_agreement_differences_and_files_are_printed(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, TEXT), page("x", 2, TEXT))
    b = write_run(tmp_path / "b", page("x", 1, TEXT.replace("seven", "eleven")))
    done = llm_ocr("compare", a, b)
    assert done.returncode == 0, done.stderr
    assert re.search(r"text +0\.9\d\d +0\.9\d\d-0\.9\d\d +1\b", done.stdout)
    assert "1 only in A" in done.stdout
    assert re.search(r"A: .*\[seven\]\n +B: .*\[eleven\]", done.stdout)
    assert str(tmp_path / "a" / "evaluation" / "compared-with-b" / "index.html") in done.stdout
    as_json = llm_ocr("compare", a, b, "--json", "--out", tmp_path / "out")
    assert json.loads(as_json.stdout)["not_compared"]["only in A"] == 1
    assert (tmp_path / "out" / "comparison.json").is_file()


def test_what_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, TEXT))
    (tmp_path / "empty").mkdir()
    done = llm_ocr("compare", a, tmp_path / "empty")
    assert done.returncode == 2
    assert "has neither a run with finished pages nor Markdown files" in done.stderr
    done = llm_ocr("compare", a, a, "--judge", "my-judge")
    assert done.returncode == 2
    assert "--judge" in done.stderr
    assert "--base-url" in done.stderr
