"""`run-batch-job`: what it takes from the environment, and a job on a real S3 server."""

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from llm_ocr.cli import batch_job
from llm_ocr.pipeline.worker import run
from llm_ocr.platforms.batch_job import BatchJob, BatchJobError, read_job
from llm_ocr.report.outputs import write_outputs
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.read import load_pages
from tests import documents
from tests.records import invoice, record, write_records_table
from tests.servers.chat import serving_beside

REQUIRED = {
    "S3_BUCKET": "bucket",
    "S3_PREPROCESSED_IMAGES_DIR_PREFIX": "invoices/images/",
    "S3_PROCESSED_DATASET_PREFIX": "invoices/records",
}
PARSING = "llm_ocr.pipeline.parsing"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no `.env` is."""
    monkeypatch.chdir(tmp_path)


def job(monkeypatch: pytest.MonkeyPatch, **variables: str) -> BatchJob:
    for name, value in {**REQUIRED, **variables}.items():
        monkeypatch.setenv(name, value)
    return read_job()


def test_the_usual_variables_are_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job(monkeypatch) == BatchJob(
        "s3://bucket/invoices/images",
        "s3://bucket/invoices/records",
        "invoice",
        given={"model": "qwen2.5-vl-3b"},
    )


def test_a_job_may_say_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_OCR_VLLM_ARGS", "--max-num-seqs 8")
    told = job(
        monkeypatch,
        MODEL_NAME="Qwen/Qwen2.5-VL-7B-Instruct",
        SCHEMA="shop.schemas:Receipt",
        PER="page",
        DROP_UNSUPPORTED="true",
        BATCH_SIZE="16",
        GPU_MEMORY_UTILISATION="0.8",
        MAX_NUM_SEQS="4",
        MAX_MODEL_LEN="8192",
        TEMPERATURE="0",
        AWS_REGION="us-east-1",
    )
    assert (told.schema, told.per, told.drop_unsupported) == ("shop.schemas:Receipt", "page", True)
    mine = "--gpu-memory-utilization 0.8 --max-num-seqs 4 --max-model-len 8192"
    assert told.given == {
        "model": "qwen2.5-vl-7b",
        "concurrency": 16,
        "vllm_args": f"{mine} --max-num-seqs 8",
    }


def test_they_may_stand_in_a_file(tmp_path: Path) -> None:
    lines = [f"{name}={value}" for name, value in REQUIRED.items()]
    lines += ["MODEL_NAME=dots-ocr", "GPU_MEMORY_UTILIZATION=0.5", "LLM_OCR_SHARD_PAGES=3"]
    (tmp_path / ".env").write_text("\n".join(lines))
    told = read_job()
    assert (told.out, told.given["model"]) == ("s3://bucket/invoices/records", "dots-ocr")
    assert told.given["vllm_args"] == "--gpu-memory-utilization 0.5"
    assert Settings(**told.given).shard_pages == 3


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"S3_BUCKET": None}, "S3_BUCKET is not set"),
        ({"S3_BUCKET": "s3://bucket"}, "S3_BUCKET=s3://bucket: "),
        ({"S3_PROCESSED_DATASET_PREFIX": "/"}, "S3_PROCESSED_DATASET_PREFIX=/: "),
        ({"S3_PROCESSED_DATASET_PREFIX": "invoices/images/out"}, "lies within"),
        ({"S3_PROCESSED_DATASET_PREFIX": "invoices/images"}, "lies within"),
        ({"MODEL_NAME": "big/model"}, "Qwen/Qwen2.5-VL-3B-Instruct"),
        ({"TEMPERATURE": "0.7"}, "TEMPERATURE=0.7: records are read at temperature 0"),
        ({"MAX_TOKENS": "2048"}, "MAX_TOKENS=2048: "),
        ({"GPU_MEMORY_UTILISATION": "90"}, "GPU_MEMORY_UTILI"),
        ({"PER": "line"}, "PER=line: "),
    ],
)
def test_what_can_not_be_done_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: Mapping[str, str | None],
    said: str,
) -> None:
    for name, value in {**REQUIRED, **variables}.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(BatchJobError):
        read_job()
    assert ended(monkeypatch) == 2
    assert said in capsys.readouterr().err


def ended(monkeypatch: pytest.MonkeyPatch) -> int:
    """How the command ends."""
    monkeypatch.setattr(sys, "argv", ["run-batch-job"])
    with pytest.raises(SystemExit) as end:
        batch_job.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def put_images(s3: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, prefix: str) -> list[str]:
    """Two images in the bucket; their URIs."""
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://bucket/{prefix}")
    names = ("2024/one.png", "two.jpg")
    for name in names:
        store.put(name, documents.picture(Path(name.replace("/", "-"))).read_bytes())
    return [f"s3://bucket/{prefix}/{name}" for name in names]


def stand_in(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    schema: str,
    settings: Settings | None = None,
    *,
    per: str = "document",
    source: str = "both",
    drop_unsupported: bool = False,
    notify: Any = None,  # noqa: ANN401
) -> Summary:
    """A run of the inputs with a record for each document, through the run's own writers."""
    assert (schema, per, source, drop_unsupported) == ("invoice", "document", "both", False)
    summary = run(inputs, out, settings, notify=notify)
    rows = [
        {**record(page["doc_id"], invoice()), "source_uri": page["source_uri"]}
        for page in load_pages(out)
    ]
    store = open_store(str(out))
    write_records_table(store, rows)
    return write_outputs(store, summary, {}, 0)


def lines(prefix: str) -> list[dict[str, Any]]:
    text = open_store(f"s3://bucket/{prefix}").get("records/records.jsonl").decode()
    return [json.loads(line) for line in text.splitlines()]


def test_images_in_s3_become_json_lines_in_s3(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType(PARSING)
    monkeypatch.setattr(module, "parse", stand_in, raising=False)
    monkeypatch.setitem(sys.modules, PARSING, module)
    uris = put_images(s3, monkeypatch, "stand-in/images")
    told = {"S3_PREPROCESSED_IMAGES_DIR_PREFIX": "stand-in/images"}
    told |= {"S3_PROCESSED_DATASET_PREFIX": "/stand-in/records/"}
    with serving_beside() as server:
        monkeypatch.setenv("LLM_OCR_BASE_URL", server.base_url)
        job(monkeypatch, MODEL_NAME="deepseek-ocr", **told)
        assert ended(monkeypatch) == 0
    found = lines("stand-in/records")
    assert {one["source_uri"]: one["fields"] for one in found} == dict.fromkeys(uris, invoice())
    assert "s3://bucket/stand-in/records/records" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec(PARSING) is None, reason="parse is not there yet")
def test_the_embedded_engine_does_a_job(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uris = put_images(s3, monkeypatch, "real/images")
    told = {"S3_PREPROCESSED_IMAGES_DIR_PREFIX": "real/images"}
    told |= {"S3_PROCESSED_DATASET_PREFIX": "real/records"}
    monkeypatch.setenv("LLM_OCR_ENGINE", "embedded")
    job(monkeypatch, **told)
    assert ended(monkeypatch) == 0
    assert {one["source_uri"] for one in lines("real/records")} == set(uris)
