import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accuracy_engines import DOUBTS, Cost, PageSet, Read, asked, chosen, kept
from benchmarks.accuracy_results import Passed, Results, bench_result, page_scores
from benchmarks.accuracy_tables import show
from benchmarks.pages.making import DIGITAL, SCANNED, make

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures with prctl and /proc")

ROOT = Path(__file__).parent.parent.parent


def benchmark(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.accuracy", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.long
def test_two_pages_are_read_by_this_engine_scored_and_kept(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    options = ["--pages", 2, "--out", tmp_path, "--sets", "scanned"]
    done = benchmark("--engines", "ours", "--json", tmp_path / "all.json", *options)
    assert done.returncode == 0, done.stderr
    assert "llm-ocr reads 2 documents of scanned" in done.stderr
    found = json.loads((tmp_path / "all.json").read_text())
    sets = {one["set"]: one for one in found["sets"]}
    assert set(sets) == {"scanned"}
    for one in sets.values():
        assert [page["name"] for page in one["pages"]] == ["paper-00", "report-00"]
        assert all(page["characters"] > 0.85 for page in one["pages"])
    for cost in found["costs"]:
        assert cost["pages"] == 2
        assert cost["cpu_seconds"] > cost["first_cpu_seconds"] > 0.5
        assert cost["peak_bytes"] > 100_000_000
    row = next(line for line in done.stdout.splitlines() if line.startswith("| llm-ocr"))
    assert row.count("|") == 15

    again = benchmark(*options, "--engines", "liteparse")
    assert again.returncode == 0, again.stderr
    assert "llm-ocr reads" not in again.stderr
    assert "--peers-python" in again.stderr
    assert row in again.stdout


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    make(folder, seed=5, number=4)
    return folder


def results(truth: Path, tmp_path: Path, ours: str = "", theirs: str = "") -> Results:
    """Of two engines, that read the pages as they are but for what comes before them."""
    scores = {}
    for engine, before in (("llm-ocr", ours), ("tesseract", theirs)):
        for name in (DIGITAL, SCANNED):
            folder = tmp_path / engine / name
            folder.mkdir(parents=True)
            for path in (truth / name).glob("*.md"):
                (folder / f"{path.stem}_pg1.md").write_text(before + path.read_text())
            scores[engine, name] = page_scores(truth / name, folder)
    costs = {
        ("llm-ocr", DIGITAL): Cost(4, 7.0, 1, 4.0, 1 << 30),
        ("tesseract", DIGITAL): Cost(4, 10.0, 1, 1.0, 1 << 28),
        ("llm-ocr", SCANNED): Cost(4, 30.0, 1, 6.0, 1 << 30),
        ("tesseract", SCANNED): Cost(4, 10.0, 1, 1.0, 1 << 28),
    }
    return Results(scores, {}, costs, "a backend 1.0", {DIGITAL: 4, SCANNED: 4})


def test_cost_of_a_page_is_without_the_first_document(truth: Path, tmp_path: Path) -> None:
    costs = results(truth, tmp_path).costs
    assert costs["llm-ocr", DIGITAL].cpu_a_page == 1.0
    assert costs["llm-ocr", DIGITAL].cpu_to_start == 3.0
    assert costs["tesseract", DIGITAL].cpu_a_page == 3.0
    assert costs["tesseract", DIGITAL].cpu_to_start == 0.0


def test_engine_that_invents_text_scores_lower(truth: Path, tmp_path: Path) -> None:
    found = results(truth, tmp_path, ours="What nobody wrote, said again and again. " * 20)
    ours, theirs = (found.totals(engine, SCANNED) for engine in ("llm-ocr", "tesseract"))
    assert ours is not None
    assert theirs is not None
    assert ours.characters < 0.975
    assert theirs.characters == 1.0


def test_plain_text_has_no_table_or_heading_scores(
    truth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(results(truth, tmp_path))
    said = capsys.readouterr().out
    assert "a backend 1.0" in said
    rows = [line for line in said.splitlines() if line.startswith(("| llm-ocr", "| tesseract"))]
    assert len(rows) == 4
    for row in rows:
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        assert cells[6:10].count("-") == (4 if cells[0] == "tesseract" else 0), row


def test_tests_of_the_bench_are_counted_by_kind_without_formulas_and_handwriting(
    tmp_path: Path,
) -> None:
    tests = [
        {"pdf": "a/one.pdf", "page": 1, "id": "p", "type": "present", "text": "A quiet river"},
        {"pdf": "a/one.pdf", "page": 1, "id": "x", "type": "absent", "text": "Running head"},
        {"pdf": "a/one.pdf", "page": 1, "id": "m", "type": "math", "math": "a^2"},
        {"pdf": "mattsnotes.pdf", "page": 1, "id": "h", "type": "present", "text": "by hand"},
    ]
    (tmp_path / "tests.jsonl").write_text("\n".join(map(json.dumps, tests)))
    (tmp_path / "said" / "a").mkdir(parents=True)
    (tmp_path / "said" / "a" / "one_pg1.md").write_text("A quiet river\n\nRunning head\n")
    (tmp_path / "said" / "mattsnotes_pg1.md").write_text("by hand\n")
    doubts = {"a/one": [1, 30], "b": [0, 9], "mattsnotes": [5, 6]}
    (tmp_path / "said" / DOUBTS).write_text(json.dumps(doubts))
    found = bench_result(tmp_path / "said", tmp_path / "tests.jsonl")
    assert (found.all.passed, found.all.tests) == (1, 2)
    assert (found.without_absent.passed, found.without_absent.tests) == (1, 1)
    assert (found.handwritten.passed, found.handwritten.tests) == (1, 1)
    assert found.kinds["absent"].passed == 0
    assert list(found.failed) == ["x"]
    assert found.doubts == (Passed(1, 39), Passed(5, 6))


def test_cached_answers_are_used_for_the_same_pages_only(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"a page")
    pages = PageSet("digital", tmp_path, ("a.pdf",), True)
    folder = tmp_path / "rapidocr" / "digital"
    folder.mkdir(parents=True)
    note = {"asked": asked("rapidocr", pages), "cost": None}
    (folder / "cost.json").write_text(json.dumps(note))
    assert kept("rapidocr", pages, tmp_path) == Read(folder, None)
    assert kept("tesseract", pages, tmp_path) is None
    (tmp_path / "b.pdf").write_bytes(b"a page")
    assert kept("rapidocr", replace(pages, pdfs=("b.pdf",)), tmp_path) is None
    (tmp_path / "a.pdf").write_bytes(b"another page")
    assert kept("rapidocr", pages, tmp_path) is None


def test_engines_are_chosen_by_name() -> None:
    assert chosen(["tesseract", "ours"]) == ["llm-ocr", "tesseract"]
    with pytest.raises(SystemExit, match="no engine abbyy"):
        chosen(["abbyy"])


def test_cost_of_a_command_includes_its_children(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.6: pass"
    # The child is left behind: it ends after its parent.
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}])"
    report = tmp_path / "cost.json"
    measure = [sys.executable, "-m", "benchmarks.process_cost", str(report)]
    subprocess.run([*measure, sys.executable, "-c", parent], cwd=ROOT, check=True, timeout=60)
    assert json.loads(report.read_text())["cpu_seconds"] > 0.6
    failed = subprocess.run([*measure, sys.executable, "-c", "raise SystemExit(3)"], cwd=ROOT)
    assert failed.returncode == 3
