"""Parse documents, or the pages of an existing run, into records of a schema."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_ocr.batch import worker
from llm_ocr.batch.destination import open_destination
from llm_ocr.batch.events import ItemsDone, Notify, StageEnded, StageStarted
from llm_ocr.batch.executor import ExecutorFactory, LocalExecutor
from llm_ocr.batch.interruption import CancellationToken
from llm_ocr.batch.progress import shown
from llm_ocr.document.configure import check_target, parse_spec, step_target
from llm_ocr.messages import ProblemCode
from llm_ocr.parsing.loading import load_schema
from llm_ocr.records import PageStatus
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError, raise_for_scheme
from llm_ocr.sources.listing import is_remote
from llm_ocr.storage.hub_address import is_repository
from llm_ocr.storage.store import StorageError, Store, StoredObject
from llm_ocr.tables.plan import PLAN_FOLDER as PLANS
from llm_ocr.tables.plan import PLAN_PATH, SettingsMismatchError

STAGES = ("extract", "parse")


def parse(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path | None,
    schema: str,
    settings: Settings | None = None,
    *,
    record_per: str | None = None,
    input_mode: str | None = None,
    drop_unverified: bool | None = None,
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
    stop: CancellationToken | None = None,
) -> Summary:
    """Read documents, and make a record of `schema` of each of them (or of each page).

    `inputs` are as in `llm_ocr.run`, or the place of a run: then its pages are not read again, and
    without `out` the records go into it. `schema` is a built-in's name, `module:Class`, a Python
    file or a JSON Schema file. The other arguments override `settings`. The same call resumes a
    run that stopped; another schema, `record_per` or `input_mode` makes all records again. Raises
    SchemaError, NoRunError, and what `llm_ocr.run` raises; progress and `stop` are as there.
    """
    load_schema(schema)
    given = {
        "record_schema": schema,
        "record_per": record_per,
        "input_mode": input_mode,
        "drop_unverified": drop_unverified,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    chosen = Settings(**{**(settings or Settings()).model_dump(), **changes})
    if executor is LocalExecutor:
        # Before the pages are read.
        parse_spec(chosen).check(step_target(chosen, "parse").model.profile)
        check_target(chosen)
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    places = [str(one) for one in several]
    for place in places:
        raise_for_scheme(place)
    with shown(notify, progress) as show:
        if out is None:
            if len(places) != 1 or _run_in(places[0], chosen) is None:
                said = f"{', '.join(places)}: not the output of a run, so there is nothing to parse"
                raise NoInputError(said, ProblemCode.NOT_A_RUN)
            return worker.resume(
                places[0], chosen, stages=STAGES[1:], notify=show, executor=executor, stop=stop
            )
        runs = [run for one in places if (run := _run_in(one, chosen)) is not None]
        if not runs:
            return worker.run(
                places, out, chosen, stages=STAGES, notify=show, executor=executor, stop=stop
            )
        if len(places) > 1:
            raise NoInputError(
                f"{runs[0].uri} is a run: parse one run at a time, without other inputs"
            )
        destination = open_destination(str(out), chosen)
        if destination.store.uri != runs[0].uri:
            destination.prepare(private=not chosen.public)
            copy_extracted_tables(runs[0], destination.store, show)
        return worker.resume(
            out, chosen, stages=STAGES[1:], notify=show, executor=executor, stop=stop
        )


def _run_in(place: str, settings: Settings) -> Store | None:
    """The store of the run at a location, if there is one."""
    if not is_remote(place) and not os.path.isdir(os.path.expanduser(place)):
        return None
    try:
        store = open_destination(place, settings).store
        return store if store.exists(PLAN_PATH) else None
    except StorageError:
        # Not a run's location, such as the configuration of a dataset, or one without a bucket.
        if is_repository(place):
            return None
        raise


# Tables before the commits that name them, and the plan last: without it there is no run.
COPIED = ("data/pages", "data/figures", "commits/extract", PLANS)


def copy_extracted_tables(run: Store, out: Store, notify: Notify) -> None:
    """Copy the plan, the pages and the figures of the run in `run` that `out` lacks.

    Nothing in `run` is changed. Raises SettingsMismatchError if `out` holds another run.
    """
    if out.exists(PLAN_PATH) and out.get(PLAN_PATH) != run.get(PLAN_PATH):
        raise SettingsMismatchError(
            f"{out.uri} already holds a run of other documents than {run.uri}",
            ProblemCode.OTHER_DOCUMENTS,
        )
    there = {thing.path: thing.size for thing in _list_copied(out)}
    missing = [thing for thing in _list_copied(run) if there.get(thing.path) != thing.size]
    notify(StageStarted("copy", len(missing)))
    for thing in missing:
        # One folder per object: a store on this disk links the file instead of copying it.
        with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
            out.put(thing.path, _as_file(run, thing.path, Path(folder)))
        notify(ItemsDone("copy", PageStatus.OK, 1, fresh=True))
    notify(StageEnded("copy", len(missing)))


def _list_copied(store: Store) -> Iterator[StoredObject]:
    for prefix in COPIED:
        yield from sorted(store.list(prefix), key=lambda thing: thing.path)


def _as_file(store: Store, path: str, folder: Path) -> Path:
    """The object as a file of this machine, so that it is never whole in memory."""
    if store.folder is not None:
        return store.folder / path
    held = folder / "held"
    with store.open(path) as source, held.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return held
