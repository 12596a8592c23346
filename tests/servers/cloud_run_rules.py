"""What Cloud Run takes as a job, and what it refuses."""

import re
from collections.abc import Mapping

from google.cloud import run_v2

GPU_REGIONS: Mapping[str, tuple[str, ...]] = {"nvidia-l4": ("us-central1", "europe-west4")}
GPU_SECONDS = 3600


class Refused(Exception):
    """An error as Google's APIs answer it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def check(job: run_v2.Job, name: str, location: str) -> None:
    """What Cloud Run would not take. Raises Refused."""
    task = job.template.template
    limits = task.containers[0].resources.limits
    accelerator = task.node_selector.accelerator
    timeout = task.timeout.total_seconds()
    wrong = [
        (not re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name), "job_id: Invalid value"),
        (task.max_retries > 10, "max_retries: Must be between 0 and 10"),
        (timeout > 7 * 24 * 3600, "timeout: Must be at most 168 hours"),
    ]
    if accelerator or "nvidia.com/gpu" in limits:
        regions = GPU_REGIONS.get(accelerator, ())
        memory = int(limits["memory"].removesuffix("Gi"))
        wrong += [
            (
                location not in regions,
                f"node_selector: accelerator '{accelerator}' is not supported in {location}",
            ),
            ("nvidia.com/gpu" not in limits, "resources: nvidia.com/gpu is missing"),
            (int(limits["cpu"]) < 4, "resources.limits.cpu: a GPU needs at least 4"),
            (memory < 16, "resources.limits.memory: a GPU needs at least 16Gi"),
            (timeout > GPU_SECONDS, "timeout: Must be at most 1 hour with a GPU"),
            (not task.gpu_zonal_redundancy_disabled, "gpu_zonal_redundancy_disabled: Must be set"),
        ]
    for is_wrong, what in wrong:
        if is_wrong:
            raise Refused(400, "INVALID_ARGUMENT", f"template.template.{what}")
