"""Load the models that pipelines name, and keep a document on the versions that it began with."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from llm_ocr.document.classify import LoadedClassifier
from llm_ocr.messages import CodedError
from llm_ocr.service.registry import ModelRegistry, RegistryError, combine_digests, hash_files
from llm_ocr.storage.store import Store

if TYPE_CHECKING:
    from llm_ocr.auxiliary.detectors import ObjectDetector

# Characters of a folder's hash that stand for its version, as in the registry.
_VERSION_LENGTH = 12
LoadedModel = TypeVar("LoadedModel")


class UnavailableModelError(CodedError):
    """A model that a pipeline names can't be loaded; the message says why."""


class PinnedModels(Generic[LoadedModel]):
    """The models of one kind that a worker uses, each loaded once. Methods block; several threads
    may call them.

    Versions of the `registry` are downloaded below `folder`. `open_model` loads the model in a
    folder, given the version that results name; it raises UnavailableModelError if it can't.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        folder: Path,
        open_model: Callable[[Path, str], LoadedModel],
    ) -> None:
        self._registry, self._folder, self._open_model = registry, folder, open_model
        self._loaded: dict[str, LoadedModel] = {}
        self._lock = threading.Lock()

    def load(self, name: str, store: Store, pin: str) -> LoadedModel:
        """The model in the folder `name` or, if there is none, of the registry: in the version that
        the object `pin` of the storage has. The first one to load it for a document writes this
        object, so that a promotion never splits a document.

        Raises UnavailableModelError and StorageError.
        """
        try:
            with self._lock:
                return self._load(name, store, pin)
        except RegistryError as error:
            raise UnavailableModelError(str(error)) from error

    def _load(self, name: str, store: Store, pin: str) -> LoadedModel:
        folder = Path(name)
        if folder.is_dir():
            digest = combine_digests(hash_files(folder))[:_VERSION_LENGTH]
            return self._open(f"{name}#{digest}", folder)
        try:
            reference = store.get(pin).decode()
        except FileNotFoundError:
            store.create(pin, self._registry.resolve(name).reference.encode())
            # Another worker may have been quicker.
            reference = store.get(pin).decode()
        if reference not in self._loaded:
            version = self._registry.resolve(reference)
            return self._open(reference, self._registry.download(version, self._folder))
        return self._loaded[reference]

    def _open(self, version: str, folder: Path) -> LoadedModel:
        if version not in self._loaded:
            self._loaded[version] = self._open_model(folder, version)
        return self._loaded[version]


def open_classifier(folder: Path, version: str, api_key: str | None) -> LoadedClassifier:
    """The classifier of pages in a folder. `api_key` is that of servers with embedding models."""
    # Imported on demand: it takes numpy.
    try:
        from llm_ocr.classification.classifier import load_classifier
        from llm_ocr.classification.options import ClassifierError
    except ModuleNotFoundError as error:
        raise UnavailableModelError(
            f"classify needs the package {error.name}, which is not installed"
        ) from error
    try:
        return LoadedClassifier(load_classifier(folder, api_key=api_key), version)
    except ClassifierError as error:
        raise UnavailableModelError(str(error)) from error


def open_detector(folder: Path, version: str) -> "ObjectDetector":
    """The detector of stamps, signatures or barcodes in a folder."""
    # Imported on demand: it takes the extra cpu.
    try:
        from llm_ocr.auxiliary.detectors import DetectorError, load_detector
    except ModuleNotFoundError as error:
        raise UnavailableModelError(
            f"detectors need the package {error.name}, which is not installed: add the extra cpu"
        ) from error
    try:
        return load_detector(folder, version)
    except DetectorError as error:
        raise UnavailableModelError(str(error)) from error
