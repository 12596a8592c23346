"""The registry of models in the service's own state: versions in its storage, aliases in its
database."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, insert, select

from llm_ocr.service.database import Database, now
from llm_ocr.service.registry import (
    AliasChange,
    ModelRegistry,
    ModelVersion,
    check_alias,
    check_name,
    combine_digests,
    copy_files,
    damaged_file_error,
    download_once,
    hash_files,
    link_changes,
    parse_reference,
    unknown_alias,
    unknown_version,
    version_before,
)
from llm_ocr.service.schema import alias_changes
from llm_ocr.storage.store import Store

MODELS_FOLDER = "models"
_MANIFEST = "manifest.json"
# Characters of a version's name, which is the beginning of its digest.
_VERSION_LENGTH = 12
_CHUNK = 1 << 20
_CHANGE = ("name", "alias", "version", "changed_at", "changed_by", "reason")


class StoreRegistry:
    """A registry whose versions are folders in the service's storage, create-only and named by
    their content, and whose aliases are rows in its database."""

    def __init__(self, database: Database, store: Store) -> None:
        self._database, self._store = database, store

    def publish(
        self, name: str, folder: Path, *, by: str, tags: Mapping[str, str] | None = None
    ) -> ModelVersion:
        check_name(name)
        with copy_files(folder) as copied:
            files = hash_files(copied)
            digest = combine_digests(files)
            version = digest[:_VERSION_LENGTH]
            if (known := self._read(name, version)) is not None:
                return known
            prefix = _folder_of(name, version)
            content = {f"{prefix}/files/{path}": copied / path for path in files}
            size = sum(path.stat().st_size for path in content.values())
            self._store.put_many(content, f"{name}/{version}")
        manifest = {
            "digest": digest,
            "files": files,
            "size": size,
            "tags": dict(tags or {}),
            "created_at": datetime.now(UTC).isoformat(),
            "created_by": by,
        }
        # Last, so that a version that can be seen is whole; the first of two publishers wins.
        self._store.create(f"{prefix}/{_MANIFEST}", json.dumps(manifest, indent=1).encode())
        return self._load(name, version)

    def versions(self, name: str) -> list[ModelVersion]:
        check_name(name)
        prefix = f"{MODELS_FOLDER}/{name}"
        listed = [found.path.removeprefix(f"{prefix}/") for found in self._store.list(prefix)]
        numbers = [path.split("/")[0] for path in listed if path.endswith(f"/{_MANIFEST}")]
        found = [self._load(name, number) for number in set(numbers)]
        return sorted(found, key=lambda version: (version.created_at, version.version))

    def resolve(self, reference: str) -> ModelVersion:
        name, version, alias = parse_reference(reference)
        if version:
            return self._load(name, version)
        with self._database.begin() as connection:
            current = _current_version(connection, name, alias)
        if current is None:
            raise unknown_alias(name, alias, bool(self.versions(name)))
        return self._load(name, current)

    def promote(self, name: str, version: str, alias: str, *, by: str, reason: str) -> AliasChange:
        check_alias(alias)
        check_name(name)
        self._load(name, version)
        with self._database.begin() as connection:
            return _set_alias(connection, name, alias, version, by, reason)

    def rollback(self, name: str, alias: str, *, by: str, reason: str) -> AliasChange:
        with self._database.begin() as connection:
            changes = [change for change in _changes(connection, name) if change.alias == alias]
            version = version_before(name, alias, changes)
            return _set_alias(connection, name, alias, version, by, reason)

    def history(self, name: str) -> list[AliasChange]:
        check_name(name)
        with self._database.begin() as connection:
            return _changes(connection, name)

    def download(self, version: ModelVersion, folder: Path) -> Path:
        def fetch(target: Path) -> None:
            for path in version.files:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                source = f"{_folder_of(version.name, version.version)}/files/{path}"
                try:
                    with self._store.open(source) as reader, (target / path).open("wb") as copy:
                        shutil.copyfileobj(reader, copy, _CHUNK)
                except FileNotFoundError as error:
                    raise damaged_file_error(
                        version, path, "is missing from the storage"
                    ) from error

        return download_once(version, folder, fetch)

    def _load(self, name: str, version: str) -> ModelVersion:
        found = self._read(name, version)
        if found is None:
            raise unknown_version(name, version, self.versions(name))
        return found

    def _read(self, name: str, version: str) -> ModelVersion | None:
        path = f"{_folder_of(name, version)}/{_MANIFEST}"
        try:
            manifest = json.loads(self._store.get(path))
        except FileNotFoundError:
            return None
        created_at = datetime.fromisoformat(manifest.pop("created_at"))
        return ModelVersion(name=name, version=version, created_at=created_at, **manifest)


def open_registry(database: Database, store: Store, mlflow_uri: str | None) -> ModelRegistry:
    """The registry on the MLflow server at `mlflow_uri`, or else in the service's own state. Raises
    MissingExtraError if MLflow's client isn't installed."""
    if mlflow_uri is None:
        return StoreRegistry(database, store)
    from llm_ocr.service.mlflow_registry import MlflowRegistry

    return MlflowRegistry(mlflow_uri)


def _folder_of(name: str, version: str) -> str:
    return f"{MODELS_FOLDER}/{name}/{version}"


def _current_version(connection: Connection, name: str, alias: str) -> str | None:
    of_alias = (alias_changes.c.name == name) & (alias_changes.c.alias == alias)
    latest = select(alias_changes.c.version).where(of_alias).order_by(alias_changes.c.id.desc())
    found: str | None = connection.scalar(latest.limit(1))
    return found


def _set_alias(
    connection: Connection, name: str, alias: str, version: str, by: str, reason: str
) -> AliasChange:
    values = {"name": name, "alias": alias, "version": version, "changed_by": by, "reason": reason}
    connection.execute(insert(alias_changes).values(**values, changed_at=now()))
    return next(change for change in reversed(_changes(connection, name)) if change.alias == alias)


def _changes(connection: Connection, name: str) -> list[AliasChange]:
    of_model = select(alias_changes).where(alias_changes.c.name == name)
    rows = connection.execute(of_model.order_by(alias_changes.c.id)).mappings()
    return link_changes({name: row[name] for name in _CHANGE} for row in rows)
