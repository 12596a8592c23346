"""What documents are called, what kinds there are, and which version of one lies there."""

import hashlib
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
_UNSAFE = re.compile(r"[^\w.()+ -]")


def safe_name(relative: PurePath) -> str:
    """A document's name: its path below the input, without the ending, safe for a file name."""
    if relative.name:
        relative = relative.with_suffix("")
    parts = [part for part in relative.parts if part not in ("..", ".", "/")]
    safe = [_UNSAFE.sub("_", part).strip(". ") or "_" for part in parts]
    return str(PurePosixPath(*safe)) if safe else "_"


def document_id(uri: str, version: str) -> str:
    """16 hex digits that are others when place or content are."""
    return hashlib.sha256(f"{uri}\n{version}".encode()).hexdigest()[:16]


def file_version(path: Path) -> tuple[str, int]:
    """`(version, size)` of a file: its size and modification time. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}", stat.st_size
