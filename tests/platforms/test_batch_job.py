"""`run-batch-job`: what it takes from the environment, and a job on a real S3 server."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.cli import batch_job
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import Task
from llm_ocr.platforms.batch_job import BatchJob, BatchJobError, read_job
from llm_ocr.storage.store import open_store
from tests import documents
from tests.servers.chat import answer, at_once, prompt_of, serving_beside

REQUIRED = {
    "S3_BUCKET": "bucket",
    "S3_PREPROCESSED_IMAGES_DIR_PREFIX": "invoices/images/",
    "S3_PROCESSED_DATASET_PREFIX": "invoices/records",
}
BIN = Path(sys.executable).parent
# The words of the prompt for a record.
ASKED = "Fill in the JSON schema"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with nothing in it."""
    monkeypatch.chdir(tmp_path)


def job(monkeypatch: pytest.MonkeyPatch, **variables: str) -> BatchJob:
    for name, value in {**REQUIRED, **variables}.items():
        monkeypatch.setenv(name, value)
    return read_job()


def test_required_variables_define_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job(monkeypatch) == BatchJob(
        "s3://bucket/invoices/images",
        "s3://bucket/invoices/records",
        "invoice",
        settings={"model": "qwen2.5-vl-3b"},
    )


def test_optional_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_OCR_VLLM_ARGS", "--max-num-seqs 8")
    told = job(
        monkeypatch,
        MODEL_NAME="Qwen/Qwen2.5-VL-7B-Instruct",
        SCHEMA="shop.schemas:Receipt",
        RECORD_PER="page",
        DROP_UNVERIFIED="true",
        BATCH_SIZE="16",
        GPU_MEMORY_UTILISATION="0.8",
        MAX_NUM_SEQS="4",
        MAX_MODEL_LEN="8192",
        TEMPERATURE="0",
        AWS_REGION="us-east-1",
    )
    assert (told.schema, told.record_per, told.drop_unverified) == (
        "shop.schemas:Receipt",
        "page",
        True,
    )
    assert told.settings["concurrency"] == 16
    mine = "--gpu-memory-utilization 0.8 --max-num-seqs 4"
    assert told.settings["vllm_args"] == f"{mine} --max-num-seqs 8"
    profile = profile_named(told.settings["model"])
    assert (profile.id, profile.serving.max_model_len) == ("qwen2.5-vl-7b", 8192)
    usual = profile_named("qwen2.5-vl-7b")
    assert profile.serving.revision == usual.serving.revision
    assert usual.prompt(Task.DOCUMENT).max_tokens > 8192 / 2, "it would leave an image no room"
    assert all(profile.prompt(task).max_tokens <= 8192 / 2 for task in profile.prompts)


def test_the_jobs_own_temperature_and_limit_are_those_of_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = job(monkeypatch, TEMPERATURE="0.2", MAX_TOKENS="2048")
    found, usual = profile_named(told.settings["model"]), profile_named("qwen2.5-vl-3b")
    assert found.sampling == {**usual.sampling, "temperature": 0.2}
    assert found.prompt(Task.PARSE).max_tokens == 2048
    assert found.prompt(Task.PARSE).text == usual.prompt(Task.PARSE).text
    assert found.prompts[Task.DOCUMENT] == usual.prompts[Task.DOCUMENT]
    assert found.serving == usual.serving


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"S3_BUCKET": None}, "S3_BUCKET is not set"),
        ({"S3_BUCKET": "s3://bucket"}, "S3_BUCKET=s3://bucket: "),
        ({"S3_PROCESSED_DATASET_PREFIX": "/"}, "S3_PROCESSED_DATASET_PREFIX=/: "),
        ({"S3_PROCESSED_DATASET_PREFIX": "invoices/images/out"}, "lies within"),
        ({"S3_PROCESSED_DATASET_PREFIX": "invoices/images"}, "lies within"),
        ({"MODEL_NAME": "big/model"}, "Qwen/Qwen2.5-VL-3B-Instruct"),
        ({"TEMPERATURE": "3"}, "TEMPERATURE=3: "),
        ({"MAX_TOKENS": "16384"}, "MAX_TOKENS=16384: prompts.parse.max_tokens: 16384 leaves"),
        ({"GPU_MEMORY_UTILISATION": "90"}, "GPU_MEMORY_UTILI"),
        ({"RECORD_PER": "line"}, "RECORD_PER=line: "),
    ],
)
def test_invalid_variables_are_refused_by_name(
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
    assert exit_code_of_main(monkeypatch) == 2
    assert said in capsys.readouterr().err


def exit_code_of_main(monkeypatch: pytest.MonkeyPatch) -> int:
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


def lines(prefix: str) -> list[dict[str, Any]]:
    text = open_store(f"s3://bucket/{prefix}").get("records/records.jsonl").decode()
    return [json.loads(line) for line in text.splitlines()]


FOUND = {"invoice_number": "A-17", "total": "12.50"}


def reads(body: dict[str, Any]) -> web.StreamResponse:
    """An engine that sees the same invoice on each page."""
    return answer(json.dumps(FOUND)) if ASKED in prompt_of(body) else at_once(body)


def ran(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A container's command, with what a job's definition has in its environment."""
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        env={**os.environ, **REQUIRED, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ("llm-ocr-job", "run-batch-job"),
        ("llm-ocr-job", "/opt/llm-ocr/bin/run-batch-job"),
        ("run-batch-job",),
    ],
)
def test_images_in_s3_give_json_lines_in_s3(
    s3: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[str, ...],
) -> None:
    uris = put_images(s3, monkeypatch, f"{tmp_path.name}/images")
    with serving_beside(reads) as server:
        done = ran(
            *command,
            S3_PREPROCESSED_IMAGES_DIR_PREFIX=f"{tmp_path.name}/images",
            S3_PROCESSED_DATASET_PREFIX=f"/{tmp_path.name}/records/",
            MODEL_NAME="deepseek-ocr",
            TEMPERATURE="0.25",
            MAX_TOKENS="3000",
            LLM_OCR_BASE_URL=server.base_url,
        )
        asked = [body for body in server.requests if ASKED in prompt_of(body)]
    assert done.returncode == 0, done.stdout + done.stderr
    found = lines(f"{tmp_path.name}/records")
    assert {one["source_uri"] for one in found} == set(uris)
    assert {one["fields"]["invoice_number"] for one in found} == {"A-17"}
    assert {(body["temperature"], body["max_tokens"]) for body in asked} == {(0.25, 3000)}
    assert f"s3://bucket/{tmp_path.name}/records/records" in done.stdout


def test_missing_variables_exit_with_2() -> None:
    done = ran("llm-ocr-job", "run-batch-job", S3_BUCKET="")
    assert (done.returncode, done.stderr.startswith("S3_BUCKET=: ")) == (2, True), done.stderr


@pytest.mark.long
def test_embedded_engine_runs_a_batch_job(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uris = put_images(s3, monkeypatch, "real/images")
    told = {"S3_PREPROCESSED_IMAGES_DIR_PREFIX": "real/images"}
    told |= {"S3_PROCESSED_DATASET_PREFIX": "real/records", "LLM_OCR_ENGINE": "embedded"}
    done = ran("llm-ocr-job", "run-batch-job", **told)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {one["source_uri"] for one in lines("real/records")} == set(uris)
