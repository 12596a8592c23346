"""A schema of one's own goes to the tasks of every platform, and its records come back."""

import json
from pathlib import Path

import pytest

from llm_ocr.storage.store import create_repository, open_store
from tests import documents
from tests.platforms import gcp, hf
from tests.platforms.aws_place import QUICK, llm_ocr, new_run, settle, upload, with_engine
from tests.platforms.test_batch_job import ASKED, reads
from tests.servers.aws import Account
from tests.servers.aws_batch import Batch
from tests.servers.aws_sagemaker import ROLE, serving_sagemaker
from tests.servers.chat import prompt_of, serving_beside
from tests.servers.hub_images import Image

pytestmark = pytest.mark.long

SCHEMA = """from pydantic import BaseModel, field_validator


class Bill(BaseModel):
    invoice_number: str
    total: str

    @field_validator("total")
    @classmethod
    def _in_euros(cls, value: str) -> str:
        return f"{value} EUR"
"""
STAGE = ("--stage", "parse", "--schema", "bill.py:Bill", "--wait", "--viewer-pages", "0")


@pytest.fixture(autouse=True)
def _schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder where the user types: the tasks are elsewhere."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bill.py").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path / "mine")


def assert_records(out: str, count: int) -> None:
    """What the schema's own code made of the answers."""
    lines = open_store(out).get("records/records.jsonl").decode().splitlines()
    fields = [json.loads(line)["fields"] for line in lines]
    assert fields == [{"invoice_number": "A-17", "total": "12.50 EUR"}] * count


def test_on_aws_batch(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    with serving_beside(reads) as engine:
        with_engine(batch.account, engine.base_url)
        done = llm_ocr("launch", "aws-batch", place, "--out", out, *STAGE)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_records(out, 2)
        asked = len(engine.requests)
        # Over the run that is there, with the same schema: nothing is left to ask.
        again = llm_ocr("launch", "aws-batch", out, *STAGE)
        assert again.returncode == 0, again.stdout + again.stderr
        assert len(engine.requests) == asked
    (file,) = open_store(out).list("files")
    open_store(out).put(file.path, SCHEMA.replace("EUR", "USD").encode())
    words = ("parse", out, "--schema", f"{out}/{file.path}", "--base-url", engine.base_url)
    refused = llm_ocr(*words)
    assert refused.returncode == 4
    assert "its content does not match the SHA-256 in its path" in refused.stderr


def test_on_sagemaker(tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0-gpu-root"
    account = Account(tmp_path / "sagemaker", {**s3, **QUICK}, {image: ()})
    with serving_sagemaker(account), serving_beside(reads) as engine:
        settle(monkeypatch, account.client_environment())
        with_engine(account, engine.base_url)
        place, out = upload(tmp_path / "in", 2), new_run()
        done = llm_ocr("launch", "sagemaker", place, "--out", out, "--role", ROLE, *STAGE)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_records(out, 2)


def test_on_cloud_run(tmp_path: Path, gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with gcp.signed_in(tmp_path, gcs, monkeypatch) as cloud:
        cloud.chat.reply = reads
        gcp.put_documents(tmp_path / "in", f"{cloud.bucket}/in", 1)
        out = f"{cloud.bucket}/run"
        done = cloud.llm_ocr("launch", "cloud-run", f"{cloud.bucket}/in", "--out", out, *STAGE)
        assert done.returncode == 0, done.stdout + done.stderr + cloud.server.printed()
        assert_records(out, 1)


def test_on_hugging_face(tmp_path: Path, image: Image) -> None:
    with hf.signed_in(tmp_path / "hub", image) as cloud:
        cloud.chat.reply = reads
        create_repository(hf.SCANS, private=True)
        page = documents.picture(tmp_path / "page.png")
        open_store(hf.SCANS).put_many({"page.png": page}, "Scans")
        done = cloud.llm_ocr("launch", "hf-jobs", hf.SCANS, "--out", hf.READ, *STAGE)
        said = [job.lines() for job in cloud.hub.jobs.values()]
        assert done.returncode == 0, (done.stdout + done.stderr, said)
        assert sum(ASKED in prompt_of(body) for body in cloud.chat.requests) == 1
