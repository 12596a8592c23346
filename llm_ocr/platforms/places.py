"""Where a run can happen, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llm_ocr.pipeline import worker
from llm_ocr.platforms.cluster import NoSuchPlaceError, Wanted
from llm_ocr.report.summary import Summary


def runner(on: Mapping[str, Any]) -> Callable[..., Summary]:
    """`llm_ocr.run`, or what does the same elsewhere: `on` has what was said with --on and the
    options that belong to it. Raises NoSuchPlaceError."""
    if not on:
        return worker.run
    from llm_ocr.platforms.ray import run

    wanted = {name: value for name, value in on.items() if name != "on"}
    return partial(run, wanted=Wanted(_address(on.get("on")), **wanted))


def _address(on: str | None) -> str | None:
    """The cluster's address; None: the environment's, or a local one."""
    if on == "ray":
        return None
    if on is not None and on.startswith("ray://"):
        return on
    if on is None:
        raise NoSuchPlaceError("--engines and what each of them has are for --on ray")
    raise NoSuchPlaceError(f"--on {on}: give ray, or a cluster's address as ray://HOST:10001")
