"""Main function of worker processes in tests; SIGTERM drains the worker."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

from llm_ocr.service.database import Database
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.worker import ServiceWorker
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store

DEFAULTS: dict[str, Any] = {
    "skip_model_check": True,
    "concurrency": 2,
    "render_workers": 1,
    "fallback": "none",
    "text_layer": "off",
    "min_agreement": 0.0,
    "lease_seconds": 15.0,
    "poll_seconds": 0.05,
    "drain_seconds": 3.0,
}


def make_worker(database: str, storage: str, base_url: str, **changes: Any) -> ServiceWorker:  # noqa: ANN401
    values = {**DEFAULTS, "base_url": base_url, **changes}
    # Without settings of the environment.
    own = {name: values[name] for name in values if name in ServiceSettings.model_fields}
    return ServiceWorker(
        Database(database),
        open_store(storage),
        ServiceSettings(**own),
        Settings(**{name: values[name] for name in values if name in Settings.model_fields}),
        lambda line: print(line, flush=True),
    )


async def serve(worker: ServiceWorker) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.run(stop)


def main(database: str, storage: str, base_url: str, changes: Mapping[str, Any]) -> None:
    """Run a worker; `changes` are settings of the service and the engine, and `environment`."""
    os.environ.update(changes.get("environment", {}))
    asyncio.run(serve(make_worker(database, storage, base_url, **changes)))
