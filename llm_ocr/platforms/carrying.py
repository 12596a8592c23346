"""Files of this machine that settings name, taken to where the run is done."""

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
from llm_ocr.platforms.base import Request
from llm_ocr.platforms.cluster import NoSuchPlaceError
from llm_ocr.settings import Settings
from llm_ocr.storage.store import create_repository, open_store

# Below the run's place; then a folder named by the SHA-256 of the content, so that who reads a file
# there can tell that it is what was sent.
FOLDER = "files"
PROFILES = ("model", "describe_model", "parse_model", "fallback_model")
SCHEMAS = ("record_schema", "task_schema")
# SageMaker takes no longer value of a variable; a longer prompt goes as a file.
MOST_LETTERS = 256
_SCHEMA_FILE = re.compile(r"(?P<file>.+\.(?:json|py))(?P<name>:[\w.]+)?")


@dataclass(frozen=True)
class CarriedFile:
    """A file's content, and its URI below the run's place."""

    name: str
    data: bytes
    source: str
    place: str

    @property
    def path(self) -> str:
        return f"{FOLDER}/{hashlib.sha256(self.data).hexdigest()}/{self.name}"

    @property
    def uri(self) -> str:
        return f"{self.place}/{self.path}"


def carried(
    settings: Settings, place: str, *, is_shared: bool = False
) -> tuple[dict[str, str], list[CarriedFile]]:
    """Which settings change, and the files that are to be put below `place` for it.

    Where the machines may share this one's folders (`is_shared`), what can't be carried stays as it
    is. Raises NoSuchPlaceError for what can't be carried, and SchemaError.
    """
    changes: dict[str, str] = {}
    files: list[CarriedFile] = []
    for field in PROFILES:
        value = getattr(settings, field)
        if value is not None and "://" not in value and Path(value).suffix.lower() in FILE_ENDINGS:
            files.append(_file(Path(value), place))
            changes[field] = files[-1].uri
    for field in SCHEMAS:
        value = getattr(settings, field)
        if value is None or "://" in value or value in BUILT_IN:
            continue
        found = _SCHEMA_FILE.fullmatch(value)
        if found is None and ":" not in value:
            # No name of a built-in: says so.
            load_schema(value)
        if found is None:
            if not is_shared:
                _check_module(value)
            continue
        if stays := _beside(value, Path(found["file"])):
            if is_shared:
                continue
            raise NoSuchPlaceError(
                f"{value} imports {stays}, which does not travel with it: put both into one file, "
                "or install them in the image and give module:Class"
            )
        files.append(_file(Path(found["file"]), place))
        changes[field] = f"{files[-1].uri}{found['name'] or ''}"
    prompt = settings.task_prompt
    if prompt is not None and not is_shared and len(prompt.encode()) > MOST_LETTERS:
        files.append(CarriedFile("prompt.txt", prompt.encode(), "the prompt", place))
        changes["task_prompt"] = f"@{files[-1].uri}"
    return changes, files


def put(files: Iterable[CarriedFile], place: str) -> None:
    """Put them below `place`, which is made on the Hub if it isn't there. Raises StorageError."""
    several = list(files)
    if not several:
        return
    create_repository(place, private=True)
    store = open_store(place)
    for one in several:
        store.put(one.path, one.data)


def request_for(file: CarriedFile) -> Request:
    """What `put` does, with the command of the store's own tool."""
    tools = {"s3": ["aws", "s3", "cp"], "gs": ["gcloud", "storage", "cp"]}
    tool = tools.get(file.uri.partition("://")[0], ["hf", "buckets", "cp"])
    body = {"file": file.source, "to": file.uri}
    return Request("put", body, shlex.join([*tool, file.source, file.uri]))


def _file(path: Path, place: str) -> CarriedFile:
    whole = path.expanduser().absolute()
    try:
        return CarriedFile(whole.name, whole.read_bytes(), str(whole), place)
    except OSError as error:
        raise NoSuchPlaceError(f"{path} can't be read: {error.strerror}") from error


def _beside(schema: str, path: Path) -> Path | None:
    """A file beside the schema's, or below, that it imports. Raises SchemaError for no schema."""
    own = path.expanduser().resolve()
    before = set(sys.modules)
    load_schema(schema)
    for name in sorted(set(sys.modules) - before):
        source = getattr(sys.modules[name], "__file__", None)
        found = Path(source).resolve() if source and source.endswith(".py") else own
        if found != own and own.parent in found.parents and "site-packages" not in found.parts:
            return found
    return None


def _check_module(schema: str) -> None:
    """Raises NoSuchPlaceError for a module of the working directory: the image has none of that."""
    top = schema.partition(":")[0].partition(".")[0]
    here = [Path(f"{top}.py"), Path(top)]
    found = next((one for one in here if one.exists()), None)
    if found is None or (top in sys.modules or _is_installed(top)):
        return
    raise NoSuchPlaceError(
        f"{schema}: {found} is in this folder, and not where the run is done; give its file, as "
        f"{top}.py:Class, which is sent along, or install it in the image"
    )


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and "site-packages" in str(spec.origin)
