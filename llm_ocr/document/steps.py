"""Define the steps of a document: which items each has, made from what earlier steps found."""

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from llm_ocr.auxiliary.options import AuxiliaryOptions
from llm_ocr.document.assemble import DocumentItem, figure_texts
from llm_ocr.document.auxiliary import AuxiliaryItem, AuxiliarySearch
from llm_ocr.document.classify import ClassifyItem, PageClassification, classification_key
from llm_ocr.document.describe import FigureItem
from llm_ocr.document.figure_tasks import FigureTask
from llm_ocr.document.items import Item
from llm_ocr.document.page import ExtractOptions, PageItem
from llm_ocr.document.record import PageSpool, ParseSpec, RecordItem
from llm_ocr.document.split import certain_class
from llm_ocr.documents import Document
from llm_ocr.engines.targets import EngineTarget
from llm_ocr.messages import pluralize
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.schema import RecordScope
from llm_ocr.records import (
    AssembledDocument,
    AuxiliaryResult,
    Description,
    ErrorCode,
    Figure,
    Page,
    PageClass,
    PageError,
    PageResult,
    PageStatus,
    Record,
    UnmetExpectation,
    UnparsedPage,
)
from llm_ocr.sources.inputs import PageSelection
from llm_ocr.sources.render_pool import DocumentInfo

# Changes when the same page gives other findings.
AUXILIARY_VERSION = 2
StepResultType = TypeVar("StepResultType", covariant=True)


class DocumentInputs(Protocol):
    """What a step works on: documents, in order, and what earlier steps made of them.

    Nothing comes of a step that was not run. Images are left out unless they are asked for.
    """

    def documents(self) -> Iterable[Document]: ...

    def pages(self, *, images: bool = False) -> AsyncIterator[PageResult]:
        """The pages, each with its figures; with `images`, those of the pages."""
        ...

    def figures(self) -> AsyncIterator[tuple[Figure, float]]:
        """The figures with their images, and the share of its page that each takes, 0..1."""
        ...

    def descriptions(self) -> AsyncIterator[Description]: ...

    def page_classes(self) -> AsyncIterator[PageClass]: ...


class Step(Protocol[StepResultType]):
    """One step: a name, the steps whose results it reads, and its items.

    `version` changes with whatever changes its results, apart from the model and the inputs.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def version(self) -> str: ...

    @property
    def result_type(self) -> type[StepResultType]: ...

    def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[StepResultType]]: ...


@dataclass(frozen=True)
class Extract:
    """Pages of documents, rendered, read by a model, and their figures cut out."""

    options: ExtractOptions
    selection: PageSelection | None = None
    name: str = "extract"
    needs: tuple[str, ...] = ()
    result_type: type[PageResult] = PageResult

    @property
    def version(self) -> str:
        options = self.options
        return _digest(
            vars(options.profile.image), options.min_agreement, options.text_layer, self.selection
        )

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[PageResult]]:
        for document in inputs.documents():
            info, numbers, error = await self.open(document)
            # Each is made when its turn comes, and held no longer: it has its page's image.
            for number in numbers:
                yield self.page(Page(document, number), info, error)

    async def open(
        self, document: Document, error: PageError | None = None
    ) -> tuple[DocumentInfo | None, Sequence[int], PageError | None]:
        """What is known of a document, and the numbers of the pages that are wanted. Of one that
        can't be opened, or has this `error`: None, the page 0 that stands for all, and why."""
        try:
            if error is not None:
                raise error
            info = await self.options.pool.inspect(document)
            return info, self._numbers(document, info), None
        except PageError as error:
            return None, [0], error

    def page(
        self, page: Page, info: DocumentInfo | None, error: PageError | None = None
    ) -> PageItem:
        """A page; as one that can't be read, with `error`."""
        return PageItem(self.options, page, info, error)

    def _numbers(self, document: Document, info: DocumentInfo) -> Sequence[int]:
        if self.selection is None:
            return range(1, info.page_count + 1)
        numbers = self.selection.select(info.page_count)
        if not numbers:
            raise PageError(
                ErrorCode.NO_PAGES,
                f"{document.display_name}: `pages` selects no page: it has "
                f"{pluralize(info.page_count, 'page')}",
            )
        return numbers


