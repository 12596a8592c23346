"""Conversion of a result to docling's formats: Markdown, text and DoclingDocument JSON."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from llm_ocr.records import CAPTION_LABELS, FIGURE_LABELS, FURNITURE_LABELS, NOTE_LABEL
from llm_ocr.text.markdown import figure_address, strip_emphasis
from llm_ocr.text.table_markup import TableCell, TableGrid, read_tables

SCHEMA_VERSION = "1.10.0"
IMAGE_PLACEHOLDER = "<!-- image -->"
# Docling's labels by ours; other blocks are `text`.
_LABELS: Mapping[str, str] = {
    "title": "title",
    "sub_title": "section_header",
    "equation": "formula",
    "formula": "formula",
    "header": "page_header",
    "page_number": "page_footer",
    "footer": "page_footer",
    NOTE_LABEL: "footnote",
    **dict.fromkeys(CAPTION_LABELS, "caption"),
}
_ANCHOR = re.compile(r'^<a id="page-\d+"></a>\n+', re.MULTILINE)
_HASHES = re.compile(r"^#{1,6}\s+")
_DOLLARS = re.compile(r"^\s*\$\$(.*)\$\$\s*$", re.DOTALL)
# Returns the URI of a figure in the output, given its file; None leaves it out.
Address = Callable[[str], str | None]


def docling_markdown(content: Mapping[str, Any], address: Address) -> str:
    """The Markdown of a result (`document.json`), without page anchors, and with the URIs of
    figures that `address` returns."""
    markdown = _ANCHOR.sub("", content["markdown"])
    for figure in content["figures"]:
        old = re.escape(f"({figure_address(figure['file'].rpartition('/')[2])})")
        new = address(figure["file"])
        if new is None:
            markdown = re.sub(rf"!\[[^\]\n]*\]{old}", IMAGE_PLACEHOLDER, markdown)
        else:
            markdown = re.sub(old, f"({new})".replace("\\", r"\\"), markdown)
    return markdown


def docling_text(content: Mapping[str, Any]) -> str:
    """The plain text of a result: one paragraph per block, table cells separated by tabs, without
    page headers and footers."""
    paragraphs = []
    for page in content["pages"]:
        for block in page["blocks"]:
            if block["label"] in FURNITURE_LABELS | FIGURE_LABELS:
                continue
            grid = _table(block)
            paragraphs.append(_plain(block) if grid is None else _tabs(grid))
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def docling_document(content: Mapping[str, Any], address: Address) -> dict[str, Any]:
    """A result as a JSON-serializable DoclingDocument: texts, tables and pictures in reading order,
    with boxes in pixels of the page image."""
    items: dict[str, list[dict[str, Any]]] = {"texts": [], "tables": [], "pictures": []}
    children: list[dict[str, str]] = []
    figures = {(figure["page"], _key(figure["box"])): figure for figure in content["figures"]}
    for page in content["pages"]:
        for block in page["blocks"]:
            kind, item = _item(page, block, figures, address)
            layer = "furniture" if block["label"] in FURNITURE_LABELS else "body"
            reference = f"#/{kind}/{len(items[kind])}"
            items[kind].append(
                {
                    "self_ref": reference,
                    # Page headers and footers are also children of the body, in another layer.
                    "parent": {"$ref": "#/body"},
                    "children": [],
                    "content_layer": layer,
                    **item,
                }
            )
            children.append({"$ref": reference})
    pages = {
        str(page["number"]): {
            "page_no": page["number"],
            "size": {"width": page["width"], "height": page["height"]},
        }
        for page in content["pages"]
        if page["width"] and page["height"]
    }
    roots = {
        name: {
            "self_ref": f"#/{name}",
            "children": children if name == "body" else [],
            "content_layer": name,
            "name": "_root_",
            "label": "unspecified",
        }
        for name in ("body", "furniture")
    }
    return {
        "schema_name": "DoclingDocument",
        "version": SCHEMA_VERSION,
        "name": content["name"],
        **roots,
        **items,
        **{name: [] for name in ("groups", "key_value_items", "form_items")},
        "pages": pages,
    }


def _item(
    page: Mapping[str, Any],
    block: Mapping[str, Any],
    figures: Mapping[Any, Mapping[str, Any]],
    address: Address,
) -> tuple[str, dict[str, Any]]:
    """The list of the DoclingDocument that a block belongs to, and its item."""
    text = _plain(block)
    provenance = []
    if block["box"] is not None:
        left, top, right, bottom = block["box"]
        box = {"l": left, "t": top, "r": right, "b": bottom, "coord_origin": "TOPLEFT"}
        span = [0, len(text)]
        provenance = [{"page_no": page["number"], "bbox": box, "charspan": span}]
    floating: dict[str, Any] = {"captions": [], "references": [], "footnotes": []}
    if block["label"] in FIGURE_LABELS:
        item: dict[str, Any] = {"label": "picture", "prov": provenance, **floating}
        figure = figures.get((page["number"], _key(block["box"])))
        uri = None if figure is None else address(figure["file"])
        if figure is not None and uri is not None:
            size = {"width": figure["width"], "height": figure["height"]}
            item["image"] = {"mimetype": "image/jpeg", "dpi": 72, "size": size, "uri": uri}
        return "pictures", item
    grid = _table(block)
    if grid is not None:
        return "tables", {
            "label": "table",
            "prov": provenance,
            **floating,
            "data": {
                "num_rows": grid.row_count,
                "num_cols": grid.column_count,
                "table_cells": [_cell(cell) for cell in grid.cells],
            },
        }
    label = _LABELS.get(block["label"], "text")
    item = {"label": label, "prov": provenance, "orig": block["text"], "text": text}
    if label == "section_header":
        # Docling counts from the level below the title.
        hashes = _HASHES.match(block["text"])
        item["level"] = max(1, len(hashes[0].strip()) - 1) if hashes else 1
    return "texts", item


def _cell(cell: TableCell) -> dict[str, Any]:
    return {
        "text": cell.text,
        "row_span": cell.rows,
        "col_span": cell.columns,
        "start_row_offset_idx": cell.row,
        "end_row_offset_idx": cell.row + cell.rows,
        "start_col_offset_idx": cell.column,
        "end_col_offset_idx": cell.column + cell.columns,
        "column_header": cell.is_header,
    }


def _table(block: Mapping[str, Any]) -> TableGrid | None:
    """The table of a block; None if it isn't a table that can be parsed."""
    found = read_tables(block["text"]) if block["label"] == "table" else []
    return found[0] if found else None


def _tabs(grid: TableGrid) -> str:
    return "\n".join("\t".join(cell.text for cell in row) for row in grid.by_rows())


def _plain(block: Mapping[str, Any]) -> str:
    """A block's text without the markup of headings, emphasis and formulas."""
    text: str = _HASHES.sub("", block["text"].strip())
    if formula := _DOLLARS.match(text):
        return formula[1].strip()
    return "\n".join(strip_emphasis(line) for line in text.split("\n"))


def _key(box: list[float] | None) -> tuple[float, ...] | None:
    return None if box is None else tuple(round(value, 1) for value in box)
