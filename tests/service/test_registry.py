"""Versions of models and their aliases: the same behavior in our own state and on MLflow."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_ocr.service.database import Database
from llm_ocr.service.mlflow_registry import MlflowRegistry
from llm_ocr.service.registry import ModelRegistry, RegistryError
from llm_ocr.service.store_registry import StoreRegistry
from llm_ocr.storage.store import open_store
from tests.servers.mlflow import serving_mlflow
from tests.service.conftest import fresh_database

CHANGED = ("alias", "version", "previous", "changed_by", "reason")


@pytest.fixture(scope="module")
def mlflow_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_mlflow(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


@pytest.fixture
def store_registry(database: Database, tmp_path: Path) -> StoreRegistry:
    return StoreRegistry(database, open_store(str(tmp_path / "storage")))


@pytest.fixture
def mlflow_registry(mlflow_url: str) -> MlflowRegistry:
    return MlflowRegistry(mlflow_url)


@pytest.fixture(params=["sqlite", "postgresql", pytest.param("mlflow", marks=pytest.mark.long)])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModelRegistry]:
    """Our own on both databases, and the one on MLflow."""
    if request.param == "mlflow":
        yield request.getfixturevalue("mlflow_registry")
        return
    with fresh_database(request.param, request, tmp_path) as url:
        database = Database(url)
        yield StoreRegistry(database, open_store(str(tmp_path / "storage")))
        database.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A model's name of this test alone: tests share the MLflow server."""
    return "".join(char if char.isalnum() else "-" for char in request.node.name.lower())


def model(folder: Path, weights: bytes = b"weights") -> Path:
    (folder / "labels").mkdir(parents=True, exist_ok=True)
    (folder / "index.npz").write_bytes(weights)
    (folder / "labels" / "classes.txt").write_text("invoice\nletter\n")
    return folder


def test_a_published_folder_comes_back_as_it_was(
    registry: ModelRegistry, name: str, tmp_path: Path
) -> None:
    folder = model(tmp_path / "model")
    published = registry.publish(name, folder, by="ann", tags={"data": "may", "accuracy": "0.98"})
    assert registry.resolve(published.reference) == published
    assert registry.versions(name) == [published]
    assert published.tags == {"data": "may", "accuracy": "0.98"}
    assert published.created_by == "ann"
    assert published.size == len(b"weights") + len("invoice\nletter\n")
    # What was published stays as it was, whatever becomes of the folder.
    (folder / "index.npz").write_bytes(b"changed")
    downloaded = registry.download(published, tmp_path / "downloads")
    files = sorted(path for path in downloaded.rglob("*") if path.is_file())
    assert [path.relative_to(downloaded).as_posix() for path in files] == [*published.files]
    assert (downloaded / "index.npz").read_bytes() == b"weights"
    assert registry.download(published, tmp_path / "downloads") == downloaded
    # Nothing that was half downloaded is left.
    assert [path.name for path in downloaded.parent.iterdir()] == [published.version]


def test_the_same_files_are_one_version_and_others_another(
    registry: ModelRegistry, name: str, tmp_path: Path
) -> None:
    folder = model(tmp_path / "model")
    first = registry.publish(name, folder, by="ann")
    assert registry.publish(name, shutil.copytree(folder, tmp_path / "copy"), by="bob") == first
    second = registry.publish(name, model(folder, b"better weights"), by="bob")
    assert second.version != first.version
    assert [version.version for version in registry.versions(name)] == [
        first.version,
        second.version,
    ]


def test_aliases_are_promoted_and_rolled_back_with_a_history(
    registry: ModelRegistry, name: str, tmp_path: Path
) -> None:
    one, two, three = (
        registry.publish(name, model(tmp_path / "model", weights), by="ann").version
        for weights in (b"1", b"2", b"3")
    )
    with pytest.raises(RegistryError, match="the alias is not set"):
        registry.resolve(f"{name}@production")
    for version in (one, two, three):
        registry.promote(name, version, "production", by="ann", reason=f"trial of {version}")
    registry.promote(name, one, "staging", by="bob", reason="to compare")
    assert registry.resolve(f"{name}@production").version == three
    registry.rollback(name, "production", by="bob", reason="too many doubts")
    assert registry.resolve(f"{name}@production").version == two
    registry.rollback(name, "production", by="bob", reason="still too many")
    assert registry.resolve(f"{name}@production").version == one
    with pytest.raises(RegistryError, match="nothing to roll back to"):
        registry.rollback(name, "production", by="bob", reason="once more")
    assert registry.resolve(f"{name}@staging").version == one
    history = [
        tuple(getattr(change, field) for field in CHANGED) for change in registry.history(name)
    ]
    assert history == [
        ("production", one, None, "ann", f"trial of {one}"),
        ("production", two, one, "ann", f"trial of {two}"),
        ("production", three, two, "ann", f"trial of {three}"),
        ("staging", one, None, "bob", "to compare"),
        ("production", two, three, "bob", "too many doubts"),
        ("production", one, two, "bob", "still too many"),
    ]
    times = [change.changed_at for change in registry.history(name)]
    assert times == sorted(times)


