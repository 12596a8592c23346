"""Documents with files in a storage, and worker processes that process them."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from llm_ocr.service.database import Database
from llm_ocr.service.documents import (
    NewDocument,
    NewFile,
    StoredDocument,
    create_document,
    load_document,
    queue_document,
)
from llm_ocr.service.pipelines import Pipeline, parse_pipeline, save_pipeline
from llm_ocr.service.schema import FINISHED_STATES
from llm_ocr.storage.store import Store, open_store
from tests.service import worker_main
from tests.waiting import wait_until

# One request per page, and no others.
PAGES_ONLY = "name: pages\nsteps:\n- step: extract\n  retries: {limit: 0}\n- step: assemble\n"


class Service:
    """A database and a storage, with operations for tests."""

    def __init__(
        self, database: Database, url: str, folder: Path, bucket: str | None = None
    ) -> None:
        self.database, self.url, self.storage = database, url, folder / "storage"
        self.address = bucket or str(self.storage)
        self.store: Store = open_store(self.address)

    def pipeline(self, text: str = PAGES_ONLY) -> Pipeline:
        pipeline = parse_pipeline(text, "test.yaml")
        save_pipeline(self.database, pipeline)
        return pipeline

    def submit(self, *paths: Path, pipeline: str | Pipeline = PAGES_ONLY, name: str = "") -> str:
        """Create and queue a document with these files; returns its id. A pipeline that isn't
        given as text must be saved."""
        chosen = self.pipeline(pipeline) if isinstance(pipeline, str) else pipeline
        files = [NewFile(path.name, path.stat().st_size) for path in paths]
        new = NewDocument(name or paths[0].name, files, chosen.name, chosen.revision)
        created = create_document(self.database, "default", new)
        for path, file in zip(paths, created.files, strict=True):
            self.store.put(file.path, path.read_bytes())
        found: dict[int, Mapping[str, Any]] = {k: {} for k in range(len(paths))}
        return queue_document(self.database, "default", created.id, found).id

    def document(self, document_id: str) -> StoredDocument:
        return load_document(self.database, "default", document_id)

    def state(self, document_id: str) -> str:
        return str(self.document(document_id).state)

    def wait_until_finished(self, *document_ids: str) -> list[StoredDocument]:
        wait_until(
            lambda: all(
                self.document(document_id).state in FINISHED_STATES for document_id in document_ids
            )
        )
        return [self.document(document_id) for document_id in document_ids]

    def result(self, document_id: str) -> Any:  # noqa: ANN401
        """The `document.json` of a document."""
        return json.loads(self.read(document_id, "document.json"))

    def read(self, document_id: str, path: str) -> bytes:
        folder = self.document(document_id).row["result"]
        return self.store.get(f"tenants/default/{document_id}/{folder}/{path}")

    def saved(self, document_id: str, step: str = "extract") -> set[str]:
        """The items of a step that have a checkpoint."""
        folder = self.storage / "tenants/default" / document_id / "checkpoints"
        return {path.stem for path in folder.glob(f"{step}-*/*.json")}

    def freeze(self, worker: "WorkerProcess") -> None:
        """Freeze a worker that holds no lock of SQLite: that would stop everyone else."""
        with self.database.begin():
            worker.freeze()

    @contextmanager
    def worker(self, base_url: str, **settings: Any) -> "Iterator[WorkerProcess]":  # noqa: ANN401
        worker = WorkerProcess(self.url, self.address, base_url, settings)
        try:
            yield worker
        finally:
            worker.end()


# Forks processes that have the libraries loaded, which is most of a worker's start.
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.service.worker_main"])


def stop_forking() -> None:
    """End the process that forks: other tests count processes."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


class WorkerProcess:
    """A worker in a process of its own, which SIGTERM drains."""

    def __init__(self, database: str, storage: str, base_url: str, settings: Any) -> None:  # noqa: ANN401
        arguments = (database, storage, base_url, settings)
        self.process = _FORKING.Process(target=worker_main.main, args=arguments)
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def kill(self) -> None:
        """As `kill -9` of the worker; what renders its pages ends with it."""
        self.process.kill()
        self.process.join()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def drain(self) -> float:
        """Send SIGTERM; the seconds until it has ended."""
        began = time.monotonic()
        self.process.terminate()
        self.process.join(30)
        assert self.process.exitcode == 0
        return time.monotonic() - began

    def end(self) -> None:
        if self.process.is_alive():
            self.thaw()
            self.kill()
        self.process.close()
