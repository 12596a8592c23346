"""Plan a run: load its plan, or make one from the inputs."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from llm_ocr.documents import Document
from llm_ocr.pipeline.engine_targets import run_fingerprint
from llm_ocr.pipeline.events import Note, Notify
from llm_ocr.pipeline.page_counting import count_documents
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings
from llm_ocr.sources.duplicates import duplicate_groups
from llm_ocr.sources.inputs import NoInputError, deduplicate_names, list_documents, raise_for_scheme
from llm_ocr.sources.listing import is_remote
from llm_ocr.sources.names import DATASET_KINDS
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import Store
from llm_ocr.tables.plan import (
    Plan,
    PlannedDocument,
    SettingsMismatchError,
    append_plan,
    check_settings,
    cut_shards,
    read_plan,
    write_plan,
)

Planning = Callable[[Store, Settings, list[str], RenderPool, Notify], Awaitable[Plan]]


def absolute(source: str) -> str:
    """An input as part of a run's identity: the same from any working directory.

    Raises NoInputError for an address that can't be read, such as https://.
    """
    raise_for_scheme(source)
    if is_remote(source):
        return source.rstrip("/")
    listed = source.startswith("@")
    path = Path(os.path.expanduser(source.removeprefix("@")))
    return ("@" if listed else "") + str(Path.cwd() / path)


def load_plan(store: Store) -> Plan:
    """The plan of the run in `store`; raises NoRunError where there is none."""
    plan = read_plan(store)
    if plan is None:
        raise NoRunError(f"{store.uri} holds no run; start one with `llm-ocr run`")
    return plan


async def make_plan(
    store: Store, settings: Settings, inputs: list[str], pool: RenderPool, notify: Notify
) -> Plan:
    """The plan of the run in `store` if it is one of these inputs and settings, or a new one.

    Raises SettingsMismatchError or NoInputError.
    """
    plan = await asyncio.to_thread(read_plan, store)
    wanted = run_fingerprint(settings, inputs)
    if plan is not None:
        check_settings(store, plan, wanted)
        return plan
    planned = await _counted(list_documents(inputs), settings, pool, notify)
    shards = cut_shards(planned, settings.shard_pages)
    return await asyncio.to_thread(write_plan, store, Plan(shards, wanted))


async def updated_plan(
    store: Store, settings: Settings, inputs: list[str], pool: RenderPool, notify: Notify
) -> Plan:
    """As `make_plan`, plus the documents in the inputs that are not in the plan yet.

    Raises SettingsMismatchError with a choice of documents, which what is new would change.
    """
    if settings.limit is not None or settings.sample is not None:
        raise SettingsMismatchError(
            f"{store.uri}: --update adds every new document, so it can't be combined with --limit "
            "or --sample; remove --update to resume the run, or start one without them"
        )
    if await asyncio.to_thread(read_plan, store) is None:
        return await make_plan(store, settings, inputs, pool, notify)
    while True:
        plan = await make_plan(store, settings, inputs, pool, notify)
        unseen = await asyncio.to_thread(_unseen, plan, inputs)
        if not unseen:
            notify(Note("no new documents found; nothing to add"))
            return plan
        notify(Note(f"new documents: {len(unseen):,}"))
        planned = await _counted(unseen, settings, pool, notify)
        first = plan.shards[-1].number + 1
        shards = cut_shards(planned, settings.shard_pages, first)
        # Where another starter was quicker, what it left out is looked for again.
        appended = await asyncio.to_thread(append_plan, store, plan, shards)
        if appended is not None:
            return appended


def _unseen(plan: Plan, inputs: list[str]) -> list[Document]:
    """Documents of the inputs that are not in the plan, under names that are not either."""
    seen = {document.file_id for document in plan.documents}
    found: dict[str, Document] = {}
    for source in inputs:
        # An input that was emptied since is nothing new, and no mistake.
        with suppress(NoInputError):
            found |= {one.doc_id: one for one in list_documents([source])}
    unseen = [one for doc_id, one in found.items() if doc_id not in seen]
    return list(deduplicate_names(unseen, (document.name for document in plan.documents)))


async def _counted(
    documents: list[Document], settings: Settings, pool: RenderPool, notify: Notify
) -> list[PlannedDocument]:
    """As `count_documents`, with likely duplicates after the document that they duplicate."""
    planned = await count_documents(documents, settings, pool, notify)
    files = [one.document for one in planned if one.document.kind not in DATASET_KINDS.values()]
    firsts: dict[str, str] = {}
    for first, *others in await asyncio.to_thread(lambda: list(duplicate_groups(files))):
        firsts |= {one.doc_id: first.doc_id for one in others}
    behind: dict[str, list[PlannedDocument]] = {}
    for one in planned:
        if (same_as := firsts.get(one.document.doc_id)) is not None:
            behind.setdefault(same_as, []).append(replace(one, same_as=same_as))
    return [
        each
        for one in planned
        if one.document.doc_id not in firsts
        for each in (one, *behind.get(one.document.doc_id, ()))
    ]
