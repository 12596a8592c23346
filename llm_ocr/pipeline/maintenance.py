"""Maintain an existing run: retry its bad pages, or reparse its stored answers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llm_ocr.engines.embedded.command import EMBEDDED
from llm_ocr.messages import pluralize
from llm_ocr.models.catalog import profile_named
from llm_ocr.pipeline.destination import open_destination
from llm_ocr.pipeline.engine_targets import resolve_engine
from llm_ocr.pipeline.events import Note, Notify
from llm_ocr.pipeline.executor import ExecutorFactory, LocalExecutor
from llm_ocr.pipeline.partition import WorkerPartition
from llm_ocr.pipeline.planning import load_plan
from llm_ocr.pipeline.progress import shown
from llm_ocr.pipeline.reparsing import Reparsing
from llm_ocr.pipeline.retrying import Retrying, open_retry, wanted_pages
from llm_ocr.pipeline.worker import Worker
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.plan import Plan, SettingsMismatchError

# A retry asks about figures what the run was asked, and nothing else.
NO_NEW_TASKS = {"describe_task": "", "task_prompt": None, "task_schema": None, "classes": None}


def retry(
    out: str | Path,
    settings: Settings | None = None,
    *,
    statuses: Iterable[str] = ("failed",),
    errors: Iterable[str] = (),
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
) -> Summary:
    """Ask again about the pages of the run at `out` with these statuses (and error codes).

    A page keeps the better of its readings. Later stages follow for the shards that changed; their
    figures are asked what the run was asked before. What the settings leave open is as in the run.
    Raises NoRunError, UnknownStatusError, and what `llm_ocr.run` raises.
    """
    given = settings or Settings()
    store = open_destination(str(out), given).store
    chosen = settings_of_run(load_plan(store), given).model_copy(update=NO_NEW_TASKS)
    reader = resolve_engine(chosen, chosen.model).reader
    asked = {"model": reader.model, "profile": reader.profile.id}
    wanted = wanted_pages(statuses, errors, asked)
    with shown(notify, progress) as tell:

        def prepare(
            store: Store, commit_index: CommitIndex, plan: Plan, share: WorkerPartition
        ) -> Retrying | None:
            found = open_retry(store, commit_index, plan, wanted, share)
            if found is None:
                named = ", ".join(wanted.errors or wanted.statuses)
                tell(Note(f"{store.uri} has no pages to retry ({named})"))
                return None
            return Retrying(store, commit_index, found)

        return Worker(str(out), chosen, tell, executor, prepare=prepare).run(None, ())


def reparse(
    out: str | Path,
    settings: Settings | None = None,
    *,
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
) -> Summary:
    """Parse the stored answers of the run at `out` with this version's parsers, without a model.

    Pages whose result changes are written again, and so are their documents. Figures
    whose boxes changed are cut from the sources, or else from the page images. Raises NoRunError.
    """
    given = settings or Settings()
    own = profile_named(given.model) if "model" in given.model_fields_set else None
    found: list[Reparsing] = []

    def prepare(
        store: Store, commit_index: CommitIndex, plan: Plan, share: WorkerPartition
    ) -> Reparsing:
        found.append(Reparsing(store, commit_index, own))
        return found[0]

    chosen = given.model_copy(update={"describe": False})
    with shown(notify, progress) as tell:
        summary = Worker(str(out), chosen, tell, executor, prepare=prepare).run(None, ())
        for why, pages in found[0].unchanged_pages.items():
            tell(Note(f"{pluralize(pages, 'page')} unchanged: {why}"))
    return summary


def settings_of_run(plan: Plan, settings: Settings) -> Settings:
    """The settings, with the run's own model and pages where they say nothing of them.

    Raises SettingsMismatchError where the run's profile is not known here.
    """
    of_run: dict[str, Any] = {"pages": plan.settings.get("pages")}
    profile = plan.settings.get("profile")
    if "model" not in settings.model_fields_set and profile != EMBEDDED.id:
        try:
            profile_named(str(profile))
        except ValueError as error:
            raise SettingsMismatchError(
                f"the run used the profile {profile!r}, which is not installed here: pass its "
                "file, or another profile, with --model"
            ) from error
        of_run["model"] = profile
        of_run["revision"] = settings.revision or plan.settings.get("model_revision")
        of_run["served_model"] = settings.served_model or plan.settings.get("model")
    return settings.model_copy(update=of_run)
