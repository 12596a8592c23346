"""ALTO 4: the text of pages with boxes, as XML (https://www.loc.gov/standards/alto/)."""

from collections.abc import Iterable, Iterator

from llm_ocr import __version__
from llm_ocr.export.layout import LayoutBlock, LayoutLine, PageLayout, WordSource
from llm_ocr.export.markup import corners, element, start_tag, text
from llm_ocr.records import Box, TextWord

NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
SCHEMA = "http://www.loc.gov/standards/alto/v4/alto-4-2.xsd"
_SOURCE_TAGS = {
    WordSource.TEXT_LAYER: ("words-of-text-layer", "word boxes from the PDF's text layer"),
    WordSource.ESTIMATED: ("words-estimated", "word boxes estimated from the line or block"),
}
# Blocks of these labels get a tag. Tags stand before the pages, so all are listed in each file.
_LABELS = (
    *("title", "sub_title", "text", "list", "table", "equation", "formula", "footnote"),
    *("header", "footer", "page_number", "figure_text"),
    *("image_caption", "figure_caption", "table_caption"),
)


def alto(source: str, pages: Iterable[PageLayout]) -> Iterator[str]:
    """A document as one ALTO file, in pieces; `source` is where it came from."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    root = {
        "xmlns": NAMESPACE,
        "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
        "xsi:schemaLocation": f"{NAMESPACE} {SCHEMA}",
        "SCHEMAVERSION": "4.2",
    }
    yield start_tag("alto", root) + "\n"
    yield _description(source) + "\n" + _tags() + "\n<Layout>\n"
    for page in pages:
        yield from _page(page)
    yield "</Layout>\n</alto>\n"


def _description(source: str) -> str:
    software = element(
        "processingSoftware",
        {},
        [
            element("softwareName", {}, ["llm_ocr"]),
            element("softwareVersion", {}, [text(__version__)]),
        ],
    )
    return element(
        "Description",
        {},
        [
            element("MeasurementUnit", {}, ["pixel"]),
            element("sourceImageInformation", {}, [element("fileName", {}, [text(source)])]),
            element("Processing", {"ID": "ocr"}, [software]),
        ],
    )


def _tags() -> str:
    layout = [element("LayoutTag", {"ID": _label_tag(one), "LABEL": one}) for one in _LABELS]
    others = [
        element("OtherTag", {"ID": key, "LABEL": label}) for key, label in _SOURCE_TAGS.values()
    ]
    return element("Tags", {}, [*layout, *others])


def _label_tag(label: str) -> str:
    return f"block-{label.replace('_', '-')}"


def _page(page: PageLayout) -> Iterator[str]:
    size = {"WIDTH": page.width, "HEIGHT": page.height}
    attributes = {"ID": f"page-{page.number}", "PHYSICAL_IMG_NR": page.number, **size}
    yield start_tag("Page", attributes)
    # Without a block the element is written as an empty one.
    blocks = (_block(block, page, k) for k, block in enumerate(page.blocks, 1))
    yield element("PrintSpace", {"HPOS": 0, "VPOS": 0, **size}, (f"\n{one}" for one in blocks))
    yield "</Page>\n"


def _block(block: LayoutBlock, page: PageLayout, k: int) -> str:
    number = f"{page.number}-{k}"
    place = _place(block.box, page)
    if block.is_figure:
        return element("Illustration", {"ID": f"figure-{number}", **place, "TYPE": block.label})
    attributes = {
        "ID": f"block-{number}",
        **place,
        "TAGREFS": _label_tag(block.label) if block.label in _LABELS else None,
    }
    lines = [_line(line, page, f"{number}-{n}") for n, line in enumerate(block.lines, 1)]
    return element("TextBlock", attributes, (f"\n{line}" for line in lines))


def _line(line: LayoutLine, page: PageLayout, number: str) -> str:
    parts: list[str] = []
    for n, word in enumerate(line.words, 1):
        if parts:
            parts.append("<SP/>")
        parts.append(_word(word, line, page, f"{number}-{n}"))
    tag = _SOURCE_TAGS.get(line.source)
    attributes = {"ID": f"line-{number}", **_place(line.box, page)}
    return element("TextLine", {**attributes, "TAGREFS": tag[0] if tag else None}, parts)


def _word(word: TextWord, line: LayoutLine, page: PageLayout, number: str) -> str:
    confidence = line.confidence if word.confidence is None else word.confidence
    attributes = {"ID": f"word-{number}", **_place(word.box, page)}
    return element(
        "String",
        {
            **attributes,
            "CONTENT": word.text,
            "WC": None if confidence is None else f"{min(1.0, max(0.0, confidence)):.3f}",
        },
    )


def _place(box: Box, page: PageLayout) -> dict[str, int]:
    x1, y1, x2, y2 = corners(box, page.width, page.height)
    return {"HPOS": x1, "VPOS": y1, "WIDTH": x2 - x1, "HEIGHT": y2 - y1}
