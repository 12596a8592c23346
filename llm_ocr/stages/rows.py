"""What was read, as rows."""

from llm_ocr.records import Block, Figure
from llm_ocr.tables.schema import Row


def block_row(block: Block) -> Row:
    """An element of the column `blocks`."""
    box = block.box
    corners = {"x1": None, "y1": None, "x2": None, "y2": None} if box is None else vars(box)
    return {"label": block.label, "text": block.text, **corners}


def figure_row(figure: Figure, caption: str | None) -> Row:
    """A row of `figures`."""
    return {
        "figure_id": figure.figure_id,
        "page_id": figure.page_id,
        "doc_id": figure.doc_id,
        "name": figure.name,
        "label": figure.label,
        "caption": caption,
        **vars(figure.box),
        "image": {"bytes": figure.jpeg, "path": figure.name},
        "width": figure.width,
        "height": figure.height,
    }
