"""`llm-ocr compare`, as a process."""

import json
import re
from pathlib import Path

from tests.cli.test_commands import llm_ocr
from tests.evaluation.runs import page, write_run
from tests.servers.chat import answer, serving_beside

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


def test_questions_that_a_judge_does_not_answer_are_an_exit_code(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, TEXT))
    b = write_run(tmp_path / "b", page("x", 1, TEXT.replace("seven", "eleven")))
    judge = ("--judge", "my-judge", "--skip-model-check")
    with serving_beside(lambda body: answer("I would rather not say.")) as server:
        done = llm_ocr("compare", a, b, *judge, "--base-url", server.base_url)
        assert done.returncode == 1, done.stderr
        assert "Judge my-judge: 0 pages judged in both orders\n" in done.stdout
        assert "did not answer: 2, such as x/1/" in done.stdout
        server.reply = lambda body: answer('{"reason": "a number", "better": "equal"}')
        done = llm_ocr("compare", a, b, *judge, "--base-url", server.base_url)
        assert done.returncode == 0, done.stderr
        assert "1 page judged in both orders; p = 1 (sign test over pages)" in done.stdout


def test_a_sample_is_told_from_all_pages(tmp_path: Path) -> None:
    pages = [page("x", number, TEXT) for number in range(1, 5)]
    a, b = write_run(tmp_path / "a", *pages), write_run(tmp_path / "b", *pages)
    done = llm_ocr("compare", a, b, "--sample", 2)
    assert "2 of 4 pages, chosen at random, compared; on 2 of them" in done.stdout


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
