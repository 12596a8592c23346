"""A run as one HTML file: page images with their boxes beside the text, to look at offline.

The text of documents is untrusted: it is cleaned with nh3, data sits in script tags with every `<`
escaped, and a content security policy lets nothing run but the viewer's own script and nothing be
fetched.
"""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from PIL import Image

from llm_ocr.markdown import FORMULA, hidden, shown, uncentered
from llm_ocr.records import CAPTION_LABELS, FIGURE_LABELS
from llm_ocr.report.descriptions import description_markdown, why_empty
from llm_ocr.report.doubts import doubt_in, shown_status
from llm_ocr.report.viewer_records import shown_record
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.tables.schema import Row

PAGE_SIDE = 1000
FIGURE_SIDE = 640
JPEG_QUALITY = 70

_SUMMARY_KEYS = (
    "out", "model", "documents", "pages_by_status", "doubts", "figures", "pages_per_second",
    "records",
)  # fmt: skip
_PAGE_KEYS = (
    "name", "page_number", "source_uri", "status", "error_code", "error", "notes", "markdown",
    "model", "attempts", "seconds", "completion_tokens", "finish_reason",
)  # fmt: skip

RowsOf = Callable[[str], Iterable[Row]]

# No `img`: a document's own would be fetched. Figures are put in place from their table.
_TAGS = {
    "a", "b", "blockquote", "br", "caption", "center", "code", "col", "colgroup", "dd", "del",
    "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd",
    "li", "ol", "p", "pre", "q", "s", "small", "span", "strong", "sub", "sup", "table",
    "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
_SPANS = {"colspan", "rowspan"}
_ATTRIBUTES = {"a": {"href"}, "td": _SPANS, "th": _SPANS, "ol": {"start"}}


def _none(_: str) -> Iterable[Row]:
    return ()


def write_viewer(
    pages: Iterable[Row],
    figures_of: RowsOf,
    descriptions_of: RowsOf,
    summary: Mapping[str, object],
    out: Path | BinaryIO,
    *,
    records_of: RowsOf = _none,
    max_pages: int = 300,
) -> int:
    """Writes the first `max_pages` of `pages` and returns how many that were.

    `figures_of` and `descriptions_of` give the rows of a `page_id`, `records_of` those of a
    `doc_id`; pages are read, written and forgotten one by one. Of `summary` (see
    `Summary.as_dict`) it shows what is there of `out`, `model`, `documents`, `pages`,
    `pages_by_status`, `figures`, `records` and `pages_per_second`; `pages` is the number of pages
    of the whole run. A file at `out` appears only when it is complete.
    """
    with atomic_write(out) if isinstance(out, Path) else nullcontext(out) as target:
        template = files("llm_ocr.report")
        parts = ("viewer_record.js", "viewer_page.js", "viewer.js")
        script = "".join(template.joinpath(part).read_text("utf-8") for part in parts)
        style = template.joinpath("viewer.css").read_text("utf-8")
        head, tail = template.joinpath("viewer.html").read_text("utf-8").split("<!--pages-->")
        policy = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        _put(target, head.replace("/*style*/", style).replace("SCRIPT_HASH", policy))
        index = []
        records = _Records(target, records_of)
        for k, page in enumerate(itertools.islice(pages, max_pages)):
            shown = records.of(page)
            _write_page(target, k, page, list(figures_of(page["page_id"])), descriptions_of, shown)
            named = {key: page[key] for key in ("doc_id", "name", "page_number")}
            index.append({**named, "status": shown_status(page)})
        told = {key: summary[key] for key in _SUMMARY_KEYS if key in summary}
        run = {"summary": told, "total": summary.get("pages", len(index)), "pages": index}
        _put(target, _data("run", run) + tail.replace("/*script*/", script))
    return len(index)


class _Records:
    """Records as `r12`, each written once, before the first page that it is shown at."""

    def __init__(self, target: BinaryIO, records_of: RowsOf) -> None:
        self._target, self._records_of = target, records_of
        self._document: str | None = None
        self._places: dict[str, int] = {}
        self._written = 0

    def of(self, page: Row) -> list[int]:
        """The numbers of the records of a page, and of its document."""
        if page["doc_id"] != self._document:
            self._document, self._places = page["doc_id"], {}
            for row in self._records_of(page["doc_id"]):
                _put(self._target, _data(f"r{self._written}", shown_record(row)))
                self._places[row["record_id"]] = self._written
                self._written += 1
        ids = (page["doc_id"], page["page_id"])
        return [self._places[one] for one in ids if one in self._places]


def _put(target: BinaryIO, text: str) -> None:
    target.write(text.encode("utf-8", "replace"))


def _data(element_id: str, value: object) -> str:
    """A script tag that only carries data. Without `<`, no text can end it or open another."""
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{element_id}">{text}</script>\n'


def _write_page(
    target: BinaryIO,
    k: int,
    page: Row,
    figures: Sequence[Row],
    descriptions_of: RowsOf,
    records: Sequence[int],
) -> None:
    """Text as `p12` and pictures as `i12`: a search reads all texts and decodes no picture."""
    descriptions = list(descriptions_of(page["page_id"])) if figures else []
    record = {key: page.get(key) for key in _PAGE_KEYS}
    record |= {"status": shown_status(page), "doubt": doubt_in(page)}
    record["missing"] = list(page.get("missing") or ())
    record["blocks"] = _shown_blocks(page, figures)
    if records:
        size = (page.get("width"), page.get("height"))
        record |= {"records": records, "size": size if all(size) else None}
    record["figures"] = [_shown_figure(page, figure, descriptions) for figure in figures]
    pictures = {
        "page": _picture(page.get("image"), PAGE_SIDE),
        "figures": [_picture(figure.get("image"), FIGURE_SIDE) for figure in figures],
    }
    _put(target, _data(f"p{k}", record) + _data(f"i{k}", pictures))


def _shown_blocks(page: Row, figures: Sequence[Row]) -> list[dict[str, object]]:
    """Blocks in reading order; `figure` is a place in `figures`. One block if the page has none."""
    blocks = list(page.get("blocks") or ())
    if not blocks and page.get("markdown"):
        blocks = [{"label": "text", "text": page["markdown"]}]
    left = dict(enumerate(figures))
    shown: list[dict[str, object]] = []
    for block in blocks:
        entry: dict[str, object] = {
            "label": block["label"],
            "box": _percent(_box(block), page),
            "html": safe_html(_block_markdown(block)),
        }
        if block["label"] in FIGURE_LABELS:
            place = next((j for j, figure in left.items() if _box(figure) == _box(block)), None)
            if place is not None:
                entry["figure"] = place
                del left[place]
        shown.append(entry)
    # A figure whose block is not there (a page without blocks) comes at the end, not never.
    for j, figure in left.items():
        label, box = figure["label"], _percent(_box(figure), page)
        shown.append({"label": label, "box": box, "html": "", "figure": j})
    return shown


def _shown_figure(page: Row, figure: Row, descriptions: Sequence[Row]) -> dict[str, object]:
    captions = {
        _words(block["text"] or "")
        for block in page.get("blocks") or ()
        if block["label"] in CAPTION_LABELS
    }
    caption = figure.get("caption") or ""
    return {
        "name": figure["name"],
        # A caption with a block of its own is there already, right beside the figure.
        "caption": "" if _words(caption) in captions else caption,
        "descriptions": [
            {
                "task": row["task"],
                "html": safe_html(description_markdown(row)),
                "error": why_empty(row),
            }
            for row in descriptions
            if row["figure_id"] == figure["figure_id"]
        ],
    }


def _block_markdown(block: Mapping[str, Any]) -> str:
    """Within the tags that center a caption, Markdown would be read as HTML."""
    text = str(block["text"] or "")
    return uncentered(text) if block["label"] in CAPTION_LABELS else text


def _words(markdown: str) -> str:
    text = re.sub(r"<[^>]*>", " ", hidden(markdown))
    return " ".join(re.sub(r"[*_]", " ", shown(text)).split()).casefold()


def _box(row: Row) -> tuple[float, float, float, float] | None:
    corners = [row.get(key) for key in ("x1", "y1", "x2", "y2")]
    if any(corner is None for corner in corners):
        return None
    x1, y1, x2, y2 = (float(corner) for corner in corners if corner is not None)
    return x1, y1, x2, y2


def _percent(box: tuple[float, float, float, float] | None, page: Row) -> list[float] | None:
    """Left, top, width and height in percent of the page image."""
    if box is None or not page.get("width") or not page.get("height"):
        return None
    x1, y1, x2, y2 = box
    across, down = 100 / page["width"], 100 / page["height"]
    sides = (x1 * across, y1 * down, (x2 - x1) * across, (y2 - y1) * down)
    return [round(side, 2) for side in sides]


def _picture(image: Mapping[str, Any] | None, side: int) -> str | None:
    """A data URI, at most `side` pixels long; None without a picture or with a damaged one."""
    if not image or not image.get("bytes"):
        return None
    try:
        with Image.open(BytesIO(image["bytes"])) as picture:
            picture.draft("RGB", (side, side))
            picture.thumbnail((side, side))
            target = BytesIO()
            picture.convert("RGB").save(target, "JPEG", quality=JPEG_QUALITY, optimize=True)
    except OSError:
        return None
    return "data:image/jpeg;base64," + base64.b64encode(target.getvalue()).decode()


def safe_html(markdown: str) -> str:
    """Markdown (with tables and HTML in it) as HTML that can neither run nor fetch anything."""
    html = str(_markdown().render(markdown))
    return nh3.clean(
        html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"http", "https", "mailto"}
    )


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.inline.ruler.before("escape", "latex", _latex_as_text)
    return parser


def _latex_as_text(state: StateInline, silent: bool) -> bool:
    r"""Leaves `$x$`, `$$x$$`, `\(x\)` and `\[x\]` as they are; Markdown would take backslashes
    away, and read emphasis."""
    formula = FORMULA.match(state.src, state.pos, state.posMax)
    if formula is None and state.src[state.pos : state.pos + 2] not in (r"\(", r"\["):
        return False
    stop = formula.end() if formula else state.pos + 2
    if not silent:
        state.push("text", "", 0).content = state.src[state.pos : stop]
    state.pos = stop
    return True
