"""Build table rows from what was read."""

from collections.abc import Sequence

from llm_ocr.parsing.schema import Evidence
from llm_ocr.records import Block, Box, Figure, Page, PageImage, PageLine
from llm_ocr.stages.engine_extension import EngineMetadata
from llm_ocr.stages.figures import caption_text, captions_of, figure_blocks
from llm_ocr.stages.markdown import page_markdown
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import without_emphasis


def page_columns(page: Page, content_hash: str | None) -> Row:
    """What a row of `pages` says of where the page is from; the hash is of its document's bytes."""
    document = page.document
    return {
        "page_id": page.page_id,
        "doc_id": document.doc_id,
        "source_uri": document.source_uri,
        "name": document.name,
        "content_hash": content_hash,
        "metadata": document.metadata,
        "page_number": page.number,
    }


def image_columns(page: Page, image: PageImage) -> Row:
    """The page's image, and what is known of it."""
    return {
        "image": {"bytes": image.jpeg, "path": f"{page.page_id.replace('/', '-')}.jpg"},
        "width": image.width,
        "height": image.height,
        "width_pt": image.width_pt,
        "height_pt": image.height_pt,
        "rotation": image.rotation,
    }


def page_rows(
    page: Row, blocks: Sequence[Block], figures: Sequence[Figure], notes: Sequence[str]
) -> dict[str, Sequence[Row]]:
    """The rows of `pages` and `figures` of a page with these blocks."""
    captions = captions_of(blocks)
    found = [
        without_emphasis(caption_text(blocks[captions[k]].text)) if k in captions else None
        for k in figure_blocks(blocks)
    ]
    content = {
        "markdown": page_markdown(blocks, [figure.name for figure in figures]),
        "blocks": [block_row(block) for block in blocks],
        "notes": list(notes),
    }
    pairs = zip(figures, found, strict=bool(figures))
    rows = [figure_row(figure, caption) for figure, caption in pairs]
    return {"pages": [{**page, **content}], "figures": rows}


def block_row(block: Block) -> Row:
    """An element of the column `blocks`."""
    box = block.box
    corners = {"x1": None, "y1": None, "x2": None, "y2": None} if box is None else vars(box)
    return {"label": block.label, "text": block.text, **corners, "confidence": block.confidence}


def metadata_columns(beside: EngineMetadata | None, image: PageImage | None) -> Row:
    """What the engine's lines say, how sure it is of them, the page's own text and how far that
    can be trusted."""
    layer = image.text_layer if image else None
    held = beside.layer_agreement if beside else None
    return {
        "lines": None if beside is None else [_line_row(line) for line in beside.lines],
        "confidence": beside.confidence if beside else None,
        "text_layer": None if layer is None else min(layer.trust, 1.0 if held is None else held),
        "layer_text": layer.text if layer else None,
    }


def _line_row(line: PageLine) -> Row:
    plain = {"text": line.text, "confidence": line.confidence, "doubtful": line.doubtful}
    return {**plain, **vars(line.box)}


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


def block_of(row: Row) -> Block:
    """The block that an element of the column `blocks` is."""
    corners = row["x1"], row["y1"], row["x2"], row["y2"]
    box = None if None in corners else Box(*corners)
    return Block(row["label"], row["text"], box, row.get("confidence"))


def evidence_row(one: Evidence) -> dict[str, object]:
    """The location of a record's value, as a row."""
    box = vars(one.box) if one.box else dict.fromkeys(("x1", "y1", "x2", "y2"))
    plain = {key: value for key, value in vars(one).items() if key != "box"}
    return {**plain, "matched": one.matched.value if one.matched else None, **box}
