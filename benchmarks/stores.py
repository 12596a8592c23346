"""What a store costs over its bare client: objects/s and MB/s, written and read, and the ratio.

    python -m benchmarks.stores [--seconds 10] [--stores local,S3,GCS]

Small objects (16 KiB) and large ones (16 MiB) go through `llm_ocr`'s Store and through the client
that it is built on, used as its user would: plain files, obstore, huggingface_hub. Both ask the
same server in the same run from as many threads, taking turns, each time the other one first. Of
each pair of turns the ratio is taken (above 1: the Store is faster), and of those the median is
shown, with the middle half; the target is at least 0.8. The servers are those of the tests:
SeaweedFS, fake-gcs-server behind a front in Python, and a Hub in Python. Those in Python bound what
is measured here. A repository on the Hub ("Hub") is written by one commit of several files.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import obstore
from obstore.store import GCSStore, ObjectStore, S3Store

from llm_ocr.storage.store import open_store
from tests.servers.gcs import serving_gcs
from tests.servers.hub import serving_hub
from tests.servers.hub_state import Hub
from tests.servers.s3 import serving_s3

TARGET = 0.8
FEWEST = 5


@dataclass(frozen=True)
class Size:
    """So many objects of so many bytes, `threads` at a time."""

    name: str
    length: int
    count: int
    threads: int


@dataclass(frozen=True)
class Client:
    """Writing objects, so many at a time, and reading one whole."""

    write: Callable[[Mapping[str, bytes], int], object]
    get: Callable[[str], bytes]


@dataclass(frozen=True)
class Pair:
    """The bare client and the Store, at the same place."""

    bare: Client
    ours: Client


SIZES = (Size("16 KiB", 16 << 10, 64, 16), Size("16 MiB", 16 << 20, 2, 2))


def one_by_one(put: Callable[[str, bytes], object]) -> Callable[[Mapping[str, bytes], int], None]:
    """A way to write that takes an object at a time."""
    return lambda files, threads: spread(lambda path: put(path, files[path]), files, threads)


def spread(work: Callable[[str], object], paths: Iterable[str], threads: int) -> None:
    """Do `work` with each path, `threads` at a time."""
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, paths):
            pass


def through_store(uri: str) -> Client:
    store = open_store(uri)
    return Client(one_by_one(store.put), store.get)


def through_obstore(store: ObjectStore, prefix: str) -> Client:
    def put(path: str, data: bytes) -> None:
        obstore.put(store, f"{prefix}/{path}", data)

    return Client(
        one_by_one(put), lambda path: bytes(obstore.get(store, f"{prefix}/{path}").bytes())
    )


def through_files(folder: Path) -> Client:
    """Files that appear whole, as those of the Store: written beside their place, then renamed."""

    def put(path: str, data: bytes) -> None:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.tmp")
        unfinished.write_bytes(data)
        os.replace(unfinished, target)

    return Client(one_by_one(put), lambda path: (folder / path).read_bytes())


def local(stack: ExitStack, folder: Path) -> Pair:
    return Pair(through_files(folder / "bare"), through_store(str(folder / "ours")))


def s3(stack: ExitStack, folder: Path) -> Pair:
    environment = stack.enter_context(serving_s3(folder / "s3")).environment
    os.environ.update(environment)
    endpoint = environment["AWS_ENDPOINT_URL"]
    bare = S3Store("bucket", endpoint=endpoint, client_options={"allow_http": True})
    return Pair(through_obstore(bare, "bare"), through_store("s3://bucket/ours"))


def gcs(stack: ExitStack, folder: Path) -> Pair:
    environment = stack.enter_context(serving_gcs(folder / "gcs"))
    os.environ.update(environment)
    account = {"gcs_base_url": environment["STORAGE_EMULATOR_HOST"], "disable_oauth": True}
    key = json.dumps({**account, "client_email": "x", "private_key": "", "private_key_id": ""})
    bare = GCSStore("bucket", service_account_key=key, client_options={"allow_http": True})
    return Pair(through_obstore(bare, "bare"), through_store("gs://bucket/ours"))


@cache
def start_hub(stack: ExitStack, folder: Path) -> None:
    """One for both: its clients read where it is when they are imported, which is only then."""
    os.environ.update(stack.enter_context(serving_hub(folder / "hub", Hub(commit_limit=10**6))))


def repository(stack: ExitStack, folder: Path) -> Pair:
    """A dataset repository, where some objects are written by one commit."""
    start_hub(stack, folder)
    from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download

    name, kind = "user/stores", "dataset"
    HfApi().create_repo(name, repo_type=kind)
    store = open_store(f"hf://datasets/{name}/ours")

    def commit(files: Mapping[str, bytes], threads: int) -> None:
        operations = [CommitOperationAdd(f"bare/{path}", files[path]) for path in files]
        HfApi().create_commit(
            name, operations, commit_message="write", repo_type=kind, num_threads=threads
        )

    def download(path: str) -> bytes:
        return Path(hf_hub_download(name, f"bare/{path}", repo_type=kind)).read_bytes()

    def write(files: Mapping[str, bytes], threads: int) -> None:
        store.put_many(files, "write")

    return Pair(Client(commit, download), Client(write, store.get))


def bucket(stack: ExitStack, folder: Path) -> Pair:
    """A bucket on the Hub, an object at a time."""
    start_hub(stack, folder)
    from huggingface_hub import HfApi, HfFileSystem

    name = "user/stores"
    api, files = HfApi(os.environ["HF_ENDPOINT"]), HfFileSystem(os.environ["HF_ENDPOINT"])
    api.create_bucket(name)

    def put(path: str, data: bytes) -> None:
        api.batch_bucket_files(name, add=[(data, f"bare/{path}")])

    def get(path: str) -> bytes:
        return bytes(files.cat_file(f"buckets/{name}/bare/{path}"))

    return Pair(Client(one_by_one(put), get), through_store(f"hf://buckets/{name}/ours"))


STORES: Mapping[str, Callable[[ExitStack, Path], Pair]] = {
    "local": local,
    "S3": s3,
    "GCS": gcs,
    "Hub": repository,
    "bucket": bucket,
}


def turn(client: Client, size: Size, folder: str) -> tuple[float, float]:
    """Seconds to write and to read a size's objects. Raises RuntimeError if other bytes come."""
    # No two the same: a client or a server may not move again what it has already.
    files = {f"{folder}/{k:04d}": os.urandom(size.length) for k in range(size.count)}

    def read(path: str) -> None:
        if client.get(path) != files[path]:
            raise RuntimeError(f"{path} was read otherwise than written")

    started = time.perf_counter()
    client.write(files, size.threads)
    written = time.perf_counter()
    spread(read, files, size.threads)
    return written - started, time.perf_counter() - written


