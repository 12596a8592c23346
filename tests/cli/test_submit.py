"""`llm-ocr submit` to a real service, as processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import documents
from tests.classification.drawn_pages import draw_page, save_fitted
from tests.processes import run_module
from tests.servers.chat import ChatServer, at_once, serving_beside
from tests.servers.ports import free_port
from tests.servers.service import ServiceApi, reply_unless_paused, serving, state_options
from tests.waiting import wait_until


@dataclass
class RunningService:
    """A service, its engine, and a folder for inputs and results. While `paused` is set, the engine
    doesn't respond."""

    api: ServiceApi
    engine: ChatServer
    paused: threading.Event
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        names = {"LLM_OCR_SERVICE_URL": self.api.url, "LLM_OCR_SERVICE_KEY": self.api.key}
        return {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **names}

    def submit(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        return run_module("llm_ocr", "submit", *arguments, env=self.environment)

    def start(self, *arguments: object) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "llm_ocr", "submit", *map(str, arguments)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def pdf(self, name: str, pages: int = 1) -> Path:
        # Different numbers of pages give different contents, and so different idempotency keys.
        return documents.pdf(self.folder / "in" / f"{name}.pdf", pages=pages)


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder, paused = tmp_path_factory.mktemp("service"), threading.Event()

    with serving_beside(reply_unless_paused(paused)) as engine:
        arguments = [*state_options(folder), "--base-url", engine.base_url]
        with serving(*arguments, "--lease-seconds", "2") as process:
            yield RunningService(ServiceApi(process.url, process.key), engine, paused, folder)


@pytest.fixture
def service(shared_service: RunningService, tmp_path: Path) -> Iterator[RunningService]:
    yield RunningService(shared_service.api, shared_service.engine, shared_service.paused, tmp_path)
    shared_service.paused.clear()


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("[!.]*") if path.is_file())


def test_results_are_saved_and_a_repeated_command_changes_nothing(service: RunningService) -> None:
    report, out = service.pdf("report", pages=2), service.folder / "out"
    documents.picture(service.folder / "in" / "more" / "scan.png")
    arguments = (report.parent, "--wait", "--out", out, "--metadata", "batch=7", "--priority", "3")
    done = service.submit(*arguments)
    assert done.returncode == 0, done.stderr
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    assert sorted((state, name) for _, state, name in lines) == [
        ("succeeded", "more/scan"),
        ("succeeded", "report"),
    ]
    written = tree(out)
    assert {"report.md", "report.json", "more/scan.md", "more/scan.json"} <= set(written)
    content = json.loads((out / "report.json").read_text("utf-8"))
    figures = [figure["file"] for figure in content["figures"]]
    assert figures
    assert set(figures) <= set(written)
    markdown = (out / "report.md").read_text("utf-8")
    assert markdown.count("# Page") == 2
    assert all(f"({name})" in markdown for name in figures)
    [document] = [id_ for id_, _, name in lines if name == "report"]
    found = service.api.document(document)
    assert (found["metadata"], found["priority"]) == ({"batch": "7"}, 3)

    request_count = len(service.engine.requests)
    times = {name: (out / name).stat().st_mtime_ns for name in written}
    again = service.submit(*arguments)
    assert again.returncode == 0, again.stderr
    assert sorted(again.stdout.splitlines()) == sorted(done.stdout.splitlines())
    assert len(service.engine.requests) == request_count
    assert {name: (out / name).stat().st_mtime_ns for name in tree(out)} == times

    # Missing files are downloaded again, even without the journal in the folder.
    (out / "report.json").unlink()
    for path in out.glob(".*"):
        path.unlink()
    third = service.submit(*arguments)
    assert sorted(third.stdout.splitlines()) == sorted(done.stdout.splitlines())
    assert tree(out) == written
    assert len(service.engine.requests) == request_count


def test_without_wait_the_command_ends_after_the_upload(service: RunningService) -> None:
    done = service.submit(service.pdf("later"))
    assert done.returncode == 0, done.stderr
    [(document, state, name)] = [line.split("  ") for line in done.stdout.splitlines()]
    assert (state, name) == ("queued", "later")
    service.api.wait(document, "succeeded")


def test_failed_documents_are_reported_and_others_succeed(service: RunningService) -> None:
    good = service.pdf("good", pages=3)
    (service.folder / "in" / "notes.pdf").write_text("text")
    (service.folder / "in" / "empty.png").write_bytes(b"")
    done = service.submit(good.parent, "--wait", "--out", service.folder / "out")
    assert done.returncode == 1
    assert "succeeded  good" in done.stdout
    assert "notes: " in done.stderr
    assert "empty: " in done.stderr
    assert "Traceback" not in done.stderr
    assert [name for name in tree(service.folder / "out") if name.endswith(".md")] == ["good.md"]


