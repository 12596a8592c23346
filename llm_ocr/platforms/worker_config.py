"""The configuration of a worker on another machine, and the check that it sees the same files."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llm_ocr import __version__
from llm_ocr.batch.stage_runner import RunContext, ShardTask
from llm_ocr.platforms.cluster import EngineAllocation
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import PLAN_PATH

# Variables of this process's environment that the workers' stores need.
FORWARDED_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
    "HF_TOKEN",
    "HF_ENDPOINT",
)


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker needs to know: where the run is, and its settings.

    `environment` has the credentials of stores: passed as an argument they appear in no log, and
    not in what Ray shows of a job. `plan_size` and `document` are what the driver sees of the run's
    plan and of a document; the worker has to see the same.
    """

    out: str
    settings: Settings
    environment: Mapping[str, str]
    plan_size: int
    document: Path | None
    version: str = __version__

    def for_engine(self, number: int) -> "WorkerConfig":
        """The same, with a log folder for this engine."""
        log_dir = self.settings.log_dir
        if log_dir is None:
            return self
        own = {"log_dir": log_dir / f"engine-{number}"}
        return replace(self, settings=self.settings.model_copy(update=own))


def create_worker_config(
    context: RunContext, allocation: EngineAllocation, work: Sequence[ShardTask]
) -> WorkerConfig:
    """The configuration of a worker with that allocation, for a run whose shards are `work`."""
    documents = (planned.document for task in work for planned in task.shard.documents)
    paths = (Path(document.source_uri) for document in documents)
    return WorkerConfig(
        out=context.store.uri,
        settings=_settings(context, allocation),
        environment={name: os.environ[name] for name in FORWARDED_VARIABLES if name in os.environ},
        plan_size=context.store.stat(PLAN_PATH).size,
        document=next((path for path in paths if path.exists()), None),
    )


def _settings(context: RunContext, allocation: EngineAllocation) -> Settings:
    settings, folder = context.settings, context.store.folder
    changes = {
        "metrics_port": None,
        "render_workers": settings.render_workers or allocation.cpus,
        "engine_threads": settings.engine_threads or allocation.cpus,
        "log_dir": settings.log_dir or (folder and folder / "logs"),
    }
    return settings.model_copy(update=changes)


def preflight_error(config: WorkerConfig) -> str | None:
    """Why this machine can't work on the run; None if it can."""
    here = f"node {socket.gethostname()}"
    if config.version != __version__:
        return (
            f"{here} has llm_ocr {__version__}, this machine has {config.version}: install the "
            "same version on both"
        )
    store = open_store(config.out)
    if not store.exists(PLAN_PATH) or store.stat(PLAN_PATH).size != config.plan_size:
        return (
            f"{here} can't see the run at {config.out}: choose a location that all nodes can "
            "access, such as a bucket or a shared folder"
        )
    if config.document is not None and not config.document.exists():
        return (
            f"{here} can't see {config.document}: choose inputs that all nodes can access, in a "
            "bucket or a shared folder"
        )
    return None
