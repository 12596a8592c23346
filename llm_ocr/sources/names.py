"""What documents are called, what kinds there are, and which version of one lies there."""

import re
from pathlib import Path, PurePath, PurePosixPath

KINDS = {
    ".pdf": "pdf",
    ".png": "image",
    ".jpg": "image",
    ".jpeg": "image",
    ".webp": "image",
    ".tif": "image",
    ".tiff": "image",
}
# Files that hold many documents.
DATASET_KINDS = {".parquet": "parquet", ".tar": "webdataset"}
# What a page of a document takes, where its pages are not counted: a scan's JPEG.
BYTES_A_PAGE = 100_000
_UNSAFE = re.compile(r"[^\w.()+ -]")


def safe_name(relative: PurePath) -> str:
    """A document's name: its path below the input, without the ending, safe for a file name."""
    if relative.name:
        relative = relative.with_suffix("")
    parts = [part for part in relative.parts if part not in ("..", ".", "/")]
    safe = [_UNSAFE.sub("_", part).strip(". ") or "_" for part in parts]
    return str(PurePosixPath(*safe)) if safe else "_"


def file_version(path: Path) -> tuple[str, int]:
    """`(version, size)` of a file: its size and modification time. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}", stat.st_size
