"""Runs that are killed with SIGKILL, again and again, and gone on with."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from llm_ocr.tables.read import read_table
from tests.documents import pdf
from tests.processes import run_module
from tests.servers.chat import ChatServer, prompt_of, serving_beside

# What differs between two runs over the same pages: times, and how often was asked.
VARYING = {"seconds", "attempts"}

NAMED_POINTS = [
    "before:^plans/:1",
    "after:^plans/:1",
    r"before:^_staging/extract/.*\.parquet$:1",
    r"after:^_staging/extract/.*pages\.parquet$:3",
    r"before:^_staging/extract/.*\.json$:2",
    r"after:^_staging/extract/.*\.json$:3",
    "before:^commits/extract/:1",
    "after:^commits/extract/:1",
    "after:^data/pages/:1",
    "after:^data/figures/:2",
    "before:^_staging/extract/.*:9",
]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pages in 22 documents of one to five pages."""
    folder = tmp_path_factory.mktemp("documents")
    left, k = 60, 0
    while left:
        pages = min(left, 1 + k % 5)
        pdf(folder / f"doc{k:02d}.pdf", pages)
        left, k = left - pages, k + 1
    return folder


def run_once(documents: Path, out: Path, server: ChatServer, point: str) -> int:
    done = run_module("tests.batch.dying_run", documents, out, server.base_url, point)
    assert done.returncode in (0, -9), done.stderr
    return done.returncode


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key not in VARYING}
        for row in read_table(open_store(str(out)), table)
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.long
def test_twenty_kills_lose_and_repeat_nothing(documents: Path, tmp_path: Path) -> None:
    chance = random.Random(20)
    random_points = [
        f"{chance.choice(['before', 'after'])}:.*:{chance.randint(3, 14)}" for _ in range(12)
    ]
    points = [*NAMED_POINTS, *random_points]
    kills = 0
    with serving_beside() as server:
        for point in points:
            kills += run_once(documents, tmp_path / "killed", server, point) == -9
        assert run_once(documents, tmp_path / "killed", server, "never") == 0
        assert run_once(documents, tmp_path / "whole", server, "never") == 0
    assert kills >= 20
    page_ids = [row["page_id"] for row in rows(tmp_path / "killed", "pages")]
    assert len(page_ids) == len(set(page_ids)) == 60
    for table in ("pages", "figures", "descriptions", "documents"):
        assert rows(tmp_path / "killed", table) == rows(tmp_path / "whole", table), table
    assert files(tmp_path / "killed" / "markdown") == files(tmp_path / "whole" / "markdown")
    kept = {path.parts[0] for path in map(Path, files(tmp_path / "killed"))} - {".lock", "logs"}
    folders = {"commits", "data", "markdown", "plans", "sessions"}
    assert kept == {*folders, "README.md", "index.html", "summary.json"}


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        "before:^_staging/describe/:2",
        "after:^commits/describe/:4",
        "after:^data/documents/:3",
        "before:^summary.json:2",
    ],
)
def test_a_kill_in_a_later_stage(documents: Path, tmp_path: Path, point: str) -> None:
    with serving_beside() as server:
        assert run_once(documents, tmp_path / "killed", server, point) == -9
        extracted = sum("<|grounding|>" in prompt_of(body) for body in server.requests)
        assert run_once(documents, tmp_path / "killed", server, "never") == 0
        again = sum("<|grounding|>" in prompt_of(body) for body in server.requests)
    assert extracted == again == 60
    assert len(rows(tmp_path / "killed", "documents")) == len(list(documents.iterdir()))
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text())
    assert summary["pages_by_status"]["ok"] == 60


def test_only_unstaged_pages_are_requested_again(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serving_beside() as server:
        run_once(documents, out, server, r"after:^_staging/extract/.*\.json$:9")
        stage = read_status(str(out)).stages["extract"]
        finished = stage.items_committed + stage.items_staged
        assert 0 < finished < 60
        server.requests.clear()
        run_once(documents, out, server, "never")
        asked = sum("<|grounding|>" in prompt_of(body) for body in server.requests)
    assert asked == 60 - finished


def test_finished_run_sends_no_request_and_changes_nothing(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serving_beside() as server:
        run_once(documents, out, server, "never")
        before = files(out)
        server.requests.clear()
        run_once(documents, out, server, "never")
    assert server.requests == []
    assert files(out).keys() == before.keys()
    assert {name for name, data in files(out).items() if data != before[name]} <= {".lock"}
