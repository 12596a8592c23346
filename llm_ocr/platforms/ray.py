"""A run on a Ray cluster: this process plans, hands out shards, and writes the outputs."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_ocr.inference.replies import EngineFailedError
from llm_ocr.messages import how_to_install
from llm_ocr.pipeline import worker
from llm_ocr.pipeline.engine_targets import EngineKind
from llm_ocr.pipeline.events import Note, Notify, discard
from llm_ocr.pipeline.executor import ExecutorFactory
from llm_ocr.pipeline.interruption import StoppedError
from llm_ocr.pipeline.pending import DEFAULT_STAGES
from llm_ocr.platforms.carrying import carried, put
from llm_ocr.platforms.cluster import (
    PLACE_SECONDS,
    ClusterError,
    Node,
    RayNotInstalledError,
    Room,
    Wanted,
    import_problem,
    reason_of,
    room_for,
)
from llm_ocr.report.summary import Summary
from llm_ocr.settings import EngineChoice, Settings
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import open_store

log = logging.getLogger(__name__)

# Of a client (ray://); each takes up to half a minute of Ray's own.
CONNECT_TRIES = 4


def run(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    wanted: Wanted | None = None,
    *,
    stages: Sequence[str] = DEFAULT_STAGES,
    update: bool = False,
    notify: Notify | None = None,
) -> Summary:
    """As `llm_ocr.run`, with engines on a Ray cluster. Raises ClusterError too."""
    with crew_on(out, settings or Settings(), wanted or Wanted(), notify) as (chosen, executor):
        return worker.run(
            inputs, out, chosen, stages=stages, update=update, notify=notify, executor=executor
        )


@contextmanager
def crew_on(
    out: str | Path,
    settings: Settings,
    wanted: Wanted,
    notify: Notify | None = None,
    *,
    asks: bool = True,
) -> Iterator[tuple[Settings, ExecutorFactory]]:
    """The settings of the run at `out` as a cluster's nodes can use them, and an executor on its
    nodes, for as long as the block lasts. Without `asks` no model is asked: it needs no GPU.

    Where Ray is initialized already, its cluster is used and left as it is. Raises ClusterError.
    """
    if str(out).startswith("memory://"):
        raise ClusterError(f"{out} is in this process's memory: give an --out that all nodes see")
    if not asks:
        wanted = replace(wanted, gpus_per_engine=wanted.gpus_per_engine or 0)
    with _connected(wanted.address) as ray:
        chosen = _from_anywhere(settings, str(out))
        room = room_for(_nodes(ray), chosen, wanted)
        if asks:
            chosen = _with_engine_chosen(ray, chosen, room, notify or discard)
        from llm_ocr.platforms.ray_executor import RayExecutor

        yield chosen, partial(RayExecutor, room=room)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to its cluster, which is started here if there is none."""
    # vLLM's usage statistics are not sent either.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        said = f"--executor ray needs Ray, which is not installed: {how_to_install('ray')}"
        raise RayNotInstalledError(said) from error
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # Of a cluster that is started for one run.
        quiet["include_dashboard"] = False
    try:
        _init(ray, address, quiet)
    except KeyboardInterrupt:
        raise StoppedError(preempted=False) from None
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "the local Ray"
        raise ClusterError(
            f"{where} can't be reached ({_end_of(error)}): start a cluster with "
            "`ray start --head`, or check --executor and RAY_ADDRESS"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _init(ray: Any, address: str | None, options: dict[str, Any]) -> None:  # noqa: ANN401
    """Connect. A busy head node that has just begun may fail to start what serves a client: it is
    asked again."""
    for _ in range(CONNECT_TRIES - 1):
        try:
            ray.init(address, **options)
            return
        except ConnectionAbortedError as error:
            log.warning("Ray's head refused this client, trying again: %s", _end_of(error))
    ray.init(address, **options)


def _end_of(error: Exception) -> str:
    """What says most of a traceback that came from a server."""
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


def _with_engine_chosen(
    ray: Any,  # noqa: ANN401
    settings: Settings,
    room: Room,
    notify: Notify,
) -> Settings:
    """The settings with the engine that one would start on a node: what this machine would choose
    says nothing of it."""
    if settings.base_url is not None or settings.engine is not EngineChoice.AUTO:
        return settings
    from llm_ocr.platforms.ray_actor import engine_kind

    asked = ray.remote(engine_kind).options(num_cpus=room.cpus, num_gpus=room.gpus)
    answer = asked.remote(settings)
    try:
        if not ray.wait([answer], timeout=PLACE_SECONDS)[0]:
            notify(Note(f"waiting for a node with {room.each} to spare"))
        kind = ray.get(answer)
    except KeyboardInterrupt:
        raise StoppedError(preempted=False) from None
    except ray.exceptions.RayError as error:
        raise ClusterError(import_problem(error) or reason_of(error)) from error
    if isinstance(kind, EngineFailedError):
        raise kind
    chosen = EngineChoice.VLLM if kind is EngineKind.VLLM else EngineChoice.EMBEDDED
    return settings.model_copy(update={"engine": chosen})


def _from_anywhere(settings: Settings, out: str) -> Settings:
    """Paths in the settings mean the same in whatever folder a process runs; profiles and schemas
    that are files lie in the run's place, which all nodes see."""
    changes: dict[str, object] = {
        name: getattr(settings, name).expanduser().absolute()
        for name in ("weights", "log_dir")
        if getattr(settings, name) is not None
    }
    place = open_store(run_uri(out, settings.staging)).uri.rstrip("/")
    sent, files = carried(settings, place, is_shared=True)
    put(files, place)
    return settings.model_copy(update={**changes, **sent})