def test_a_killed_client_resumes(service: RunningService) -> None:
    for k in range(1, 7):
        service.pdf(f"page-{k}", pages=k)
    arguments = (service.folder / "in", "--wait", "--out", service.folder / "out")
    service.paused.set()
    before = len(service.engine.requests)
    first = service.start(*arguments)
    wait_until(lambda: len(service.engine.requests) > before)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    service.paused.clear()
    done = service.submit(*arguments)
    assert done.returncode == 0, done.stderr
    found = [
        document["name"] for document in service.api.get("/v1/documents?limit=200")["documents"]
    ]
    assert sorted(name for name in found if name.startswith("page-")) == [
        f"page-{k}.pdf" for k in range(1, 7)
    ]
    for k in range(1, 7):
        assert (service.folder / "out" / f"page-{k}.md").read_text("utf-8").count("# Page") == k


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_signal_stops_the_client_but_not_the_service(
    service: RunningService, number: signal.Signals, code: int
) -> None:
    service.paused.set()
    name = f"signal-{code}"
    arguments = (service.pdf(name, pages=4), "--wait", "--out", service.folder / "out")
    before = len(service.engine.requests)
    process = service.start(*arguments)
    wait_until(lambda: len(service.engine.requests) > before)
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert "rerun the same command" in error
    assert "Traceback" not in error
    service.paused.clear()
    done = service.submit(*arguments)
    assert done.returncode == 0, done.stderr
    assert f"{name}.md" in tree(service.folder / "out")


def test_a_document_that_was_deleted_is_submitted_again(service: RunningService) -> None:
    arguments = (service.pdf("deleted"), "--wait")
    first = service.submit(*arguments).stdout.split("  ")[0]
    assert service.api.request("DELETE", f"/v1/documents/{first}").status_code == 204
    done = service.submit(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("  ")[0] != first


def test_retry_failed_retries_failed_documents(service: RunningService) -> None:
    arguments = (service.pdf("cancelled", pages=5), "--wait", "--out", service.folder / "out")
    service.paused.set()
    process = service.start(*arguments)

    def find() -> Any:  # noqa: ANN401
        found = service.api.get("/v1/documents?limit=200")["documents"]
        uploaded = (one for one in found if one["state"] != "awaiting_upload")
        return next((one["id"] for one in uploaded if one["name"] == "cancelled.pdf"), None)

    document = wait_until(find)
    assert service.api.request("POST", f"/v1/documents/{document}:cancel").status_code == 200
    service.api.wait(document, "cancelled")
    service.paused.clear()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, f"{document}  cancelled  cancelled\n")
    again = service.submit(*arguments)
    assert (again.returncode, again.stdout) == (1, out)
    done = service.submit(*arguments, "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{document}  succeeded  cancelled\n"


def test_a_wrong_key_and_an_unreachable_service_are_reported(service: RunningService) -> None:
    report = service.pdf("report")
    wrong = service.submit(report, "--key", "lo_nonesuch_0123456789abcdef0123456789abcdef")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"{service.api.url} refused the API key" in wrong.stderr
    assert "set LLM_OCR_SERVICE_KEY" in wrong.stderr
    url = f"http://127.0.0.1:{free_port()}"
    absent = service.submit(report, "--to", url)
    assert (absent.returncode, absent.stdout) == (3, "")
    assert f"{url} doesn't respond" in absent.stderr
    assert "start the service with `llm-ocr serve`, or check --to" in absent.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "results"), "results are only saved with --wait"),
        (("--metadata", "batch"), "use the form NAME=VALUE"),
        (("gone.pdf",), "gone.pdf: no such file or folder"),
        (("s3://bucket/a.pdf",), "s3://bucket/a.pdf: submit takes local files"),
        (("--type", "nonesuch"), "nonesuch"),
    ],
)
def test_invalid_arguments_are_reported(
    service: RunningService, arguments: tuple[str, ...], message: str
) -> None:
    done = service.submit(service.pdf("any"), *arguments)
    assert done.returncode in (1, 2)
    assert message in done.stderr


