"""The set as files."""

import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pages.fonts import register
from benchmarks.pages.layouts import LAYOUTS
from benchmarks.pages.scan import scanned, turned
from benchmarks.pages.truth import TruePage, write_page

SEED, EACH = 7, 10
DIGITAL, SCANNED, TURNED, DARK = "digital", "scanned", "turned", "dark"
KINDS = (DIGITAL, SCANNED, TURNED, DARK)
TURNS = (90, 180, 270)

Page = tuple[TruePage, bytes]


def make(folder: Path, seed: int = SEED, each: int = EACH) -> dict[str, int]:
    """Write the set below a folder; returns how many pages of each kind there are."""
    counts = dict.fromkeys(KINDS, 0)
    for kind, (page, pdf) in pages(seed, each):
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{page.name}.pdf").write_bytes(pdf)
        write_page(page, place)
        counts[kind] += 1
    return counts


def pages(seed: int = SEED, each: int = EACH) -> Iterator[tuple[str, Page]]:
    """Each page with its kind."""
    register()
    for layout, draw in LAYOUTS.items():
        for k in range(each):
            name = f"{layout}-{k:02}"
            page, pdf = draw(name, random.Random(f"{seed}/{name}"))
            yield DIGITAL, (page, pdf)
            yield SCANNED, scanned(page, pdf, random.Random(f"{seed}/{name}/scan"))
    yield from _few(seed, each)


def _few(seed: int, each: int) -> Iterator[tuple[str, Page]]:
    """Turned pages, with a text layer and without, and light ones on dark paper."""
    for degrees, layout in zip(TURNS, ("report", "paper", "statistics"), strict=True):
        name = f"turned-{degrees}"
        page, pdf = LAYOUTS[layout](name, random.Random(f"{seed}/{name}"))
        yield TURNED, turned(page, pdf, degrees)
        name = f"{name}-scan"
        page, pdf = LAYOUTS[layout](name, random.Random(f"{seed}/{name}"))
        yield TURNED, turned(*scanned(page, pdf, random.Random(f"{seed}/{name}/scan")), degrees)
    for layout in ("report", "paper", "textbook"):
        name = f"dark-{layout}"
        page, pdf = LAYOUTS[layout](name, random.Random(f"{seed}/{name}"), dark=True)
        yield DARK, (page, pdf)
        name = f"{name}-scan"
        page, pdf = LAYOUTS[layout](name, random.Random(f"{seed}/{name}"), dark=True)
        yield DARK, scanned(page, pdf, random.Random(f"{seed}/{name}/scan"))
