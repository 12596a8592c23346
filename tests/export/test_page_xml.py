"""PAGE XML: valid by its schema, and with all words in reading order."""

from datetime import UTC, datetime
from typing import Any

from llm_ocr.export.layout import page_layout
from llm_ocr.export.page_xml import NAMESPACE, page_xml
from llm_ocr.records import PageResult
from tests.export.pages import HEBREW, model_page, page, read_page
from tests.export.xml_schemas import validated

NAMES = {"p": NAMESPACE}


def made(read: PageResult) -> Any:  # noqa: ANN401
    time = datetime(2026, 11, 24, 9, 5, tzinfo=UTC)
    xml = page_xml(page_layout(read), "a & b.jpg", time)
    return validated(xml.encode(), "page2019")


def test_regions_lines_and_words_in_reading_order() -> None:
    root = made(read_page())
    order = [one.get("regionRef") for one in root.iter(f"{{{NAMESPACE}}}RegionRefIndexed")]
    kinds = [root.xpath(f"//p:*[@id='{one}']", namespaces=NAMES)[0].tag for one in order]
    assert [kind.rpartition("}")[2] for kind in kinds] == [
        *("TextRegion", "TextRegion", "TableRegion", "ImageRegion"),
        *("TextRegion", "TextRegion", "TextRegion", "TextRegion"),
    ]
    path = "//p:Word/p:TextEquiv/p:Unicode/text()"
    said = root.xpath(path, namespaces=NAMES)
    assert said[:4] == ["The", "report", "First", "line"]
    assert set(HEBREW) < set(said)
    coords = root.xpath("//p:Word[1]/p:Coords/@points", namespaces=NAMES)
    assert coords[0] == "60,45 90,45 90,65 60,65"
    assert root.findtext(".//p:Created", namespaces=NAMES) == "2026-11-24T09:05:00Z"


def test_a_line_says_where_its_words_come_from() -> None:
    root = made(model_page())
    customs = {line.get("custom") for line in root.iter(f"{{{NAMESPACE}}}TextLine")}
    assert customs == {"words {source:estimated;}"}


def test_an_empty_page_is_valid() -> None:
    assert made(page()).find("p:Page", NAMES).get("imageWidth") == "800"
