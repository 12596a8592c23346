"""Names, kinds, versions and files of documents."""

import hashlib
import re
import tempfile
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
# A document that is a folder with an image for each page.
PAGES_KIND = "pages"
# Files that contain many documents.
DATASET_KINDS = {".parquet": "parquet", ".tar": "webdataset"}
# The error of a file that is another one than at planning: two versions are never mixed.
CHANGED = "the file has changed since the run was planned; read it in a new run"
# Estimated bytes per page where pages are not counted: those of a scan's JPEG.
BYTES_PER_PAGE = 100_000
# The longest name of a folder or document in bytes. File systems allow 255, and the numbers of a
# row, a page and a figure and an extension are appended: `-000123-p12345-12.json`.
MAX_PART_BYTES, SHORTENED_BYTES = 210, 180
# The longest path below the input in bytes. Buckets allow 1,024 together with the run's folder.
MAX_NAME_BYTES = 700
_ESCAPED_BYTE = re.compile(r"\\udc[89a-f][0-9a-f]")
_UNSAFE = re.compile(r"[^\w.()+ -]")


def safe_name(relative: PurePath) -> str:
    """A document's name: its path below the input, without the extension, safe for a file name.

    Parts that are too long for file systems or buckets are truncated, with a hash appended.
    """
    if relative.name:
        relative = relative.with_suffix("")
    parts = [part for part in relative.parts if part not in ("..", ".", "/")]
    # macOS returns accents as separate characters, which would be replaced as unsafe.
    composed = [unicodedata.normalize("NFC", part) for part in parts]
    safe = [_shorten(_UNSAFE.sub("_", part).strip(". ") or "_", part) for part in composed]
    return _with_fewer_folders(safe) if safe else "_"


def name_key(name: str) -> str:
    """A key that is equal for names of the same file on file systems that ignore case or normalize
    Unicode (macOS, Windows)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def _shorten(name: str, whole: str) -> str:
    if len(name.encode()) <= MAX_PART_BYTES:
        return name
    cut = name.encode()[: SHORTENED_BYTES - 9].decode(errors="ignore").rstrip(". ")
    return f"{cut}-{_digest(whole)}"


def _with_fewer_folders(parts: list[str]) -> str:
    """The parts as a path. In a path that is too long, one folder named by a hash replaces the
    inner folders."""
    path = PurePosixPath(*parts)
    if len(str(path).encode()) <= MAX_NAME_BYTES:
        return str(path)
    return str(PurePosixPath(parts[0], _digest("/".join(parts[1:-1])), parts[-1]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def path_uri(path: Path) -> str:
    """A file's path as a document's URI. Bytes that are not UTF-8 are escaped, since they can be
    neither stored nor printed; the file can't be opened by this URI."""
    return str(path).encode(errors="backslashreplace").decode()


def missing_file_message(uri: str) -> str:
    """Why a file isn't found at its URI, and what to do."""
    if _ESCAPED_BYTE.search(uri):
        return "its name is not valid UTF-8, so it can't be read; rename it"
    return "the file does not exist (any more); restore it"


def file_version(path: Path) -> tuple[str, int]:
    """`(version, size)` of a file: its size and modification time. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_size}-{stat.st_mtime_ns}", stat.st_size


def new_file(folder: Path) -> Path:
    """A new, empty file in `folder` that only this user can read."""
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        return Path(file.name)
