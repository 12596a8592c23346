"""The CPU image, built and run: see tests/containers/base.sh."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from llm_ocr import __version__, load_documents, load_pages
from llm_ocr.report.status import read_status
from tests import documents
from tests.containers.buildah import Buildah

pytestmark = pytest.mark.container

ROOT = Path(__file__).parents[2]
BASE = ROOT / ".container" / "base.tar"
IMAGE = "localhost/llm-ocr:cpu"
TOKEN = "hf_PlantedWhereNoBuildMayTakeItAlong"
USER = 10001


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """buildah with the image, built with a token in the environment and in files beside it."""
    if not BASE.exists() or shutil.which("buildah") is None:
        pytest.skip("no base to build on: `make test-container` makes it, where it can")
    folder = tmp_path_factory.mktemp("buildah")
    context = folder / "context"
    listed = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-z"], text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, context / name)
    for planted in (".env", "llm_ocr/.env", "llm_ocr/storage/.env.local", "token.txt", "out/log"):
        (context / planted).parent.mkdir(exist_ok=True)
        (context / planted).write_text(f"HF_TOKEN={TOKEN}\n")
    made = Buildah(folder)
    made.import_base(BASE, "localhost/base")
    secrets = {"HF_TOKEN": TOKEN, "AWS_SECRET_ACCESS_KEY": TOKEN, "LLM_OCR_API_KEY": TOKEN}
    file = str(context / "containers" / "cpu.Dockerfile")
    base = ("--build-arg", "BASE=localhost/base")
    made("bud", "--pull-never", *base, "-f", file, "-t", IMAGE, str(context), **secrets)
    yield made
    shutil.rmtree(folder)


# One for all: without layers that share files, each is a copy of the image.
@pytest.fixture(scope="module")
def container(buildah: Buildah) -> Iterator[str]:
    with buildah.container(IMAGE) as running:
        yield running


@pytest.fixture
def job(buildah: Buildah) -> list[str]:
    """The image's entry point."""
    return list(buildah.configuration(IMAGE)["Entrypoint"])


@pytest.fixture
def volumes(tmp_path: Path) -> list[str]:
    """/in, which can be read, and /out, which anybody may write."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    tmp_path.chmod(0o755)
    return ["--volume", f"{tmp_path}/in:/in:ro", "--volume", f"{tmp_path}/out:/out"]


def test_image_has_labels_and_runs_as_non_root(
    buildah: Buildah, container: str, job: list[str]
) -> None:
    configuration = buildah.configuration(IMAGE)
    labels = configuration["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert job == ["llm-ocr-job"]
    assert buildah("run", container, "--", "id", "-u") == str(USER)
    assert buildah("run", container, "--", *job, "version") == __version__
    assert buildah("run", container, "--", "pdftoppm", "-v") == ""
    for folder in ("/opt/llm-ocr", "/usr/local/bin", "/etc"):
        refused = buildah.start(container, ["touch", f"{folder}/mine"])
        assert refused.wait(60) != 0


def test_image_contains_no_secret(buildah: Buildah, container: str) -> None:
    assert TOKEN not in buildah("inspect", "--type", "image", IMAGE)
    mounted = buildah("mount", container)

    def holders(words: str) -> str:
        found = subprocess.run(
            ["grep", "-rlFs", words, mounted], capture_output=True, text=True, check=False
        )
        return found.stdout

    assert "llm_ocr/__init__.py" in holders("Turn document pages into Markdown")
    assert holders(TOKEN) == ""
    unwanted = subprocess.run(
        ["find", mounted, "-name", ".env*", "-o", "-name", ".git", "-o", "-path", "*/src/llm_ocr"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert unwanted.stdout == ""


def test_container_reads_a_document(
    buildah: Buildah, container: str, job: list[str], volumes: list[str], tmp_path: Path
) -> None:
    documents.pdf(tmp_path / "in" / "letter.pdf", pages=2)
    command = [*job, "run", "/in", "--out", "/out/first"]
    running = buildah.start(container, command, *volumes)
    said, _ = running.communicate(timeout=900)
    assert running.returncode == 0, said
    out = tmp_path / "out" / "first"
    pages = list(load_pages(out))
    assert [(page["status"], page["model"]) for page in pages] == [("ok", "llm-ocr-embedded")] * 2
    (document,) = load_documents(out)
    assert re.search(r"letter, *page 2", document["markdown"])
    assert json.loads((out / "summary.json").read_text())["pages"] == 2
    assert (out / "index.html").stat().st_uid == USER


def test_container_exits_with_143_on_sigterm_and_resumes(
    buildah: Buildah, container: str, job: list[str], volumes: list[str], tmp_path: Path
) -> None:
    documents.pdf(tmp_path / "in" / "report.pdf", pages=12)
    command = ["env", "LLM_OCR_FLUSH_SECONDS=0.2", *job, "run", "/in", "--out", "/out/second"]
    out = tmp_path / "out" / "second"
    running = buildah.start(container, command, *volumes)
    give_up = time.monotonic() + 300
    while not list(out.glob("_staging/extract/*/*/*.json")):
        assert running.poll() is None, running.communicate()[0]
        assert time.monotonic() < give_up
        time.sleep(0.02)
    (first,) = [one for one in psutil.process_iter() if _is_job(one)]
    os.kill(first.pid, signal.SIGTERM)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 143, said
    assert not [one for one in psutil.process_iter() if "/opt/llm-ocr/bin" in _command(one)]
    staged = read_status(str(out)).stages["extract"].items_staged
    assert 0 < staged < 12
    running = buildah.start(container, command, *volumes)
    said, _ = running.communicate(timeout=900)
    assert running.returncode == 0, said
    assert sum(1 for _ in load_pages(out)) == 12
    assert json.loads((out / "summary.json").read_text())["pages_done"] == 12 - staged


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _is_job(process: psutil.Process) -> bool:
    return _command(process).startswith("/opt/llm-ocr/bin/python /opt/llm-ocr/bin/llm-ocr-job run")
