"""`llm-ocr plan`, as a process."""

import json
import re
import uuid
from pathlib import Path

import pytest

from llm_ocr.storage.store import open_store
from tests import documents
from tests.cli.test_commands import llm_ocr
from tests.servers.chat import serving_beside


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=3)
    documents.pdf(tmp_path / "in" / "sub" / "other.pdf", pages=4)
    documents.picture(tmp_path / "in" / "scan.png")
    return tmp_path / "in"


def test_plan_prices_a_folder_on_every_platform_in_100_columns(inputs: Path) -> None:
    done = llm_ocr("plan", inputs, "--tasks", "2", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    assert "3 files (all counted)" in done.stdout
    assert "8 pages" in done.stdout
    assert "deepseek-ocr, 2 tasks at once" in done.stdout
    rows = (
        "hf-jobs a100-large", "hf-jobs l40sx1", "hf-jobs l4x1", "sagemaker ml.g6e.2xlarge",
        "sagemaker ml.g6.2xlarge",
        "cloud-run nvidia-l4", "aws-batch g6.2xlarge-spot", "aws-batch g6.2xlarge",
        "GPT-6 Luna", "Gemini 3.8 Flash", "Claude Sonnet 5.5", "Textract, text only",
        "Document AI, OCR",
    )  # fmt: skip
    for row in rows:
        assert re.search(rf"^{re.escape(row)}\W.*\$\d", done.stdout, re.MULTILINE), row
    table = done.stdout[: done.stdout.index("US dollars")]
    assert "…" not in table
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_the_table_fits_80_columns_also_with_large_numbers(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for k in range(30):
        documents.pdf(tmp_path / "many" / f"{k:02d}.pdf", pages=1 + k % 3)
    slow = tmp_path / "slow.toml"
    slow.write_text(
        "".join(
            f'[[measured]]\ngpu = "{gpu}"\nmodel = "deepseek-ocr"\npages_per_minute = 1e-4\n'
            'source = "a test"\ndate = "2026-11"\n'
            for gpu in ("l4", "l40s", "a100")
        )
    )
    many = [tmp_path / "many", "--throughput", slow, "--sample-documents", "8"]
    for arguments in ([inputs], [*many, "--gpu", "l4,l40s,a100,l40sx4,ml.g6e.2xlarge"]):
        done = llm_ocr("plan", *arguments, COLUMNS="80")
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80
        table = done.stdout[: done.stdout.index("Commercial APIs")]
        assert "…" not in table
        for name in ("g6.2xlarge-spot", "ml.g6e.2xlarge", "nvidia-l4"):
            assert name in table, "no machine's name is broken"
    assert re.search(r"4xl40s .*\$\d{2},\d{3} \(\$\d", table), "large numbers were shown"


def test_plan_json_has_the_source_of_each_figure(inputs: Path) -> None:
    done = llm_ocr("plan", inputs, "--gpu", "l4,l40s", "--pages", "1-2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["survey"]["pages"] == {"low": 5, "expected": 5, "high": 5}
    assert {one["gpu"] for one in told["offers"]} == {"l4", "l40s"}
    first = told["offers"][0]
    assert first["cost"]["low"] <= first["cost"]["expected"] <= first["cost"]["high"]
    assert first["price_source"]["url"].startswith("https://")
    assert told["apis"][0]["source"]["date"]


def test_plan_counts_a_sample_of_many_documents(tmp_path: Path) -> None:
    for k in range(30):
        documents.pdf(tmp_path / "in" / f"{k:02d}.pdf", pages=1 + k % 3)
    documents.pdf(tmp_path / "in" / "large.pdf", pages=60)
    done = llm_ocr("plan", tmp_path / "in", "--sample-documents", "8", "--json")
    told = json.loads(done.stdout)["survey"]
    assert (told["documents"], told["counted"]) == (31, 8)
    # The largest one is counted in any case, and not taken for what others are.
    assert told["pages"]["low"] <= 120 <= told["pages"]["high"]
    assert 60 < told["pages"]["expected"] < 180
    assert told["pages"]["low"] < told["pages"]["high"]
    shown = llm_ocr("plan", tmp_path / "in", "--sample-documents", "8")
    assert re.search(r"31 files \(8 counted\), .*: about \d+ pages \(\d+-\d+\)", shown.stdout)


def test_plan_reports_broken_pdfs(inputs: Path) -> None:
    (inputs / "notes.pdf").write_text("no PDF")
    done = llm_ocr("plan", inputs)
    assert done.returncode == 0, done.stderr
    assert "1 of those counted can't be opened" in done.stdout
    assert "notes.pdf: this is text" in " ".join(done.stdout.split())
    assert "8 pages" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["EMPTY"], "the folder holds no document"),
        (["BROKEN"], "notes.pdf: this is text"),
        (["nowhere.pdf"], "no such file or folder"),
        (["IN", "--gpu", "tpu"], "no platform has a price for tpu"),
        (["IN", "--gpu", "h200"], "on h200 is not known"),
        (["IN", "--model", "olmocr-2"], "the speed of olmocr-2 is not known"),
        (["IN", "--prices", "nowhere.toml"], "nowhere.toml: can't be read"),
        (["IN", "--pages", "7-9"], "no page that --pages selects"),
        ([], "give an INPUT to estimate"),
        (["IN", "--documents-per-day", "9"], "give either an INPUT or --documents-per-day"),
        (["--documents-per-day", "9", "--within", "soon"], "--within soon: give a time, such as"),
        (["--documents-per-day", "9", "--within", "5s"], "5 seconds (--within) are too short"),
        (["--update-throughput", "IN"], "requires --throughput, the file to write"),
        (["--update-throughput", "IN", "--throughput", "OUT"], "holds no run with sessions"),
    ],
)
def test_plan_with_bad_input_exits_with_2(
    inputs: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "notes.pdf").write_text("no PDF")
    places = {
        "IN": inputs, "EMPTY": tmp_path / "empty", "BROKEN": tmp_path / "broken",
        "OUT": tmp_path / "speeds.toml",
    }  # fmt: skip
    done = llm_ocr("plan", *(places.get(one, one) for one in arguments))
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_plan_of_a_service_says_how_many_of_what() -> None:
    load = ("--documents-per-day", "30000", "--pages-per-document", "8", "--within", "10m")
    done = llm_ocr("plan", *load, "--gpu", "l4,l40s", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "30,000 documents of 8 pages a day: 240,000 pages, 8.33 per second" in said
    assert "(3 times the mean); 95% of documents within 10 min" in said
    assert re.search(r"^hf-jobs l4x1 +17 l4 +105 +\d+% .*\$\d+ \(\$", done.stdout, re.MULTILINE)
    assert re.search(r"^8 l40s +\d+ x \d+ +2 +2 ", done.stdout, re.MULTILINE)
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_plan_of_a_service_as_json_has_all_numbers_and_their_sources() -> None:
    load = ("--documents-per-day", "1000", "--within", "0.5h", "--peak", "1", "--gpu", "l4x1")
    done = llm_ocr("plan", *load, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["load"] == {
        "documents_per_day": 1000,
        "pages": 1.0,
        "within_seconds": 1800.0,
        "peak": 1.0,
    }
    [offer] = told["offers"]
    assert offer["replicas"] == 1
    assert 0 < offer["latency"]["p50"] < offer["latency"]["p95"] <= 1800
    assert offer["tiers"]["workers"] >= 2
    assert offer["per_day"]["low"] <= offer["per_day"]["expected"] <= offer["per_day"]["high"]
    assert offer["price_source"]["url"].startswith("https://")
    assert told["tier_source"]["url"] == "python -m benchmarks.scaling"


def test_plan_counts_a_bucket(
    inputs: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    place = f"s3://bucket/{uuid.uuid4().hex}"
    store = open_store(place)
    for path in inputs.rglob("*.p*"):
        store.put(path.name, path.read_bytes())
    done = llm_ocr("plan", place, "--json", **s3)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["survey"]["pages"]["expected"] == 8
    empty = llm_ocr("plan", f"{place}/nothing", **s3)
    assert empty.returncode == 2
    assert "check bucket and folder" in empty.stderr


def test_price_file_comes_from_the_option_or_the_environment(inputs: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[platforms.hf-jobs.machines]\nl4x1 = { price_per_hour = 60.0 }\n")
    for done in (
        llm_ocr("plan", inputs, "--gpu", "l4x1", "--json", "--prices", mine),
        llm_ocr("plan", inputs, "--gpu", "l4x1", "--json", LLM_OCR_PRICES=str(mine)),
    ):
        [one] = json.loads(done.stdout)["offers"]
        assert one["price_per_hour"] == 60.0
        assert one["price_source"]["url"] == str(mine)


def test_plan_uses_the_throughput_of_earlier_runs(tmp_path: Path, inputs: Path) -> None:
    documents.pdf(tmp_path / "many.pdf", pages=100)
    out, mine = tmp_path / "out", tmp_path / "speeds.toml"
    with serving_beside() as server:
        base = ("--base-url", server.base_url, "--viewer-pages", "0")
        assert llm_ocr("run", tmp_path / "many.pdf", "--out", out, *base).returncode == 0
    update = ("plan", "--update-throughput", out, "--throughput", mine)
    silent = llm_ocr(*update)
    assert silent.returncode == 2
    assert "name its GPU with --gpu" in silent.stderr
    done = llm_ocr(*update, "--gpu", "l4")
    assert done.returncode == 0, done.stderr
    assert re.search(r"deepseek-ocr on l4, [\d.]+ pages/min", done.stdout)
    plan = llm_ocr("plan", inputs, "--gpu", "l4x1", "--throughput", mine, "--json")
    [one] = json.loads(plan.stdout)["offers"]
    assert one["speed_source"]["url"] == f"100 pages of {out}"