@dataclass(frozen=True)
class Auxiliary:
    """Pages, searched for barcodes and whatever else `search` is for. Takes pages with images."""

    search: AuxiliarySearch
    name: str = "auxiliary"
    needs: tuple[str, ...] = ("extract",)
    result_type: type[AuxiliaryResult] = AuxiliaryResult

    @property
    def version(self) -> str:
        return _digest(AUXILIARY_VERSION, self.search.options.model_dump(mode="json"))

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[AuxiliaryResult]]:
        documents = {document.doc_id: document for document in inputs.documents()}
        # One page late, when it is known whether it was the last one of its document.
        held: PageResult | None = None
        is_first = True
        async for page in inputs.pages(images=True):
            if held is not None:
                is_last = page.doc_id != held.doc_id
                for item in self._item(documents[held.doc_id], held, is_first, is_last):
                    yield item
                is_first = is_last
            held = page
        if held is not None:
            for item in self._item(documents[held.doc_id], held, is_first, True):
                yield item

    def _item(
        self, document: Document, page: PageResult, is_first: bool, is_last: bool
    ) -> Iterable[AuxiliaryItem]:
        """The page as an item, unless it has no image: then its own result says why."""
        if page.image is not None:
            yield AuxiliaryItem(self.search, document, page, is_first=is_first, is_last=is_last)

    def find_unmet(
        self, pages: Sequence[PageResult], results: Sequence[AuxiliaryResult]
    ) -> list[UnmetExpectation]:
        """The expectations that a document's pages don't meet."""
        found = {result.page_id: result.findings for result in results}
        options: AuxiliaryOptions = self.search.options
        return options.find_unmet(
            [(page.page_number, found.get(page.page_id, ())) for page in pages if page.page_number]
        )


@dataclass(frozen=True)
class Classify:
    """Pages, each with its class. Takes pages with images; asks a model only if it has to."""

    classification: PageClassification
    name: str = "classify"
    needs: tuple[str, ...] = ("extract",)
    result_type: type[PageClass] = PageClass

    @property
    def version(self) -> str:
        return _digest(classification_key(self.classification))

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[PageClass]]:
        async for page in inputs.pages(images=True):
            # A page without an image could not be rendered: its own result says why.
            if page.image is not None:
                yield ClassifyItem(self.classification, page)


@dataclass(frozen=True)
class SizedTask:
    """A task, for figures that take at least `smallest` (0..1) of their page."""

    task: FigureTask
    smallest: float = 0.0


@dataclass(frozen=True)
class Describe:
    """The figures of documents, each once for each task."""

    tasks: Sequence[SizedTask]
    name: str = "describe"
    needs: tuple[str, ...] = ("extract",)
    result_type: type[Description] = Description

    @property
    def version(self) -> str:
        return _digest(
            [(sized.task.name, sized.task.version, sized.smallest) for sized in self.tasks]
        )

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[Description]]:
        async for figure, share in inputs.figures():
            for sized in self.tasks:
                yield FigureItem(figure, sized.task, is_small=share < sized.smallest)


@dataclass(frozen=True)
class Assemble:
    """Documents, each joined from its pages. Asks no model."""

    name: str = "assemble"
    needs: tuple[str, ...] = ("extract", "describe")
    version: str = "1"
    result_type: type[AssembledDocument] = AssembledDocument

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[AssembledDocument]]:
        texts = figure_texts([description async for description in inputs.descriptions()])
        pages: list[PageResult] = []
        async for page in inputs.pages():
            if pages and page.doc_id != pages[0].doc_id:
                yield DocumentItem(pages, texts)
                pages = []
            pages.append(page)
        if pages:
            yield DocumentItem(pages, texts)


