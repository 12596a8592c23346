"""The commands and the Python of the README and the docs, run in a folder with documents.

Engine, S3, GCS and Hub are the tests' servers; `parse` has the embedded engine. `NOT_RUN` gives a
reason for each line that isn't run here; `test_commands.py` parses those too.
"""

import ast
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_ocr.storage.store import create_repository, open_store
from tests import documents, shards
from tests.docs.blocks import ROOT, Block, Command, read_blocks, shell_commands
from tests.platforms.aws_place import soon
from tests.servers.chat import serving_beside
from tests.servers.ports import free_port

ACCOUNT = "needs an account of the platform; its README's commands are run in tests/platforms"
CI = "run by .ci/run"
GPU_HOST = "http://gpu-box:8000/v1"
# Page and beginning of a command: why it is only parsed.
NOT_RUN = {
    ("README.md", "make "): CI,
    ("README.md", "uv sync"): "installs packages",
    ("README.md", "python3 -m venv"): "installs packages",
    (
        "README.md",
        'llm-ocr run "hf://',
    ): "ORG is a placeholder; see tests/batch/test_hub_run.py",
    ("README.md", "llm-ocr check"): "the tests' server reads no page; tests/cli checks engines",
    ("README.md", "llm-ocr launch"): ACCOUNT,
    ("README.md", "llm-ocr parse examples/"): "run in tests/test_readme.py",
    ("CONTRIBUTING.md", ""): CI,
    ("aws-batch/README.md", ""): "run in tests/platforms/test_aws_readmes.py",
    ("sagemaker/README.md", ""): "run in tests/platforms/test_aws_readmes.py",
    ("google-cloud-run/README.md", ""): "run in tests/platforms/test_cloud_run_readme.py",
    ("kubernetes/README.md", ""): "needs a cluster; tests/kubernetes runs the processes",
    ("hf-jobs/README.md", ""): "run in tests/platforms/test_hf_jobs_readme.py",
    ("docs/accuracy-results.md", ""): "needs other tools; tests/benchmarks/test_accuracy.py",
    ("docs/reading-results.md", ""): "needs other documents; tests/benchmarks/reading",
    ("docs/accuracy.md", "python -m benchmarks"): "needs olmOCR-bench's scorer and Chromium",
    ("docs/aws-batch.md", ""): ACCOUNT,
    ("docs/cli.md", "llm-ocr launch PLATFORM"): ACCOUNT,
    ("docs/cloud-run.md", ""): ACCOUNT,
    ("docs/containers.md", ""): "needs Docker; tests/containers builds and runs the CPU image",
    ("docs/contributing.md", ""): "the contributors' tools",
    ("docs/convert.md", "llm-ocr convert scans/one.pdf https"): "needs the internet; tests/cli",
    (
        "docs/convert.md",
        "llm-ocr convert bill.pdf",
    ): "the tests' server makes no records; tests/cli",
    ("docs/costs.md", "llm-ocr plan --update"): "needs a run of 100 pages whose GPU is known",
    ("docs/datasets.md", 'llm-ocr run "hf://'): "a dataset of the real Hub",
    ("docs/engine.md", "make demo"): CI,
    ("docs/engine.md", ".venv/bin/pip"): "changes the environment of the tests",
    ("docs/export.md", "make demo"): CI,
    ("docs/export.md", ".venv/bin/python"): "reads what make demo wrote",
    ("docs/hf-jobs.md", ""): ACCOUNT,
    ("docs/operations.md", "export"): "tests/test_env_file.py",
    ("docs/performance.md", ""): "takes minutes; tests/benchmarks runs the short ones",
    ("docs/quickstart.md", "uv sync"): "installs packages",
    ("docs/quickstart.md", "python3 -m venv"): "installs packages",
    ("docs/quickstart.md", "make demo"): CI,
    ("docs/quickstart.md", "vllm serve"): "needs a GPU",
    ("docs/ray.md", ""): "needs Ray; run by the tests marked ray",
    ("docs/sagemaker.md", ""): ACCOUNT,
    ("docs/service/api.md", ""): "run in tests/service/test_docs.py",
    ("docs/service/auxiliary.md", ""): "its pipelines are checked in tests/service/test_docs.py",
    (
        "docs/service/capacity.md",
        "python -m benchmarks",
    ): "takes half an hour; tests/benchmarks/test_scaling.py runs a small one",
    ("docs/service/classification.md", ""): "run in tests/cli/test_classifier.py",
    ("docs/service/docker.md", ""): "needs Docker; tests/containers/test_compose.py",
    ("docs/service/index.md", ""): "serves; tests/cli/test_serve.py",
    ("docs/service/inference.md", ""): "serves; tests/router, and its file in test_config.py",
    ("docs/service/monitoring.md", ""): "tests/service/test_metrics.py, tests/monitoring",
    ("docs/service/operations.md", "llm-ocr service status"): "tests/service/test_metrics.py",
    ("docs/service/pipelines.md", ""): "run in tests/service/test_docs.py",
    ("docs/service/quickstart.md", ""): "run in tests/service/test_docs.py and tests/cli",
    ("docs/service/registry.md", ""): "run in tests/cli/test_registry.py",
    ("docs/service/security.md", "llm-ocr serve gateway"): "serves; tests/service/test_oidc.py",
    ("docs/service/whole-pipeline.md", ""): "run in tests/service/test_demo.py",
    ("docs/stores.md", "pip install"): "installs packages",
    ("docs/stores.md", "hf auth login"): "asks for a token",
}
# Page and a piece of a Python block: why it is only compiled, and its imports made.
PYTHON_NOT_RUN = {
    ("README.md", "# bill.py"): "a schema; run in tests/test_readme.py",
    ("docs/accuracy.md", "open_predictions"): "needs tests of the pages; tests/evaluation",
    ("docs/datasets.md", "FineVision"): "a dataset of the real Hub",
    ("docs/outputs.md", "duckdb"): "DuckDB is no dependency",
    ("docs/outputs.md", "out/invoices/records"): "read in tests/report/test_records.py",
    ("docs/parse.md", "# delivery_note.py"): "a schema; run in tests/parsing/test_docs.py",
    ("docs/stores.md", "my-org/letters"): "tests/batch/test_hub_run.py opens such a dataset",
}
# Pages whose commands are parsed, and whose scenario was not seen to pass yet.
UNPROVEN = (
    "README.md",
    "docs/costs.md",
    "docs/engine.md",
    "docs/outputs.md",
    "docs/parse.md",
    "docs/quickstart.md",
    "docs/stores.md",
)
# What a page takes for granted.
FIRST = {
    "docs/compare.md": (
        "llm-ocr run scans/ --out out/deepseek",
        "llm-ocr run scans/ --out out/olmocr",
        "llm-ocr run scans/ --out s3://my-bucket/runs/olmocr",
    ),
    "docs/export.md": ("llm-ocr run scans/ --out out/demo",),
    "docs/figures.md": ("llm-ocr run scans/ --out out/demo",),
    "docs/operations.md": (
        "llm-ocr run scans/ --out out/big",
        "llm-ocr run s3://my-bucket/scans --out s3://my-bucket/runs/big",
    ),
    "docs/outputs.md": (
        "llm-ocr run scans/ --out out/demo",
        "llm-ocr run scans/ --out s3://my-bucket/runs/first",
    ),
    "docs/parse.md": ("llm-ocr run scans/ --out out/first",),
}


