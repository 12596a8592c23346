"""`llm-ocr eval`, as a process, on a run that was made."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from llm_ocr import run
from tests import documents
from tests.cli.test_commands import llm_ocr
from tests.evaluation.runs import page, present, write_lines, write_run
from tests.servers.chat import serving_beside


class Tags(HTMLParser):
    """The tags of a page, and the addresses that they fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]


def tags_of(path: Path) -> Tags:
    tags = Tags()
    tags.feed(path.read_text("utf-8"))
    return tags


@pytest.fixture
def made(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=2)
    documents.picture(tmp_path / "in" / "scan.png")
    with serving_beside() as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url)
    return tmp_path / "out"


def test_a_run_is_scored_by_tests(made: Path, tmp_path: Path) -> None:
    tests = write_lines(
        tmp_path / "tests.jsonl",
        present("there", "Page", "report.pdf"),
        present("missing", "<b>Nowhere</b> & <script>alert(1)</script>", "report.pdf", page=2),
    )
    done = llm_ocr("eval", made, "--tests", tests)
    assert done.returncode == 0, done.stderr
    assert re.search(r"present +1 +2 +50\.0% ", done.stdout)
    assert re.search(r"all but absent +2 +3 ", done.stdout)
    found = json.loads((made / "evaluation" / "tests.json").read_text())
    verdicts = {one["id"]: one["verdict"] for one in found["tests"]}
    assert verdicts == {"there": "passed", "missing": "failed", "report.pdf_baseline": "passed"}
    assert found["by_kind"]["present"]["share"] == 0.5
    html = made / "evaluation" / "tests.html"
    assert str(html) in done.stdout
    tags = tags_of(html)
    assert "script" not in tags.tags
    assert [source[:23] for source in tags.sources] == ["data:image/jpeg;base64,"]
    assert "&lt;script&gt;alert(1)" in html.read_text()


def test_invalid_tests_exit_with_1(made: Path, tmp_path: Path) -> None:
    tests = write_lines(
        tmp_path / "tests.jsonl",
        present("there", "Page", "report.pdf"),
        "{broken",
        present("beyond", "Page", "report.pdf", page=3),
    )
    done = llm_ocr("eval", made, "--tests", tests, "--json", tmp_path / "all.json")
    assert done.returncode == 1
    assert f"{tests}:2: invalid JSON" in done.stderr
    assert f"{tests}:3: test beyond: report has no page 3 in {made}" in done.stderr
    found = json.loads((tmp_path / "all.json").read_text())
    assert len(found["problems"]) == 2
    assert found["overall"]["total"] == 2


def test_a_run_without_tests_is_sampled(made: Path) -> None:
    done = llm_ocr("eval", made, "--sample", "2", "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert "2 of 3 pages" in done.stdout
    found = json.loads((made / "evaluation" / "sample.json").read_text())
    assert (found["pages_in_run"], len(found["pages"]), found["seed"]) == (3, 2, 5)
    assert tags_of(made / "evaluation" / "sample.html").tags.count("img") == 2


def test_two_runs_are_compared(made: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", page("report", 1, "# Page"), page("report", 2, "none"))
    tests = write_lines(
        tmp_path / "tests.jsonl",
        present("1", "Page", "report.pdf"),
        present("2", "Page", "report.pdf", page=2),
    )
    html, all_of_it = tmp_path / "x" / "against.html", tmp_path / "x" / "against.json"
    done = llm_ocr(
        *("eval", made, "--against", other, "--tests", tests),
        *("--html", html, "--json", all_of_it),
    )
    assert done.returncode == 0, done.stderr
    assert "1 win, 1 tie, 0 loss (p = 1" in done.stdout
    found = json.loads(all_of_it.read_text())
    assert [one["outcome"] for one in found["pages"]] == ["tie", "win"]
    assert tags_of(html).tags.count("article") == 1

    done = llm_ocr("eval", made, "--against", other)
    assert done.returncode == 0, done.stderr
    assert (made / "evaluation" / "against-diagnostics.html").is_file()


def test_a_folder_of_markdown_against_truth(tmp_path: Path) -> None:
    for folder in ("said", "truth"):
        (tmp_path / folder).mkdir()
    (tmp_path / "said" / "a_pg1.md").write_text("# One\n\nSome words on the page.")
    (tmp_path / "truth" / "a_pg1.md").write_text("# One\n\nSome w0rds on the page.")
    done = llm_ocr(
        *("eval", tmp_path / "said", "--tests", tmp_path / "truth"),
        *("--html", tmp_path / "out.html"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"edit distance +0\.0", done.stdout)
    assert "headings: recall" in done.stdout
    html = (tmp_path / "out.html").read_text()
    assert "<del>w0rds</del> <ins>words</ins>" in html
    # Nothing is written beside files that are no run.
    assert [path.name for path in (tmp_path / "said").iterdir()] == ["a_pg1.md"]


@pytest.mark.parametrize("arguments", [(), ("--against", "nowhere"), ("--tests", "nowhere.jsonl")])
def test_nothing_to_evaluate_exits_with_2(
    made: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    place = made if arguments else tmp_path / "in"
    done = llm_ocr("eval", place, *arguments)
    assert done.returncode == 2
    assert (str(tmp_path / "in") if not arguments else "nowhere") in done.stderr
    assert "Traceback" not in done.stderr


def test_tests_and_sample_exclude_each_other(made: Path) -> None:
    done = llm_ocr("eval", made, "--tests", "tests.jsonl", "--sample", 3)
    assert done.returncode == 2
    assert "--sample" in done.stderr
    assert "remove" in done.stderr


def test_unwritable_report_is_named(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = llm_ocr("eval", made, "--html", tmp_path / "file" / "out.html")
    assert done.returncode == 4
    assert f"{tmp_path}/file/out.html" in done.stderr
