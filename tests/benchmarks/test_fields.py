"""Generated letterheads, the weights learned from them, and the score of key-value extraction."""

import json
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path

from benchmarks.letterheads import GeneratedPage, Generator
from benchmarks.receipts import read_receipts

ROOT = Path(__file__).parents[2]


def command(name: str, *arguments: object) -> str:
    words = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def receipts_in(folder: Path, pages: list[GeneratedPage]) -> tuple[Path, Path]:
    """Generated receipts as a folder of keys, and a file with their lines in the place of OCR."""
    (folder / "key").mkdir(parents=True)
    lines = {}
    for k, page in enumerate(pages):
        name = f"{k:03}"
        kept = {key: page.fields.get(key, "") for key in ("company", "address", "date", "total")}
        (folder / "key" / f"{name}.json").write_text(json.dumps(kept), "utf-8")
        lines[name] = page.lines
    cache = folder / "lines.pickle"
    cache.write_bytes(pickle.dumps(lines))
    return folder, cache


def pages_of(seed: int, count: int) -> list[GeneratedPage]:
    generator = Generator(seed)
    return [generator.page() for _ in range(count)]


def test_a_seed_makes_the_same_pages_again_and_another_seed_others() -> None:
    assert pages_of(3, 4) == pages_of(3, 4)
    assert pages_of(3, 4) != pages_of(4, 4)


def test_what_a_generated_page_has_as_its_name_and_total_is_printed_on_it() -> None:
    for page in pages_of(5, 40):
        text = re.sub(r"\W", "", "".join(line.text for line in page.lines))
        assert re.sub(r"\W", "", page.fields["company"]) in text
        assert page.fields["total"].replace(".", "") in text


def test_bad_prints_are_read_with_errors_and_keep_their_true_values() -> None:
    generator = Generator(5, bad_prints=1.0)
    pages = [generator.page() for _ in range(40)]
    right = 0
    for page in pages:
        text = "".join(line.text for line in page.lines).replace(" ", "")
        right += page.fields["company"].replace(" ", "") in text
    assert 20 < right < 40


def test_an_invoice_has_a_table_with_the_amounts_of_its_lines() -> None:
    generator = Generator(7)
    for page in (generator.invoice() for _ in range(20)):
        amounts = [value for name, value in page.fields.items() if name.endswith(".amount")]
        printed = {re.sub(r"\D", "", word.text) for line in page.lines for word in line.words}
        assert amounts
        assert {re.sub(r"\D", "", amount) for amount in amounts} <= printed


def test_receipts_of_a_shop_are_all_in_develop_or_all_in_check(tmp_path: Path) -> None:
    pages = pages_of(6, 30)
    found = read_receipts(*receipts_in(tmp_path, [*pages, *pages]))
    first, second = found[:30], found[30:]
    assert [one.is_check for one in first] == [one.is_check for one in second]
    assert {one.is_check for one in first} == {True, False}


def test_fields_are_scored_with_a_table_and_a_curve(tmp_path: Path) -> None:
    folder, cache = receipts_in(tmp_path / "receipts", pages_of(8, 12))
    curve = tmp_path / "curve.svg"
    options = ["--seed", 9, "--pages", 30, "--receipts", folder, "--cache", cache, "--svg", curve]
    printed = command("fields", *options)
    titles = re.findall(r"^(\w.*) schema$", printed, re.MULTILINE)
    assert len(titles) == 7
    asked = {"flat", "nested", "built-in receipt", "built-in invoice"}
    assert {title.split(", ")[-1] for title in titles} == asked
    flat = printed.split("nested schema")[0]
    f1 = dict(re.findall(r"^(\w+) .* (\d\.\d+)$", flat, re.MULTILINE))
    assert {"company", "address", "date", "total", "all"} <= set(f1)
    assert float(f1["all"]) > 0.8
    assert curve.read_text("utf-8").count("<polyline") == 4


def test_weights_are_learned_and_written_as_python(tmp_path: Path) -> None:
    folder, cache = receipts_in(tmp_path / "receipts", pages_of(8, 12))
    out = tmp_path / "weights.py"
    command("field_weights", "--pages", 40, "--receipts", folder, "--cache", cache, "--out", out)
    tables = runpy.run_path(str(out))
    assert tables["ADDRESS"]["postal code"] > 0 > tables["ADDRESS"].get("title", -1)
    assert tables["TOTAL"]["total"] > 0
    assert tables["EVIDENCE"]["chosen total"] > 0
