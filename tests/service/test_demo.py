"""`make demo-service`, with one scan and few examples: its output, and its data served again."""

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, read_blocks
from tests.servers.service import KEY, ServiceApi, serving

EXAMPLES = ROOT / "examples"
PAGE = "docs/service/whole-pipeline.md"


def test_the_page_shows_the_pipeline_of_the_demo() -> None:
    [shown] = [block.text for block in read_blocks("yaml") if block.page == PAGE]
    assert shown == (EXAMPLES / "mail" / "mail.yaml").read_text("utf-8")


@pytest.mark.long
def test_the_demo_compares_results_with_what_it_drew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "mail"
    options = ["--out", str(out), "--scans", "1", "--examples", "6", "--seed", "3"]
    command = [sys.executable, str(EXAMPLES / "demo_service.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^(\S+|of no class) +(\d+) +(\d+)? +(\d+) +(\d+)$", done.stdout, re.M)
    pages = {name: (int(count), int(left)) for name, count, _, _, left in rows[:6]}
    assert {name: count for name, (count, _) in pages.items()} == {
        "cover": 1,
        "claim-form": 2,
        "address-form": 1,
        "invoice": 1,
        "letter": 2,
        "of no class": 1,
    }
    assert pages["of no class"] == (1, 1), done.stdout
    assert "Barcodes: 1 of 1 right, 0 wrong" in done.stdout
    assert "Dates of the stamps: 1 of 1 right, 0 wrong" in done.stdout
    assert "Scans in review because of their page of no class: 1 of 1" in done.stdout

    # Each thing that is wrong in a result is named.
    monkeypatch.syspath_prepend(str(EXAMPLES))
    demo, scoring = (importlib.import_module(name) for name in ("demo_service", "mail_score"))
    [mail] = demo.draw_scans(tmp_path / "again", 1, 3)
    result = json.loads((out / "results" / "scan-01.json").read_bytes())
    before = scoring.score_mail(mail, result).mistakes
    result["page_classes"][0]["class"] = "letter"
    for finding in result["findings"]:
        finding["value"] = "BX-000000" if finding["kind"] == "barcode" else None
    removed = result["records"].pop()
    after = [one for one in scoring.score_mail(mail, result).mistakes if one not in before]
    assert [one.removeprefix("scan-01: ") for one in after[:3]] == [
        "page 1: cover, taken for a letter",
        f"barcode: ['BX-000000'] instead of {mail.barcode}",
        f"date: [None] instead of {mail.received}",
    ]
    assert f"{removed['class']} on " in after[3]

    # The command that it prints serves the same data again.
    [line] = re.findall(r"^ +llm-ocr serve (.*)$", done.stdout, re.M)
    key = KEY.search(done.stdout)
    assert key is not None
    with serving(*shlex.split(line), "--port", 0) as service:
        [waiting] = ServiceApi(service.url, key[0]).get("/v1/review")["reviews"]
    assert waiting["document_name"].startswith("scan-01")
