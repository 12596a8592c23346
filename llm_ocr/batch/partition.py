"""Divide a run among workers: which shards belong to which rank."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.settings import Settings
from llm_ocr.tables.plan import Plan

# Where platforms say which of how many tasks this is.
PLATFORMS = (
    ("CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT"),
    ("AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("RANK", "WORLD_SIZE"),
)
# SageMaker says it in a file: {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], …}.
SAGEMAKER_RESOURCES = Path("/opt/ml/config/resourceconfig.json")


class InvalidPartitionError(ValueError):
    """The settings or the platform give a rank that does not exist."""


@dataclass(frozen=True)
class WorkerPartition:
    """Worker `index` (its rank, from 0) of `count` (the world size)."""

    index: int
    count: int

    def select(self, plan: Plan) -> Plan:
        """The shards of the plan that belong to this worker."""
        mine = (one for one in plan.shards if one.number % self.count == self.index)
        return Plan(tuple(mine), plan.settings)


def worker_partition(
    settings: Settings, environment: Mapping[str, str], resources: Path = SAGEMAKER_RESOURCES
) -> WorkerPartition:
    """What the settings say, or else the platform: in the environment, or on SageMaker in the file
    `resources`. Raises InvalidPartitionError."""
    index, count = settings.shard_index, settings.shard_count
    if index is None and count is None:
        return (
            _partition_from_environment(environment)
            or _partition_from_sagemaker(resources)
            or WorkerPartition(0, 1)
        )
    if index is None and count == 1:
        return WorkerPartition(0, 1)
    if index is None or count is None:
        raise InvalidPartitionError("`shard_index` and `shard_count` must be given together")
    if index >= count:
        raise InvalidPartitionError(
            f"`shard_index` {index}: indexes start at 0, so the last of {count} is {count - 1}"
        )
    return WorkerPartition(index, count)


def _partition_from_environment(environment: Mapping[str, str]) -> WorkerPartition | None:
    for its_index, its_count in PLATFORMS:
        if its_index in environment and its_count in environment:
            said = environment[its_index], environment[its_count]
            if not all(re.fullmatch(r"\d+", one) for one in said) or int(said[0]) >= int(said[1]):
                raise InvalidPartitionError(
                    f"{its_index}={said[0]} and {its_count}={said[1]} are not a valid worker and "
                    "number of workers: workers are numbered from 0"
                )
            return WorkerPartition(int(said[0]), int(said[1]))
    return None


def _partition_from_sagemaker(resources: Path) -> WorkerPartition | None:
    """Hosts count by their numbers: algo-10 comes after algo-9."""
    try:
        text = resources.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        said = json.loads(text)
        hosts = sorted(said["hosts"], key=_host_number)
        return WorkerPartition(hosts.index(said["current_host"]), len(hosts))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidPartitionError(
            f"{resources} does not identify this host ({text.strip()[:200]!r}): set "
            "`shard_index` and `shard_count`"
        ) from error


def _host_number(host: str) -> list[tuple[int, str]]:
    return [(int(part or 0), name) for name, part in re.findall(r"(\D*)(\d*)", host)]
