"""Run on a Ray cluster: this process plans, assigns shards to nodes, and writes the outputs."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_ocr.batch import worker
from llm_ocr.batch.events import Note, Notify, discard
from llm_ocr.batch.executor import ExecutorFactory, LocalExecutor
from llm_ocr.batch.interruption import CancellationToken, StoppedError
from llm_ocr.batch.pending import DEFAULT_STAGES
from llm_ocr.engines.targets import EngineKind
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import how_to_install
from llm_ocr.platforms.base import InvalidTargetError
from llm_ocr.platforms.cluster import (
    SCHEDULING_SECONDS,
    ClusterError,
    ClusterRequest,
    EngineAllocation,
    Node,
    RayNotInstalledError,
    death_reason,
    import_error_advice,
    plan_engines,
)
from llm_ocr.platforms.uploads import plan_uploads, upload
from llm_ocr.report.summary import Summary
from llm_ocr.settings import EngineChoice, Settings
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import open_store

log = logging.getLogger(__name__)

# Attempts of a client (ray://) to connect; Ray takes up to half a minute for each.
CONNECT_ATTEMPTS = 4


def run(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    cluster: ClusterRequest | None = None,
    *,
    stages: Sequence[str] = DEFAULT_STAGES,
    update: bool = False,
    notify: Notify | None = None,
    stop: CancellationToken | None = None,
) -> Summary:
    """Like `llm_ocr.run`, with engines on a Ray cluster. Also raises ClusterError."""
    request = cluster or ClusterRequest()
    opened = open_ray_executor(out, settings or Settings(), request, notify)
    with opened as (chosen, executor):
        return worker.run(
            *(inputs, out, chosen),
            stages=stages,
            update=update,
            notify=notify,
            executor=executor,
            stop=stop,
        )


@contextmanager
def select_executor(
    target: Mapping[str, Any],
    out: str,
    settings: Settings,
    notify: Notify,
    *,
    asks: bool = True,
) -> Iterator[tuple[Settings, ExecutorFactory]]:
    """The settings and the executor for the run at `out`: this process, or the cluster in `target`,
    which has `executor` (`ray` or an address) and fields of ClusterRequest. `asks`: whether a model
    is needed.

    Raises InvalidTargetError.
    """
    if not target:
        yield settings, LocalExecutor
        return
    options = {name: value for name, value in target.items() if name != "executor"}
    request = ClusterRequest(_address(target.get("executor")), **options)
    with open_ray_executor(out, settings, request, notify, asks=asks) as opened:
        yield opened


@contextmanager
def open_ray_executor(
    out: str | Path,
    settings: Settings,
    request: ClusterRequest,
    notify: Notify | None = None,
    *,
    asks: bool = True,
) -> Iterator[tuple[Settings, ExecutorFactory]]:
    """The settings of the run at `out` for a cluster's nodes, and an executor on these nodes, until
    the block ends. `asks`: whether a model is needed; otherwise no GPU is.

    If Ray is already initialized, its cluster is used and not shut down. Raises ClusterError.
    """
    if str(out).startswith("memory://"):
        raise ClusterError(
            f"{out} is in this process's memory: choose a location that all nodes can access"
        )
    if not asks:
        request = replace(request, gpus_per_engine=request.gpus_per_engine or 0)
    with _connection(request.address) as ray:
        chosen = _with_shared_paths(settings, str(out))
        allocation = plan_engines(_nodes(ray), chosen, request)
        if asks:
            chosen = _with_engine_choice(ray, chosen, allocation, notify or discard)
        from llm_ocr.platforms.ray_executor import RayExecutor

        yield chosen, partial(RayExecutor, allocation=allocation)


def _address(target: str | None) -> str | None:
    """The cluster's address; None for the one in the environment, or a local cluster."""
    if target == "ray":
        return None
    if target is not None and target.startswith("ray://"):
        return target
    if target is None:
        raise InvalidTargetError("`engines` and the resources of each need `executor` ray")
    raise InvalidTargetError(
        f"`executor` {target}: give ray, or a cluster's address such as ray://HOST:10001"
    )


@contextmanager
def _connection(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster, which is started on this machine if there is none."""
    # No usage statistics are sent, as for vLLM.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        message = f"running on a cluster needs Ray, which is not installed: {how_to_install('ray')}"
        raise RayNotInstalledError(message) from error
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # A cluster that is started for one run needs no dashboard.
        quiet["include_dashboard"] = False
    try:
        _init(ray, address, quiet)
    except KeyboardInterrupt:
        raise StoppedError(preempted=False) from None
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "the local Ray"
        raise ClusterError(
            f"{where} can't be reached ({_error_end(error)}): start a cluster with "
            "`ray start --head`, or check its address and RAY_ADDRESS"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _init(ray: Any, address: str | None, options: dict[str, Any]) -> None:  # noqa: ANN401
    """Connect, in several attempts: a busy head node may fail to start the server for a client."""
    for _ in range(CONNECT_ATTEMPTS - 1):
        try:
            ray.init(address, **options)
            return
        except ConnectionAbortedError as error:
            log.warning("Ray's head refused this client, trying again: %s", _error_end(error))
    ray.init(address, **options)


def _error_end(error: Exception) -> str:
    """The end of an error message: with a server's traceback, it is the informative part."""
    return " ".join(str(error).split())[-300:]


def _nodes(ray: Any) -> list[Node]:  # noqa: ANN401
    return [
        Node(
            node["NodeManagerAddress"],
            int(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("GPU", 0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def _with_engine_choice(
    ray: Any,  # noqa: ANN401
    settings: Settings,
    allocation: EngineAllocation,
    notify: Notify,
) -> Settings:
    """The settings with the engine that a node would choose: this machine may have other GPUs."""
    if settings.base_url is not None or settings.engine is not EngineChoice.AUTO:
        return settings
    from llm_ocr.platforms.ray_executor import engine_kind

    task = ray.remote(engine_kind).options(num_cpus=allocation.cpus, num_gpus=allocation.gpus)
    answer = task.remote(settings)
    try:
        if not ray.wait([answer], timeout=SCHEDULING_SECONDS)[0]:
            notify(Note(f"waiting for a node with {allocation.resources} available"))
        kind = ray.get(answer)
    except KeyboardInterrupt:
        raise StoppedError(preempted=False) from None
    except ray.exceptions.RayError as error:
        raise ClusterError(import_error_advice(error) or death_reason(error)) from error
    if isinstance(kind, EngineFailedError):
        raise kind
    chosen = EngineChoice.VLLM if kind is EngineKind.VLLM else EngineChoice.EMBEDDED
    return settings.model_copy(update={"engine": chosen})


def _with_shared_paths(settings: Settings, out: str) -> Settings:
    """The settings with absolute paths; profiles and schemas that are files are uploaded to the
    run, which all nodes can access."""
    changes: dict[str, object] = {
        name: getattr(settings, name).expanduser().absolute()
        for name in ("weights", "log_dir")
        if getattr(settings, name) is not None
    }
    run = open_store(run_uri(out, settings.staging)).uri.rstrip("/")
    sent, files = plan_uploads(settings, run, is_shared=True)
    upload(files, run)
    return settings.model_copy(update={**changes, **sent})
