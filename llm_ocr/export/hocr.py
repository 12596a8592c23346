"""hOCR: the text of pages with boxes, as HTML (http://kba.github.io/hocr-spec/1.2/)."""

from collections.abc import Iterable, Iterator

from llm_ocr import __version__
from llm_ocr.export.estimation import runs_right_to_left
from llm_ocr.export.layout import LayoutBlock, LayoutLine, PageLayout, WordSource
from llm_ocr.export.markup import corners, element, start_tag, text
from llm_ocr.records import CAPTION_LABELS, Box, TextWord

_CLASSES = {
    "header": "ocr_header",
    "footer": "ocr_footer",
    "page_number": "ocr_pageno",
    "table": "ocr_table",
    **dict.fromkeys(CAPTION_LABELS, "ocr_caption"),
}
_CAPABILITIES = (
    *("ocr_page", "ocr_carea", "ocr_par", "ocr_line", "ocrx_word"),
    *("ocr_header", "ocr_footer", "ocr_pageno", "ocr_table", "ocr_caption", "ocr_photo"),
    *("ocrp_dir", "ocrp_wconf"),
)
DOCTYPE = (
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" '
    '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">'
)


def hocr(name: str, source: str, pages: Iterable[PageLayout]) -> Iterator[str]:
    """A document as one hOCR file, in pieces; `source` is where it came from."""
    meta = {"ocr-system": f"llm_ocr {__version__}", "ocr-capabilities": " ".join(_CAPABILITIES)}
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n{DOCTYPE}\n'
    yield '<html xmlns="http://www.w3.org/1999/xhtml">\n<head>\n'
    yield f"<title>{text(name)}</title>\n"
    yield '<meta http-equiv="Content-Type" content="text/html; charset=utf-8"/>\n'
    for key, content in meta.items():
        yield element("meta", {"name": key, "content": content}) + "\n"
    yield "</head>\n<body>\n"
    for page in pages:
        yield from _page(page, source)
    yield "</body>\n</html>\n"


def _page(page: PageLayout, source: str) -> Iterator[str]:
    # A quotation mark would end the name.
    image = source.replace('"', "%22").replace(";", "%3B")
    properties = [f'image "{image}"', f"bbox 0 0 {page.width} {page.height}"]
    properties.append(f"ppageno {page.number - 1}")
    if page.dpi:
        properties.append(f"scan_res {round(page.dpi)} {round(page.dpi)}")
    attributes = {"class": "ocr_page", "id": f"page_{page.number}", "title": "; ".join(properties)}
    yield start_tag("div", attributes) + "\n"
    for number, block in enumerate(page.blocks, 1):
        yield _block(block, page, f"{page.number}_{number}") + "\n"
    yield "</div>\n"


def _block(block: LayoutBlock, page: PageLayout, number: str) -> str:
    title = _bbox(block.box, page)
    if block.is_figure:
        attributes = {"class": "ocr_photo", "id": f"block_{number}", "title": title}
        # An empty <div/> would not be closed for a reader of HTML.
        return f"{start_tag('div', attributes)}</div>"
    lines = [_line(line, page, f"{number}_{k}") for k, line in enumerate(block.lines, 1)]
    paragraph = {"class": "ocr_par", "id": f"par_{number}", "title": title}
    kind = _CLASSES.get(block.label, "ocr_carea")
    attributes = {"class": kind, "id": f"block_{number}", "title": title}
    return element(
        "div",
        {**attributes, "data-label": block.label},
        [element("p", paragraph, ["\n", "\n".join(lines), "\n"])],
    )


def _line(line: LayoutLine, page: PageLayout, number: str) -> str:
    words = [_word(word, line, page, f"{number}_{k}") for k, word in enumerate(line.words, 1)]
    attributes = {
        "class": "ocr_line",
        "id": f"line_{number}",
        "title": _bbox(line.box, page),
        "dir": "rtl" if runs_right_to_left(line.text) else None,
        "data-words": line.source if line.source is not WordSource.ENGINE else None,
    }
    return element("span", attributes, [" ".join(words)])


def _word(word: TextWord, line: LayoutLine, page: PageLayout, number: str) -> str:
    title = _bbox(word.box, page)
    confidence = line.confidence if word.confidence is None else word.confidence
    if confidence is not None:
        title += f"; x_wconf {round(100 * confidence)}"
    attributes = {"class": "ocrx_word", "id": f"word_{number}", "title": title}
    return element("span", attributes, [text(word.text)])


def _bbox(box: Box, page: PageLayout) -> str:
    return "bbox " + " ".join(map(str, corners(box, page.width, page.height)))
