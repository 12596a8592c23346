"""Documents, or those of a run that stands, made into records of a schema."""

import os
from collections.abc import Sequence
from pathlib import Path

from llm_ocr.parsing.loading import load_schema
from llm_ocr.pipeline import worker
from llm_ocr.pipeline.copying import copy_read
from llm_ocr.pipeline.destination import destination_of
from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.executor import ExecutorFactory, LocalExecutor
from llm_ocr.pipeline.progress import shown
from llm_ocr.report.summary import Summary
from llm_ocr.settings import Settings
from llm_ocr.sources.files import is_remote
from llm_ocr.sources.open import NoInputError, raise_for_scheme
from llm_ocr.storage.hub_address import is_repository
from llm_ocr.storage.store import StorageError, Store
from llm_ocr.tables.plan import PLAN_PATH

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
) -> Summary:
    """Read documents, and make a record of `schema` of each of them (or of each page).

    `inputs` are as in `llm_ocr.run`, or the place of a run: then its pages are not read again, and
    without `out` the records go into it. `schema` is a built-in's name, `module:Class`, a Python
    file or a JSON Schema file. The other arguments override `settings`. The same call resumes a
    run that stopped; another schema, `record_per` or `input_mode` makes all records again. Raises
    SchemaError, NoRunError, and what `llm_ocr.run` raises. Progress is shown as `llm_ocr.run` does.
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
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    places = [str(one) for one in several]
    for place in places:
        raise_for_scheme(place)
    with shown(notify, progress) as tell:
        if out is None:
            if len(places) != 1 or _run_in(places[0], chosen) is None:
                said = f"{', '.join(places)}: no place of a run, whose documents could be parsed"
                raise NoInputError(f"{said}; to read documents, give --out")
            return worker.resume(
                places[0], chosen, stages=STAGES[1:], notify=tell, executor=executor
            )
        runs = [run for one in places if (run := _run_in(one, chosen)) is not None]
        if not runs:
            return worker.run(places, out, chosen, stages=STAGES, notify=tell, executor=executor)
        if len(places) > 1:
            raise NoInputError(f"{runs[0].uri} holds a run: parse one run at a time, by itself")
        destination = destination_of(str(out), chosen)
        if destination.store.uri != runs[0].uri:
            destination.prepare(private=not chosen.public)
            copy_read(runs[0], destination.store, tell)
        return worker.resume(out, chosen, stages=STAGES[1:], notify=tell, executor=executor)


def _run_in(place: str, settings: Settings) -> Store | None:
    """Where the run at a place is kept, if there is one."""
    if not is_remote(place) and not os.path.isdir(os.path.expanduser(place)):
        return None
    try:
        store = destination_of(place, settings).store
        return store if store.exists(PLAN_PATH) else None
    except StorageError:
        # No place of a run, such as the configuration of a dataset, or no bucket beside one.
        if is_repository(place):
            return None
        raise
