"""Write the viewer: one HTML file with page images and boxes beside the text, for offline use.

The text of documents is untrusted: it is sanitized with nh3, data is in script tags with every `<`
escaped, and a content security policy lets only the viewer's own script run and nothing be fetched.
"""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from PIL import Image

from llm_ocr.parsing.leaves import leaves
from llm_ocr.records import CAPTION_LABELS, FIGURE_LABELS
from llm_ocr.report.descriptions import description_markdown, missing_description_reason
from llm_ocr.report.doubts import displayed_status, doubt_message
from llm_ocr.report.record_types import as_json, encodable
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import FORMULA, mask_escapes, strip_center_tags, unmask_escapes

if TYPE_CHECKING:
    from jinja2 import Environment

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

_RECORD_KEYS = ("record_id", "schema", "status", "error_code", "error")
_CHECK_KEYS = ("check_model", "check_error")
_EVIDENCE_KEYS = (
    *("page_id", "page_number", "quote", "confidence", "matched", "reading", "extraction"),
)

RowsOf = Callable[[str], Iterable[Row]]

# No `img`: images of documents would be fetched. Figures are inserted from their table.
_TAGS = {
    "a", "b", "blockquote", "br", "caption", "center", "code", "col", "colgroup", "dd", "del",
    "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd",
    "li", "ol", "p", "pre", "q", "s", "small", "span", "strong", "sub", "sup", "table",
    "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
_SPANS = {"colspan", "rowspan"}
_ATTRIBUTES = {"a": {"href"}, "td": _SPANS, "th": _SPANS, "ol": {"start"}}


def _no_rows(_: str) -> Iterable[Row]:
    return ()


def write_viewer(
    pages: Iterable[Row],
    figures_of: RowsOf,
    descriptions_of: RowsOf,
    summary: Mapping[str, object],
    out: Path | BinaryIO,
    *,
    records_of: RowsOf = _no_rows,
    max_pages: int = 300,
) -> int:
    """Write the first `max_pages` of `pages`; returns how many those were.

    `figures_of` and `descriptions_of` return the rows of a `page_id`, `records_of` those of a
    `doc_id`; pages are read and written one by one, so that memory is bounded. Of `summary` (see
    `Summary.as_dict`) the viewer shows `out`, `model`, `documents`, `pages`, `pages_by_status`,
    `figures`, `records` and `pages_per_second`, if present; `pages` is the number of pages of the
    whole run. A file at `out` appears only when it is complete.
    """
    script, style = _bundle()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    index: list[dict[str, object]] = []
    shown = itertools.islice(pages, max_pages)
    # A template writes what it is given; this is consumed while the file is written.
    data = itertools.chain(
        _page_data(shown, figures_of, descriptions_of, records_of, index),
        _run_data(summary, index),
    )
    template = template_environment().get_template("viewer.html")
    texts = template.generate(style=style, script=script, script_hash=digest, data=data)
    with atomic_write(out) if isinstance(out, Path) else nullcontext(out) as target:
        for text in texts:
            target.write(text.encode("utf-8", "replace"))
    return len(index)


@cache
def template_environment() -> "Environment":
    """Jinja's environment of the templates of HTML files, which escape what they are given."""
    # Loaded when a run ends, so that it doesn't delay its start.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("llm_ocr.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    # `tojson` escapes what could end the script tag that carries the data.
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    return environment


@cache
def _bundle() -> tuple[str, str]:
    """The viewer's own script and style."""
    folder = files("llm_ocr.report").joinpath("templates")
    parts = ("viewer_record.js", "viewer_page.js", "viewer.js")
    script = "".join(folder.joinpath(part).read_text("utf-8") for part in parts)
    return script, folder.joinpath("viewer.css").read_text("utf-8")


# An element's id and its content.
Data = tuple[str, object]


def _page_data(
    pages: Iterable[Row],
    figures_of: RowsOf,
    descriptions_of: RowsOf,
    records_of: RowsOf,
    index: list[dict[str, object]],
) -> Iterator[Data]:
    """The texts as `p12`, images as `i12` (a search reads all texts and decodes no image), and
    records as `r12` before the first page that they are shown at. Adds the pages to `index`."""
    records = _Records(records_of)
    for k, page in enumerate(pages):
        yield from records.read(page)
        figures = list(figures_of(page["page_id"]))
        descriptions = list(descriptions_of(page["page_id"])) if figures else []
        yield f"p{k}", _page_view(page, figures, descriptions, records.numbers(page))
        yield (
            f"i{k}",
            {
                "page": image_data_uri(page.get("image"), PAGE_SIDE),
                "figures": [image_data_uri(figure.get("image"), FIGURE_SIDE) for figure in figures],
            },
        )
        named = {key: page[key] for key in ("doc_id", "name", "page_number")}
        index.append({**named, "status": displayed_status(page)})


def _run_data(
    summary: Mapping[str, object], index: Sequence[Mapping[str, object]]
) -> Iterator[Data]:
    values = {key: summary[key] for key in _SUMMARY_KEYS if key in summary}
    yield "run", {"summary": values, "total": summary.get("pages", len(index)), "pages": index}


class _Records:
    """The records of documents, each read once, and their numbers."""

    def __init__(self, records_of: RowsOf) -> None:
        self._records_of = records_of
        self._document: str | None = None
        self._numbers: dict[str, int] = {}
        self._count = 0

    def read(self, page: Row) -> Iterator[Data]:
        """The records of a page's document, if it is a new one."""
        if page["doc_id"] == self._document:
            return
        self._document, self._numbers = page["doc_id"], {}
        for row in self._records_of(page["doc_id"]):
            yield f"r{self._count}", record_view(row)
            self._numbers[row["record_id"]] = self._count
            self._count += 1

    def numbers(self, page: Row) -> list[int]:
        """The numbers of the records of a page, and of its document."""
        ids = (page["doc_id"], page["page_id"])
        return [self._numbers[record_id] for record_id in ids if record_id in self._numbers]


def _page_view(
    page: Row, figures: Sequence[Row], descriptions: Sequence[Row], records: Sequence[int]
) -> dict[str, object]:
    view = {key: page.get(key) for key in _PAGE_KEYS}
    view |= {"status": displayed_status(page), "doubt": doubt_message(page)}
    view["missing"] = list(page.get("missing") or ())
    view["blocks"] = _block_views(page, figures)
    if records:
        size = (page.get("width"), page.get("height"))
        view |= {"records": records, "size": size if all(size) else None}
    view["figures"] = [_figure_view(page, figure, descriptions) for figure in figures]
    return view


def _block_views(page: Row, figures: Sequence[Row]) -> list[dict[str, object]]:
    """Blocks in reading order; `figure` is an index of `figures`. A page without blocks has one."""
    blocks = list(page.get("blocks") or ())
    if not blocks and page.get("markdown"):
        blocks = [{"label": "text", "text": page["markdown"]}]
    remaining = dict(enumerate(figures))
    views: list[dict[str, object]] = []
    for block in blocks:
        view: dict[str, object] = {
            "label": block["label"],
            "box": _to_percent(_box(block), page),
            "html": safe_html(_block_markdown(block)),
        }
        if block["label"] in FIGURE_LABELS:
            matches = (j for j, figure in remaining.items() if _box(figure) == _box(block))
            match = next(matches, None)
            if match is not None:
                view["figure"] = match
                del remaining[match]
        views.append(view)
    # Figures without a block (on a page without blocks) follow at the end.
    for j, figure in remaining.items():
        label, box = figure["label"], _to_percent(_box(figure), page)
        views.append({"label": label, "box": box, "html": "", "figure": j})
    return views


def _figure_view(page: Row, figure: Row, descriptions: Sequence[Row]) -> dict[str, object]:
    captions = {
        _normalized_words(block["text"] or "")
        for block in page.get("blocks") or ()
        if block["label"] in CAPTION_LABELS
    }
    caption = figure.get("caption") or ""
    return {
        "name": figure["name"],
        # A caption that is a block is shown as such, next to the figure.
        "caption": "" if _normalized_words(caption) in captions else caption,
        "descriptions": [
            {
                "task": row["task"],
                "html": safe_html(description_markdown(row)),
                "error": missing_description_reason(row),
            }
            for row in descriptions
            if row["figure_id"] == figure["figure_id"]
        ],
    }


def _block_markdown(block: Mapping[str, Any]) -> str:
    """Remove the tags that center a caption: Markdown within them would be taken for HTML."""
    text = str(block["text"] or "")
    return strip_center_tags(text) if block["label"] in CAPTION_LABELS else text


def _normalized_words(markdown: str) -> str:
    text = re.sub(r"<[^>]*>", " ", mask_escapes(markdown))
    return " ".join(re.sub(r"[*_]", " ", unmask_escapes(text)).split()).casefold()


def _box(row: Row) -> tuple[float, float, float, float] | None:
    corners = [row.get(key) for key in ("x1", "y1", "x2", "y2")]
    if any(corner is None for corner in corners):
        return None
    x1, y1, x2, y2 = (float(corner) for corner in corners if corner is not None)
    return x1, y1, x2, y2


def _to_percent(box: tuple[float, float, float, float] | None, page: Row) -> list[float] | None:
    """Left, top, width and height in percent of the page image."""
    if box is None or not page.get("width") or not page.get("height"):
        return None
    x1, y1, x2, y2 = box
    across, down = 100 / page["width"], 100 / page["height"]
    sides = (x1 * across, y1 * down, (x2 - x1) * across, (y2 - y1) * down)
    return [round(side, 2) for side in sides]


def image_data_uri(image: Mapping[str, Any] | None, side: int) -> str | None:
    """A data URI, downscaled to `side` pixels; None without an image, or for a damaged one."""
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


def safe_html(markdown: str, images: Mapping[str, str] | None = None) -> str:
    """Markdown (with tables and HTML in it) as HTML that can neither run nor fetch anything.

    `images` are addresses in the Markdown, and those that they are replaced by; other images are
    left out.
    """
    html = str(markdown_parser().render(markdown))

    def replace_image(tag: str, attribute: str, value: str) -> str | None:
        return (images or {}).get(unquote(value)) if attribute == "src" else value

    return nh3.clean(
        html,
        tags=_TAGS | {"img"} if images else _TAGS,
        attributes=_ATTRIBUTES | {"img": {"src", "alt"}},
        url_schemes={"http", "https", "mailto"},
        attribute_filter=replace_image,
    )


@cache
def markdown_parser() -> MarkdownIt:
    """The parser of Markdown with tables, HTML and formulas, which stay as they are."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.inline.ruler.before("escape", "latex", _latex_as_text)
    return parser


def _latex_as_text(state: StateInline, silent: bool) -> bool:
    r"""Keep `$x$`, `$$x$$`, `\(x\)` and `\[x\]` as they are; Markdown would remove backslashes and
    parse emphasis."""
    formula = FORMULA.match(state.src, state.pos, state.posMax)
    if formula is None and state.src[state.pos : state.pos + 2] not in (r"\(", r"\["):
        return False
    stop = formula.end() if formula else state.pos + 2
    if not silent:
        state.push("text", "", 0).content = state.src[state.pos : stop]
    state.pos = stop
    return True


def record_view(row: Row) -> dict[str, object]:
    """A record as the viewer shows it: the values in the order of the schema, then the errors at
    paths without a value.

    Boxes are in pixels of the page image; an `unverified` value was not found on the page.
    """
    fields = None if row["fields"] is None else json.loads(row["fields"], parse_constant=str)
    values = dict(leaves(fields, empty=True)) if fields is not None else {}
    errors: dict[str, list[Row]] = {}
    for error in row["errors"] or ():
        errors.setdefault(error["path"], []).append(error)
    evidence = {item["path"]: item for item in row["evidence"] or ()}
    checks: dict[str, list[Row]] = {}
    for one in row.get("disagreements") or ():
        checks.setdefault(one["path"], []).append(one)
    paths = dict.fromkeys([*values, *errors, *checks])
    view = {key: row.get(key) for key in _RECORD_KEYS}
    view |= {key: row[key] for key in _CHECK_KEYS if row.get(key) is not None}
    view["fields"] = [
        _field_view(
            *(path, values.get(path), evidence.get(path), errors.get(path, ())),
            [one["check_value"] for one in checks.get(path, ())],
        )
        for path in paths
        if path
    ]
    view["errors"] = _error_views(errors.get("", ()))
    view["raw"] = row["raw_answer"] if fields is None else None
    return view


def _field_view(
    path: str,
    value: object,
    evidence: Row | None,
    errors: Sequence[Row],
    check_values: Sequence[str | None],
) -> dict[str, object]:
    if value is not None and not isinstance(value, str):
        value = as_json(value)
    field: dict[str, object] = {"path": path, "value": value and encodable(value)}
    if errors:
        field["errors"] = _error_views(errors)
    if check_values:
        field["check_values"] = check_values
    if evidence is not None:
        field |= {name: evidence[name] for name in _EVIDENCE_KEYS if evidence.get(name) is not None}
        box = [evidence[corner] for corner in ("x1", "y1", "x2", "y2")]
        field["box"] = None if None in box else box
        field["unverified"] = evidence["matched"] is None
    return field


def _error_views(errors: Sequence[Row]) -> list[dict[str, object]]:
    return [{"value": error["value"], "reason": error["reason"]} for error in errors]
