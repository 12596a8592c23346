"""What notebooks are shown, as far as it is text; they themselves are executed elsewhere."""

import subprocess
from pathlib import Path

import pytest

from llm_ocr.notebook import explain_counts, run_commands
from llm_ocr.report.sessions import SessionLog

ROOT = Path(__file__).parents[1]


def session(seconds: float | None, pages: int = 0) -> SessionLog:
    return SessionLog(
        "2026-11-22T10:00:00.000", "llm-ocr run", "0.1.0", ["extract"], seconds=seconds, pages=pages
    )


def test_counts_that_make_the_runs_are_told_and_no_more() -> None:
    assert explain_counts([session(9, 20), session(9, 8)], 28) == [
        "Sessions that ended read 20 + 8 pages, 28 in all; the run has 28."
    ]


def test_pages_that_a_killed_session_left_behind_are_explained() -> None:
    _, killed, rest = explain_counts([session(9, 20), session(None)], 28)
    assert killed.startswith("1 session was killed and left no count.")
    assert rest == "In no session's count: 8 pages of the run."


def test_pages_that_were_read_twice_are_explained() -> None:
    first, twice, killed = explain_counts(
        [session(9, 12), session(9, 13), session(None), session(9, 15)], 28
    )
    assert first == "Sessions that ended read 12 + 13 + 15 pages, 40 in all; the run has 28."
    assert twice.startswith("That is 12 more than there are: tasks that are done read what others")
    assert killed.startswith("1 session was killed")


def test_a_run_whose_every_session_was_killed_has_no_count() -> None:
    first, killed, rest = explain_counts([session(None), session(None)], 3)
    assert "read no pages, 0 in all; the run has 3." in first
    assert killed.startswith("2 sessions were killed")
    assert rest == "In no session's count: 3 pages of the run."


def test_steps_are_shown_and_taken_only_where_that_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    commands = (f"echo made > {made}", f"cat {made}")
    run_commands(*commands, do=False)
    assert capsys.readouterr().out == "".join(f"$ {one}\n" for one in commands)
    assert not made.exists()
    run_commands(*commands, do=True)
    assert capsys.readouterr().out == f"$ {commands[0]}\n$ {commands[1]}\nmade\n"
    with pytest.raises(subprocess.CalledProcessError):
        run_commands("false", f"rm {made}", do=True)
    assert made.exists()


def test_each_notebook_leads_to_its_executed_page() -> None:
    """Those in git have no outputs."""
    notebooks = [one for one in ROOT.glob("*/*.ipynb") if not one.parent.name.startswith(".")]
    assert len(notebooks) == 9
    for notebook in notebooks:
        assert f"(../docs/executed/{notebook.stem}.md)" in notebook.read_text(), notebook
