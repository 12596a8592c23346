"""The result files of a document in the storage, and the cost of its steps.

Each claim writes to a separate folder. The folder's name goes into the document's row when all
files are written: nobody reads half a result, and a worker that lost its lease overwrites nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.records import (
    AuxiliaryFinding,
    DocumentResult,
    Outcome,
    PageClass,
    PageLine,
    PageResult,
    PageStatus,
    StepResult,
)
from llm_ocr.report.document_files import FIGURES, document_content, render_markdown
from llm_ocr.storage.store import Store
from llm_ocr.tables.rows import page_item
from llm_ocr.tables.schema import drop_unencodable, encode, encoding_error

DOCUMENT_JSON = "document.json"
DOCUMENT_MARKDOWN = "document.md"
PAGES_PARQUET = "pages.parquet"
PAGE_IMAGES = "pages"
_RESULT = "result-"
# Within the result's folder; Markdown refers to it.
FIGURES_FOLDER = FIGURES


def result_folder(fencing_token: int) -> str:
    """The folder of a result within its document's folder, as in `documents.result`."""
    return f"{_RESULT}{fencing_token}"


def parse_result_folder(name: str) -> int | None:
    """The fencing token in the name of a result's folder; None for other names."""
    token = name.removeprefix(_RESULT)
    return int(token) if name.startswith(_RESULT) and token.isdecimal() else None


def page_image_path(number: int) -> str:
    """The path of a page's JPEG within the result's folder; pages count from 1."""
    return f"{PAGE_IMAGES}/{number}.jpg"


@dataclass(frozen=True)
class StepCost:
    """The cost of a step. `items` are pages, figures or records, of which `items_failed` failed;
    `seconds` is the sum of the durations of all requests. `target` is the pipeline's name of the
    engine; None if the worker's settings select it."""

    name: str
    items: int = 0
    items_failed: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    model: str | None = None
    target: str | None = None


def step_cost(
    step: str, results: Sequence[StepResult], model: str | None = None, target: str | None = None
) -> StepCost:
    """The cost of a step's results."""
    outcomes = [result.outcome for result in results]
    return StepCost(
        step,
        len(outcomes),
        sum(outcome.status is PageStatus.FAILED for outcome in outcomes),
        sum(outcome.attempts for outcome in outcomes),
        sum(outcome.prompt_tokens for outcome in outcomes),
        sum(outcome.completion_tokens for outcome in outcomes),
        sum(outcome.seconds for outcome in outcomes),
        model,
        target,
    )


def total_cost(steps: Sequence[StepCost]) -> dict[str, Any]:
    """The cost of a document, as in `documents.cost`: the totals, and each step."""
    sums = {
        name: sum(getattr(step, name) for step in steps)
        for name in ("requests", "prompt_tokens", "completion_tokens", "seconds")
    }
    return {**sums, "steps": [vars(step) for step in steps]}


async def write_result(
    store: Store,
    folder: str,
    result: DocumentResult,
    pages: AsyncIterator[PageResult],
    header: Mapping[str, Any],
) -> None:
    """Write a result to `folder` of the storage, `document.json` last, which begins with `header`.

    `pages` yields the pages of the result with their images, one at a time to bound memory. Raises
    StorageError.
    """
    images: dict[int, str] = {}
    async for page in pages:
        if page.image is not None:
            images[page.page_number] = path = page_image_path(page.page_number)
            await asyncio.to_thread(store.put, f"{folder}/{path}", page.image)
    await asyncio.to_thread(_write_files, store, folder, result, images, header)


def _write_files(
    store: Store,
    folder: str,
    result: DocumentResult,
    images: Mapping[int, str],
    header: Mapping[str, Any],
) -> None:
    for finding in result.findings:
        store.put(f"{folder}/{FIGURES_FOLDER}/{finding.name}", finding.jpeg)
    for figure in result.figures:
        store.put(f"{folder}/{FIGURES_FOLDER}/{figure.name}", figure.jpeg)
    store.put(f"{folder}/{PAGES_PARQUET}", _parquet(result.pages))
    store.put(f"{folder}/{DOCUMENT_MARKDOWN}", render_markdown(result).encode())
    content = {**header, **_content(result, images)}
    text = json.dumps(content, ensure_ascii=False, indent=2)
    store.put(f"{folder}/{DOCUMENT_JSON}", text.encode())


def _parquet(pages: Sequence[PageResult]) -> bytes:
    """The pages as a Parquet file with the table `pages` of a run, without images."""
    rows = {"pages": [page_item(page).rows["pages"][0] for page in pages]}
    found = rows if encoding_error(rows) is None else drop_unencodable(rows)
    return encode(found["pages"], "pages")


def _content(result: DocumentResult, images: Mapping[int, str]) -> dict[str, Any]:
    """The content of `document.json`: pages include lines, images and the model that read them,
    and what the steps classify and auxiliary found is listed."""
    content = document_content(result)
    content["pages"] = [
        {**shown, **_page(page), "image": images.get(page.page_number)}
        for shown, page in zip(content["pages"], result.pages, strict=True)
    ]
    content["class"] = result.class_name
    content["page_classes"] = [_page_class(page) for page in result.page_classes]
    content["findings"] = [
        _finding(finding, found.page_number)
        for found in result.auxiliary
        for finding in found.findings
    ]
    content["unparsed_pages"] = [
        {"page": page.page_number, "class": page.class_name, "reason": page.reason}
        for page in result.unparsed_pages
    ]
    content["unmet_expectations"] = [vars(unmet) for unmet in result.unmet_expectations]
    return content


def _page_class(page: PageClass) -> Mapping[str, Any]:
    used = page.outcome
    return {
        "page": page.page_number,
        "class": page.class_name,
        "path": page.path,
        "probability": page.probability,
        "p_value": page.p_value,
        "reason": page.reason,
        "milliseconds": round(page.milliseconds, 1),
        "classifier": page.classifier,
        "cost": {
            "requests": used.attempts,
            "prompt_tokens": used.prompt_tokens,
            "completion_tokens": used.completion_tokens,
            "seconds": used.seconds,
        },
        "model": used.model,
        "error_code": used.error_code,
        "error": used.error,
    }


def _finding(finding: AuxiliaryFinding, page_number: int) -> Mapping[str, Any]:
    box = finding.box
    return {
        "kind": finding.kind,
        "page": page_number,
        "value": finding.value,
        "text": finding.text,
        "problem": finding.problem,
        "symbology": finding.symbology,
        "candidates": list(finding.candidates),
        "box": [box.x1, box.y1, box.x2, box.y2],
        "corners": [list(corner) for corner in finding.corners],
        "confidence": finding.confidence,
        "source": finding.source,
        "file": f"{FIGURES_FOLDER}/{finding.name}",
    }


def _page(page: PageResult) -> Mapping[str, Any]:
    lines = None if page.lines is None else [_line(line) for line in page.lines]
    return {
        "rotation": page.rotation,
        "width_pt": page.width_pt,
        "height_pt": page.height_pt,
        "confidence": page.confidence,
        "lines": lines,
        "notes": list(page.notes),
        **_model_facts(page.outcome),
    }


def _line(line: PageLine) -> Mapping[str, Any]:
    box = [line.box.x1, line.box.y1, line.box.x2, line.box.y2]
    return {
        "text": line.text,
        "box": box,
        "confidence": line.confidence,
        "doubtful": line.doubtful,
    }


def _model_facts(outcome: Outcome) -> Mapping[str, Any]:
    return {
        "strategy": outcome.strategy,
        "model": outcome.model,
        "model_revision": outcome.model_revision,
        "profile": outcome.profile,
    }
