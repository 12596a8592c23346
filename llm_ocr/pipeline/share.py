"""A worker's part of a run that several workers do."""

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


class NoSuchShareError(ValueError):
    """The settings or the platform name a worker that there is none of."""


@dataclass(frozen=True)
class Share:
    """Worker `index` (from 0) of `count`."""

    index: int
    count: int

    def of(self, plan: Plan) -> Plan:
        """The plan's shards that are this worker's."""
        mine = (one for one in plan.shards if one.number % self.count == self.index)
        return Plan(tuple(mine), plan.settings)


def share_of(
    settings: Settings, environment: Mapping[str, str], resources: Path = SAGEMAKER_RESOURCES
) -> Share:
    """What the settings say, or else the platform: in the environment, or on SageMaker in the file
    `resources`. Raises NoSuchShareError."""
    index, count = settings.shard_index, settings.shard_count
    if index is None and count is None:
        return _said_by_variables(environment) or _said_by_sagemaker(resources) or Share(0, 1)
    if index is None and count == 1:
        return Share(0, 1)
    if index is None or count is None:
        raise NoSuchShareError("--shard-index and --shard-count belong together: give both")
    if index >= count:
        raise NoSuchShareError(
            f"--shard-index {index}: they count from 0, so the last of {count} is {count - 1}"
        )
    return Share(index, count)


def _said_by_variables(environment: Mapping[str, str]) -> Share | None:
    for its_index, its_count in PLATFORMS:
        if its_index in environment and its_count in environment:
            said = environment[its_index], environment[its_count]
            if not all(re.fullmatch(r"\d+", one) for one in said) or int(said[0]) >= int(said[1]):
                raise NoSuchShareError(
                    f"{its_index}={said[0]} and {its_count}={said[1]} name no worker: the first is "
                    "to be a number from 0 on that is less than the second"
                )
            return Share(int(said[0]), int(said[1]))
    return None


def _said_by_sagemaker(resources: Path) -> Share | None:
    """Hosts count by their numbers: algo-10 comes after algo-9."""
    try:
        text = resources.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        said = json.loads(text)
        hosts = sorted(said["hosts"], key=_by_number)
        return Share(hosts.index(said["current_host"]), len(hosts))
    except (ValueError, KeyError, TypeError) as error:
        raise NoSuchShareError(
            f"{resources} does not say which of the hosts this is ({text.strip()[:200]!r}): give "
            "--shard-index and --shard-count"
        ) from error


def _by_number(host: str) -> list[tuple[int, str]]:
    return [(int(part or 0), name) for name, part in re.findall(r"(\D*)(\d*)", host)]
