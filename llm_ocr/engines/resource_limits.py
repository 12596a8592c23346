"""The cores and the memory that this process may use: the machine's, or its control group's."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from os import sysconf
from pathlib import Path


def available_cores(root: Path = Path("/")) -> int:
    """The cores that this process may use: those that it may run on, or those for which its control
    group (version 1 or 2), such as a container's, has CPU time; half a core counts as one. `root`
    is where /proc and /sys are."""
    on_linux = sys.platform == "linux"
    cores = len(os.sched_getaffinity(0)) if on_linux else os.cpu_count() or 1
    return min([cores, *_core_limits(root)])


def memory_limit(root: Path = Path("/")) -> int:
    """The bytes of memory that this process may use with all others that share its limit: the
    machine's, or those of its control group (version 1 or 2), such as a container's. `root` is
    where /proc and /sys are."""
    machine = sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES")
    return min([machine, *_memory_limits(root)])


def _core_limits(root: Path) -> Iterator[int]:
    for group in _groups(root, "cpu"):
        # "max" in version 2 and -1 in version 1: no limit.
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            yield math.ceil(int(quota) / int(period))
        with suppress(OSError, ValueError):
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
            if int(quota) > 0:
                yield math.ceil(int(quota) / int(period))


def _memory_limits(root: Path) -> Iterator[int]:
    for group in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            # No such group here, or "max".
            with suppress(OSError, ValueError):
                yield int((group / name).read_text())


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups that may limit what the controller counts, each
    before the one that it is in."""
    groups = root / "proc" / "self" / "cgroup"
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys" / "fs" / "cgroup" / (controller if controllers else "")
        # Inside a container the path may be that of the host, whose folders are not there.
        place = top / path.strip("/")
        for group in (place, *place.parents):
            if group == top.parent or not group.is_relative_to(top):
                break
            yield group
