"""Convert one document in memory: a run in a temporary folder, read back and removed."""

import io
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from llm_ocr.pipeline import worker
from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.planning import absolute
from llm_ocr.records import Block, Box, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.tables.read import load_descriptions, load_documents, load_figures, load_pages
from llm_ocr.tables.schema import Row


@dataclass(frozen=True)
class ConvertedPage:
    """A page as it was read. `number` counts from 1; 0 stands for a document that can't be opened.

    Boxes of `blocks` are in pixels of a page image of `width` x `height`, which are None where
    there is no image. `error` says what is wrong with a page whose status isn't `ok` or `blank`.
    """

    number: int
    status: PageStatus
    markdown: str
    blocks: tuple[Block, ...]
    width: int | None
    height: int | None
    error: str | None


@dataclass(frozen=True)
class ConvertedFigure:
    """A figure, cut out of its page as an RGB or gray `image`. `name` is what Markdown refers to,
    as `figures/NAME`; `box` is in pixels of the page image; `description` is what the model said
    of it, where it was asked."""

    name: str
    page_number: int
    label: str
    box: Box
    image: Image.Image
    caption: str | None
    description: str | None


@dataclass(frozen=True)
class ConversionResult:
    """One document, read. `status` is `ok`, `truncated` (some of it is missing) or `failed`, and
    `error` says why."""

    status: PageStatus
    markdown: str
    pages: tuple[ConvertedPage, ...]
    figures: tuple[ConvertedFigure, ...]
    error: str | None


def convert(
    source: str | Path | bytes,
    settings: Settings | None = None,
    *,
    notify: Notify | None = None,
    progress: bool = False,
    **overrides: Any,  # noqa: ANN401
) -> ConversionResult:
    """Read one document, a PDF or an image, and return it; nothing is left on the disk.

    `source` is a path, a place in a bucket (`s3://`, `gs://`, `hf://`) or the document's bytes.
    `overrides` are fields of `Settings`, such as `base_url` or `pages`. Each call starts the engine
    and ends it, unless `base_url` names a server: for many documents, use `llm_ocr.run`. Raises
    NoInputError where there is not exactly one document, and EngineFailedError, StorageError or
    StoppedError as `llm_ocr.run`. What can't be read is a `failed` result, not an exception.
    """
    with tempfile.TemporaryDirectory(prefix="llm-ocr-convert-") as folder:
        if isinstance(source, bytes):
            # Which kind it is, its first bytes say, whatever the name.
            place = Path(folder) / "document.pdf"
            place.write_bytes(source)
        else:
            place = Path(source)
            _check_one(str(source))
        out = Path(folder) / "out"
        worker.run(
            *(place if isinstance(source, bytes) else source, out, settings),
            notify=notify,
            progress=progress,
            **{**overrides, "markdown": False, "viewer_pages": 0},
        )
        return _result(str(out), str(place) if isinstance(source, bytes) else None)


def _check_one(source: str) -> None:
    found = list_documents([absolute(source)])
    if len(found) != 1 or found[0].row_count != 1:
        more = f"{len(found):,} documents" if len(found) > 1 else "a dataset of many documents"
        raise NoInputError(f"{source}: {more}; convert takes one, llm_ocr.run takes many")


def _result(out: str, unnamed: str | None) -> ConversionResult:
    """What a run read. Messages don't name the file `unnamed`, which is ours."""

    def said(text: str | None) -> str | None:
        return text.replace(unnamed, "the bytes given") if text and unnamed else text

    document = next(load_documents(out))
    descriptions: dict[str, list[Row]] = defaultdict(list)
    for row in load_descriptions(out):
        descriptions[row["figure_id"]].append(row)
    return ConversionResult(
        PageStatus(document["status"]),
        said(document["markdown"]) or "",
        tuple(_page({**row, "error": said(row["error"])}) for row in load_pages(out)),
        tuple(_figure(row, descriptions[row["figure_id"]]) for row in load_figures(out)),
        said(document["error"]),
    )


def _page(row: Row) -> ConvertedPage:
    return ConvertedPage(
        row["page_number"],
        PageStatus(row["status"]),
        row["markdown"] or "",
        tuple(
            Block(block["label"], block["text"], _box(block), block["confidence"])
            for block in row["blocks"] or ()
        ),
        row["width"],
        row["height"],
        row["error"],
    )


def _figure(row: Row, descriptions: Iterable[Row]) -> ConvertedFigure:
    said = (one["text"] for one in descriptions if one["status"] == PageStatus.OK)
    box = _box(row)
    assert box is not None
    return ConvertedFigure(
        row["name"],
        int(row["page_id"].rpartition("/")[2]),
        row["label"],
        box,
        Image.open(io.BytesIO(row["image"]["bytes"])),
        row["caption"] or None,
        next((text for text in said if text), None),
    )


def _box(row: Row) -> Box | None:
    if row["x1"] is None:
        return None
    return Box(row["x1"], row["y1"], row["x2"], row["y2"])
