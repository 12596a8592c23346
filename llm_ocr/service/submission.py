"""Submission of files to a service: upload them, wait for the results and save them; resumable.

A journal in the output folder records what was submitted. The idempotency key of each document is a
hash of its manifest, which includes the hash of the file. So the same submission resumes after the
process was killed, and creates no document twice.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from llm_ocr.documents import Document
from llm_ocr.service.client import (
    FINISHED_OR_IN_REVIEW,
    ServiceAccessError,
    ServiceClient,
    ServiceError,
)
from llm_ocr.storage.protocol import StorageError

CHUNK = 1 << 20
MAX_UPLOADS = 4
# Documents that are polled at the same time; documents finish roughly in order.
MAX_POLLED = 8
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.2, 2.0
# The journal's name in the output folder.
JOURNAL = ".submitted.jsonl"
# States in which a document has a result.
STATES_WITH_RESULT = frozenset({"succeeded", "partially_succeeded"})
NOT_FOUND, GONE = 404, 410
# How often a file can be submitted within 24 hours (the lifetime of an idempotency key) if its
# document is deleted each time.
MAX_SUBMISSIONS = 5


@dataclass(frozen=True)
class Submission:
    """Options of a submission, for all of its files. `out` is the folder for results."""

    type: str | None = None
    priority: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None
    wait_for_results: bool = False
    retry_failed: bool = False


@dataclass(frozen=True)
class SubmittedFile:
    """The outcome of a file, or of a document that was split from it: the last known state of the
    document, `refused` or `unreadable`, and the error if there is one. `id` is empty if the service
    has no document for it."""

    name: str
    id: str
    state: str
    error: str | None = None
    pages: int | None = None
    paths: Sequence[Path] = ()

    @property
    def is_failed(self) -> bool:
        return self.error is not None or self.state in ("failed", "cancelled")


@dataclass
class SubmissionProgress:
    """The number of files by state, `uploading` at first; `changed` is called after each change."""

    total: int
    changed: Callable[["SubmissionProgress"], None]
    states: Counter[str] = field(default_factory=Counter)

    def move(self, before: str | None, state: str) -> None:
        if before is not None:
            self.states[before] -= 1
        self.states[state] += 1
        self.changed(self)


async def submit_files(
    client: ServiceClient,
    files: Sequence[Document],
    submission: Submission,
    *,
    on_change: Callable[[SubmissionProgress], None] = lambda progress: None,
    on_end: Callable[[SubmittedFile], None] = lambda outcome: None,
) -> list[SubmittedFile]:
    """Submit local files; with `wait_for_results`, wait for them and save their results.

    `on_end` receives the outcome of each file as soon as it is known. Raises ServiceAccessError,
    ServiceUnreachableError, and StorageError if the output folder can't be written; the same call
    then resumes.
    """
    work = _Submitter(client, submission, SubmissionProgress(len(files), on_change), on_end)
    return await work.run(files)


@dataclass
class _SubmittedDocument:
    """A file with its idempotency key, and the id and last known state of its document."""

    file: Document
    key: str
    id: str
    state: str


class _Submitter:
    def __init__(
        self,
        client: ServiceClient,
        submission: Submission,
        progress: SubmissionProgress,
        on_end: Callable[[SubmittedFile], None],
    ) -> None:
        self._client, self._submission = client, submission
        self._progress, self._on_end = progress, on_end
        self._journal = _Journal(submission.out)
        self._outcomes: list[SubmittedFile] = []

    async def run(self, files: Sequence[Document]) -> list[SubmittedFile]:
        waiting: asyncio.Queue[_SubmittedDocument | None] = asyncio.Queue()
        remaining = iter(files)

        async def submit() -> None:
            for file in remaining:
                submitted = await self._upload_and_report(file)
                if submitted is not None:
                    waiting.put_nowait(submitted)

        async def submit_rest() -> None:
            async with asyncio.TaskGroup() as uploads:
                for _ in range(MAX_UPLOADS):
                    uploads.create_task(submit())
            for _ in range(MAX_POLLED):
                waiting.put_nowait(None)

        async def watch() -> None:
            while (submitted := await waiting.get()) is not None:
                await self._wait_and_save(submitted)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(submit_rest())
                for _ in range(MAX_POLLED):
                    group.create_task(watch())
        except BaseExceptionGroup as errors:
            raise _first_error(errors) from None
        return self._outcomes

    async def _upload_and_report(self, file: Document) -> _SubmittedDocument | None:
        """Submit a file. None if its outcome is reported already: there is nothing to wait for."""
        self._progress.move(None, "uploading")
        try:
            sha256 = await asyncio.to_thread(_hash_file, Path(file.source_uri))
            manifest = self._manifest(file, sha256)
            key = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
            recorded = self._journal.find(key)
            if recorded is not None and self._is_saved(file, recorded):
                for name, child_id, state in recorded.get("children", ()):
                    self._add(SubmittedFile(name, child_id, state))
                outcome = SubmittedFile(
                    file.name, recorded["id"], recorded["state"], pages=recorded["pages"]
                )
                self._report("uploading", outcome)
                return None
            submitted = await self._submit(file, manifest, key, recorded)
        except ServiceAccessError:
            raise
        except ServiceError as error:
            self._report("uploading", SubmittedFile(file.name, "", "refused", str(error)))
            return None
        except OSError as error:
            reason = f"{file.source_uri} can't be read: {error.strerror}"
            self._report("uploading", SubmittedFile(file.name, "", "unreadable", reason))
            return None
        self._journal.record(key, id=submitted.id, name=file.name)
        if not self._submission.wait_for_results:
            self._report("uploading", SubmittedFile(file.name, submitted.id, submitted.state))
            return None
        self._progress.move("uploading", submitted.state)
        return submitted

    async def _submit(
        self,
        file: Document,
        manifest: Mapping[str, Any],
        key: str,
        recorded: Mapping[str, Any] | None,
    ) -> _SubmittedDocument:
        """Find or create the document of a file, and upload the file if it is missing."""
        if recorded is not None and (found := await self._find(recorded["id"])) is not None:
            if found["state"] in ("failed", "cancelled") and self._submission.retry_failed:
                found = await self._client.retry(found["id"])
            if found["state"] != "awaiting_upload":
                return _SubmittedDocument(file, key, found["id"], found["state"])
        found = await self._create(manifest, key)
        if found["state"] == "awaiting_upload":
            self._journal.record(key, id=found["id"], name=file.name)
            for entry in found["files"]:
                await self._client.upload(Path(file.source_uri), entry["upload"])
            found = await self._client.complete(found["id"])
        return _SubmittedDocument(file, key, found["id"], found["state"])

    async def _create(self, manifest: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401
        for number in range(1, MAX_SUBMISSIONS + 1):
            try:
                return await self._client.create(
                    manifest, key if number == 1 else f"{key}-{number}"
                )
            except ServiceError as error:
                # The document was deleted: only a new key creates another one.
                if number == MAX_SUBMISSIONS or error.status not in (NOT_FOUND, GONE):
                    raise
        raise AssertionError("unreachable")

    async def _find(self, document_id: str) -> Any:  # noqa: ANN401
        try:
            return await self._client.document(document_id)
        except ServiceError as error:
            if error.status in (NOT_FOUND, GONE):
                return None
            raise

    async def _wait_and_save(self, submitted: _SubmittedDocument) -> None:
        """Poll a document until it is finished or needs review, then save its result. Of one that
        was split, this applies to all documents that its pages became."""
        wait = MIN_POLL_SECONDS
        while True:
            document = await self._client.document(submitted.id)
            if document["state"] != submitted.state:
                self._progress.move(submitted.state, document["state"])
                submitted.state = document["state"]
            children = document["children"]
            is_split = submitted.state == "split" and all(
                child["state"] in FINISHED_OR_IN_REVIEW for child in children
            )
            if is_split or submitted.state in FINISHED_OR_IN_REVIEW:
                break
            await asyncio.sleep(wait)
            wait = min(MAX_POLL_SECONDS, wait * 1.5)
        name = submitted.file.name
        saved = [await self._save_child(name, child["id"]) for child in children]
        error, pages = _message(document["error"]), document["progress"]["pages"]
        # Last: its JSON implies that those of its children exist.
        paths = await self._save(submitted.id, submitted.state, name)
        parts = [(part.name, part.id, part.state) for part in saved if part is not None]
        self._journal.record(submitted.key, state=submitted.state, pages=pages, children=parts)
        outcome = SubmittedFile(name, submitted.id, submitted.state, error, pages, paths)
        self._report(submitted.state, outcome)

    async def _save_child(self, name: str, child_id: str) -> SubmittedFile | None:
        """Save the result of a document that was split from another one, beside that one's. None
        if it has been deleted."""
        document = await self._find(child_id)
        if document is None:
            return None
        first, last = document["page_range"]["first"], document["page_range"]["last"]
        child_name = f"{name}.p{first}" if first == last else f"{name}.p{first}-{last}"
        paths = await self._save(child_id, document["state"], child_name)
        error, pages = _message(document["error"]), document["progress"]["pages"]
        outcome = SubmittedFile(child_name, child_id, document["state"], error, pages, paths)
        self._add(outcome)
        return outcome

    async def _save(self, document_id: str, state: str, path: str) -> Sequence[Path]:
        """Save the files of a result, if there is one and a folder for it: the JSON last, so that
        it implies that all others exist."""
        if state not in STATES_WITH_RESULT or self._submission.out is None:
            return ()
        folder = self._submission.out / PurePosixPath(path).parent
        name = PurePosixPath(path).name
        below = f"/v1/documents/{document_id}"
        unfinished, finished = folder / f".{name}.json.part", folder / f"{name}.json"
        try:
            await self._client.download(f"{below}/result", unfinished)
            content = json.loads(unfinished.read_bytes())
            for figure in [*content["figures"], *content.get("findings", ())]:
                place = PurePosixPath(figure["file"])
                await self._client.download(
                    f"{below}/figures/{quote(place.name)}", folder / "figures" / place.name
                )
            await self._client.download(f"{below}/result?format=markdown", folder / f"{name}.md")
            unfinished.replace(finished)
        except OSError as error:
            raise StorageError(f"{folder} can't be written: {error.strerror}") from error
        return (folder / f"{name}.md", finished)

    def _is_saved(self, file: Document, recorded: Mapping[str, Any]) -> bool:
        out = self._submission.out
        return (
            self._submission.wait_for_results
            and out is not None
            and recorded.get("state") in STATES_WITH_RESULT
            and (out / f"{file.name}.json").is_file()
        )

    def _manifest(self, file: Document, sha256: str) -> Mapping[str, Any]:
        path = Path(file.source_uri)
        # Unique in the output folder: the figures are named after the document.
        name = f"{PurePosixPath(file.name).name}{path.suffix.lower()}"
        manifest: dict[str, Any] = {
            "files": [{"name": name, "size": path.stat().st_size, "sha256": sha256}],
            "priority": self._submission.priority,
            "metadata": {**self._submission.metadata},
        }
        if self._submission.type is not None:
            manifest["type"] = self._submission.type
        return manifest

    def _report(self, before: str, outcome: SubmittedFile) -> None:
        self._progress.move(before, outcome.state)
        self._add(outcome)

    def _add(self, outcome: SubmittedFile) -> None:
        self._outcomes.append(outcome)
        self._on_end(outcome)


class _Journal:
    """The documents that were submitted with this output folder, by idempotency key: a JSON Lines
    file. Without a folder, nothing is written."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / JOURNAL
        self._known: dict[str, dict[str, Any]] = {}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text("utf-8").splitlines():
                # The last line is incomplete if the process was killed.
                with suppress(ValueError):
                    self._add(json.loads(line))

    def find(self, key: str) -> Mapping[str, Any] | None:
        return self._known.get(key)

    def record(self, key: str, **facts: Any) -> None:  # noqa: ANN401
        line = {"key": key, **facts}
        self._add(line)
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # Starts a new line even after an incomplete one.
                file.write(f"\n{json.dumps(line)}")
        except OSError as error:
            raise StorageError(f"{self._path} can't be written: {error.strerror}") from error

    def _add(self, line: dict[str, Any]) -> None:
        self._known.setdefault(line["key"], {}).update(line)


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _message(error: Mapping[str, Any] | None) -> str | None:
    return None if error is None else f"{error['message']} ({error['code']})"


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
