"""A model registry on an MLflow server, for teams that have one."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_ocr.messages import MissingExtraError, how_to_install
from llm_ocr.service.registry import (
    AliasChange,
    ModelVersion,
    RegistryError,
    check_alias,
    check_name,
    combine_digests,
    copy_files,
    download_once,
    hash_files,
    link_changes,
    parse_reference,
    unknown_alias,
    unknown_version,
    version_before,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion as MlflowVersion

# The runs of this experiment hold the files of published versions, in this folder.
EXPERIMENT = "llm_ocr models"
_FOLDER = "files"
# Tags of MLflow's versions; the publisher's own tags have no such prefix.
_PREFIX = "llm_ocr."
_DIGEST, _FILES, _SIZE, _AUTHOR = (f"{_PREFIX}{tag}" for tag in ("digest", "files", "size", "by"))
# Tags of MLflow's models: one for each change of an alias, in the order of their names.
_CHANGE = f"{_PREFIX}alias_change."
# MLflow's limit on the length of a version's tag.
_LONGEST_TAG = 100_000


class MlflowRegistry:
    """A registry on the MLflow server at a tracking URI, such as `http://mlflow:5000`.

    MLflow numbers the versions of a model: 1, 2, ... It keeps the aliases; their history, which it
    doesn't keep, is in tags of the model. Credentials are MLflow's own (`MLFLOW_TRACKING_TOKEN`).
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._client = _connect(uri)

    def publish(
        self, name: str, folder: Path, *, by: str, tags: Mapping[str, str] | None = None
    ) -> ModelVersion:
        check_name(name)
        if any(tag.startswith(_PREFIX) for tag in tags or {}):
            raise RegistryError(f"tags that begin with {_PREFIX} are reserved; choose other names")
        with copy_files(folder) as copied:
            files = hash_files(copied)
            digest = combine_digests(files)
            for known in self.versions(name):
                if known.digest == digest:
                    return known
            own = {
                _DIGEST: digest,
                _FILES: json.dumps(files),
                _SIZE: str(sum((copied / path).stat().st_size for path in files)),
                _AUTHOR: by,
            }
            if len(own[_FILES]) > _LONGEST_TAG:
                raise RegistryError(
                    f"{folder}: {len(files):,} files are too many for a model on MLflow; pack them"
                )
            with self._explain(name):
                run = self._client.create_run(self._experiment(), run_name=name).info
                self._client.log_artifacts(run.run_id, str(copied), _FOLDER)
                self._client.update_run(run.run_id, status="FINISHED")
                self._create_model(name)
                made = self._client.create_model_version(
                    name,
                    f"{run.artifact_uri}/{_FOLDER}",
                    run.run_id,
                    tags={**(tags or {}), **own},
                    await_creation_for=0,
                )
        return self._load(name, str(made.version))

    def versions(self, name: str) -> list[ModelVersion]:
        check_name(name)
        with self._explain(name):
            found = self._client.search_model_versions(f"name = '{name}'")
        published = [_version(version) for version in found if _DIGEST in version.tags]
        return sorted(published, key=lambda version: int(version.version))

    def resolve(self, reference: str) -> ModelVersion:
        name, version, alias = parse_reference(reference)
        if version:
            return self._load(name, version)
        try:
            with self._explain(name):
                found = self._client.get_model_version_by_alias(name, alias)
        except _NotFoundError:
            raise unknown_alias(name, alias, bool(self.versions(name))) from None
        return _version(found)

    def promote(self, name: str, version: str, alias: str, *, by: str, reason: str) -> AliasChange:
        check_name(name)
        check_alias(alias)
        self._load(name, version)
        change = {
            "name": name,
            "alias": alias,
            "version": version,
            "changed_at": datetime.now(UTC).isoformat(),
            "changed_by": by,
            "reason": reason,
        }
        with self._explain(name):
            # The history first: a change that failed half-way can be seen, and made again.
            self._client.set_registered_model_tag(
                name, f"{_CHANGE}{time.time_ns()}", json.dumps(change)
            )
            self._client.set_registered_model_alias(name, alias, version)
        return next(made for made in reversed(self.history(name)) if made.alias == alias)

    def rollback(self, name: str, alias: str, *, by: str, reason: str) -> AliasChange:
        changes = [change for change in self.history(name) if change.alias == alias]
        version = version_before(name, alias, changes)
        return self.promote(name, version, alias, by=by, reason=reason)

    def history(self, name: str) -> list[AliasChange]:
        check_name(name)
        try:
            with self._explain(name):
                tags = self._client.get_registered_model(name).tags
        except _NotFoundError:
            return []
        changes = [json.loads(tags[tag]) for tag in sorted(tags) if tag.startswith(_CHANGE)]
        for change in changes:
            change["changed_at"] = datetime.fromisoformat(change["changed_at"])
        return link_changes(changes)

    def download(self, version: ModelVersion, folder: Path) -> Path:
        from mlflow.artifacts import download_artifacts

        def fetch(target: Path) -> None:
            with self._explain(version.reference):
                source = self._client.get_model_version(version.name, version.version).source
                fetched = download_artifacts(
                    artifact_uri=source, dst_path=str(target.parent), tracking_uri=self.uri
                )
            for path in Path(fetched).iterdir():
                path.rename(target / path.name)

        return download_once(version, folder, fetch)

    def _load(self, name: str, version: str) -> ModelVersion:
        try:
            with self._explain(name):
                found = self._client.get_model_version(name, version)
        except _NotFoundError:
            raise unknown_version(name, version, self.versions(name)) from None
        return _version(found)

    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            try:
                return str(self._client.create_experiment(EXPERIMENT))
            except MlflowException:
                # Another process was quicker.
                found = self._client.get_experiment_by_name(EXPERIMENT)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _create_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    @contextmanager
    def _explain(self, what: str) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise _NotFoundError(f"{what}: {error.message}") from error
            raise RegistryError(f"{what}: MLflow at {self.uri}: {error.message}") from error


class _NotFoundError(RegistryError):
    """The server doesn't know a model, version or alias."""


def _connect(uri: str) -> "MlflowClient":
    try:
        from mlflow import MlflowClient
    except ModuleNotFoundError as error:
        problem = f"{uri}: the package {error.name} is not installed"
        raise MissingExtraError(f"{problem}: {how_to_install('mlflow')}") from error
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _version(found: "MlflowVersion") -> ModelVersion:
    tags: dict[str, Any] = dict(found.tags)
    if _DIGEST not in tags:
        raise RegistryError(
            f"{found.name}/{found.version} was registered by another program, without checksums; "
            "download its files and publish them with `llm-ocr registry publish`"
        )
    return ModelVersion(
        name=found.name,
        version=str(found.version),
        digest=tags[_DIGEST],
        files=json.loads(tags[_FILES]),
        size=int(tags[_SIZE]),
        tags={tag: value for tag, value in tags.items() if not tag.startswith(_PREFIX)},
        created_at=datetime.fromtimestamp(found.creation_timestamp / 1000, UTC),
        created_by=tags[_AUTHOR],
    )
