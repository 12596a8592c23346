"""Run one stage over shards: process items, stage parts, commit and publish each shard.

All shards feed one queue of items, so that the window stays full across shard boundaries. The items
of the last shards are read ahead of it, so that those with the longest answers can start first.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

from llm_ocr.batch.events import ItemsDone, Notify, ShardDone
from llm_ocr.batch.interruption import CancellationToken, StoppedError
from llm_ocr.batch.item_queue import ItemQueue, MeasuredItem, ordered_count
from llm_ocr.batch.stages import AnyItem, Stage
from llm_ocr.document.items import AskModel, ask_about, finish_item
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.model_item import ModelResult, Usage
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.records import ErrorCode, PageError, valid_text
from llm_ocr.report.summary import SessionStats
from llm_ocr.settings import Settings
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import StorageError, Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.counts import CountMismatchError, Counts, ItemResult
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import STAGE_TABLES, drop_unencodable, encoding_error
from llm_ocr.tables.shards import ShardWriter, publish

log = logging.getLogger(__name__)


def nothing_unchanged(store: Store) -> frozenset[str]:
    """For shards whose items all have to be done."""
    return frozenset()


@dataclass(frozen=True)
class RunContext:
    """What a run works with. An executor fills `session` as it works, and observes `stop`."""

    store: Store
    commit_index: CommitIndex
    settings: Settings
    pool: RenderPool
    session: SessionStats
    stop: CancellationToken
    notify: Notify


@dataclass(frozen=True)
class ShardTask:
    """A shard that a stage still has to do: the generation to write and the inputs to read.

    `unchanged_ids` returns the items to copy from the previous generation, or None where nothing
    is left to do; it reads the store, and raises FileNotFoundError where another worker has done
    the shard in the meantime. `attempt_key` separates the staged parts of attempts that would do
    different things. `task_versions` maps each of a stage's tasks to the version that is asked.
    `expected_items` are the items that it will have, as far as is known.
    """

    shard: Shard
    generation: int
    inputs: dict[str, int]
    unchanged_ids: Callable[[Store], frozenset[str] | None] = nothing_unchanged
    attempt_key: str = ""
    task_versions: Mapping[str, str] = field(default_factory=dict)
    expected_items: int = 0


# Seconds that a stop waits for items which are answered but not yet rows. With the ten that an
# engine is given to end, they are less than the 25 that a platform gives.
FINISH_SECONDS = 8.0


class StageRunner(Generic[AnyItem]):
    """Runs one stage.

    Items in progress take one of `slots` each. What this session did is added to the context's
    session; `committed` counts what of it and of staged work was committed.
    """

    def __init__(
        self,
        context: RunContext,
        stage: Stage[AnyItem],
        ask_model: AskModel,
        slots: ConcurrencyLimiter,
    ) -> None:
        self.committed = Counts()
        self._fresh = context.session.counts.setdefault(stage.name, Counts())
        self._store, self._commit_index = context.store, context.commit_index
        self._stop, self._notify = context.stop, context.notify
        self._stage, self._ask_model, self.slots = stage, ask_model, slots
        self._part_items = context.settings.flush_pages
        self._flush_seconds = context.settings.flush_seconds
        self._queue: ItemQueue[tuple[AnyItem, _ShardState]] = ItemQueue()
        self._open: dict[str, _ShardState] = {}
        self._closing: list[asyncio.Task[None]] = []
        self._finishing: set[asyncio.Future[None]] = set()

    @property
    def finishing(self) -> int:
        """Items that were read and are not yet rows."""
        return len(self._finishing)

    async def run(self, work: AsyncIterable[ShardTask], expected_items: int | None = None) -> None:
        """Do the shards as they come, commit and publish them.

        `expected_items` are about as many as all shards have together: then the last ones are done
        in the order of their lengths, as far as these are known. None: all in the order in which
        they come.

        Raises StoppedError, EngineFailedError, StorageError or CountMismatchError; in each case
        finished items are staged first, if the store still accepts writes.
        """
        try:
            async with asyncio.TaskGroup() as group:
                watchers = [group.create_task(self._stop.wait()), group.create_task(self._tick())]
                group.create_task(self._read(work, expected_items, group))
                await self._start_items(group)
                await asyncio.gather(*self._closing)
                for watcher in watchers:
                    watcher.cancel()
        except BaseExceptionGroup as errors:
            await self._flush()
            raise _first(errors) from None
        except asyncio.CancelledError:
            await self._flush()
            raise

    async def _read(
        self, work: AsyncIterable[ShardTask], expected_items: int | None, group: asyncio.TaskGroup
    ) -> None:
        """Put the items of all shards into the queue: one at a time, or if no more are left than
        are ordered, as many as these."""
        async for one in work:
            await self._read_shard(one, expected_items, group)
            if expected_items is not None:
                expected_items -= one.expected_items
        self._queue.close()

    @property
    def _ordered_count(self) -> int:
        return ordered_count(self.slots.limit)

    async def _read_shard(
        self, work: ShardTask, expected_items: int | None, group: asyncio.TaskGroup
    ) -> None:
        """Put the shard's items into the queue as it has room. `expected_items` are those of this
        shard and of all behind it."""
        await self._check_open()
        try:
            kept = await asyncio.to_thread(work.unchanged_ids, self._store)
        except FileNotFoundError:
            log.info("shard %s is done by another worker", work.shard.name)
            kept = None
        if kept is None:
            self._notify(ShardDone(self._stage.name, work.shard.name, Counts()))
            return
        writer = await asyncio.to_thread(
            ShardWriter,
            self._store,
            self._stage.name,
            work.shard.name,
            STAGE_TABLES[self._stage.name],
            work.shard.document_order(),
            generation=work.generation,
            inputs=work.inputs,
            unchanged_ids=kept,
            cache_key=work.attempt_key,
            task_versions=work.task_versions,
        )
        opened = self._open[work.shard.name] = _ShardState(writer)
        for status, count in writer.staged_counts.statuses.items():
            self._notify(ItemsDone(self._stage.name, status, count, fresh=False))
        done = writer.staged_items
        async for item in self._stage.items(work.shard, done):
            if item.item_id in kept:
                continue
            left = None if expected_items is None else expected_items - len(opened.items)
            opened.items.append(item.item_id)
            if item.item_id in done:
                continue
            is_ordered = left is not None and left <= self._ordered_count
            length: int | None = None
            # One that starts at once needs no place among others.
            has_slot = self.slots.in_flight + len(self._queue) < self.slots.limit
            if is_ordered and not has_slot and isinstance(item, MeasuredItem):
                length = await item.expected_tokens()
            opened.queued += 1
            self._queue.put((item, opened), length)
            # The next one is made when there is room for it.
            await self._until_shorter(self._ordered_count if is_ordered else 1)
        opened.is_read = True
        self._close_if_begun(opened, group)

    async def _until_shorter(self, length: int) -> None:
        await self._queue.until(lambda: len(self._queue) < length)

    async def _start_items(self, group: asyncio.TaskGroup) -> None:
        """Start the items in the queue as slots come free."""
        while True:
            await self._queue.until(lambda: len(self._queue) > 0 or self._queue.is_closed)
            if not len(self._queue):
                return
            await self.slots.acquire()
            await self._check_open()
            item, opened = self._queue.get()
            opened.tasks.append(group.create_task(self._one(item, opened)))
            opened.queued -= 1
            self._close_if_begun(opened, group)

    def _close_if_begun(self, opened: "_ShardState", group: asyncio.TaskGroup) -> None:
        """Let the shard be committed after its items, once all of them have begun."""
        if opened.is_read and not opened.queued:
            self._closing.append(group.create_task(self._close(opened)))

    async def _check_open(self) -> None:
        """Where nothing more is to begin, wait for what has begun and raise why."""
        why = self._stop.drain_reason
        if why is None:
            return
        begun = [task for opened in self._open.values() for task in opened.tasks]
        await asyncio.gather(*begun, *self._closing)
        raise why

    async def _one(self, item: AnyItem, opened: "_ShardState") -> None:
        usage = Usage()
        try:
            answer = await ask_about(item, self._ask_model, usage)
            # What was answered is paid for: a stop waits for its rows.
            finishing = _watched(self._finish(item, answer, usage, opened))
            self._finishing.add(finishing)
            finishing.add_done_callback(self._finishing.discard)
            if not _is_cancelled():
                await asyncio.shield(finishing)
        finally:
            self.slots.release()

    async def _finish(
        self,
        item: AnyItem,
        answer: ModelResult | PageError | None,
        usage: Usage,
        opened: "_ShardState",
    ) -> None:
        result = _storable(item, await finish_item(item, answer, usage), usage)
        opened.writer.add(result)
        self._fresh.count(result)
        self._notify(ItemsDone(self._stage.name, result.status, 1, fresh=True))
        if opened.writer.pending >= self._part_items:
            await opened.stage()
        elif self._pending >= 2 * self._part_items:
            await max(self._open.values(), key=lambda one: one.writer.pending).stage()

    @property
    def _pending(self) -> int:
        """Rows' items in memory, of all shards that are open."""
        return sum(opened.writer.pending for opened in self._open.values())

    async def _close(self, opened: "_ShardState") -> None:
        if opened.tasks:
            await asyncio.wait(opened.tasks)
        await opened.stage()
        writer = opened.writer
        commit = await asyncio.to_thread(writer.commit, opened.items)
        await asyncio.to_thread(publish, self._store, commit, writer.tables, writer.order)
        await asyncio.to_thread(self._commit_index.add, commit)
        self.committed.add(commit.counts)
        del self._open[writer.shard]
        self._notify(ShardDone(self._stage.name, writer.shard, commit.counts))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._flush_seconds))
            now = asyncio.get_running_loop().time()
            for opened in list(self._open.values()):
                if opened.writer.pending and now - opened.staged_at >= self._flush_seconds:
                    await opened.stage()

    async def _flush(self) -> None:
        """Stage finished rows first: platforms don't say how long they wait."""
        finishing = set(self._finishing)
        try:
            await self._stage_all()
            if finishing:
                await asyncio.wait(finishing, timeout=FINISH_SECONDS)
                await self._stage_all()
        except StorageError as error:
            log.warning("finished items could not be staged: %s", error)

    async def _stage_all(self) -> None:
        await asyncio.gather(*(opened.stage() for opened in self._open.values()))


