"""How much work something is, whatever the machine: the functions that it calls."""

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object], *, with_builtins: bool = False) -> int:
    """How many functions `work` calls; `with_builtins` counts those written in C, too."""
    events = {"call", "c_call"} if with_builtins else {"call"}
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in events

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
