"""The items of a document's steps."""

import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llm_ocr.batch.stages import ExtractStage
from llm_ocr.document.checkpoints import MemoryCheckpoints
from llm_ocr.document.page import ExtractOptions
from llm_ocr.document.processor import CheckpointInputs
from llm_ocr.document.steps import Extract
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.tables.plan import PlannedDocument, Shard
from tests import documents

PAGES = 5


@pytest.mark.parametrize("consumer", ["convert", "run"])
async def test_no_page_is_held_after_its_turn(tmp_path: Path, consumer: str) -> None:
    """Each has its image: those of a long document would fill the memory."""
    [document] = list_documents([str(documents.pdf(tmp_path / "book.pdf", PAGES))])
    async with RenderPool(1) as pool:
        extract = Extract(ExtractOptions(pool, DEEPSEEK_OCR))
        items: AsyncIterator[object]
        if consumer == "convert":
            items = extract.items(CheckpointInputs(document, MemoryCheckpoints(), {}))
        else:
            items = ExtractStage(extract).items(Shard(0, (PlannedDocument(document, PAGES),)), ())
        seen: list[weakref.ref[object]] = []
        async for item in items:
            seen.append(weakref.ref(item))
            gc.collect()
            assert [earlier() for earlier in seen[:-1]] == [None] * (len(seen) - 1)
    assert len(seen) == PAGES
