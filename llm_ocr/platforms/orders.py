"""What a process on another machine is told of a run, and what it must see there."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llm_ocr import __version__
from llm_ocr.pipeline.executor import RunContext
from llm_ocr.pipeline.stage_runner import ShardTask
from llm_ocr.platforms.cluster import Room
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import PLAN_PATH

# What the nodes' stores need of this process's environment.
CARRIED = (
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
class Orders:
    """What an engine needs to know: where the run is, and how it is done.

    `environment` has the credentials of stores: as an argument they are in no log, and not in what
    Ray shows of a job. `seen` are things that the driver sees, and the node has to see too: the
    size of the run's plan, and a document.
    """

    out: str
    settings: Settings
    environment: Mapping[str, str]
    plan_size: int
    document: Path | None
    version: str = __version__

    def of_engine(self, number: int) -> "Orders":
        """The same, with a folder for this engine's log."""
        log_dir = self.settings.log_dir
        if log_dir is None:
            return self
        own = {"log_dir": log_dir / f"engine-{number}"}
        return replace(self, settings=self.settings.model_copy(update=own))


def orders_for(context: RunContext, room: Room, work: Sequence[ShardTask]) -> Orders:
    """The orders of an engine with that room, for a run whose shards are `work`."""
    documents = (planned.document for one in work for planned in one.shard.documents)
    paths = (Path(one.source_uri) for one in documents)
    return Orders(
        out=context.store.uri,
        settings=_settings(context, room),
        environment={name: os.environ[name] for name in CARRIED if name in os.environ},
        plan_size=context.store.stat(PLAN_PATH).size,
        document=next((path for path in paths if path.exists()), None),
    )


def _settings(context: RunContext, room: Room) -> Settings:
    settings, folder = context.settings, context.store.folder
    changes = {
        "metrics_port": None,
        "render_workers": settings.render_workers or room.cpus,
        "engine_threads": settings.engine_threads or room.cpus,
        "log_dir": settings.log_dir or (folder and folder / "logs"),
    }
    return settings.model_copy(update=changes)


def problem_here(orders: Orders) -> str | None:
    """What is wrong with this machine, if something is."""
    here = f"node {socket.gethostname()}"
    if orders.version != __version__:
        return f"{here} has llm_ocr {__version__}, this machine {orders.version}: use one version"
    store = open_store(orders.out)
    if not store.exists(PLAN_PATH) or store.stat(PLAN_PATH).size != orders.plan_size:
        return (
            f"{here} does not see the run at {orders.out}: give an --out that all nodes see, "
            "a bucket or a folder that they share"
        )
    if orders.document is not None and not orders.document.exists():
        return (
            f"{here} does not see {orders.document}: give inputs that all nodes see, in a bucket "
            "or a folder that they share"
        )
    return None
