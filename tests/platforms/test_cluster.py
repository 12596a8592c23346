"""Room on a cluster, and what is said where a run can't go: no Ray is needed to find out."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import run
from llm_ocr.platforms.cluster import (
    ClusterError,
    Node,
    Room,
    Wanted,
    import_problem,
    reason_of,
    room_for,
)
from llm_ocr.platforms.orders import Orders, problem_here
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import PLAN_PATH
from tests import documents
from tests.servers.chat import serving_beside

WITHOUT_RAY = (
    "import sys; sys.modules['ray'] = None; from llm_ocr.cli.commands import main; "
    "sys.argv = ['llm-ocr', *sys.argv[1:]]; main()"
)


@pytest.mark.parametrize(
    ("nodes", "settings", "wanted", "room"),
    [
        ([(4, 0), (4, 0)], {}, Wanted(), Room(4, 0, 2)),
        ([(16, 0), (2, 0)], {}, Wanted(), Room(4, 0, 4)),
        ([(2, 0)], {}, Wanted(), Room(2, 0, 1)),
        ([(8, 0), (64, 8), (32, 4)], {}, Wanted(), Room(8, 1, 12)),
        ([(12, 4)], {}, Wanted(), Room(3, 1, 4)),
        ([(64, 8)], {"tensor_parallel": 4}, Wanted(), Room(8, 4, 2)),
        ([(64, 8)], {}, Wanted(gpus_per_engine=2), Room(8, 2, 4)),
        ([(64, 8)], {"base_url": "http://gpu:8000/v1"}, Wanted(), Room(4, 0, 16)),
        ([(64, 8)], {"engine": "embedded"}, Wanted(engines=3), Room(4, 0, 3)),
        ([(4, 0)], {}, Wanted(engines=9, cpus_per_engine=1), Room(1, 0, 9)),
    ],
)
def test_engines_share_a_cluster(
    nodes: list[tuple[int, int]], settings: dict[str, Any], wanted: Wanted, room: Room
) -> None:
    there = [Node(f"10.0.0.{k}", *one) for k, one in enumerate(nodes)]
    assert room_for(there, Settings(**settings), wanted) == room


@pytest.mark.parametrize(
    "wanted", [Wanted(cpus_per_engine=9), Wanted(gpus_per_engine=2), Wanted(engines=2)]
)
def test_a_cluster_without_room_is_told_with_what_it_has(wanted: Wanted) -> None:
    nodes = [Node("10.0.0.1", 8, 1), Node("10.0.0.2", 4, 0)]
    settings = Settings(tensor_parallel=2)
    with pytest.raises(ClusterError, match=r"10\.0\.0\.1: 8 CPUs, 1 GPU; 10\.0\.0\.2: 4 CPUs, 0"):
        room_for(nodes, settings, wanted)


def test_what_ray_says_at_length_is_told_in_short() -> None:
    died = RuntimeError(
        "The actor died unexpectedly.\n\tclass_name: EngineActor\nThe actor is dead because its "
        "worker process has died. Worker exit type: SYSTEM_ERROR. Some common causes include: 1"
    )
    assert reason_of(died).endswith("process has died. Worker exit type: SYSTEM_ERROR")
    assert import_problem(died) is None
    missing = RuntimeError("ray::f()\nModuleNotFoundError: No module named 'llm_ocr'\n")
    assert "No module named 'llm_ocr'" in str(import_problem(missing))


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    """What an engine is told about a run that is there."""
    page, out = documents.pdf(tmp_path / "page.pdf"), str(tmp_path / "out")
    with serving_beside() as server:
        run(page, out, base_url=server.base_url)
    size = open_store(out).stat(PLAN_PATH).size
    return Orders(out, Settings(), {}, size, page)


def test_a_node_must_see_what_the_driver_sees(orders: Orders, tmp_path: Path) -> None:
    assert problem_here(orders) is None
    elsewhere = replace(orders, out=str(tmp_path / "elsewhere"))
    assert "an --out that all nodes see" in str(problem_here(elsewhere))
    another = replace(orders, plan_size=1)
    assert "an --out that all nodes see" in str(problem_here(another))
    without = replace(orders, document=tmp_path / "gone.pdf")
    assert "gone.pdf" in str(problem_here(without))
    assert "use one version" in str(problem_here(replace(orders, version="0.0.1")))


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--executor", "ray"), 2, 'uv sync --inexact --extra ray, or pip install ".[ray]"'),
        (("--executor", "slurm"), 2, "--executor slurm: give ray, or a cluster's address"),
        (("--engines", "2"), 2, "are for --executor ray"),
    ],
)
def test_where_a_run_can_not_go_is_told(
    tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    page = documents.pdf(tmp_path / "page.pdf")
    command = ["run", str(page), "--out", str(tmp_path / "out"), *options]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY, *command],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "out").exists()
