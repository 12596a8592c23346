"""Conversion of results to docling's formats."""

import json
from typing import Any

from docling_core.types.doc.document import DoclingDocument

from llm_ocr.export.docling_document import docling_document, docling_markdown, docling_text
from llm_ocr.export.document import ExportDocument
from llm_ocr.export.formats import DocumentFormat, ExportOptions, export_files
from llm_ocr.records import Box, Figure
from tests.export.pages import read_page
from tests.export.test_pdf import jpeg
from tests.service.result_content import content


def nowhere(file: str) -> None:
    return None


def test_markdown_without_anchors_and_with_figure_uris() -> None:
    placeholder = docling_markdown(content(), nowhere)
    assert placeholder.startswith("# The **report**\n")
    assert "page-2" not in placeholder
    assert "\n\n<!-- image -->\n\nThe end.\n" in placeholder
    elsewhere = docling_markdown(content(), lambda file: f"other/{len(file)}\\1.jpg")
    assert "![Figure 1: a river](other/25\\1.jpg)" in elsewhere


def test_text_without_markup_headers_and_footers() -> None:
    assert docling_text(content()).split("\n\n") == [
        "The report",
        "Prices",
        "Prices of this year.",
        "Item\tPrice\nnone",
        "a^2",
        "Figure 1: a river",
        "Roses are red",
        "The end.\n",
    ]


def test_a_docling_document_has_all_blocks_in_order() -> None:
    made = docling_document(content(), lambda file: "artifacts/1.jpg")
    json.dumps(made)
    assert (made["schema_name"], made["name"]) == ("DoclingDocument", "a report")
    assert made["pages"]["1"] == {"page_no": 1, "size": {"width": 100, "height": 100}}
    items = [_follow(made, child["$ref"]) for child in made["body"]["children"]]
    assert [item["label"] for item in items] == [
        *("page_header", "title", "section_header", "text", "table", "formula"),
        *("picture", "caption", "text", "text"),
    ]
    header, title, _, text, table, formula, picture, *_ = items
    assert header["content_layer"] == "furniture"
    assert (title["text"], title["orig"]) == ("The report", "# The **report**")
    assert title["prov"] == [
        {
            "page_no": 1,
            "bbox": {"l": 10, "t": 10, "r": 90, "b": 20, "coord_origin": "TOPLEFT"},
            "charspan": [0, 10],
        }
    ]
    assert text["prov"] == []
    assert formula["text"] == "a^2"
    cells = table["data"]["table_cells"]
    assert [(cell["text"], cell["column_header"], cell["col_span"]) for cell in cells] == [
        ("Item", True, 1),
        ("Price", True, 1),
        ("none", False, 2),
    ]
    assert (table["data"]["num_rows"], table["data"]["num_cols"]) == (2, 2)
    assert picture["image"]["uri"] == "artifacts/1.jpg"
    assert all(
        item["self_ref"] == child["$ref"]
        for item, child in zip(items, made["body"]["children"], strict=True)
    )


def _follow(made: dict[str, Any], reference: str) -> dict[str, Any]:
    _, kind, number = reference.split("/")
    found: dict[str, Any] = made[kind][int(number)]
    return found


def test_docling_loads_the_document() -> None:
    document = DoclingDocument.model_validate(docling_document(content(), nowhere))
    markdown = document.export_to_markdown()
    assert "# The report" in markdown
    assert "<!-- image -->" in markdown
    assert "Acme" not in markdown
    assert [table.export_to_dataframe(document).shape for table in document.tables] == [(1, 2)]


def test_an_exported_document_has_its_figures_inside() -> None:
    figure = Figure("d/1/1", "d/1", "d", "f.jpg", "image", Box(50, 300, 400, 500), jpeg(), 9, 9)
    document = ExportDocument("a", "/in/a.pdf", [read_page()], figures=[figure])
    (file,) = export_files(document, DocumentFormat.DOCLING, ExportOptions())
    loaded = DoclingDocument.model_validate_json(b"".join(file.content))
    (picture,) = loaded.pictures
    assert picture.image is not None
    assert picture.image.pil_image is not None
    assert picture.image.pil_image.size == (800, 1000)
    assert loaded.tables[0].export_to_dataframe(loaded).shape == (1, 2)
    assert loaded.texts[0].text == "The report"
    assert loaded.pages[1].size.width == 800
