import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.reading import ablation
from benchmarks.reading.ablation import PREFIX, Rule, find_rules, format_ablation
from benchmarks.reading.reader import replace_everywhere
from benchmarks.reading.scores import DocumentScore
from llm_ocr.evaluation import headings, text_similarity

ROOT = Path(__file__).parents[3]


def variants(name: str) -> dict[str, Rule]:
    return {rule.variant: rule for rule in find_rules(f"{name} *")}


def test_rules_are_found_by_their_types() -> None:
    assert len(find_rules()) > 40
    assert {rule.name for rule in find_rules()} < {rule.name for rule in find_rules("*")}
    decisions = variants("structure.paragraphs.is_list")
    assert decisions["= False"].off(()) is False
    assert decisions["= True"].off(()) is True
    (regions,) = variants("regions.figures.with_captioned_figures").values()
    assert regions.off(("a", "b"), ()) == ["a", "b"]
    (found,) = variants("regions.furniture.furniture").values()
    assert found.off(("a", "b"), (), 3) == ([], ["a", "b"])
    (nothing,) = variants("regions.text_columns.gutters").values()
    assert not nothing.off(("a",))


def test_functions_of_the_networks_and_the_protocol_are_no_rules() -> None:
    rooms = {rule.module.removeprefix(PREFIX) for rule in find_rules("*")}
    assert "regions.furniture" in rooms
    assert not rooms & {"serving.server", "serving.requests", "models", "words.recognize"}


def test_function_is_replaced_where_it_is_imported_and_restored() -> None:
    restore = replace_everywhere(text_similarity.__name__, "strip_markup", str.upper)
    try:
        assert headings.find_headings("# a river")[0].text == "A RIVER"
    finally:
        restore()
    assert headings.find_headings("# a *river*")[0].text == "a river"


def test_process_that_never_ends_is_given_up() -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        ablation.in_process(lambda: time.sleep(60), 0.2)
    assert time.monotonic() - started < 50
    assert ablation.in_process(lambda: {"a": 1}, 60) == {"a": 1}


def scores(value: float, changed: Mapping[str, float]) -> Sequence[DocumentScore]:
    names = [f"{k}" for k in range(8)]
    return [
        DocumentScore(name, int(name) % 2 == 1, {"words": (changed.get(name, value), 1.0)})
        for name in names
    ]


def test_table_says_what_each_rule_is_worth_on_both_halves() -> None:
    base = {"pages": scores(0.9, {})}
    without = {
        "useful": {"pages": scores(0.9, {"1": 0.5, "2": 0.7})},
        "harmful": {"pages": scores(0.9, {"3": 1.0})},
    }
    _, _, first, second = format_ablation(base, without).splitlines()
    cells = [cell.strip() for cell in first.split("|")[1:-1]]
    assert cells[:2] == ["harmful", "0 + 1"]
    assert cells[2].startswith("+0.000")
    assert cells[3].startswith("-2.500")
    cells = [cell.strip() for cell in second.split("|")[1:-1]]
    assert cells[:2] == ["useful", "1 + 1"]
    assert cells[2].startswith("+5.000")
    assert cells[3].startswith("+10.000")
    assert cells[4] == "pages words -0.050"


@pytest.mark.long
def test_two_pages_are_read_compared_and_read_without_a_rule(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    seed = str(random.Random("reading").randrange(1000))
    common = [sys.executable, "-m", "benchmarks.reading", "--pages", "2", "--seed", seed]
    common += ["--input", "text-layer", "--out", str(tmp_path), "--cache", str(tmp_path / "kept")]

    def run(*options: object) -> subprocess.CompletedProcess[str]:
        command = [*common, *map(str, options)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done

    first = run("--json", tmp_path / "a.json", "--worst", "1")
    assert "| generated (" in first.stdout
    assert "characters" in first.stdout
    # What is taken from the cache gives the same scores.
    assert run("--json", tmp_path / "b.json").stdout in first.stdout
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
    same = run("--compare", tmp_path / "a.json", tmp_path / "b.json")
    assert "falls" not in same.stdout
    without = run("--ablate", "--only", "regions.furniture.furniture*")
    (row,) = (line for line in without.stdout.splitlines() if "regions.furniture.furniture" in line)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert sum(map(int, cells[1].split(" + "))) == 2
    assert "+" in cells[2] + cells[3]
