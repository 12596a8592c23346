"""Uploads local files that settings name (profiles, schemas, prompts) to where the run is done."""

import hashlib
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.models.catalog import FILE_ENDINGS
from llm_ocr.parsing.loading import BUILT_IN, load_schema
from llm_ocr.parsing.local_modules import imported_files
from llm_ocr.platforms.base import InvalidTargetError, PlatformRequest
from llm_ocr.settings import Settings
from llm_ocr.storage.store import create_repository, open_store

# Below the run; then a folder named by the SHA-256 of the content, so that a reader can verify that
# a file is the one that was sent.
FOLDER = "files"
PROFILE_SETTINGS = ("model", "describe_model", "parse_model", "check_model", "fallback_model")
SCHEMA_SETTINGS = ("record_schema", "task_schema")
# SageMaker's limit for the value of a variable; a longer prompt travels as a file.
MAX_VARIABLE_BYTES = 256
_SCHEMA_FILE = re.compile(r"(?P<file>.+\.(?:json|py))(?P<name>:[\w.]+)?")


@dataclass(frozen=True)
class UploadedFile:
    """A local file's content, and its URI below the run."""

    name: str
    data: bytes
    source: str
    run_uri: str

    @property
    def path(self) -> str:
        return f"{FOLDER}/{hashlib.sha256(self.data).hexdigest()}/{self.name}"

    @property
    def uri(self) -> str:
        return f"{self.run_uri}/{self.path}"


def plan_uploads(
    settings: Settings, run_uri: str, *, is_shared: bool = False
) -> tuple[dict[str, str], list[UploadedFile]]:
    """Which settings change, and the files to upload below `run_uri` for it.

    Where machines may share this one's folders (`is_shared`), a file that can't be uploaded keeps
    its path. Raises InvalidTargetError for a file that can't be uploaded, and SchemaError.
    """
    changes: dict[str, str] = {}
    files: list[UploadedFile] = []
    for field in PROFILE_SETTINGS:
        value = getattr(settings, field)
        if value is not None and "://" not in value and Path(value).suffix.lower() in FILE_ENDINGS:
            files.append(_read(Path(value), run_uri))
            changes[field] = files[-1].uri
    for field in SCHEMA_SETTINGS:
        value = getattr(settings, field)
        if value is None or "://" in value or value in BUILT_IN:
            continue
        match = _SCHEMA_FILE.fullmatch(value)
        if match is None and ":" not in value:
            # Not the name of a built-in: raises SchemaError.
            load_schema(value)
        if match is None:
            if not is_shared:
                _check_module(value)
            continue
        if imported := _local_import(value, Path(match["file"])):
            if is_shared:
                continue
            raise InvalidTargetError(
                f"{value} imports {imported}, which is not uploaded with it: put both into one "
                "file, or install them in the image and give module:Class"
            )
        files.append(_read(Path(match["file"]), run_uri))
        changes[field] = f"{files[-1].uri}{match['name'] or ''}"
    prompt = settings.task_prompt
    if prompt is not None and not is_shared and len(prompt.encode()) > MAX_VARIABLE_BYTES:
        files.append(UploadedFile("prompt.txt", prompt.encode(), "the prompt", run_uri))
        changes["task_prompt"] = f"@{files[-1].uri}"
    return changes, files


def upload(files: Iterable[UploadedFile], run_uri: str) -> None:
    """Upload files below `run_uri`, whose repository on the Hub is created if it is missing.

    Raises StorageError.
    """
    uploads = list(files)
    if not uploads:
        return
    create_repository(run_uri, private=True)
    store = open_store(run_uri)
    for file in uploads:
        store.put(file.path, file.data)


def upload_request(file: UploadedFile) -> PlatformRequest:
    """What `upload` does, with the equivalent command of the store's own tool."""
    tools = {"s3": ["aws", "s3", "cp"], "gs": ["gcloud", "storage", "cp"]}
    tool = tools.get(file.uri.partition("://")[0], ["hf", "buckets", "cp"])
    body = {"file": file.source, "to": file.uri}
    return PlatformRequest("put", body, shlex.join([*tool, file.source, file.uri]))


def _read(path: Path, run_uri: str) -> UploadedFile:
    absolute = path.expanduser().absolute()
    try:
        return UploadedFile(absolute.name, absolute.read_bytes(), str(absolute), run_uri)
    except OSError as error:
        raise InvalidTargetError(f"{path} can't be read: {error.strerror}") from error


def _local_import(schema: str, path: Path) -> Path | None:
    """A file in the schema's folder that it imports. Raises SchemaError if it is no schema."""
    load_schema(schema)
    return next(iter(imported_files(path.expanduser().resolve())), None)


def _check_module(schema: str) -> None:
    """Raises InvalidTargetError for a module of the working directory, which the image lacks."""
    top = schema.partition(":")[0].partition(".")[0]
    candidates = [Path(f"{top}.py"), Path(top)]
    found = next((path for path in candidates if path.exists()), None)
    if found is None or (top in sys.modules or _is_installed(top)):
        return
    raise InvalidTargetError(
        f"{schema}: {found} is in this folder, and not where the run is done; give it as a file, "
        f"{top}.py:Class, which is uploaded, or install it in the image"
    )


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and "site-packages" in str(spec.origin)
