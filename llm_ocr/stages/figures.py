"""Which blocks of a page are figures, and which captions are theirs."""

import io
from collections.abc import Sequence
from pathlib import PurePosixPath

from PIL import Image

from llm_ocr.records import CAPTION_LABELS, FIGURE_LABELS, Block, Box, Figure
from llm_ocr.sources.raster import FIGURE_QUALITY, Crop, encode, to_pixels
from llm_ocr.text.markdown import uncentered

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


def figures_of(
    doc_id: str, name: str, page_number: int, blocks: Sequence[Block], crops: Sequence[Crop]
) -> list[Figure]:
    """The page's figures; `crops` are the images of its figure blocks, in order."""
    stem, page_id = PurePosixPath(name).name, f"{doc_id}/{page_number}"
    found = [(blocks[k], box) for k in figure_blocks(blocks) if (box := blocks[k].box) is not None]
    return [
        Figure(
            figure_id=f"{page_id}/{k}",
            page_id=page_id,
            doc_id=doc_id,
            name=f"{stem}-p{page_number}-{k}.jpg",
            label=block.label,
            box=box,
            jpeg=crop.jpeg,
            width=crop.width,
            height=crop.height,
        )
        for k, ((block, box), crop) in enumerate(zip(found, crops, strict=True), 1)
    ]


def crops_of(jpeg: bytes, boxes: Sequence[Box]) -> list[Crop]:
    """Boxes cut from a page image itself: coarser than from the source, for where that can't be
    had any more."""
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
    return " ".join(uncentered(text).split())
