"""A URI, opened."""

from llm_ocr.storage.protocol import RunInUseError, StorageError, Store, StoredObject

__all__ = ["RunInUseError", "StorageError", "Store", "StoredObject", "open_store"]

BUCKETS = ("s3", "gs", "memory")


def open_store(uri: str) -> Store:
    """The store at a URI: a local path (or `file://`), `s3://`, `gs://` or `memory://`.

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
    known = ", ".join(f"{one}://" for one in BUCKETS)
    raise StorageError(f"{uri}: {scheme}:// is not supported; give a local folder, {known}")
