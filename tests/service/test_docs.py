"""The commands, pipelines and SQL in docs/service/ work as written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from llm_ocr.auxiliary.detectors import load_detector
from llm_ocr.records import FindingKind
from tests import documents
from tests.auxiliary.onnx_detectors import make_network
from tests.docs.blocks import ROOT, read_blocks
from tests.servers.chat import serving_beside
from tests.servers.service import DEFAULT_URL, serving, state_options


def shell_of(page: str) -> str:
    return "\n".join(block.text for block in read_blocks("shell") if block.page == page)


def run_shell(script: str, folder: Path, **names: str) -> "subprocess.CompletedProcess[str]":
    for name, value in names.items():
        script = script.replace(name, value)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.long
def test_the_commands_of_the_api_page_and_the_quickstart_work(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "report.pdf", pages=2)
    documents.pdf(tmp_path / "scans" / "one.pdf")
    quickstart = shell_of("docs/service/quickstart.md")
    # Submitting, from the key on to what is about several machines.
    quickstart = quickstart[quickstart.index("export LLM_OCR_SERVICE_KEY") :]
    quickstart = quickstart[: quickstart.index("export LLM_OCR_DATABASE")]
    quickstart = quickstart.replace("llm-ocr submit", f"llm-ocr submit --to {DEFAULT_URL}")
    with serving_beside() as engine:
        options = [*state_options(tmp_path / "state"), "--base-url", engine.base_url]
        with serving(*options) as service:
            names = {"lo_…": service.key, DEFAULT_URL: service.url}
            for script in (quickstart, shell_of("docs/service/api.md")):
                done = run_shell(script, tmp_path, **names)
                assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{service.output}"
    assert (tmp_path / "results" / "report.md").is_file()
    assert (tmp_path / "results" / "one.md").is_file()
    assert (tmp_path / "report.md").read_text("utf-8").count("# Page") == 2
    assert len(json.loads((tmp_path / "report.json").read_bytes())["pages"]) == 2
    assert (tmp_path / "page.jpg").read_bytes().startswith(b"\xff\xd8\xff")
    # The stream of events, among what was printed.
    assert "event: document.succeeded" in done.stdout


@pytest.mark.parametrize("page", ["pipelines.md", "auxiliary.md"])
def test_the_pipelines_of_the_docs_are_valid(tmp_path: Path, page: str) -> None:
    pipelines = [block.text for block in read_blocks("yaml") if block.page.endswith(page)]
    folder, names = tmp_path / "pipelines", []
    folder.mkdir()
    for pipeline in pipelines:
        path = tmp_path / pipeline.split("\n")[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(pipeline)
        if path.parent == folder:
            names.append(path.stem)
    schema = '{"type": "object", "title": "note", "properties": {"number": {"type": "string"}}}'
    (folder / "delivery_note.json").write_text(schema)
    script = "export LLM_OCR_DATABASE=state.sqlite LLM_OCR_STORAGE=storage\n"
    done = run_shell(script + shell_of(f"docs/service/{page}"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert names
    assert all(name in done.stdout for name in names)


def test_the_detector_of_the_auxiliary_page_can_be_loaded(tmp_path: Path) -> None:
    [config] = [
        block.text for block in read_blocks("yaml") if block.text.startswith("# marks/detector")
    ]
    (tmp_path / "detector.yaml").write_text(config)
    (tmp_path / "model.onnx").write_bytes(make_network("yolo", side=640, classes=5))
    detector = load_detector(tmp_path, "marks/1")
    page = Image.new("RGB", (600, 600), "white")
    page.paste((200, 20, 20), (100, 200, 300, 250))
    (seal,) = detector.detect(np.asarray(page))
    assert seal.kind is FindingKind.STAMP
    assert (seal.box.x1, seal.box.y2) == pytest.approx((100, 250), abs=8)


@pytest.mark.parametrize("page", ["operations.md", "api.md", "review.md"])
def test_sql_of_the_pages_names_tables_and_columns_that_exist(tmp_path: Path, page: str) -> None:
    from llm_ocr.service.database import Database

    database = Database(str(tmp_path / "service.sqlite"))
    database.migrate()
    text = (ROOT / "docs" / "service" / page).read_text("utf-8")
    statements = [line for block in text.split("```sql\n")[1:] for line in statements_of(block)]
    assert statements
    with database.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    database.close()


def statements_of(block: str) -> list[str]:
    lines = block.partition("```")[0].split(";\n")
    return [line.strip() for line in lines if line.strip()]


def test_the_pipelines_of_the_classification_page_are_valid() -> None:
    from llm_ocr.service.pipelines import PipelineCatalog, parse_pipeline

    page = "classification.md"
    blocks = [block.text for block in read_blocks("yaml") if block.page.endswith(page)]
    mail, stack = (parse_pipeline(block, page) for block in blocks)
    assert mail.step_names == stack.step_names == ["extract", "classify", "assemble"]
    catalog = PipelineCatalog([*PipelineCatalog.load(), stack])
    named = catalog.by_name("stack")
    assert named.child_pipeline("bill")[0] == named.child_pipeline("invoice")[0] == "invoice"


def test_the_pipeline_of_the_review_page_is_valid() -> None:
    from llm_ocr.service.pipelines import parse_pipeline

    [pipeline] = [block.text for block in read_blocks("yaml") if block.page.endswith("review.md")]
    review = parse_pipeline(pipeline, "bill.yaml").review
    assert (review.below_confidence, review.unverified, review.sample) == (0.8, True, 2)
