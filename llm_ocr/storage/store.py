"""A URI, opened."""

from llm_ocr.storage.objects import LocalObjects
from llm_ocr.storage.protocol import RunInUseError, StorageError, Store, StoredObject

__all__ = ["RunInUseError", "StorageError", "Store", "StoredObject", "open_store"]


def open_store(uri: str) -> Store:
    """The store at a local path (or `file://` URI); it need not exist yet."""
    scheme, _, path = uri.rpartition("://")
    if scheme not in ("", "file"):
        raise StorageError(f"{uri}: {scheme}:// is not supported; give a local folder")
    return LocalObjects(path)
