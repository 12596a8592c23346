"""The files of a result and their content."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from llm_ocr.records import (
    Block,
    Box,
    DocumentResult,
    Figure,
    Outcome,
    PageLine,
    PageResult,
    PageStatus,
)
from llm_ocr.service.results import (
    DOCUMENT_JSON,
    DOCUMENT_MARKDOWN,
    FIGURES_FOLDER,
    PAGES_PARQUET,
    page_image_path,
    result_folder,
    step_cost,
    total_cost,
    write_result,
)
from llm_ocr.storage.store import Store, open_store

BOX = Box(10, 20, 30, 40)


def page(number: int) -> PageResult:
    figure = Figure(f"doc/{number}/1", f"doc/{number}", "doc", f"a-p{number}-1.jpg", "image", BOX,
                    b"figure", 20, 20)  # fmt: skip
    return PageResult(
        Outcome(
            PageStatus.OK,
            attempts=2,
            prompt_tokens=300,
            completion_tokens=7,
            seconds=0.5,
            model="m",
        ),
        f"doc/{number}",
        "doc",
        "a.pdf",
        "a",
        number,
        markdown=f"Page {number}",
        blocks=(Block("text", f"Page {number}", BOX, 0.9),),
        lines=(PageLine(f"Page {number}", 0.8, False, BOX),),
        figures=(figure,),
        confidence=0.7,
    )


PAGES = tuple(page(number) for number in (1, 2, 3))
RESULT = DocumentResult("doc", "a.pdf", "a", PageStatus.OK, "All pages", PAGES)


class Images:
    """Yield pages with images one at a time; records the number of stored objects before each."""

    def __init__(self, store: Store) -> None:
        self.store, self.stored = store, list[int]()

    async def pages(self) -> AsyncIterator[PageResult]:
        for page in PAGES:
            self.stored.append(sum(1 for _ in self.store.list("result-4")))
            yield replace(page, image=b"image %d" % page.page_number)


def write(folder: Path) -> tuple[Store, Images]:
    store = open_store(str(folder))
    images = Images(store)
    header = {"id": "doc", "pipeline_revision": "r1"}
    asyncio.run(write_result(store, result_folder(4), RESULT, images.pages(), header))
    return store, images


def content(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.get(f"result-4/{DOCUMENT_JSON}"))
    return found


def test_result_files(tmp_path: Path) -> None:
    store, _ = write(tmp_path)
    assert {entry.path.removeprefix("result-4/") for entry in store.list("result-4")} == {
        DOCUMENT_JSON,
        DOCUMENT_MARKDOWN,
        PAGES_PARQUET,
        *(f"{FIGURES_FOLDER}/a-p{number}-1.jpg" for number in (1, 2, 3)),
        *(page_image_path(number) for number in (1, 2, 3)),
    }
    assert store.get(f"result-4/{page_image_path(2)}") == b"image 2"
    assert store.get(f"result-4/{DOCUMENT_MARKDOWN}") == b"All pages\n"
    table = pq.read_table(io.BytesIO(store.get(f"result-4/{PAGES_PARQUET}")))
    assert table.column("page_number").to_pylist() == [1, 2, 3]
    assert table.column("image").null_count == 3


def test_json_has_blocks_and_lines_with_boxes_and_confidence(tmp_path: Path) -> None:
    store, _ = write(tmp_path)
    found = content(store)
    assert (found["id"], found["pipeline_revision"], found["status"]) == ("doc", "r1", "ok")
    second = found["pages"][1]
    assert second["image"] == page_image_path(2)
    assert (second["model"], second["confidence"]) == ("m", 0.7)
    assert second["lines"] == [
        {"text": "Page 2", "box": [10, 20, 30, 40], "confidence": 0.8, "doubtful": False}
    ]
    assert second["blocks"][0]["box"] == [10, 20, 30, 40]
    assert second["blocks"][0]["confidence"] == 0.9
    assert found["figures"][2]["file"] == "figures/a-p3-1.jpg"


def test_page_images_are_written_one_at_a_time(tmp_path: Path) -> None:
    assert write(tmp_path)[1].stored == [0, 1, 2]


def test_cost_adds_up_by_step_and_in_total() -> None:
    steps = [step_cost("extract", PAGES, "m", "large"), step_cost("describe", PAGES[:1])]
    assert (steps[0].items, steps[0].requests, steps[0].prompt_tokens) == (3, 6, 900)
    total = total_cost(steps)
    assert (total["requests"], total["completion_tokens"], total["seconds"]) == (8, 28, 2.0)
    assert total["steps"][0]["target"] == "large"
