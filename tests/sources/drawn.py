"""Pages drawn in a pool of one worker, for tests that look at what was drawn."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy
from PIL import Image

from llm_ocr.documents import Document
from llm_ocr.records import Box, ImagePolicy, Page, PageImage
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import Crop, RenderLimits, RenderPool
from tests.documents import decoded

SMALL = ImagePolicy(longest_side=640)


def document(path: Path) -> Document:
    (found,) = list_documents([str(path)])
    return found


def page(path: Path, number: int = 1) -> Page:
    return Page(document(path), number)


def count(path: Path, **options: str) -> int:
    async def counted() -> int:
        async with RenderPool(1, password=options.get("password")) as pool:
            return await pool.count_pages(document(path))

    return asyncio.run(counted())


def drawn(
    given: Path | Page,
    policy: ImagePolicy = SMALL,
    *,
    password: str | None = None,
    limits: RenderLimits | None = None,
) -> PageImage:
    """A page (a file's first one), checked to be what it says it is."""

    async def rendered() -> PageImage:
        async with RenderPool(1, password=password, limits=limits) as pool:
            wanted = page(given) if isinstance(given, Path) else given
            return await pool.render(wanted, policy)

    image = asyncio.run(rendered())
    assert decoded(image.jpeg).size == (image.width, image.height)
    assert max(image.width, image.height) <= policy.longest_side
    assert 0 <= image.ink <= 1
    return image


def cut(
    path: Path, boxes: Sequence[Box], *, policy: ImagePolicy = SMALL, max_figure_side: int = 4096
) -> list[Crop]:
    """Parts of a file's first page, given in pixels of the page as `policy` draws it."""

    async def cropped() -> list[Crop]:
        limits = RenderLimits(max_figure_side=max_figure_side)
        async with RenderPool(1, limits=limits) as pool:
            image = await pool.render(page(path), policy)
            return await pool.crop(page(path), image.width, image.height, boxes)

    crops = asyncio.run(cropped())
    assert all(decoded(one.jpeg).size == (one.width, one.height) for one in crops)
    return crops


def color(picture: PageImage | Crop, x: float, y: float) -> str:
    """The name of the color at a place given as shares of width and height."""
    image: Image.Image = decoded(picture.jpeg).convert("RGB")
    place = (int(x * image.width), int(y * image.height))
    pixel = numpy.array(image.getpixel(place))
    named = {
        "white": (255, 255, 255),
        "black": (0, 0, 0),
        "gray": (128, 128, 128),
        "red": (255, 0, 0),
        "green": (0, 255, 0),
        "blue": (0, 0, 255),
        "yellow": (255, 255, 0),
    }
    return min(named, key=lambda one: float(numpy.abs(pixel - numpy.array(named[one])).sum()))
