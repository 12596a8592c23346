"""A worker's part of a run that several workers do."""

from collections.abc import Mapping
from dataclasses import dataclass

from llm_ocr.settings import Settings
from llm_ocr.tables.plan import Plan

# Where platforms say which of how many tasks this is.
PLATFORMS = (
    ("CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT"),
    ("AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("RANK", "WORLD_SIZE"),
)


class NoSuchShareError(ValueError):
    """The settings name a worker that there is none of."""


@dataclass(frozen=True)
class Share:
    """Worker `index` (from 0) of `count`."""

    index: int
    count: int

    def of(self, plan: Plan) -> Plan:
        """The plan's shards that are this worker's."""
        mine = (one for one in plan.shards if one.number % self.count == self.index)
        return Plan(tuple(mine), plan.settings)


def share_of(settings: Settings, environment: Mapping[str, str]) -> Share:
    """What the settings say, or else the platform. Raises NoSuchShareError."""
    index, count = settings.shard_index, settings.shard_count
    if index is None and count is None:
        for its_index, its_count in PLATFORMS:
            if its_index in environment and its_count in environment:
                index, count = int(environment[its_index]), int(environment[its_count])
                break
    if index is None and (count is None or count == 1):
        return Share(0, 1)
    if index is None or count is None:
        raise NoSuchShareError("--shard-index and --shard-count belong together: give both")
    if index >= count:
        raise NoSuchShareError(
            f"--shard-index {index}: they count from 0, so the last of {count} is {count - 1}"
        )
    return Share(index, count)