class _ShardState:
    """A shard under way: its writer, its items so far and their tasks. `queued` items have not
    begun; `is_read` when no more items will come."""

    def __init__(self, writer: ShardWriter) -> None:
        self.writer = writer
        self.items: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.queued, self.is_read = 0, False
        self.staged_at = asyncio.get_running_loop().time()
        self._staging = asyncio.Lock()

    async def stage(self) -> None:
        """Write the pending rows as a part, completely even if the caller is cancelled."""
        await asyncio.shield(_watched(self._stage()))

    async def _stage(self) -> None:
        async with self._staging:
            self.staged_at = asyncio.get_running_loop().time()
            await asyncio.to_thread(self.writer.write_part, self.writer.drain())


def _storable(item: AnyItem, result: ItemResult, usage: Usage) -> ItemResult:
    """The result, or if a value in its rows can't be stored, the item's failure.

    Here, as such a value would end the run where its part is written, and every later one too.
    """
    why = encoding_error(result.rows)
    if why is None:
        return result
    log.warning("%s: its rows can't be stored: %s", item.item_id, why)
    said = f"what was read can't be stored ({why}); please report this"
    failure = item.failure(PageError(ErrorCode.INTERNAL_ERROR, valid_text(said)), usage)
    return (
        failure
        if encoding_error(failure.rows) is None
        else replace(failure, rows=drop_unencodable(failure.rows))
    )


def _is_cancelled() -> bool:
    """Whether this task was cancelled and went on, as with an answer that was there already."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _watched(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    """A task whose error asyncio doesn't report when the one who waited for it was cancelled."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that stopped the loop: what the store or the engine said before a mere stop."""
    flat: list[BaseException] = []
    pending: list[BaseException] = [errors]
    while pending:
        error = pending.pop()
        if isinstance(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            flat.append(error)
    for kind in (CountMismatchError, StorageError, EngineFailedError, StoppedError):
        for error in flat:
            if isinstance(error, kind):
                return error
    return flat[0]
