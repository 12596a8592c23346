"""What the Terraform module lets jobs do, and that they need no more; and its daily job."""

from pathlib import Path

import boto3
import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from llm_ocr import load_documents, load_pages
from llm_ocr.platforms.base import JobState
from llm_ocr.platforms.registry import open_platform
from llm_ocr.storage.store import open_store
from tests import documents
from tests.platforms.aws_module import daily_request, job_permissions
from tests.platforms.aws_place import (
    SHARED,
    ended,
    llm_ocr,
    new_run,
    settle,
    upload,
    with_engine,
)
from tests.servers.aws import REGION
from tests.servers.aws_batch import Batch
from tests.servers.chat import serving_beside
from tests.servers.s3 import BUCKET, SECRET, serving_s3

pytestmark = pytest.mark.long

# Of IAM's actions, SeaweedFS's; that which writes deletes too.
MEANS = {
    "s3:ListBucket": "List",
    "s3:GetObject": "Read",
    "s3:PutObject": "Write",
    "s3:DeleteObject": "Write",
    "s3:AbortMultipartUpload": "Write",
}
JOB = "job-role"


def actions() -> list[str]:
    """The role's permissions, to SeaweedFS."""
    return sorted(
        {
            f"{MEANS[action]}:{BUCKET}/{folder}/*" if folder else f"{MEANS[action]}:{BUCKET}"
            for action, folders in job_permissions().items()
            for folder in folders
        }
    )


def test_job_role_is_sufficient_and_limited_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans, out = f"s3://{BUCKET}/scans", f"s3://{BUCKET}/runs/first"
    with serving_s3(tmp_path / "s3", (JOB, actions())) as s3, serving_beside() as engine:
        settle(monkeypatch, s3.environment)
        upload(tmp_path / "in", 3, pages=2, place=scans)
        locked = documents.encrypted_pdf(tmp_path / "locked.pdf", "word")
        open_store(scans).put("locked.pdf", locked)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", JOB)
        given = ("--base-url", engine.base_url, *SHARED)
        commands = [
            ("run", scans, "--out", out, *given),
            ("run", scans, "--out", out, "--update", *given),
            # Its shard is written again, and what was there before is deleted.
            ("retry", out, "--base-url", engine.base_url),
            ("compact", out),
            ("status", out),
        ]
        for command in commands:
            word = {"LLM_OCR_PASSWORD": "word"} if command[0] == "retry" else {}
            done = llm_ocr(*command, **word)
            # The locked document fails until it is retried.
            is_whole = command[0] != "run"
            assert done.returncode in ((0,) if is_whole else (0, 1)), (command, done.stderr)
        assert [page["status"] for page in load_pages(out)] == ["ok"] * 7
        store = S3Store(
            BUCKET,
            endpoint=s3.environment["AWS_ENDPOINT_URL"],
            access_key_id=JOB,
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )
        for path in ("scans/00.pdf", "ready"):
            with pytest.raises((BaseError, PermissionError)):
                obstore.delete(store, path)
            with pytest.raises((BaseError, PermissionError)):
                obstore.put(store, path, b"")
        with pytest.raises((BaseError, PermissionError)):
            obstore.get(store, "ready")
        assert obstore.get(store, "scans/00.pdf").bytes()


def test_daily_schedule_reads_new_documents(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    names = {"name": "llm-ocr-daily", "queue": "llm-ocr-l4", "definition": "llm-ocr-l4"}
    request = daily_request(**names, input=place, out=out, region=REGION)
    client = boto3.client("batch", region_name=REGION)
    with serving_beside() as engine:
        with_engine(batch.account, engine.base_url)
        for count in (2, 3):
            if count == 3:
                open_store(place).put("new.pdf", documents.pdf(tmp_path / "new.pdf"))
            job = ended(open_platform("aws-batch"), client.submit_job(**request)["jobId"])
            assert job.state is JobState.SUCCEEDED, job
            assert len(list(load_documents(out))) == count
