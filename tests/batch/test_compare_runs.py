"""Two runs compared: what is written, and what both took."""

import json
from pathlib import Path

from llm_ocr import RunComparison, Settings, compare
from llm_ocr.report.sessions import SessionLog, write_session
from llm_ocr.storage.store import open_store
from tests.evaluation.runs import page, write_run
from tests.records import write_table

TEXT = "The bridge was closed for seven weeks in spring, and four hundred barges waited."
USED = {"model": "m", "attempts": 2, "prompt_tokens": 300, "completion_tokens": 70, "seconds": 1.5}


def compared(a: str, b: str, out: Path | None = None, pages_shown: int = 50) -> RunComparison:
    return compare(a, b, out, pages_shown=pages_shown, progress=False)


def test_the_pages_that_differ_most_are_written_side_by_side(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", *(page("x", k, TEXT) for k in (1, 2, 3)))
    b = write_run(
        tmp_path / "b",
        page("x", 1, TEXT),
        page("x", 2, TEXT.replace("seven", "eleven"), status="truncated"),
        page("x", 3, "Something else entirely."),
    )
    found = compared(a, b)
    folder = tmp_path / "a" / "evaluation" / "compared-with-b"
    assert found.files == (f"{folder}/index.html", f"{folder}/comparison.json")
    assert [one.agreement.number for one in found.differences] == [3, 2]
    (passage,) = found.differences[1].passages
    assert (passage.before, passage.a, passage.b) == ("was closed for", "seven", "eleven") or (
        passage.a,
        passage.b,
    ) == ("seven", "eleven")
    html = (folder / "index.html").read_text()
    assert "<mark>seven</mark>" in html
    assert "status: truncated" in html
    assert html.index("x, page 3") < html.index("x, page 2")
    assert "x, page 1<" not in html
    written = json.loads((folder / "comparison.json").read_text())
    assert written["pages_compared"] == 3
    assert written["means"]["text"]["count"] == 3
    assert [one["number"] for one in written["pages"]] == [1, 2, 3]
    assert written["most_different"][1]["passages"][0]["a"] == "seven"
    fewer = compared(a, b, tmp_path / "out", pages_shown=1)
    assert len(fewer.differences) == 1
    assert "x, page 2" not in (tmp_path / "out" / "index.html").read_text()


def test_what_both_runs_took_is_counted(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", page("x", 1, TEXT, **USED), page("x", 2, TEXT, **USED))
    b = write_run(tmp_path / "b", page("x", 1, TEXT), page("x", 2, TEXT, status="blank"))
    priced = SessionLog(
        "2026-11-22T10:00:00", "llm-ocr run", "0.1.0", ["extract"], price_per_hour=3.6, seconds=100
    )
    write_session(open_store(a), "first", priced)
    usage, other = compared(a, b).usage
    assert usage is not None
    assert (usage.pages, usage.models, usage.attempts) == (2, {"m": 2}, 4)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.answer_seconds) == (600, 140, 3)
    assert (usage.session_seconds, usage.cost) == (100, 0.1)
    assert other is not None
    assert (other.models, other.statuses, other.cost) == ({}, {"ok": 1, "blank": 1}, None)


def test_runs_may_be_in_buckets(tmp_path: Path) -> None:
    b = "memory://compare/run-b"
    write_table(open_store(b), "extract", "pages", [page("x", 1, TEXT.replace("seven", "six"))])
    a = "memory://compare/run-a"
    write_table(open_store(a), "extract", "pages", [page("x", 1, TEXT)])
    assert compared(a, b).files == (), "nothing is written into a bucket unless it is named"
    found = compare(a, b, "memory://compare/out", settings=Settings(), progress=False)
    assert found.files[0] == "memory://compare/out/index.html"
    assert b"<mark>six</mark>" in open_store("memory://compare/out").get("index.html")
