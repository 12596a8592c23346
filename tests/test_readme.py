"""What the README shows of records works as it is written."""

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
RECORDS = (ROOT / "README.md").read_text("utf-8").partition("## Records")[2].partition("\n## ")[0]


def test_custom_schema_reads_an_invoice(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", RECORDS, re.DOTALL)
    [command] = re.findall(r"```shell\n(.*?)```", RECORDS, re.DOTALL)
    (tmp_path / code.split("\n")[0].removeprefix("# ")).write_text(code, "utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    words = shlex.split(command)
    assert words[0] == "llm-ocr"
    done = subprocess.run(
        [sys.executable, "-m", "llm_ocr", *words[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    records = tmp_path / "out" / "bills" / "records"
    with (records / "records.csv").open(newline="", encoding="utf-8") as file:
        [bill] = csv.DictReader(file)
    assert (bill["number"], bill["issued"]) == ("R-24/1107", "2024-05-27")
    amounts = [float(bill[name]) for name in ("net", "vat", "total")]
    assert amounts == [4706.4, 894.22, 5600.62]
    assert bill["errors"] == "0"
    with (records / "lines.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [(line["what"], float(line["amount"])) for line in lines] == [
        ("Pegelsonde mit Kabel 25 m", 2298.0),
        ("Schaltschrank, verzinkt", 1862.4),
        ("Montage vor Ort", 546.0),
    ]
