"""A classifier of drawn pages in production, and scans of such pages."""

from pathlib import Path

from llm_ocr.service.store_registry import StoreRegistry
from tests.classification.drawn_pages import draw_page, save_fitted
from tests.service.worker_processes import Service


def publish(service: Service, folder: Path, kinds: tuple[str, ...]) -> str:
    """Fit a classifier to kinds, by pictures, and put it into production."""
    save_fitted(folder, kinds, 20)
    registry = StoreRegistry(service.database, service.store)
    version = registry.publish("pages", folder, by="test")
    registry.promote("pages", version.version, "production", by="test", reason="test")
    return version.reference


def scan(path: Path, *kinds: str) -> Path:
    pages = [draw_page(kind, 70 + k) for k, kind in enumerate(kinds)]
    pages[0].save(path, save_all=True, append_images=pages[1:], resolution=80)
    return path
