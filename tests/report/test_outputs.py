"""A finished run that has records: what its card, summary and viewer say of them, and that
`datasets` loads them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_ocr import load_pages, load_records, run
from llm_ocr.report.outputs import read_record_counts, write_outputs
from llm_ocr.report.summary import Summary, render_summary
from llm_ocr.storage.store import open_store
from tests import documents
from tests.records import error, evidence, invoice, record, write_records_table
from tests.report.test_viewer import Elements
from tests.servers.chat import serving_beside


@pytest.fixture
def out(tmp_path: Path) -> Path:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=2)
    documents.picture(tmp_path / "in" / "b.png")
    with serving_beside() as server:
        run(tmp_path / "in", tmp_path / "out", base_url=server.base_url)
    return tmp_path / "out"


def summary_of(out: Path) -> Summary:
    with serving_beside() as server:
        return run(out.parent / "in", out, base_url=server.base_url)


def with_records(out: Path) -> Summary:
    """The outputs again, now that the run has records of its two documents."""
    wrong = error("due", '"soon"', "no date")
    by_name = {row["name"]: row["doc_id"] for row in load_pages(out)}
    rows = [
        record(by_name["a"], invoice(), errors=[wrong], evidence=[seen(by_name["a"])]),
        record(by_name["b"], None, status="failed", error="no JSON", raw_answer="Sorry"),
    ]
    write_records_table(open_store(str(out)), rows)
    return write_outputs(open_store(str(out)), summary_of(out), {}, 300)


def seen(doc_id: str) -> dict[str, Any]:
    return dict(evidence("total", f"{doc_id}/2", (1, 2, 3, 4)))


def configs(out: Path) -> dict[str, str]:
    head = yaml.safe_load((out / "README.md").read_text("utf-8").split("---\n")[1])
    return {one["config_name"]: one["data_files"] for one in head["configs"]}


def test_summary_and_card_count_records_by_status(out: Path) -> None:
    with_records(out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["records"] == {
        "by_status": {"failed": 1, "ok": 1},
        "errors_by_field": {"due": 1},
        "checked": 0,
        "disagreeing": 0,
        "not_checked": 0,
        "disagreements_by_field": {},
    }
    assert summary["rows"]["records"] == 2
    card = (out / "README.md").read_text("utf-8")
    assert "## Record statuses" in card
    assert "| `due` | 1 |" in card


def test_repeated_run_prints_the_same_summary(out: Path) -> None:
    told = with_records(out).records
    assert summary_of(out).records == told
    assert read_record_counts(open_store(str(out))) == told
    printed = render_summary(summary_of(out))
    grid: Any = printed.renderables[0]
    assert list(grid.columns[0].cells)[-2:] == ["Records", "Errors in"]


def test_run_without_records_does_not_mention_them(out: Path) -> None:
    assert "records" not in configs(out)
    assert "Record statuses" not in (out / "README.md").read_text("utf-8")
    assert not (out / "records").exists()
    assert json.loads((out / "summary.json").read_text())["records"]["by_status"] == {}


def test_datasets_loads_the_records(out: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    with_records(out)
    assert configs(out)["records"] == "data/records/*.parquet"
    assert configs(out)["records_typed"] == "records/records.parquet"
    for streaming in (False, True):
        given: dict[str, Any] = {"split": "train", "streaming": streaming}
        given["cache_dir"] = str(tmp_path / "cache")
        plain = list(load_dataset(str(out), "records", **given))
        assert [json.loads(one["fields"] or "null") for one in plain] == [invoice(), None]
        first, second = load_dataset(str(out), "records_typed", **given)
        assert (first["vendor"], str(first["issued"])[:10]) == (invoice()["vendor"], "2024-02-29")
        assert (second["status"], second["total"]) == ("failed", None)


def test_viewer_shows_records_next_to_their_pages(out: Path) -> None:
    with_records(out)
    found = Elements((out / "index.html").read_text("utf-8"))
    assert found.data("run")["summary"]["records"]["by_status"] == {"failed": 1, "ok": 1}
    shown = {
        (page["name"], page["page_number"]): [
            found.data(f"r{n}")["status"] for n in found.data(f"p{k}")["records"]
        ]
        for k, page in enumerate(found.data("run")["pages"])
    }
    assert shown == {("a", 1): ["ok"], ("a", 2): ["ok"], ("b", 1): ["failed"]}


def test_records_are_loaded_as_rows(out: Path) -> None:
    with_records(out)
    first, second = load_records(out)
    assert (first["fields"]["total"], first["errors"][0]["path"]) == ("12.50", "due")
    assert (second["fields"], second["raw_answer"]) == (None, "Sorry")
