"""What starting again on a finished run costs: the whole command, by the clock.

    python -m benchmarks.resume [--shards 10000]

Writes a finished run of that many shards, a page each in empty tables, to an S3 server of this
machine, and starts its command again: by then there is nothing to do but to find that out. Beside
it stands `llm-ocr status` on the same run, and what it takes to list the commits with the bare
client, which is part of both.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from llm_ocr.batch.pending import INPUTS
from llm_ocr.batch.planning import run_fingerprint
from llm_ocr.documents import Document
from llm_ocr.settings import Settings
from llm_ocr.storage.store import Store, open_store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.commits import Commit, data_path
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.plan import Plan, PlannedDocument, Shard, write_plan
from llm_ocr.tables.schema import SCHEMAS, STAGES, encode
from tests.servers.s3 import serving_s3

SOURCE, OUT = "s3://bucket/in", "s3://bucket/run"
# Nobody is there: a run that asks someone fails.
NOBODY = "http://127.0.0.1:9/v1"
ONE = Counts(items=1, statuses={"ok": 1}, attempts={"1": 1})


def write_run(store: Store, shards: int) -> None:
    """A finished run, as its workers leave it."""
    plan = Plan(
        tuple(Shard(k, (_document(k),)) for k in range(shards)),
        run_fingerprint(Settings(base_url=NOBODY), [SOURCE]),
    )
    write_plan(store, plan)
    commit_index = CommitIndex(store, STAGES)
    empty = {table: encode([], table) for table in SCHEMAS}
    with ThreadPoolExecutor(32) as threads:
        for stage in STAGES:
            commits = [_commit(stage, shard.name) for shard in plan.shards]
            _each(threads, lambda one: store.create(one.path, one.to_json()), commits)
            for commit in commits:
                commit_index.add(commit)
        for table, content in empty.items():
            paths = [data_path(table, shard.name, 0) for shard in plan.shards]
            _each(threads, partial(store.put, data=content), paths)
    commit_index.write()
    store.put("summary.json", b"{}")


def _each(threads: ThreadPoolExecutor, do: Callable[[Any], object], things: Iterable[Any]) -> None:
    for _ in threads.map(do, things):
        pass


def _document(k: int) -> PlannedDocument:
    return PlannedDocument(Document(f"{k:016x}", f"{SOURCE}/{k}.pdf", "1-1", str(k), "pdf", 1), 1)


def _commit(stage: str, shard: str) -> Commit:
    made_of = dict.fromkeys(INPUTS[stage], 0)
    return Commit(stage, shard, 0, made_of, (), Counts() if stage == "describe" else ONE)


def timed(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "llm_ocr", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--shards", type=int, default=10_000)
    shards = parser.parse_args().shards
    with tempfile.TemporaryDirectory() as folder, serving_s3(Path(folder)) as server:
        environment = server.environment
        os.environ.update(environment)
        started = time.perf_counter()
        write_run(open_store(OUT), shards)
        print(f"{shards:,} shards written in {time.perf_counter() - started:.0f} s", flush=True)
        again = ["run", SOURCE, "--out", OUT, "--base-url", NOBODY]
        for turn in ("first", "second"):
            print(f"the command again, {turn} time: {timed(again, environment):.1f} s", flush=True)
        print(f"llm-ocr status: {timed(['status', OUT], environment):.1f} s")
        bare = S3Store(
            "bucket", endpoint=environment["AWS_ENDPOINT_URL"], client_options={"allow_http": True}
        )
        started = time.perf_counter()
        found = sum(len(some) for some in obstore.list(bare, prefix="run/commits"))
        print(f"listing {found:,} commits, bare: {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
