"""The gcloud commands of google-cloud-run/README.md: the jobs that they describe, run whole."""

from collections.abc import Iterator
from pathlib import Path

import google.auth
import pytest
from google.api_core.client_options import ClientOptions
from google.cloud import run_v2

from llm_ocr import __version__, load_documents, load_pages
from llm_ocr.platforms.base import JobState, wait
from llm_ocr.platforms.cloud_run import SCOPES
from llm_ocr.platforms.registry import open_platform
from llm_ocr.storage.store import open_store
from tests import documents
from tests.platforms import gcloud
from tests.platforms.gcp import ACCOUNT, IMAGE, Cloud, put_documents, signed_in
from tests.platforms.readme import commands
from tests.servers.cloud_run import REGION
from tests.servers.google_accounts import PROJECT

README = Path(__file__).parents[2] / "google-cloud-run" / "README.md"


def typed(begin: str, bucket: str = "my-bucket") -> list[str]:
    """The README's commands that begin so, with the variables that it has set by then."""
    values = {"IMAGES": IMAGE, "VERSION": __version__, "REGION": REGION, "ACCOUNT": ACCOUNT}
    values |= {"PROJECT": PROJECT, "BUCKET": bucket}
    lines = commands(README, begin)
    for name, value in values.items():
        lines = [line.replace(f"${name}", value) for line in lines]
    return lines


def test_readme_jobs_equal_those_of_a_launch() -> None:
    """Of the same size, with the same limits, for as long, and as the same account."""
    region, name, plain = gcloud.job(typed("gcloud run jobs create")[0])
    assert (region, name, plain.template.task_count) == (REGION, "plain", 3)
    task = plain.template.template
    assert task.containers[0].resources.limits == {
        "cpu": "8",
        "memory": "32Gi",
        "nvidia.com/gpu": "1",
    }
    assert (task.node_selector.accelerator, task.max_retries) == ("nvidia-l4", 6)
    assert task.gpu_zonal_redundancy_disabled
    assert (task.timeout.total_seconds(), task.service_account) == (3000, ACCOUNT)
    environment = {one.name: one.value for one in task.containers[0].env}
    assert environment == {"LLM_OCR_TIME_LIMIT": "2940", "LLM_OCR_STOP_SECONDS": "9"}


def test_unknown_gcloud_option_is_found() -> None:
    line = typed("gcloud run jobs create")[0]
    for there, wrong in (("--gpu-type", "--gpu-kind"), ("--region", "--zone")):
        with pytest.raises(ValueError, match=f"{wrong}|{there}"):
            gcloud.job(line.replace(there, wrong))


@pytest.fixture
def cloud(tmp_path: Path, gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with signed_in(tmp_path, gcs, monkeypatch) as there:
        yield there


def jobs_client(cloud: Cloud) -> run_v2.JobsClient:
    """Google's client, as who launches."""
    credentials, _ = google.auth.default(scopes=SCOPES)
    options = ClientOptions(
        api_endpoint=cloud.server.url, universe_domain=credentials.universe_domain
    )
    return run_v2.JobsClient(credentials=credentials, transport="rest", client_options=options)


def create(cloud: Cloud, line: str) -> str:
    region, name, job = gcloud.job(line)
    parent = f"projects/{PROJECT}/locations/{region}"
    jobs_client(cloud).create_job(parent=parent, job=job, job_id=name).result(timeout=60)
    return f"{parent}/jobs/{name}"


@pytest.mark.long
def test_job_created_as_in_the_readme_completes_a_run(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/scans", 4)
    plain, _ = typed("gcloud run jobs create", cloud.bucket.removeprefix("gs://"))
    made = create(cloud, plain)
    (execute,) = typed("gcloud run jobs execute")
    given = gcloud.options(execute, gcloud.EXECUTE)
    assert made.endswith(f"/locations/{given.region}/jobs/{given.job}")
    jobs_client(cloud).run_job(name=made)
    (waited,) = [one for one in typed("llm-ocr jobs wait") if one.endswith("plain")]
    done = cloud.shell(waited)
    assert done.returncode == 0, done.stderr
    pages = list(load_pages(f"{cloud.bucket}/runs/plain"))
    assert len(pages) == 6 == len({page["page_id"] for page in pages})
    assert len(list(load_documents(f"{cloud.bucket}/runs/plain"))) == 4


@pytest.mark.long
def test_nightly_schedule_reads_new_documents(cloud: Cloud, tmp_path: Path) -> None:
    place = f"{cloud.bucket}/scans"
    put_documents(tmp_path / "in", place, 2)
    made = create(cloud, typed("gcloud run jobs create", cloud.bucket.removeprefix("gs://"))[1])
    (line,) = typed("gcloud scheduler jobs create")
    nightly = gcloud.scheduled(line)
    assert (nightly.method, nightly.account) == ("POST", ACCOUNT)
    assert nightly.uri == f"https://run.googleapis.com/v2/{made}:run"
    for count in (2, 3):
        if count == 3:
            open_store(place).put("new.pdf", documents.pdf(tmp_path / "new.pdf"))
        assert nightly.fire(cloud.server.url) == 200
        job = wait(open_platform("cloud-run"), "daily", lambda now: None, poll_seconds=0.2)
        assert job.state is JobState.SUCCEEDED, cloud.server.printed()
        assert len(list(load_documents(f"{cloud.bucket}/runs/daily"))) == count
