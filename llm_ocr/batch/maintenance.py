"""Maintain an existing run: retry its bad pages, or reparse its stored answers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llm_ocr.batch.destination import open_destination
from llm_ocr.batch.events import Note, Notify
from llm_ocr.batch.executor import ExecutorFactory, LocalExecutor
from llm_ocr.batch.interruption import CancellationToken
from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.batch.planning import load_plan
from llm_ocr.batch.progress import shown
from llm_ocr.batch.reparse import ReparseStage
from llm_ocr.batch.retry import RetryStage, open_retry, wanted_pages
from llm_ocr.batch.stage_runner import RunContext
from llm_ocr.batch.worker import Worker
from llm_ocr.document.configure import step_target
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.messages import ProblemCode
from llm_ocr.models.catalog import profile_named
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.tables.plan import Plan, SettingsMismatchError

# A retry describes figures with the run's tasks, and no others.
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
    stop: CancellationToken | None = None,
) -> Summary:
    """Ask again about the pages of the run at `out` with these statuses (and error codes).

    A page keeps the better of its two results. Later stages follow for the shards that changed,
    with the run's own tasks for figures. Settings that are not given are the run's.
    Raises NoRunError, UnknownStatusError, and what `llm_ocr.run` raises.
    """
    given = settings or Settings()
    store = open_destination(str(out), given).store
    chosen = settings_of_run(load_plan(store), given).model_copy(update=NO_NEW_TASKS)
    model = step_target(chosen, "extract").model
    asked = {"model": model.name, "profile": model.profile.id}
    wanted = wanted_pages(statuses, errors, asked)

    def prepare(context: RunContext, plan: Plan, share: WorkerPartition) -> RetryStage | None:
        found = open_retry(context.store, context.commit_index, plan, wanted, share)
        if found is None:
            named = ", ".join(wanted.errors or wanted.statuses)
            context.notify(Note(f"{context.store.uri} has no pages to retry ({named})"))
            return None
        return RetryStage(context, found)

    with shown(notify, progress) as show:
        return Worker(str(out), chosen, show, executor, prepare=prepare).run(None, (), stop)


def reparse(
    out: str | Path,
    settings: Settings | None = None,
    *,
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
    stop: CancellationToken | None = None,
) -> Summary:
    """Parse the stored answers of the run at `out` with this version's parsers, without a model.

    Pages whose result changes are written again, and so are their documents. Figures
    whose boxes changed are cut from the sources, or else from the page images. Raises NoRunError.
    """
    given = settings or Settings()
    own = profile_named(given.model) if "model" in given.model_fields_set else None

    def prepare(context: RunContext, plan: Plan, share: WorkerPartition) -> ReparseStage:
        return ReparseStage(context, own)

    chosen = given.model_copy(update={"describe": False})
    with shown(notify, progress) as show:
        return Worker(str(out), chosen, show, executor, prepare=prepare).run(None, (), stop)


def settings_of_run(plan: Plan, settings: Settings) -> Settings:
    """The settings, with the run's own model and pages where these are not given.

    Raises SettingsMismatchError where the run's profile is not known here.
    """
    of_run: dict[str, Any] = {"pages": plan.settings.get("pages")}
    profile = plan.settings.get("profile")
    if "model" not in settings.model_fields_set and profile != EMBEDDED.id:
        try:
            profile_named(str(profile))
        except ValueError as error:
            raise SettingsMismatchError(
                f"the run used the profile {profile!r}, which is not installed here",
                ProblemCode.PROFILE_NOT_FOUND,
            ) from error
        of_run["model"] = profile
        of_run["revision"] = settings.revision or plan.settings.get("model_revision")
        of_run["served_model"] = settings.served_model or plan.settings.get("model")
    return settings.model_copy(update=of_run)
