"""Plan a run: load its plan, or make one from the inputs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from llm_ocr.batch.events import Note
from llm_ocr.batch.page_counting import count_documents
from llm_ocr.batch.stage_runner import RunContext
from llm_ocr.document.configure import step_target
from llm_ocr.documents import Document
from llm_ocr.messages import ProblemCode
from llm_ocr.models.profile import FIGURE_TASKS, Task
from llm_ocr.records import ImagePolicy
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import (
    NoInputError,
    deduplicate_names,
    duplicate_groups,
    list_documents,
)
from llm_ocr.sources.names import DATASET_KINDS
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

# A run may be asked these later.
LATER_TASKS = frozenset(FIGURE_TASKS) - {Task.DESCRIBE}

# Makes a plan of inputs, for so many engines or workers together.
Planning = Callable[[RunContext, list[str], int], Awaitable[Plan]]


def run_fingerprint(settings: Settings, inputs: list[str]) -> dict[str, object]:
    """What decides a run's rows, by name; two runs with the same identity are one run."""
    model = step_target(settings, "extract").model
    describer = step_target(settings, "describe").model
    profile = model.profile
    return {
        "inputs": inputs,
        "model": model.name,
        "model_revision": model.revision,
        "profile": profile.id,
        "describe_model": describer.name,
        "pages": settings.pages,
        "text_layer": settings.text_layer.value,
        "limit": settings.limit,
        "sample": settings.sample,
        "seed": None if settings.sample is None else settings.seed,
        **image_sizes(profile.image),
        "image_jpeg_quality": profile.image.jpeg_quality,
        "prompts": {
            task.value: profile.prompt_hash(task)
            for task in sorted(profile.prompts)
            if task not in LATER_TASKS
        },
        "describe_prompt": describer.profile.prompt_hash(Task.DESCRIBE),
        "ladder": [rung.name for rung in profile.ladder],
        "parser_version": profile.parser_version,
    }


# Settings of a plan that decide the size of its page images; those behind the second are there only
# where the profile has such a bound.
IMAGE_SIZES = {
    "image_longest_side": "longest_side",
    "image_smallest_side": "smallest_side",
    "image_max_pixels": "max_pixels",
    "image_min_pixels": "min_pixels",
    "image_multiple_of": "multiple_of",
}


def image_sizes(policy: ImagePolicy) -> dict[str, object]:
    """What decides the size of a page image, as `IMAGE_SIZES` names it."""
    usual = ImagePolicy(policy.longest_side, smallest_side=-1)
    return {
        name: getattr(policy, field)
        for name, field in IMAGE_SIZES.items()
        if field == "longest_side" or getattr(policy, field) != getattr(usual, field)
    }


def load_plan(store: Store) -> Plan:
    """The plan of the run in `store`; raises NoRunError where there is none."""
    plan = read_plan(store)
    if plan is None:
        raise NoRunError(f"{store.uri} holds no run", ProblemCode.NO_RUN, out=store.uri)
    return plan


async def make_plan(context: RunContext, inputs: list[str], workers: int) -> Plan:
    """The run's plan if it is one of these inputs and settings, or a new one, for so many workers.

    Raises SettingsMismatchError or NoInputError.
    """
    plan = await asyncio.to_thread(read_plan, context.store)
    wanted = run_fingerprint(context.settings, inputs)
    if plan is not None:
        check_settings(context.store, plan, wanted)
        return plan
    planned = await _counted(list_documents(inputs), context, workers)
    shards = cut_shards(planned, context.settings.shard_pages, workers=workers)
    return await asyncio.to_thread(write_plan, context.store, Plan(shards, wanted))


async def updated_plan(context: RunContext, inputs: list[str], workers: int) -> Plan:
    """As `make_plan`, plus the documents in the inputs that are not in the plan yet.

    Raises SettingsMismatchError with a choice of documents, which what is new would change.
    """
    store, settings = context.store, context.settings
    if settings.limit is not None or settings.sample is not None:
        raise SettingsMismatchError(
            f"{store.uri}: an update adds every new document, so it can't be combined with `limit` "
            "or `sample`",
            ProblemCode.UPDATE_OF_SAMPLE,
        )
    if await asyncio.to_thread(read_plan, store) is None:
        return await make_plan(context, inputs, workers)
    while True:
        plan = await make_plan(context, inputs, workers)
        unseen = await asyncio.to_thread(_unseen, plan, inputs)
        if not unseen:
            context.notify(Note("no new documents found; nothing to add"))
            return plan
        context.notify(Note(f"new documents: {len(unseen):,}"))
        planned = await _counted(unseen, context, workers)
        first = plan.shards[-1].number + 1
        shards = cut_shards(planned, settings.shard_pages, first, workers)
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
    documents: list[Document], context: RunContext, workers: int
) -> list[PlannedDocument]:
    """As `count_documents`, with likely duplicates after the document that they duplicate."""
    planned = await count_documents(
        documents, context.settings, context.pool, context.notify, workers
    )
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
