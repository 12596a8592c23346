"""Render the first pages of an input, to look at before paying for a run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.models.catalog import profile_named
from llm_ocr.pipeline.executor import render_pool
from llm_ocr.pipeline.interruption import CancellationToken, run_until_stopped
from llm_ocr.pipeline.planning import absolute
from llm_ocr.records import Page, PageError
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import list_documents


@dataclass(frozen=True)
class Preview:
    """A document's first page as the model will see it, or why it can't be drawn."""

    name: str
    jpeg: bytes | None
    error: str = ""


def preview_pages(
    inputs: Sequence[str], settings: Settings | None = None, *, count: int = 3
) -> list[Preview]:
    """The first pages of the first documents. Raises NoInputError or StorageError."""
    chosen = settings or Settings()

    async def work(stop: CancellationToken) -> list[Preview]:
        return await stop.guard(_drawn([absolute(one) for one in inputs], chosen, count))

    return run_until_stopped(work, chosen.stop_seconds)


async def _drawn(inputs: Sequence[str], settings: Settings, count: int) -> list[Preview]:
    policy = profile_named(settings.model).image
    found: list[Preview] = []
    async with render_pool(settings) as pool:
        for planned in await asyncio.to_thread(list_documents, inputs):
            async for document, error in pool.rows(planned):
                try:
                    if error is not None:
                        raise error
                    image = await pool.render(Page(document, 1), policy)
                    found.append(Preview(document.name, image.jpeg))
                except PageError as refused:
                    found.append(Preview(document.name, None, refused.message))
                finally:
                    pool.release(document)
                if len(found) == count:
                    return found
    return found