def test_what_is_unknown_or_invalid_is_named(
    registry: ModelRegistry, name: str, tmp_path: Path
) -> None:
    folder = model(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RegistryError, match=f"there is no model {name}"):
        registry.resolve(f"{name}@production")
    with pytest.raises(RegistryError, match=f"there is no model {name}"):
        registry.resolve(f"{name}/7")
    assert registry.versions(name) == []
    assert registry.history(name) == []
    published = registry.publish(name, folder, by="ann")
    with pytest.raises(RegistryError, match=rf"{name} has: {published.version}"):
        registry.promote(name, "999", "production", by="ann", reason="a guess")
    with pytest.raises(RegistryError, match="can't be an alias"):
        registry.promote(name, published.version, "No Alias", by="ann", reason="a guess")
    for reference in ("classifier", "classifier@", "classifier/", "../x/1", f"{name}/../{name}/1"):
        with pytest.raises(RegistryError, match=r"can't be a|no reference"):
            registry.resolve(reference)
    with pytest.raises(RegistryError, match="can't be a model's name"):
        registry.publish("../escape", folder, by="ann")
    with pytest.raises(RegistryError, match="has no files"):
        registry.publish(name, tmp_path / "empty", by="ann")
    with pytest.raises(RegistryError, match="there is no such folder"):
        registry.publish(name, tmp_path / "missing", by="ann")


def test_two_publishers_of_the_same_files_make_one_version(
    store_registry: StoreRegistry, tmp_path: Path
) -> None:
    folder = model(tmp_path / "model")
    with ThreadPoolExecutor(8) as threads:
        published = [
            *threads.map(lambda by: store_registry.publish("twins", folder, by=by), "abcdefgh")
        ]
    assert len({version.created_by for version in published}) == 1
    assert store_registry.versions("twins") == published[:1]


def test_damaged_files_are_not_used(store_registry: StoreRegistry, tmp_path: Path) -> None:
    published = store_registry.publish("detector", model(tmp_path / "model"), by="ann")
    stored = tmp_path / "storage" / "models" / "detector" / published.version / "files"
    (stored / "index.npz").write_bytes(b"WEIGHTS")
    with pytest.raises(RegistryError, match=r"index\.npz differs from what was published"):
        store_registry.download(published, tmp_path / "downloads")
    (stored / "index.npz").unlink()
    with pytest.raises(RegistryError, match=r"index\.npz is missing from the storage"):
        store_registry.download(published, tmp_path / "downloads")
    assert [*(tmp_path / "downloads" / "detector").iterdir()] == []


def test_a_version_is_seen_only_when_it_is_whole(
    store_registry: StoreRegistry, tmp_path: Path
) -> None:
    published = store_registry.publish("detector", model(tmp_path / "model"), by="ann")
    stored = tmp_path / "storage" / "models" / "detector" / published.version
    # As a publisher leaves it that was killed amid its uploads.
    (stored / "manifest.json").unlink()
    (stored / "files" / "index.npz").unlink()
    assert store_registry.versions("detector") == []
    again = store_registry.publish("detector", tmp_path / "model", by="bob")
    assert (again.version, again.created_by) == (published.version, "bob")
    assert (store_registry.download(again, tmp_path / "out") / "index.npz").is_file()


@pytest.mark.long
def test_versions_of_other_programs_on_mlflow_are_named(mlflow_registry: MlflowRegistry) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=mlflow_registry.uri)
    run = client.create_run(client.create_experiment("foreign")).info
    client.create_registered_model("foreign")
    client.create_model_version("foreign", f"{run.artifact_uri}/model", run.run_id)
    with pytest.raises(RegistryError, match="foreign/1 was registered by another program"):
        mlflow_registry.resolve("foreign/1")


@pytest.mark.long
def test_an_mlflow_server_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RegistryError, match=r"MLflow at http://127\.0\.0\.1:9"):
        MlflowRegistry("http://127.0.0.1:9").resolve("classifier@production")
