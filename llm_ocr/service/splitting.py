"""Split a scan in a worker: the documents that its pages become, and what each takes from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from llm_ocr.document.split import SplitDocument, split_pages
from llm_ocr.records import DocumentResult, PageClass
from llm_ocr.service.checkpoints import DocumentCheckpoints, InheritedResults
from llm_ocr.service.children import NewChild, child_id
from llm_ocr.service.documents import StoredDocument, document_folder
from llm_ocr.service.pipelines import Pipeline
from llm_ocr.service.review_policy import split_reasons
from llm_ocr.service.work_queue import ClaimedDocument
from llm_ocr.storage.store import Store


async def make_children(
    scan: ClaimedDocument,
    pipeline: Pipeline,
    result: DocumentResult,
    checkpoints: DocumentCheckpoints,
) -> list[NewChild]:
    """The documents that the pages of a scan become, in order. Its pages are read and classified,
    and are in its checkpoints."""
    options = pipeline.classification
    assert options is not None
    pages = await checkpoints.paths_by_page("extract")
    class_paths = await checkpoints.paths_by_page("classify")
    classes = {page.page_number: page for page in result.page_classes}

    def make(part: SplitDocument) -> NewChild:
        first, last = part.pages[0], part.pages[-1]
        name, revision = pipeline.child_pipeline(part.class_name)
        classified = [number for number in part.pages if number in class_paths]
        return NewChild(
            id=child_id(scan.id, scan.generations, first),
            name=_child_name(scan.name, first, last),
            type=part.class_name,
            pipeline=name,
            pipeline_revision=revision,
            first_page=first,
            last_page=last,
            inherited={
                "pages": {number: pages[number] for number in part.pages},
                "classes": {number: class_paths[number] for number in classified},
                "reasons": split_reasons(part, classes),
            },
        )

    return [make(part) for part in split_pages(list(pages), classes, options.first_page_classes)]


def describe_children(children: Sequence[NewChild]) -> list[Mapping[str, Any]]:
    """The children in the result of their parent, which is written before they have a state."""
    return [
        {
            "id": child.id,
            "type": child.type,
            "page_range": {"first": child.first_page, "last": child.last_page},
        }
        for child in children
    ]


def inherited_results(store: Store, stored: StoredDocument) -> InheritedResults | None:
    """What a document takes from the one that it was split from; None if it wasn't."""
    row = stored.row
    if row["parent"] is None:
        return None
    # In JSON, the numbers are strings.
    pages, classes = (
        {int(number): path for number, path in row["inherited"][name].items()}
        for name in ("pages", "classes")
    )
    folder = document_folder(stored.tenant, row["parent"])
    return InheritedResults(store, folder, stored.id, str(row["name"]), pages, classes)


async def add_page_classes(
    result: DocumentResult, inherited: InheritedResults, class_name: str | None
) -> DocumentResult:
    """The result of a child with its class, and those of its pages."""
    item_ids = inherited.item_ids("classify")
    found: list[PageClass] = [page async for page in inherited.results("classify", item_ids)]
    return replace(result, page_classes=tuple(found), class_name=class_name)


def _child_name(name: str, first: int, last: int) -> str:
    path = PurePosixPath(name)
    pages = f"{first}" if first == last else f"{first}-{last}"
    return f"{path.stem}-p{pages}{path.suffix}"
