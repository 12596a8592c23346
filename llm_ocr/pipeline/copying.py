"""What a run has read, brought to another place, so that more can be made of it there."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from llm_ocr.pipeline.events import ItemsDone, Notify, StageEnded, StageStarted
from llm_ocr.records import PageStatus
from llm_ocr.storage.store import Store, StoredObject
from llm_ocr.tables.plan import FOLDER as PLANS
from llm_ocr.tables.plan import PLAN_PATH, SettingsMismatchError

# The tables before the commits that tell of them, and the plan last: without it there is no run.
READ = ("data/pages", "data/figures", "commits/extract", PLANS)


def copy_read(run: Store, out: Store, notify: Notify) -> None:
    """Copy the plan, the pages and the figures of the run in `run` that `out` has not yet.

    Nothing in `run` is changed. Raises SettingsMismatchError if `out` holds another run.
    """
    if out.exists(PLAN_PATH) and out.get(PLAN_PATH) != run.get(PLAN_PATH):
        raise SettingsMismatchError(
            f"{out.uri} holds a run of other documents than {run.uri}: choose another --out"
        )
    there = {thing.path: thing.size for thing in _of(out)}
    missing = [thing for thing in _of(run) if there.get(thing.path) != thing.size]
    notify(StageStarted("copy", len(missing)))
    for thing in missing:
        # A folder each: a store on this disk takes the file itself, and not what is in it.
        with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
            out.put(thing.path, _as_file(run, thing.path, Path(folder)))
        notify(ItemsDone("copy", PageStatus.OK, 1, fresh=True))
    notify(StageEnded("copy", len(missing)))


def _of(store: Store) -> Iterator[StoredObject]:
    for prefix in READ:
        yield from sorted(store.list(prefix), key=lambda thing: thing.path)


def _as_file(store: Store, path: str, folder: Path) -> Path:
    """The object as a file of this machine, so that it is never whole in memory."""
    if store.folder is not None:
        return store.folder / path
    held = folder / "held"
    with store.open(path) as source, held.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return held
