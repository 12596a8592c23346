"""The models that pipelines name: a document stays on the version that it began with."""

from functools import partial
from pathlib import Path

import pytest

from llm_ocr.service.database import Database
from llm_ocr.service.pinned_models import PinnedModels, UnavailableModelError, open_classifier
from llm_ocr.service.store_registry import StoreRegistry
from llm_ocr.storage.store import open_store
from tests.classification.drawn_pages import save_fitted

OPEN = partial(open_classifier, api_key=None)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_promotion_concerns_the_documents_that_begin_after_it(
    database: Database, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path / "storage"))
    registry = StoreRegistry(database, store)
    one = registry.publish("pages", save_fitted(tmp_path / "one", ("form", "letter"), 4), by="a")
    two = registry.publish("pages", save_fitted(tmp_path / "two", ("form", "invoice"), 4), by="a")
    registry.promote("pages", one.version, "production", by="a", reason="first")
    workers = [PinnedModels(registry, tmp_path / f"worker{k}", OPEN) for k in range(2)]
    begun = workers[0].load("pages@production", store, "document1/pin")
    assert begun.version == one.reference
    registry.promote("pages", two.version, "production", by="a", reason="second")
    # Another worker resumes the document.
    resumed = workers[1].load("pages@production", store, "document1/pin")
    assert (resumed.version, resumed.classifier.classes) == (one.reference, ("form", "letter"))
    new = workers[1].load("pages@production", store, "document2/pin")
    assert (new.version, new.classifier.classes) == (two.reference, ("form", "invoice"))
    assert workers[1].load("pages@production", store, "document1/pin").classifier is (
        resumed.classifier
    )


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_folder_is_its_own_version_and_changes_with_its_files(
    database: Database, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path / "storage"))
    classifiers = PinnedModels(StoreRegistry(database, store), tmp_path / "worker", OPEN)
    folder = save_fitted(tmp_path / "index", ("form", "letter"), 4)
    before = classifiers.load(str(folder), store, "pin").version
    assert before.startswith(f"{folder}#")
    save_fitted(folder, ("form", "invoice"), 4)
    assert classifiers.load(str(folder), store, "pin").version != before
    for name, message in (
        ("pages@production", "there is no model pages"),
        (str(tmp_path / "storage"), "is no reference|is not a classifier"),
    ):
        with pytest.raises(UnavailableModelError, match=message):
            classifiers.load(name, store, "other-pin")
