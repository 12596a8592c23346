"""A page image turned upright, once somebody has seen how it lies."""

import io
from dataclasses import replace

from PIL import Image

from llm_ocr.records import PageImage
from llm_ocr.sources.raster import encode, turned
from llm_ocr.stages.stage import Question


def sideways(question: Question) -> Question:
    """The question as if its image had been sent turned by a quarter."""
    return replace(question, width=question.height, height=question.width)


def turned_page(page: PageImage, degrees: int, quality: int) -> PageImage:
    """The page turned clockwise by 90, 180 or 270 degrees, encoded anew."""
    with Image.open(io.BytesIO(page.jpeg)) as stored:
        image = turned(stored.convert("RGB"), degrees)
    points = (page.width_pt, page.height_pt)
    width_pt, height_pt = points if degrees % 180 == 0 else points[::-1]
    return replace(
        page,
        jpeg=encode(image, quality),
        width=image.width,
        height=image.height,
        width_pt=width_pt,
        height_pt=height_pt,
        rotation=(page.rotation + degrees) % 360,
    )
