"""Keep the results of a document's steps, so that a process that dies loses only open requests."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from llm_ocr.storage.store import StorageError, Store

Result = TypeVar("Result")


@dataclass(frozen=True)
class StepKey:
    """One step of one document. `version` changes with whatever changes its results."""

    doc_id: str
    step: str
    version: str


class Checkpoints(Protocol):
    """Results by step and item. Each is saved once: of several writers the first one wins."""

    async def completed_items(self, key: StepKey) -> Sequence[str] | None:
        """The ids of all items of a finished step, in order; None while it isn't finished."""
        ...

    async def saved_items(self, key: StepKey) -> frozenset[str]:
        """The ids of the items that have a result."""
        ...

    async def save(self, key: StepKey, item_id: str, result: object) -> None: ...

    async def complete(self, key: StepKey, item_ids: Sequence[str]) -> None:
        """Finish the step, whose items are `item_ids`, in order."""
        ...

    def results(
        self, key: StepKey, item_ids: Sequence[str], kind: type[Result]
    ) -> AsyncIterator[Result]:
        """The results of items, in this order, one at a time."""
        ...


class DamagedCheckpointError(StorageError):
    """A result that was saved is gone, or is no result: waiting for the storage doesn't help."""


class MemoryCheckpoints:
    """Checkpoints that end with the process."""

    def __init__(self) -> None:
        self._results: dict[StepKey, dict[str, Any]] = {}
        self._completed: dict[StepKey, tuple[str, ...]] = {}

    async def completed_items(self, key: StepKey) -> Sequence[str] | None:
        return self._completed.get(key)

    async def saved_items(self, key: StepKey) -> frozenset[str]:
        return frozenset(self._results.get(key, ()))

    async def save(self, key: StepKey, item_id: str, result: object) -> None:
        self._results.setdefault(key, {}).setdefault(item_id, result)

    async def complete(self, key: StepKey, item_ids: Sequence[str]) -> None:
        self._completed.setdefault(key, tuple(item_ids))

    async def results(
        self, key: StepKey, item_ids: Sequence[str], kind: type[Result]
    ) -> AsyncIterator[Result]:
        for item_id in item_ids:
            yield self._results[key][item_id]


class StoreCheckpoints:
    """Checkpoints on a store, as JSON.

        DOC_ID/STEP-VERSION/ITEM.json    the result of an item, written when it is there
        DOC_ID/STEP-VERSION.json         the ids of all items, in order: the step is finished

    Those of a document that has a `folder` in the store are there, in place of `DOC_ID`. All are
    written by put-if-absent, so that a worker which lost its document to another can't
    overwrite what that one wrote. Bytes are base64. Raises StorageError, and
    DamagedCheckpointError for what can't be read as it was written.
    """

    def __init__(self, store: Store, folder: str | None = None) -> None:
        self._store, self._parent = store, folder

    async def completed_items(self, key: StepKey) -> Sequence[str] | None:
        try:
            stored = await asyncio.to_thread(self._store.get, f"{self._folder(key)}.json")
        except FileNotFoundError:
            return None
        try:
            item_ids: list[str] = _adapter(list[str]).validate_json(stored)[0]
        except ValidationError as error:
            raise DamagedCheckpointError(f"{key}: the checkpoint is damaged: {error}") from error
        return item_ids

    async def saved_items(self, key: StepKey) -> frozenset[str]:
        folder = self._folder(key)
        entries = await asyncio.to_thread(lambda: list(self._store.list(folder)))
        return frozenset(
            _item_id(key, entry.path.removeprefix(f"{folder}/").removesuffix(".json"))
            for entry in entries
        )

    async def save(self, key: StepKey, item_id: str, result: object) -> None:
        await asyncio.to_thread(self._create, self._path(key, item_id), result, type(result))

    async def complete(self, key: StepKey, item_ids: Sequence[str]) -> None:
        await asyncio.to_thread(
            self._create, f"{self._folder(key)}.json", list(item_ids), list[str]
        )

    async def results(
        self, key: StepKey, item_ids: Sequence[str], kind: type[Result]
    ) -> AsyncIterator[Result]:
        for item_id in item_ids:
            yield await asyncio.to_thread(self._read, self._path(key, item_id), kind)

    def path(self, key: StepKey, item_id: str) -> str:
        """The path of an item's result, below the document's folder, for `read`."""
        return self._path(key, item_id).removeprefix(f"{self._parent or key.doc_id}/")

    async def read(self, path: str, kind: type[Result]) -> Result:
        """The result at a `path`, of a document that has a `folder`."""
        return await asyncio.to_thread(self._read, f"{self._parent}/{path}", kind)

    def _folder(self, key: StepKey) -> str:
        return f"{key.doc_id if self._parent is None else self._parent}/{key.step}-{key.version}"

    def _path(self, key: StepKey, item_id: str) -> str:
        name = item_id.removeprefix(key.doc_id).removeprefix("/") or "document"
        return f"{self._folder(key)}/{name}.json"

    def _create(self, path: str, value: object, kind: Any) -> None:  # noqa: ANN401
        self._store.create(path, _adapter(kind).dump_json([value]))

    def _read(self, path: str, kind: type[Result]) -> Result:
        try:
            adapter = _adapter(cast("Hashable", kind))
            result: Result = adapter.validate_json(self._store.get(path))[0]
        except (FileNotFoundError, ValidationError) as error:
            message = f"{path}: the checkpoint is missing or damaged: {error}"
            raise DamagedCheckpointError(message) from error
        return result


@cache
def _adapter(kind: Any) -> TypeAdapter[list[Any]]:  # noqa: ANN401
    """Of a list of one value: a dataclass itself takes no options."""
    options = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants"
    )
    return TypeAdapter(list[kind], config=options)


def _item_id(key: StepKey, name: str) -> str:
    """The item of a file; one of the whole document has the document's id."""
    return key.doc_id if name == "document" else f"{key.doc_id}/{name}"
