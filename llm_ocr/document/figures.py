"""Which blocks of a page are figures, their images, and which captions are theirs."""

import asyncio
import io
from collections.abc import Sequence
from pathlib import PurePosixPath

from PIL import Image

from llm_ocr.records import CAPTION_LABELS, FIGURE_LABELS, Block, Box, Figure, Page, PageError
from llm_ocr.sources.raster import FIGURE_QUALITY, Crop, encode, to_pixels
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.text.markdown import strip_center_tags, strip_emphasis

# Smaller boxes are specks: a crop of them shows nothing.
MIN_SIDE = 8.0


def figure_blocks(blocks: Sequence[Block]) -> list[int]:
    """The places of the blocks that are cut out as figures, in reading order."""
    return [
        k
        for k, block in enumerate(blocks)
        if block.label in FIGURE_LABELS
        and block.box is not None
        and block.box.x2 - block.box.x1 >= MIN_SIDE
        and block.box.y2 - block.box.y1 >= MIN_SIDE
    ]


def figure_boxes(blocks: Sequence[Block]) -> list[Box]:
    """The boxes of the blocks that are cut out as figures, in reading order."""
    return [box for k in figure_blocks(blocks) if (box := blocks[k].box) is not None]


def figures_of(
    doc_id: str, name: str, page_number: int, blocks: Sequence[Block], crops: Sequence[Crop]
) -> list[Figure]:
    """The page's figures; `crops` are the images of its figure blocks, in order."""
    page_id, captions = f"{doc_id}/{page_number}", captions_of(blocks)
    found = [(k, box) for k in figure_blocks(blocks) if (box := blocks[k].box) is not None]
    return [
        Figure(
            figure_id=f"{page_id}/{number}",
            page_id=page_id,
            doc_id=doc_id,
            name=figure_name(name, page_number, number),
            label=blocks[k].label,
            box=box,
            jpeg=crop.jpeg,
            width=crop.width,
            height=crop.height,
            caption=strip_emphasis(caption_text(blocks[captions[k]].text))
            if k in captions
            else None,
        )
        for number, ((k, box), crop) in enumerate(zip(found, crops, strict=True), 1)
    ]


def figure_name(document_name: str, page_number: int, number: int) -> str:
    """The file name of a page's figure; `number` counts from 1."""
    return f"{PurePosixPath(document_name).name}-p{page_number}-{number}.jpg"


async def cut_boxes(
    pool: RenderPool,
    page: Page,
    boxes: Sequence[Box],
    size: tuple[int, int],
    rotation: int,
    jpeg: bytes,
    dpi: int = 200,
) -> tuple[list[Crop], list[str]]:
    """Boxes cut from the page's source at `dpi`; or, if that can't be had any more, from the page
    image `jpeg` of this `size` and `rotation`, which a note says."""
    try:
        return await pool.crop(page, *size, boxes, dpi, rotation), []
    except PageError as error:
        # Coarser than from the source, and better than none.
        crops = await asyncio.to_thread(_cut_image, jpeg, boxes)
        return crops, [f"cut from the page image: {error.message}"]


def _cut_image(jpeg: bytes, boxes: Sequence[Box]) -> list[Crop]:
    with Image.open(io.BytesIO(jpeg)) as stored:
        page = stored.convert("RGB")
    parts = [page.crop(to_pixels(box, page.size, page.size)) for box in boxes]
    return [Crop(encode(part, FIGURE_QUALITY), part.width, part.height) for part in parts]


def captions_of(blocks: Sequence[Block]) -> dict[int, int]:
    """Figure's place -> its caption's place.

    A caption belongs to the figure before it in reading order, or else to the one behind it.
    """
    figures = set(figure_blocks(blocks))
    captions = [
        k
        for k, block in enumerate(blocks)
        if block.label in CAPTION_LABELS and block.label != "table_caption"
    ]
    owners: dict[int, int] = {}
    for step in (-1, 1):
        for caption in captions:
            figure = caption + step
            if figure in figures and figure not in owners and caption not in owners.values():
                owners[figure] = caption
    return owners


def caption_text(text: str) -> str:
    """A caption without the tags that some models center it with, on one line."""
    return " ".join(strip_center_tags(text).split())