@pytest.mark.long
def test_files_are_uploaded_directly_to_a_bucket(tmp_path: Path, s3: dict[str, str]) -> None:
    """By presigned URLs with the public name of the S3 server."""
    large, small = documents.pdf(tmp_path / "in" / "a.pdf", 3), tmp_path / "in" / "b.png"
    documents.picture(small)
    public = s3["AWS_ENDPOINT_URL"].replace("127.0.0.1", "localhost")
    paused = threading.Event()
    with serving_beside(reply_unless_paused(paused)) as engine:
        state = ["--database", tmp_path / "service.sqlite", "--storage", "s3://bucket/submit"]
        options = ["--port", 0, "--base-url", engine.base_url, "--storage-public-url", public]
        with serving(*state, *options, env=s3) as process:
            service = RunningService(ServiceApi(process.url, process.key), engine, paused, tmp_path)
            paused.set()
            # The client has no access to the bucket except the URLs that it gets.
            started = service.submit(large)
            assert started.returncode == 0, started.stderr
            document = service.api.get("/v1/documents")["documents"][0]
            assert document["state"] in ("queued", "processing")
            paused.clear()
            done = service.submit(large, small, "--wait", "--out", tmp_path / "out")
            assert done.returncode == 0, done.stderr
            assert len(service.api.get("/v1/documents")["documents"]) == 2
            refused = documents.pdf(tmp_path / "in" / "c.pdf", 2)
            refused.write_bytes(b"no PDF at all")
            failed = service.submit(refused)
            assert "c.pdf" in failed.stdout + failed.stderr
            assert failed.returncode == 1, failed.stderr
    assert {"a.md", "a.json", "b.md", "b.json"} <= set(tree(tmp_path / "out"))
    pages = json.loads((tmp_path / "out" / "a.json").read_text())["pages"]
    assert [page["number"] for page in pages] == [1, 2, 3]


MAIL = """
name: mail
steps:
- step: extract
- step: classify
  classifier: {classifier}
  split: true
  pipelines: {{form: markdown}}
- step: assemble
"""


PAGES = (("form", 70), ("form", 71), ("letter", 75))


@pytest.mark.long
def test_the_documents_of_a_scan_are_saved(tmp_path: Path) -> None:
    pipelines, out = tmp_path / "pipelines", tmp_path / "out"
    pipelines.mkdir()
    classifier = save_fitted(tmp_path / "index", ("form", "letter", "invoice"), 20)
    (pipelines / "mail.yaml").write_text(MAIL.format(classifier=classifier))
    checked = run_module("llm_ocr", "pipelines", "check", pipelines)
    assert checked.returncode == 0, checked.stderr
    listed = run_module("llm_ocr", "pipelines", "list", "--pipelines", pipelines)
    # The revision includes those of the pipelines of its documents.
    assert f"mail  {checked.stdout.split()[-1]}  " in listed.stdout
    pages = [draw_page(kind, number) for kind, number in PAGES]
    scan = tmp_path / "in" / "scan.pdf"
    scan.parent.mkdir()
    pages[0].save(scan, save_all=True, append_images=pages[1:], resolution=80)
    with (
        serving_beside(at_once) as engine,
        serving(
            *(*state_options(tmp_path), "--base-url", engine.base_url, "--pipelines", pipelines)
        ) as process,
    ):
        service = RunningService(
            ServiceApi(process.url, process.key), engine, threading.Event(), tmp_path
        )
        arguments = (scan.parent, "--type", "mail", "--wait", "--out", out)
        done = service.submit(*arguments)
        assert done.returncode == 0, done.stderr
        # Found saved the second time, without waiting.
        again = service.submit(*arguments)
    assert sorted(again.stdout.splitlines()) == sorted(done.stdout.splitlines())
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    assert [(state, name) for _, state, name in lines] == [
        ("succeeded", "scan.p1-2"),
        ("succeeded", "scan.p3"),
        ("succeeded", "scan"),
    ]
    names = ("scan", "scan.p1-2", "scan.p3")
    found = {name: json.loads((out / f"{name}.json").read_text("utf-8")) for name in names}
    children = [(child["id"], child["type"]) for child in found["scan"]["children"]]
    assert children == [(lines[0][0], "form"), (lines[1][0], "letter")]
    assert [found[name]["pipeline"] for name in names] == ["mail", "markdown", "mail"]
    written = set(tree(out))
    for name in names:
        content = found[name]
        assert {figure["file"] for figure in content["figures"]} <= written
        numbers = [page["number"] for page in content["pages"]]
        assert numbers == {"scan": [1, 2, 3], "scan.p1-2": [1, 2], "scan.p3": [3]}[name]
        assert all(page["markdown"] for page in content["pages"])
        assert (out / f"{name}.md").read_text("utf-8")