def compare(name: str, pair: Pair, size: Size, budget: float) -> bool:
    """Print how both did within `budget` seconds; whether both ways reached the target."""
    bare: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    # The first pair of turns opens connections and grows the server's files.
    turn(pair.bare, size, "first")
    turn(pair.ours, size, "first")
    give_up = time.monotonic() + budget
    while time.monotonic() < give_up or len(ours) < FEWEST:
        sides = [(pair.bare, bare), (pair.ours, ours)]
        for client, times in sides if len(ours) % 2 else reversed(sides):
            times.append(turn(client, size, f"{size.length}/{len(times)}"))
    written = _line(name, size, "write", [one[0] for one in bare], [one[0] for one in ours])
    read = _line(name, size, "read", [one[1] for one in bare], [one[1] for one in ours])
    return min(written, read) >= TARGET


def _line(name: str, size: Size, what: str, bare: list[float], ours: list[float]) -> float:
    """Print what one way of using a store came to; the median of the ratios."""
    ratios = sorted(one / other for one, other in zip(bare, ours, strict=True))
    low, ratio, high = statistics.quantiles(ratios, n=4)
    rate = size.count / statistics.median(ours)
    print(
        f"{name:6} {size.name:7} {what:6} {rate:10,.0f} {rate * size.length / 1e6:9,.0f} "
        f"{ratio:7.2f}  ({low:.2f} to {high:.2f} in {len(ratios)} pairs)",
        flush=True,
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds per object size and store"
    )
    parser.add_argument("--stores", default=",".join(STORES))
    arguments = parser.parse_args()
    print(f"{'store':6} {'size':7} {'':6} {'objects/s':>10} {'MB/s':>9} {'ratio':>7}")
    reached = []
    with tempfile.TemporaryDirectory(prefix="llm-ocr-stores-") as folder, ExitStack() as stack:
        for name in arguments.stores.split(","):
            pair = STORES[name](stack, Path(folder))
            reached += [compare(name, pair, size, arguments.seconds) for size in SIZES]
    print(f"all at least {TARGET}" if all(reached) else f"some are below {TARGET}")


if __name__ == "__main__":
    main()
