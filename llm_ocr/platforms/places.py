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
    on: Mapping[str, Any],
    out: str,
    settings: Settings,
    notify: Notify,
    *,
    asks: bool = True,
) -> Iterator[tuple[Settings, ExecutorFactory]]:
    """Who does the shards of the run at `out`, and the settings for it: this process, or what `on`
    says, which has --on and the options that belong to it. `asks`: whether a model is needed.

    Raises NoSuchPlaceError.
    """
    if not on:
        yield settings, LocalExecutor
        return
    from llm_ocr.platforms.ray import crew_on

    wanted = {name: value for name, value in on.items() if name != "on"}
    place = Wanted(_address(on.get("on")), **wanted)
    with crew_on(out, settings, place, notify, asks=asks) as found:
        yield found


def _address(on: str | None) -> str | None:
    """The cluster's address; None: the environment's, or a local one."""
    if on == "ray":
        return None
    if on is not None and on.startswith("ray://"):
        return on
    if on is None:
        raise NoSuchPlaceError("--engines and what each of them has are for --on ray")
    raise NoSuchPlaceError(f"--on {on}: give ray, or a cluster's address as ray://HOST:10001")
