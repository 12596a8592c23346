"""Rows as pictures and Markdown that a notebook shows."""

import base64
import io
from collections.abc import Iterable

from PIL import Image, ImageDraw

from llm_ocr.tables.schema import Row

COLORS = {"table": "seagreen", "image": "darkorange", "image_caption": "goldenrod"}
OTHERS = "steelblue"


def page_with_boxes(page: Row, longest_side: int = 1000) -> Image.Image:
    """The image in a row of `pages`, its blocks marked with their labels."""
    picture = Image.open(io.BytesIO(page["image"]["bytes"])).convert("RGB")
    draw = ImageDraw.Draw(picture)
    for block in page["blocks"]:
        if block["x1"] is not None:
            color = COLORS.get(block["label"], OTHERS)
            box = (block["x1"], block["y1"], block["x2"], block["y2"])
            draw.rectangle(box, outline=color, width=4)
            draw.text((block["x1"], block["y1"] - 24), block["label"], fill=color, font_size=22)
    picture.thumbnail((longest_side, longest_side))
    return picture


def with_figures(markdown: str, figures: Iterable[Row]) -> str:
    """A document's Markdown, its figures' bytes in place of their names."""
    for figure in figures:
        data = base64.b64encode(figure["image"]["bytes"]).decode()
        name = f"](figures/{figure['name']})"
        markdown = markdown.replace(name, f"](data:image/jpeg;base64,{data})")
    return markdown
