"""Read the pages of files for a classifier: rendered, with the words of their top third."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from llm_ocr.classification.classifier import Example, describe_example
from llm_ocr.classification.descriptors import TOP_SHARE, PageInput, join_top
from llm_ocr.classification.embedders import Embedder
from llm_ocr.classification.options import ClassifierError
from llm_ocr.documents import Document
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.records import ImagePolicy, Page, PageError
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.sources.render_pool import RenderPool

if TYPE_CHECKING:
    from llm_ocr.engines.embedded.words.recognize import Recognizer

# Pages are rendered at about the size at which models read them: A4 at 110 dpi.
POLICY = ImagePolicy(longest_side=1280)
# Columns of a CSV file with examples.
PATH_COLUMN, CLASS_COLUMN = "path", "class"
# Called with each page that was read.
OnPage = Callable[[], None]


@dataclass(frozen=True)
class LabeledDocument:
    """A file whose pages belong to a class."""

    document: Document
    class_name: str


@dataclass(frozen=True)
class ViewedPage:
    """A page of a document, as a classifier sees it."""

    document: Document
    number: int
    view: PageInput


def list_examples(source: Path) -> list[LabeledDocument]:
    """The files of a folder with a subfolder for each class, or of a CSV file with the columns
    `path` (relative to the file) and `class`. Raises ClassifierError."""
    if source.is_dir():
        folders = sorted(path for path in source.iterdir() if path.is_dir())
        if not folders:
            raise ClassifierError(
                f"{source}: the folder has no subfolders; put the examples of each class into one "
                "of its name, or give a CSV file with the columns path and class"
            )
        return [one for folder in folders for one in _label([folder], folder.name)]
    if not source.is_file():
        raise ClassifierError(f"{source}: there is no such folder or file of examples")
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ClassifierError(f"{source} can't be read as a CSV file: {error}") from error
    if not rows or not {PATH_COLUMN, CLASS_COLUMN} <= rows[0].keys():
        raise ClassifierError(
            f"{source}: a CSV file of examples has a header with the columns path and class, and "
            "a line for each file"
        )
    found: list[LabeledDocument] = []
    for number, row in enumerate(rows, 2):
        if not (row[PATH_COLUMN] and row[CLASS_COLUMN]):
            raise ClassifierError(f"{source}:{number}: the path or the class is missing")
        found += _label([source.parent / row[PATH_COLUMN]], row[CLASS_COLUMN])
    return found


async def read_examples(
    labeled: Sequence[LabeledDocument],
    pool: RenderPool,
    embedder: Embedder,
    *,
    with_words: bool,
    on_page: OnPage = lambda: None,
) -> list[Example]:
    """The pages of labeled files as examples, in order. Raises ClassifierError for a file that
    can't be read: an example that is left out silently would be missed."""

    async def read(one: LabeledDocument) -> list[Example]:
        found = []
        async with slots:
            async for page in view_pages(one.document, pool, with_words=with_words):
                number = f"#{page.number}" if page.number > 1 else ""
                name = f"{one.class_name}/{one.document.name}{number}"
                group, class_name = one.document.name, one.class_name
                found.append(
                    await asyncio.to_thread(
                        describe_example, name, group, class_name, page.view, embedder
                    )
                )
                on_page()
        return found

    slots = asyncio.Semaphore(available_cores())
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(read(one)) for one in labeled]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [example for task in tasks for example in task.result()]


async def view_pages(
    document: Document, pool: RenderPool, *, with_words: bool
) -> AsyncIterator[ViewedPage]:
    """The pages of a document. Raises ClassifierError for a document that can't be read."""
    try:
        count = await pool.count_pages(document)
    except PageError as error:
        raise _unreadable(document, error) from error
    for number in range(1, count + 1):
        view = await view_page(document, number, pool, with_words=with_words)
        yield ViewedPage(document, number, view)


async def view_page(
    document: Document, number: int, pool: RenderPool, *, with_words: bool
) -> PageInput:
    """A page of a document. Raises ClassifierError if it can't be read."""
    try:
        rendered = await pool.render(Page(document, number), POLICY)
    except PageError as error:
        raise _unreadable(document, error) from error
    return await asyncio.to_thread(_view, rendered.jpeg, with_words)


def _unreadable(document: Document, error: PageError) -> ClassifierError:
    return ClassifierError(f"{document.display_name} can't be read: {error.message}")


def _view(jpeg: bytes, with_words: bool) -> PageInput:
    image = Image.open(io.BytesIO(jpeg)).convert("RGB")
    return PageInput(image.convert("L"), read_top(image) if with_words else None)


def read_top(image: Image.Image) -> str:
    """The words of an image's top third, as the embedded engine reads them."""
    pixels = np.asarray(image)[: round(image.height * TOP_SHARE), :, ::-1]
    page = _recognizer().page(np.ascontiguousarray(pixels))
    places = [(line.text, line.rect[1]) for line in page.lines]
    return join_top(places, float("inf"))


@cache
def _recognizer() -> "Recognizer":
    # Loads the models of the extra cpu.
    from llm_ocr.engines.embedded.serving.command import check_installed
    from llm_ocr.engines.embedded.words.recognize import Recognizer

    check_installed()
    return Recognizer()


def _label(paths: Sequence[Path], class_name: str) -> list[LabeledDocument]:
    try:
        documents = list_documents([str(path) for path in paths])
    except NoInputError as error:
        raise ClassifierError(f"the class {class_name} has no examples: {error}") from error
    return [LabeledDocument(document, class_name) for document in documents]
