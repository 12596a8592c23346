"""The set as files."""

import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pages.documents import DOCUMENTS, joined
from benchmarks.pages.fonts import register
from benchmarks.pages.layouts import LAYOUTS
from benchmarks.pages.scan import scanned, turned
from benchmarks.pages.truth import TruePage, write_page

SEED, NUMBER = 7, 60
DIGITAL, SCANNED, TURNED, DARK = "digital", "scanned", "turned", "dark"
KINDS = (DIGITAL, SCANNED, TURNED, DARK)
DOCUMENT, DOCUMENT_SCAN = "document", "document-scan"
TURNS = (90, 180, 270)

Page = tuple[TruePage, bytes]


def make(folder: Path, seed: int = SEED, number: int = NUMBER) -> dict[str, int]:
    """Write the set below a folder; returns how many pages of each kind there are."""
    counts = dict.fromkeys(KINDS, 0)
    for kind, (page, pdf) in pages(seed, number):
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{page.name}.pdf").write_bytes(pdf)
        write_page(page, place)
        counts[kind] += 1
    return counts


def make_documents(folder: Path, seed: int, number: int) -> None:
    """Write so many documents of `DOCUMENTS`, each kind in turn, and the same as scans: NAME.pdf
    with NAME_pgN.json for each page."""
    register()
    kinds = list(DOCUMENTS)
    for k in range(number):
        kind = kinds[k % len(kinds)]
        name = f"{kind}-{k // len(kinds):02}"
        clean = DOCUMENTS[kind](name, random.Random(f"{seed}/{name}"))
        scans = [_scanned(page, pdf, page.name, seed) for page, pdf in clean]
        for place, drawn in ((folder / DOCUMENT, clean), (folder / DOCUMENT_SCAN, scans)):
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{name}.pdf").write_bytes(joined([pdf for _, pdf in drawn]))
            for page, _ in drawn:
                write_page(page, place)


def pages(seed: int = SEED, number: int = NUMBER) -> Iterator[tuple[str, Page]]:
    """So many pages, of each layout in turn, clean and scanned, each with its kind; with all the
    layouts, the turned and the dark ones too."""
    register()
    layouts = list(LAYOUTS)
    for k in range(number):
        layout = layouts[k % len(layouts)]
        name = f"{layout}-{k // len(layouts):02}"
        page, pdf = _drawn(layout, name, seed)
        yield DIGITAL, (page, pdf)
        yield SCANNED, _scanned(page, pdf, name, seed)
    if number >= len(layouts):
        yield from _turned(seed)
        yield from _dark(seed)


def _turned(seed: int) -> Iterator[tuple[str, Page]]:
    """With a text layer and without."""
    for degrees, layout in zip(TURNS, ("report", "paper", "statistics"), strict=True):
        name = f"turned-{degrees}"
        yield TURNED, turned(*_drawn(layout, name, seed), degrees)
        name = f"{name}-scan"
        scan = _scanned(*_drawn(layout, name, seed), name, seed)
        yield TURNED, turned(*scan, degrees)


def _dark(seed: int) -> Iterator[tuple[str, Page]]:
    """Light text on dark paper, with a text layer and without."""
    for layout in ("report", "paper", "textbook"):
        name = f"dark-{layout}"
        yield DARK, _drawn(layout, name, seed, dark=True)
        name = f"{name}-scan"
        yield DARK, _scanned(*_drawn(layout, name, seed, dark=True), name, seed)


def _drawn(layout: str, name: str, seed: int, dark: bool = False) -> Page:
    return LAYOUTS[layout](name, random.Random(f"{seed}/{name}"), dark=dark)


def _scanned(page: TruePage, pdf: bytes, name: str, seed: int) -> Page:
    return scanned(page, pdf, random.Random(f"{seed}/{name}/scan"))
