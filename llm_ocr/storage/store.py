"""Opening the store at a URI."""

from dataclasses import replace
from types import ModuleType

from llm_ocr.messages import how_to_install
from llm_ocr.storage.hub_address import is_repository, parse_hub_uri
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
    "create_repository",
    "open_snapshot",
    "open_store",
]

BUCKET_SCHEMES = ("s3", "gs", "memory")


def open_store(uri: str) -> Store:
    """The store at a URI: a local path (or `file://`), `s3://`, `gs://`, `hf://` or `memory://`.

    A folder is created if needed; a bucket must exist. Raises StorageError for any other scheme.
    """
    # Imported on demand: a run on a local disk never loads what buckets need.
    scheme, _, path = uri.rpartition("://")
    if scheme in ("", "file"):
        from llm_ocr.storage.local import LocalStore

        return LocalStore(path)
    if scheme in BUCKET_SCHEMES:
        from llm_ocr.storage.buckets import open_bucket

        return open_bucket(uri)
    if scheme == "hf":
        store: Store = _hub(uri).open_hub(uri)
        return store
    known = ", ".join(f"{name}://" for name in (*BUCKET_SCHEMES, "hf"))
    raise StorageError(f"{uri}: {scheme}:// is not supported; use a local folder, {known}")


def open_snapshot(uri: str) -> Store:
    """The store at a URI, for reading: no folder is created, and a repository on the Hub is pinned
    to its latest commit."""
    scheme, _, path = uri.rpartition("://")
    if scheme in ("", "file"):
        from llm_ocr.storage.local import LocalStore

        return LocalStore(path, creates=False)
    if not is_repository(uri) or parse_hub_uri(uri).revision is not None:
        return open_store(uri)
    address = parse_hub_uri(uri)
    return open_store(replace(address, revision="main").uri)


def create_repository(uri: str, *, private: bool) -> None:
    """Create the repository or bucket of an `hf://` URI if it is missing. Other URIs are left
    alone: buckets on S3 and GCS are never created."""
    if uri.startswith("hf://"):
        _hub(uri).create_repository(uri, private)


def _hub(uri: str) -> ModuleType:
    try:
        from llm_ocr.storage import hub
    except ModuleNotFoundError as error:
        problem = f"{uri}: hf:// needs the package {error.name}, which is not installed"
        raise HubNotInstalledError(f"{problem}: {how_to_install('hub')}") from error
    return hub
