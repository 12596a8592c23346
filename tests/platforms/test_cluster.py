"""How a cluster is divided between engines, and errors that need no Ray to be found."""

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
    ClusterRequest,
    EngineAllocation,
    Node,
    death_reason,
    import_error_advice,
    plan_engines,
)
from llm_ocr.platforms.worker_config import WorkerConfig, preflight_error
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
    ("nodes", "settings", "cluster_request", "allocation"),
    [
        ([(4, 0), (4, 0)], {}, ClusterRequest(), EngineAllocation(4, 0, 2)),
        ([(16, 0), (2, 0)], {}, ClusterRequest(), EngineAllocation(4, 0, 4)),
        ([(2, 0)], {}, ClusterRequest(), EngineAllocation(2, 0, 1)),
        ([(8, 0), (64, 8), (32, 4)], {}, ClusterRequest(), EngineAllocation(8, 1, 12)),
        ([(12, 4)], {}, ClusterRequest(), EngineAllocation(3, 1, 4)),
        ([(64, 8)], {"tensor_parallel": 4}, ClusterRequest(), EngineAllocation(8, 4, 2)),
        ([(64, 8)], {}, ClusterRequest(gpus_per_engine=2), EngineAllocation(8, 2, 4)),
        (
            [(64, 8)],
            {"base_url": "http://gpu:8000/v1"},
            ClusterRequest(),
            EngineAllocation(4, 0, 16),
        ),
        ([(64, 8)], {"engine": "embedded"}, ClusterRequest(engines=3), EngineAllocation(4, 0, 3)),
        ([(4, 0)], {}, ClusterRequest(engines=9, cpus_per_engine=1), EngineAllocation(1, 0, 9)),
    ],
)
def test_engines_share_a_cluster(
    nodes: list[tuple[int, int]],
    settings: dict[str, Any],
    cluster_request: ClusterRequest,
    allocation: EngineAllocation,
) -> None:
    cluster = [Node(f"10.0.0.{k}", *size) for k, size in enumerate(nodes)]
    assert plan_engines(cluster, Settings(**settings), cluster_request) == allocation


@pytest.mark.parametrize(
    "cluster_request",
    [
        ClusterRequest(cpus_per_engine=9),
        ClusterRequest(gpus_per_engine=2),
        ClusterRequest(engines=2),
    ],
)
def test_cluster_without_resources_is_an_error_listing_its_nodes(
    cluster_request: ClusterRequest,
) -> None:
    nodes = [Node("10.0.0.1", 8, 1), Node("10.0.0.2", 4, 0)]
    settings = Settings(tensor_parallel=2)
    with pytest.raises(ClusterError, match=r"10\.0\.0\.1: 8 CPUs, 1 GPU; 10\.0\.0\.2: 4 CPUs, 0"):
        plan_engines(nodes, settings, cluster_request)


def test_rays_long_messages_are_shortened() -> None:
    died = RuntimeError(
        "The actor died unexpectedly.\n\tclass_name: EngineActor\nThe actor is dead because its "
        "worker process has died. Worker exit type: SYSTEM_ERROR. Some common causes include: 1"
    )
    assert death_reason(died).endswith("process has died. Worker exit type: SYSTEM_ERROR")
    assert import_error_advice(died) is None
    missing = RuntimeError("ray::f()\nModuleNotFoundError: No module named 'llm_ocr'\n")
    assert "No module named 'llm_ocr'" in str(import_error_advice(missing))


@pytest.fixture
def config(tmp_path: Path) -> WorkerConfig:
    """The configuration of a worker for a finished run."""
    page, out = documents.pdf(tmp_path / "page.pdf"), str(tmp_path / "out")
    with serving_beside() as server:
        run(page, out, base_url=server.base_url)
    size = open_store(out).stat(PLAN_PATH).size
    return WorkerConfig(out, Settings(), {}, size, page)


def test_node_preflight_checks_files_and_version(config: WorkerConfig, tmp_path: Path) -> None:
    assert preflight_error(config) is None
    elsewhere = replace(config, out=str(tmp_path / "elsewhere"))
    assert "a location that all nodes can access" in str(preflight_error(elsewhere))
    another = replace(config, plan_size=1)
    assert "a location that all nodes can access" in str(preflight_error(another))
    without = replace(config, document=tmp_path / "gone.pdf")
    assert "gone.pdf" in str(preflight_error(without))
    assert "the same version" in str(preflight_error(replace(config, version="0.0.1")))


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--executor", "ray"), 2, 'uv sync --inexact --extra ray, or pip install ".[ray]"'),
        (("--executor", "slurm"), 2, "--executor slurm: give ray, or a cluster's address"),
        (("--engines", "2"), 2, "need --executor ray"),
    ],
)
def test_an_unknown_executor_is_a_usage_error(
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
