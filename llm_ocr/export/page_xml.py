"""PAGE XML of 2019: the text of one page with boxes (https://github.com/PRImA-Research-Lab)."""

from datetime import datetime

from llm_ocr import __version__
from llm_ocr.export.layout import LayoutBlock, LayoutLine, PageLayout
from llm_ocr.export.markup import corners, element, start_tag, text
from llm_ocr.records import CAPTION_LABELS, Box

NAMESPACE = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"
# The type of a text region by the label of its block; others are paragraphs.
_TYPES = {
    "title": "heading",
    "sub_title": "heading",
    "header": "header",
    "footer": "footer",
    "page_number": "page-number",
    "footnote": "footnote",
    **dict.fromkeys(CAPTION_LABELS, "caption"),
}
# Blocks whose text is in a region within theirs.
_NESTING = {"table": "TableRegion", "equation": "MathsRegion", "formula": "MathsRegion"}


def page_xml(page: PageLayout, image_name: str, created: datetime) -> str:
    """A page as a PAGE XML file; `image_name` is the file name of its image, `created` in UTC."""
    time = f"{created:%Y-%m-%dT%H:%M:%S}Z"
    metadata = element(
        "Metadata",
        {},
        [
            element("Creator", {}, [text(f"llm_ocr {__version__}")]),
            element("Created", {}, [time]),
            element("LastChange", {}, [time]),
        ],
    )
    attributes = {
        "imageFilename": image_name,
        "imageWidth": page.width,
        "imageHeight": page.height,
    }
    regions = [f"\n{_region(block, page, k)}" for k, block in enumerate(page.blocks, 1)]
    order = [_reading_order(len(regions))] if regions else []
    whole = element("Page", attributes, [*order, *regions, "\n"])
    root = {"xmlns": NAMESPACE, "pcGtsId": f"page-{page.number}"}
    start = f'<?xml version="1.0" encoding="UTF-8"?>\n{start_tag("PcGts", root)}'
    return f"{start}\n{metadata}\n{whole}\n</PcGts>\n"


def _reading_order(count: int) -> str:
    references = [
        element("RegionRefIndexed", {"index": k, "regionRef": f"region-{k + 1}"})
        for k in range(count)
    ]
    group = element("OrderedGroup", {"id": "reading-order"}, references)
    return element("ReadingOrder", {}, [group])


def _region(block: LayoutBlock, page: PageLayout, k: int) -> str:
    region_id = f"region-{k}"
    if block.is_figure:
        name = "ChartRegion" if block.label == "chart" else "ImageRegion"
        return element(name, {"id": region_id}, [_coords(block.box, page)])
    nesting = _NESTING.get(block.label)
    if nesting is None:
        return _text_region(block, page, region_id)
    inner = _text_region(block, page, f"{region_id}-text")
    return element(nesting, {"id": region_id}, [_coords(block.box, page), inner])


def _text_region(block: LayoutBlock, page: PageLayout, region_id: str) -> str:
    attributes = {
        "id": region_id,
        "type": _TYPES.get(block.label, "paragraph"),
        "custom": f"structure {{type:{block.label};}}",
    }
    lines = [
        f"\n{_line(line, page, f'{region_id}-line-{n}')}" for n, line in enumerate(block.lines, 1)
    ]
    whole = _equivalent("\n".join(line.text for line in block.lines), None)
    return element("TextRegion", attributes, [_coords(block.box, page), *lines, whole])


def _line(line: LayoutLine, page: PageLayout, line_id: str) -> str:
    words = [
        element(
            "Word",
            {"id": f"{line_id}-word-{n}"},
            [
                _coords(word.box, page),
                _equivalent(
                    word.text, line.confidence if word.confidence is None else word.confidence
                ),
            ],
        )
        for n, word in enumerate(line.words, 1)
    ]
    attributes = {"id": line_id, "custom": f"words {{source:{line.source};}}"}
    said = _equivalent(line.text, line.confidence)
    return element("TextLine", attributes, [_coords(line.box, page), *words, said])


def _equivalent(said: str, confidence: float | None) -> str:
    share = None if confidence is None else f"{min(1.0, max(0.0, confidence)):.3f}"
    return element("TextEquiv", {"conf": share}, [element("Unicode", {}, [text(said)])])


def _coords(box: Box, page: PageLayout) -> str:
    x1, y1, x2, y2 = corners(box, page.width, page.height)
    points = f"{x1},{y1} {x2},{y1} {x2},{y2} {x1},{y2}"
    return element("Coords", {"points": points})
