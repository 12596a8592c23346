import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reading.comparison import compare, falls_on_check
from benchmarks.reading.report import format_worst, read_results, write_results
from benchmarks.reading.scores import DocumentScore

ROOT = Path(__file__).parents[3]


def results(develop: float, check: float, noise: float = 0.0) -> dict[str, list[DocumentScore]]:
    """40 documents of one set, half of them of *check*."""
    return {
        "tables": [
            DocumentScore(
                f"{k}",
                k % 2 == 1,
                {"F1": ((check if k % 2 else develop) + noise * (k % 4 > 1), 1.0)},
                ("a table",),
            )
            for k in range(40)
        ]
    }


def compared(before: Path, after: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.reading", "--compare", str(before), str(after)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_results(results(0.5, 0.6), tmp_path / "a.json")
    found = read_results(tmp_path / "a.json")
    assert {name: list(scores) for name, scores in found.items()} == {
        name: [
            DocumentScore(one.name, one.is_check, one.measures, list(one.failures))
            for one in scores
        ]
        for name, scores in results(0.5, 0.6).items()
    }


@pytest.mark.parametrize(
    ("after", "falls"),
    [
        (results(0.9, 0.4), True),
        (results(0.1, 0.7), False),
        (results(0.9, 0.5), False),
        # Half of the documents fall by 0.01, and the others rise by nearly as much.
        (results(0.9, 0.49, noise=0.018), False),
    ],
)
def test_only_a_fall_on_check_beyond_noise_counts(
    after: dict[str, list[DocumentScore]], falls: bool
) -> None:
    changes = compare(results(0.5, 0.5), after)
    assert [change.is_check for change in changes] == [False, True]
    assert bool(falls_on_check(changes)) is falls


def test_command_says_what_falls_and_exits_with_1(tmp_path: Path) -> None:
    for name, found in (("before", results(0.5, 0.5)), ("after", results(0.6, 0.4))):
        write_results(found, tmp_path / f"{name}.json")
    worse = compared(tmp_path / "before.json", tmp_path / "after.json")
    assert worse.returncode == 1, worse.stderr
    assert "falls on check: tables, F1" in worse.stdout
    assert "+0.100" in worse.stdout
    better = compared(tmp_path / "after.json", tmp_path / "before.json")
    assert better.returncode == 0
    assert "falls" not in better.stdout


def test_worst_documents_are_those_of_check_with_what_failed() -> None:
    found = {
        "tables": [
            DocumentScore("seen", False, {"F1": (0.0, 1.0)}),
            DocumentScore("good", True, {"F1": (1.0, 1.0)}),
            DocumentScore("bad", True, {"F1": (0.2, 1.0)}, ["table 1"]),
        ]
    }
    assert list(format_worst(found, 1)) == ["- tables: **bad**: F1 0.20", "    - table 1"]
