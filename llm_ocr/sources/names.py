"""Names, kinds and versions of documents."""

import hashlib
import re
import unicodedata
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
# Estimated bytes per page where pages are not counted: those of a scan's JPEG.
BYTES_PER_PAGE = 100_000
# Bytes of a folder's or a document's name. File systems take 255, and behind it come the numbers of
# a row, a page and a figure, and an ending: `-000123-p12345-12.json`.
MAX_PART_BYTES, SHORTENED_BYTES = 210, 180
# Bytes of a whole name; buckets take 1,024 for the folder of the run and all that is in it.
MAX_NAME_BYTES = 700
_ESCAPED_BYTE = re.compile(r"\\udc[89a-f][0-9a-f]")
_UNSAFE = re.compile(r"[^\w.()+ -]")


def safe_name(relative: PurePath) -> str:
    """A document's name: its path below the input, without the ending, safe for a file name.

    What is longer than file systems or buckets take is cut, with a hash of the whole behind it.
    """
    if relative.name:
        relative = relative.with_suffix("")
    parts = [part for part in relative.parts if part not in ("..", ".", "/")]
    # macOS gives accents as characters of their own, which alone are none of a name.
    composed = [unicodedata.normalize("NFC", part) for part in parts]
    safe = [_shortened(_UNSAFE.sub("_", part).strip(". ") or "_", part) for part in composed]
    return _with_fewer_folders(safe) if safe else "_"


def name_key(name: str) -> str:
    """A key that is equal for names of the same file on file systems that ignore case or normalize
    Unicode (macOS, Windows)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def _shortened(name: str, whole: str) -> str:
    if len(name.encode()) <= MAX_PART_BYTES:
        return name
    cut = name.encode()[: SHORTENED_BYTES - 9].decode(errors="ignore").rstrip(". ")
    return f"{cut}-{_digest(whole)}"


def _with_fewer_folders(parts: list[str]) -> str:
    """The parts as a path; of one that is too long, the inner folders are one that is called by
    their hash."""
    path = PurePosixPath(*parts)
    if len(str(path).encode()) <= MAX_NAME_BYTES:
        return str(path)
    return str(PurePosixPath(parts[0], _digest("/".join(parts[1:-1])), parts[-1]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def path_uri(path: Path) -> str:
    """A file's path as a document's URI: where its name is no UTF-8, with the bytes escaped, as
    the path itself can be neither stored nor printed. Such a file isn't found by its URI."""
    return str(path).encode(errors="backslashreplace").decode()


def missing_file_message(uri: str) -> str:
    """The problem of a file that isn't found at its URI, and what to do."""
    if _ESCAPED_BYTE.search(uri):
        return "its name is not valid UTF-8, so it can't be read; rename it"
    return "the file does not exist (any more); restore it"


def file_version(path: Path) -> tuple[str, int]:
    """`(version, size)` of a file: its size and modification time. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}", stat.st_size
