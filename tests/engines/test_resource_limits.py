"""A process uses no more cores and memory than its container has."""

import os
from pathlib import Path

import pytest

from llm_ocr.engines.resource_limits import available_cores, memory_limit

MIB = 1 << 20


def group(root: Path, line: str, **limits: str) -> Path:
    """A root with the control group of this process, and limits by file: slashes are `__`."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(line + "\n")
    for name, value in limits.items():
        path = root / "sys" / "fs" / "cgroup" / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    return root


ALL_MEMORY = memory_limit(Path("/nowhere"))


@pytest.mark.parametrize(
    ("line", "limits", "expected"),
    [
        # Inside a container, version 2.
        ("0::/", {"memory-max": "104857600"}, 100 * MIB),
        ("0::/", {"memory-max": "max"}, ALL_MEMORY),
        # The group above has less.
        ("0::/a/b", {"a__b__memory-max": "max", "a__memory-max": "52428800"}, 50 * MIB),
        # The path is that of the host, and the container's own group is at the top.
        ("0::/kubepods/pod1/x", {"memory-max": "209715200"}, 200 * MIB),
        # Version 1, where no limit is a huge number.
        ("5:memory:/x", {"memory__x__memory-limit_in_bytes": "104857600"}, 100 * MIB),
        ("5:memory:/", {"memory__memory-limit_in_bytes": "9223372036854771712"}, ALL_MEMORY),
        ("4:cpu,cpuacct:/", {"memory-max": "1024"}, ALL_MEMORY),
    ],
)
def test_memory_limit_of_the_container_counts(
    tmp_path: Path, line: str, limits: dict[str, str], expected: int
) -> None:
    assert memory_limit(group(tmp_path, line, **limits)) == expected


@pytest.mark.parametrize(
    ("line", "limits", "expected"),
    [
        # Inside a container, version 2.
        ("0::/", {"cpu-max": "400000 100000"}, 4),
        ("0::/", {"cpu-max": "max 100000"}, 64),
        # Parts of a core.
        ("0::/", {"cpu-max": "250000 100000"}, 3),
        ("0::/", {"cpu-max": "10000 100000"}, 1),
        # The group above has less.
        ("0::/a/b", {"a__b__cpu-max": "max 100000", "a__cpu-max": "200000 100000"}, 2),
        # The path is that of the host, and the container's own group is at the top.
        ("0::/kubepods/pod1/x", {"cpu-max": "800000 100000"}, 8),
        # The machine has less.
        ("0::/", {"cpu-max": "12800000 100000"}, 64),
        # Version 1.
        (
            "4:cpu,cpuacct:/x",
            {"cpu__x__cpu-cfs_quota_us": "150000", "cpu__x__cpu-cfs_period_us": "50000"},
            3,
        ),
        (
            "4:cpu,cpuacct:/",
            {"cpu__cpu-cfs_quota_us": "-1", "cpu__cpu-cfs_period_us": "100000"},
            64,
        ),
        ("5:memory:/", {"cpu-max": "100000 100000"}, 64),
    ],
)
def test_cores_of_the_container_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    limits: dict[str, str],
    expected: int,
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(64), raising=False)
    assert available_cores(group(tmp_path, line, **limits)) == expected


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    assert 1 <= available_cores(tmp_path) <= (os.cpu_count() or 1)
