"""A URI, opened."""

from dataclasses import replace
from types import ModuleType

from llm_ocr.messages import how_to_install
from llm_ocr.storage.hub_address import is_repository, parse_hub
from llm_ocr.storage.protocol import (
    HubNotInstalledError,
    RunInUseError,
    StorageError,
    Store,
    StoredObject,
)

__all__ = [
    "RunInUseError",
    "StorageError",
    "Store",
    "StoredObject",
    "make_place",
    "open_snapshot",
    "open_store",
]

BUCKETS = ("s3", "gs", "memory")


def open_store(uri: str) -> Store:
    """The store at a URI: a local path (or `file://`), `s3://`, `gs://`, `hf://` or `memory://`.

    A folder need not exist yet, a bucket must. Raises StorageError for any other scheme.
    """
    # Each is imported where it is needed: a run on a disk never loads what buckets need.
    scheme, _, path = uri.rpartition("://")
    if scheme in ("", "file"):
        from llm_ocr.storage.local import LocalObjects

        return LocalObjects(path)
    if scheme in BUCKETS:
        from llm_ocr.storage.buckets import open_bucket

        return open_bucket(uri)
    if scheme == "hf":
        store: Store = _hub(uri).open_hub(uri)
        return store
    known = ", ".join(f"{one}://" for one in (*BUCKETS, "hf"))
    raise StorageError(f"{uri}: {scheme}:// is not supported; give a local folder, {known}")


def open_snapshot(uri: str) -> Store:
    """The store at a URI to read from; a repository on the Hub as it is now, whatever is committed
    to it meanwhile."""
    if not is_repository(uri) or parse_hub(uri).revision is not None:
        return open_store(uri)
    address = parse_hub(uri)
    return open_store(replace(address, revision="main").uri)


def make_place(uri: str, *, private: bool) -> None:
    """Create the repository or bucket of an `hf://` URI unless it is there; elsewhere do nothing:
    a bucket on S3 or GCS is its owner's to make."""
    if uri.startswith("hf://"):
        _hub(uri).make_place(uri, private)


def _hub(uri: str) -> ModuleType:
    try:
        from llm_ocr.storage import hub
    except ModuleNotFoundError as error:
        said = f"{uri}: the Hub needs {error.name}, which is not installed"
        raise HubNotInstalledError(f"{said}: {how_to_install('hub')}") from error
    return hub