def is_run(command: Command) -> bool:
    return command.page not in UNPROVEN and not any(
        command.page == page and command.line.startswith(line) for page, line in NOT_RUN
    )


def is_python_run(block: Block) -> bool:
    return block.page not in UNPROVEN and not any(
        block.page == page and piece in block.text for page, piece in PYTHON_NOT_RUN
    )


COMMANDS = [command for command in shell_commands() if is_run(command)]
PYTHON = read_blocks("python")
BLOCKS = [block for block in PYTHON if is_python_run(block)]
PAGES_RUN = sorted({command.page for command in COMMANDS} | {block.page for block in BLOCKS})


def test_the_lists_have_no_stale_entries() -> None:
    for page, line in NOT_RUN:
        found = [one for one in shell_commands() if one.page == page and one.line.startswith(line)]
        assert found, f"{page} has no command {line!r}"
    for page, piece in PYTHON_NOT_RUN:
        assert [one for one in PYTHON if one.page == page and piece in one.text], (page, piece)
    assert set(FIRST) <= {*PAGES_RUN, *UNPROVEN}


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.page)
def test_python_compiles_and_its_imports_are_there(block: Block) -> None:
    tree = ast.parse(block.text)
    imports: list[ast.stmt] = [
        node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    if "import duckdb" not in block.text:
        exec(compile(ast.Module(imports, []), block.page, "exec"), {})


@dataclass(frozen=True)
class World:
    """A folder with documents, and what stands for the servers that the docs name."""

    folder: Path
    environment: dict[str, str]
    names: dict[str, str]

    def typed(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(name, value)
        return text

    def run(self, line: str) -> None:
        environment = self.environment
        if line.startswith("llm-ocr parse"):
            environment = {**environment, "LLM_OCR_ENGINE": "embedded"}
            del environment["LLM_OCR_BASE_URL"]
        self._run(["bash", "-c", self.typed(line)], line, environment)

    def run_python(self, block: Block) -> None:
        # `show` would open a window.
        text = self.typed(block.text).replace('["image"].show()', '["image"].load()')
        self._run([sys.executable, "-c", text], str(block), self.environment)

    def serve(self, line: str) -> "subprocess.Popen[str]":
        """Start a command that serves until it is stopped."""
        # `engine` starts one of its own.
        environment = {**self.environment}
        del environment["LLM_OCR_BASE_URL"]
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.typed(line)}"],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        said = ""
        for printed in process.stdout:
            said += printed
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", printed):
                soon(lambda port=int(found[1]): accepts(port))  # type: ignore[misc]
                return process
        raise AssertionError(f"{line} ended with {process.wait()}: {said}")

    def _run(self, command: list[str], what: str, environment: dict[str, str]) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{what}\n{done.stdout}\n{done.stderr}"


def accepts(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def world(
    tmp_path: Path,
    s3: dict[str, str],
    gcs: dict[str, str],
    hub: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    for name, value in {**s3, **gcs, **hub}.items():
        monkeypatch.setenv(name, value)
    place, port = uuid.uuid4().hex, free_port()
    with serving_beside() as engine:
        names = {
            GPU_HOST: engine.base_url,
            "s3://my-bucket": f"s3://bucket/{place}",
            "s3://bucket/scans": f"s3://bucket/{place}/scans",
            "gs://my-bucket": f"gs://bucket/{place}",
            "my-org": "user",
            "--port 8000": f"--port {port}",
            "127.0.0.1:8000": f"127.0.0.1:{port}",
            ".venv/bin/python": sys.executable,
        }
        bins = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": bins, "LLM_OCR_BASE_URL": engine.base_url}
        environment |= {"LLM_OCR_FALLBACK": "none", "PYTHONPATH": str(tmp_path)}
        yield World(tmp_path, environment, names)


def prepare(world: World) -> None:
    """The documents, schemas and files that the pages name."""
    folder = world.folder
    for name in ("scans/one.pdf", "scans/two.pdf", "report.pdf", "a.pdf", "archive/old/x.pdf"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        documents.pdf(folder / name)
    documents.pdf(folder / "book.pdf", pages=9)
    documents.deep_tiff(folder / "b.tiff")
    (folder / "files.txt").write_text("a.pdf\n# a comment\nbook.pdf\n")
    (folder / "examples").symlink_to(ROOT / "examples")
    for name in ("invoices", "letters"):
        (folder / name).mkdir()
        (folder / name / "x.pdf").symlink_to(ROOT / "examples/invoices/classic-en-pdf.pdf")
    (folder / "prompt.txt").write_text("Which river is this?")
    river = '{"type": "object", "title": "rivers", "properties": {"name": {"type": "string"}}}'
    (folder / "rivers.json").write_text(river)
    (folder / "our").mkdir()
    letter = "from pydantic import BaseModel\n\n\nclass Letter(BaseModel):\n    date: str | None\n"
    (folder / "our" / "schemas.py").write_text(letter)
    for block in read_blocks("python", "toml"):
        if named := re.match(r"# ([\w-]+\.(?:py|toml))\n", block.text):
            (folder / named[1]).write_text(block.text)
    (folder / "shards").mkdir()
    shards.images(folder / "shards" / "a.parquet", rows=3)


def fill_stores(world: World) -> None:
    one = (world.folder / "scans" / "one.pdf").read_bytes()
    for scheme in ("s3", "gs"):
        open_store(world.typed(f"{scheme}://my-bucket/scans")).put("one.pdf", one)
    table = shards.table(world.folder / "pages.parquet", {"page": [shards.picture(0)]})
    open_store(world.typed("s3://my-bucket/scans")).put("pages.parquet", table.read_bytes())
    for place, name in (
        ("datasets/my-org/scans", "1923/a.pdf"),
        ("buckets/my-org/inbox", "letters.pdf"),
    ):
        uri = world.typed(f"hf://{place}")
        create_repository(uri, private=True)
        open_store(uri).put_many({name: one}, "Add a document")


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES_RUN)
def test_the_page_works_as_it_is_written(page: str, world: World) -> None:
    prepare(world)
    fill_stores(world)
    for line in FIRST.get(page, ()):
        world.run(line)
    served = []
    try:
        for command in (one for one in COMMANDS if one.page == page):
            if command.line.startswith(("llm-ocr view", "llm-ocr engine --port")):
                line = command.line.split("  #")[0]
                line += " --no-browser --port 0" * line.startswith("llm-ocr view")
                served.append(world.serve(line))
            else:
                world.run(command.line)
        for block in (one for one in BLOCKS if one.page == page):
            world.run_python(block)
    finally:
        for process in served:
            process.send_signal(signal.SIGINT)
            process.wait(30)