@dataclass(frozen=True)
class Parse:
    """Documents, or their pages, as records of a schema; `profile` is that of the model, `check`
    the engine of a second one that checks them."""

    wanted: ParseSpec
    profile: ModelProfile
    check: EngineTarget | None = None
    name: str = "parse"
    needs: tuple[str, ...] = ("extract",)
    result_type: type[Record] = Record

    def __post_init__(self) -> None:
        """Raises SchemaError if the model can't be asked so."""
        self.wanted.check(self.profile)

    @property
    def version(self) -> str:
        return _digest(self.wanted.asked)

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[Record]]:
        by_page = self.wanted.per is RecordScope.PAGE
        pages, record_id = PageSpool(), None
        async for page in inputs.pages(images=self.wanted.reads_images):
            belongs_to = page.page_id if by_page else page.doc_id
            if record_id is not None and belongs_to != record_id:
                yield RecordItem(record_id, pages, self.wanted, self.profile)
                pages = PageSpool()
            record_id = belongs_to
            pages.add(page)
        if record_id is not None:
            yield RecordItem(record_id, pages, self.wanted, self.profile)


@dataclass(frozen=True)
class ParseByClass:
    """Consecutive pages of one class as a record of the class's schema; with `RecordScope.PAGE`,
    each page. Pages whose class isn't certain, or has no schema, belong to no record.

    `wanted` is by class; `profile` and `check` are as in `Parse`.
    """

    wanted: Mapping[str, ParseSpec]
    profile: ModelProfile
    check: EngineTarget | None = None
    name: str = "parse"
    needs: tuple[str, ...] = ("extract", "classify")
    result_type: type[Record] = Record

    def __post_init__(self) -> None:
        """Raises SchemaError if the model can't be asked so."""
        for spec in self.wanted.values():
            spec.check(self.profile)

    @property
    def version(self) -> str:
        return _digest(sorted((name, spec.asked) for name, spec in self.wanted.items()))

    async def items(self, inputs: DocumentInputs) -> AsyncIterator[Item[Record]]:
        classes = {found.page_id: found async for found in inputs.page_classes()}
        images = any(spec.reads_images for spec in self.wanted.values())
        pages: PageSpool | None = None
        current = ""
        async for page in inputs.pages(images=images):
            name = certain_class(classes.get(page.page_id))
            if pages is not None and not self._continues(pages, current, page, name):
                yield self._item(current, pages)
                pages = None
            if name is not None and name in self.wanted:
                if pages is None:
                    pages, current = PageSpool(), name
                has_image = self.wanted[name].reads_images
                pages.add(page if has_image else replace(page, image=None))
        if pages is not None:
            yield self._item(current, pages)

    def _continues(
        self, pages: PageSpool, current: str, page: PageResult, class_name: str | None
    ) -> bool:
        """Whether a page belongs to the same record as the pages before it."""
        is_same = class_name == current and page.doc_id == pages[0].page.doc_id
        return is_same and self.wanted[current].per is not RecordScope.PAGE

    def _item(self, class_name: str, pages: PageSpool) -> RecordItem:
        first, last = pages[0].page, pages[-1].page
        one = first.page_number == last.page_number
        record_id = first.page_id if one else f"{first.page_id}-{last.page_number}"
        return RecordItem(record_id, pages, self.wanted[class_name], self.profile, class_name)

    def find_unparsed(
        self, pages: Sequence[PageResult], classes: Sequence[PageClass]
    ) -> Iterator[UnparsedPage]:
        """The pages that belong to no record, and why."""
        found = {one.page_id: one for one in classes}
        for page in pages:
            classified = found.get(page.page_id)
            name = certain_class(classified)
            if page.page_number == 0 or name in self.wanted:
                continue
            if classified is None:
                reason = "the page has no image, so it could not be classified"
            elif classified.status is PageStatus.FAILED:
                reason = f"the page could not be classified: {classified.error}"
            elif name is None:
                reason = f"its class is not certain: {classified.reason}"
            else:
                reason = f"the pipeline has no schema for the class {name}"
            yield UnparsedPage(page.page_number, name, reason)


def page_share(figure: Figure, width: int | None, height: int | None) -> float:
    """The share of its page that a figure takes, 0..1; 1 where the page's size is unknown."""
    area = (width or 0) * (height or 0)
    return figure.box.area / area if area else 1.0


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:12]
