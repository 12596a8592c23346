"""Publish models (classifiers, detectors) as versions, and promote versions to aliases."""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from llm_ocr.messages import CodedError

# The aliases that deployments use by convention; others are allowed.
ALIASES = ("development", "staging", "production")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class RegistryError(CodedError):
    """A model, version or alias is unknown or invalid, or what is stored is damaged; the message
    names it and says what to do."""


@dataclass(frozen=True)
class ModelVersion:
    """A version of a model: a folder of files that never changes.

    `digest` is the SHA-256 of its files' names and contents in hex, `size` their bytes in total;
    `files` maps each path, `/`-separated, to its SHA-256. `tags` say what it was made from, such as
    data, metrics and code.
    """

    name: str
    version: str
    digest: str
    files: Mapping[str, str]
    size: int
    tags: Mapping[str, str]
    created_at: datetime
    created_by: str

    @property
    def reference(self) -> str:
        """`NAME/VERSION`, which always means the same files."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True)
class AliasChange:
    """An alias was set to a version: from which one (None at first), by whom, when and why."""

    name: str
    alias: str
    version: str
    previous: str | None
    changed_at: datetime
    changed_by: str
    reason: str


class ModelRegistry(Protocol):
    """Versions of models and their aliases. Methods block and raise RegistryError."""

    def publish(
        self, name: str, folder: Path, *, by: str, tags: Mapping[str, str] | None = None
    ) -> ModelVersion:
        """Store the files in `folder` as a version of a model. Files that are a version already
        aren't stored again: that version is returned, with the tags that it has."""
        ...

    def versions(self, name: str) -> list[ModelVersion]:
        """A model's versions, the oldest first; empty if the model is unknown."""
        ...

    def resolve(self, reference: str) -> ModelVersion:
        """The version that `NAME@ALIAS` means now, or `NAME/VERSION`."""
        ...

    def promote(self, name: str, version: str, alias: str, *, by: str, reason: str) -> AliasChange:
        """Set an alias to a version."""
        ...

    def rollback(self, name: str, alias: str, *, by: str, reason: str) -> AliasChange:
        """Set an alias to the version that it had before the current one. A second rollback goes
        one further back, not forth again."""
        ...

    def history(self, name: str) -> list[AliasChange]:
        """The changes of a model's aliases, the oldest first."""
        ...

    def download(self, version: ModelVersion, folder: Path) -> Path:
        """The folder with a version's files, below `folder`; its checksums are verified when it is
        first downloaded."""
        ...


def check_name(name: str) -> None:
    """Raise RegistryError unless a name can be a model's: it becomes part of paths."""
    if not _NAME.fullmatch(name):
        raise RegistryError(
            f"{name!r} can't be a model's name: use lower-case letters, digits, '.', '_' and '-', "
            "starting with a letter or digit"
        )


def check_alias(alias: str) -> None:
    """Raise RegistryError unless a word can be an alias."""
    if not _NAME.fullmatch(alias):
        raise RegistryError(
            f"{alias!r} can't be an alias: use {', '.join(ALIASES)}, or another word of lower-case "
            "letters, digits, '.', '_' and '-'"
        )


def parse_reference(reference: str) -> tuple[str, str, str]:
    """Name, version and alias of `NAME@ALIAS` or `NAME/VERSION`; the one that isn't given is ''."""
    name, at, alias = reference.partition("@")
    name, _, version = (name, "", "") if at else reference.partition("/")
    if not (alias if at else version):
        raise RegistryError(
            f"{reference!r} is no reference to a model: give NAME@ALIAS, such as "
            "page-classifier@production, or NAME/VERSION"
        )
    check_name(name)
    if at:
        check_alias(alias)
    elif not _NAME.fullmatch(version):
        raise RegistryError(f"{reference!r}: {version!r} can't be a version")
    return name, version, alias


@contextmanager
def copy_files(folder: Path) -> Iterator[Path]:
    """A copy of a folder: what is published can't change after it was hashed."""
    if not folder.is_dir():
        raise RegistryError(f"{folder}: there is no such folder; give one with a model's files")
    if not any(path.is_file() for path in folder.rglob("*")):
        raise RegistryError(f"{folder}: the folder has no files to publish")
    with tempfile.TemporaryDirectory(prefix="publish-") as name:
        yield shutil.copytree(folder, Path(name) / "files")


def hash_files(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder and its subfolders, by its path relative to the folder,
    in the order of the paths."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _hash(path) for path in paths}


def combine_digests(files: Mapping[str, str]) -> str:
    """The SHA-256 of files' paths and contents, from the SHA-256 of each."""
    lines = "".join(f"{digest}  {path}\n" for path, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def version_before(name: str, alias: str, changes: list[AliasChange]) -> str:
    """The version to which a rollback of an alias with these `changes` leads."""
    earlier: list[str] = []
    for change in changes:
        if len(earlier) > 1 and earlier[-2] == change.version:
            earlier.pop()
        elif not earlier or earlier[-1] != change.version:
            earlier.append(change.version)
    if len(earlier) < 2:
        problem = "has had one version only" if earlier else "is not set"
        raise RegistryError(f"{name}@{alias} {problem}: there is nothing to roll back to")
    return earlier[-2]


def link_changes(rows: Iterable[Mapping[str, Any]]) -> list[AliasChange]:
    """Changes in their order, from all their fields but `previous`, which the order determines."""
    current: dict[str, str] = {}
    changes = []
    for row in rows:
        changes.append(AliasChange(**row, previous=current.get(row["alias"])))
        current[row["alias"]] = row["version"]
    return changes


def unknown_alias(name: str, alias: str, exists: bool) -> RegistryError:
    """What is wrong with `NAME@ALIAS` where the alias isn't set."""
    if not exists:
        return RegistryError(f"{name}@{alias}: there is no model {name}; publish it first")
    return RegistryError(f"{name}@{alias}: the alias is not set; promote a version to it first")


def unknown_version(name: str, version: str, known: list[ModelVersion]) -> RegistryError:
    """What is wrong with `NAME/VERSION` where there is no such version."""
    if not known:
        return RegistryError(f"{name}/{version}: there is no model {name}; publish it first")
    listed = ", ".join(model.version for model in known)
    return RegistryError(f"{name}/{version}: there is no such version; {name} has: {listed}")


def download_once(version: ModelVersion, folder: Path, fetch: Callable[[Path], None]) -> Path:
    """`folder/NAME/VERSION` with a version's files, which `fetch` writes into the folder that it is
    given, unless they are there already. Raises RegistryError if their checksums differ."""
    target = folder / version.name / version.version
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as name:
        fetched = Path(name) / "files"
        fetched.mkdir()
        fetch(fetched)
        for path, digest in version.files.items():
            if not (fetched / path).is_file():
                raise damaged_file_error(version, path, "is missing")
            if _hash(fetched / path) != digest:
                raise damaged_file_error(version, path, "differs from what was published")
        try:
            fetched.rename(target)
        except OSError:
            # Another process was quicker.
            if not target.is_dir():
                raise
    return target


def damaged_file_error(version: ModelVersion, path: str, problem: str) -> RegistryError:
    """A file of a version can't be used."""
    return RegistryError(
        f"{version.reference}: {path} {problem}; restore it, or publish the model again"
    )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
