"""Where a run can happen, by name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.executor import ExecutorFactory, LocalExecutor
from llm_ocr.platforms.cluster import NoSuchPlaceError, Wanted
from llm_ocr.settings import Settings


@contextmanager
def crew_at(
    cluster: Mapping[str, Any],
    out: str,
    settings: Settings,
    notify: Notify,
    *,
    asks: bool = True,
) -> Iterator[tuple[Settings, ExecutorFactory]]:
    """Who does the shards of the run at `out`, and the settings for it: this process, or what
    `cluster` says, the options --executor and those that belong to it. `asks`: whether a model is
    needed.

    Raises NoSuchPlaceError.
    """
    if not cluster:
        yield settings, LocalExecutor
        return
    from llm_ocr.platforms.ray import crew_on

    wanted = {name: value for name, value in cluster.items() if name != "executor"}
    place = Wanted(_address(cluster.get("executor")), **wanted)
    with crew_on(out, settings, place, notify, asks=asks) as found:
        yield found


def _address(executor: str | None) -> str | None:
    """The cluster's address; None: the environment's, or a local one."""
    if executor == "ray":
        return None
    if executor is not None and executor.startswith("ray://"):
        return executor
    if executor is None:
        raise NoSuchPlaceError("--engines and what each of them has are for --executor ray")
    raise NoSuchPlaceError(
        f"--executor {executor}: give ray, or a cluster's address as ray://HOST:10001"
    )
