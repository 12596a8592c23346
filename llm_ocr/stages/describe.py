"""Describe: figure -> what it shows, in words."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from PIL import Image

from llm_ocr.inference.client import Answer, ChatRequest
from llm_ocr.models.profile import ModelProfile, Task
from llm_ocr.records import ErrorCode, ImagePolicy, PageError, PageStatus
from llm_ocr.stages.stage import ReadShard, item_result, outcome
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row
from llm_ocr.tables.shards import ItemResult


@dataclass(frozen=True)
class DescribeStage:
    """The figures that Extract cut out of the shard's pages."""

    read: ReadShard
    profile: ModelProfile
    model: str
    name: str = "describe"
    tables: Sequence[str] = ("descriptions",)

    async def items(self, shard: Shard) -> AsyncIterator["FigureItem"]:
        for row in self.read("figures", shard.name, None):
            yield FigureItem(self.profile, self.model, row)


class FigureItem:
    """One figure on its way to a description."""

    def __init__(self, profile: ModelProfile, model: str, figure: Row) -> None:
        self._profile, self._model, self._figure = profile, model, figure

    @property
    def item_id(self) -> str:
        return str(self._figure["figure_id"])

    async def request(self) -> ChatRequest:
        prompt = self._profile.prompts[Task.DESCRIBE]
        jpeg = self._figure["image"]["bytes"]
        if max(self._figure["width"], self._figure["height"]) > self._profile.image.longest_side:
            jpeg = await asyncio.to_thread(_shrink, jpeg, self._profile.image)
        return ChatRequest(prompt.text, jpeg, prompt.max_tokens, self._profile.sampling)

    async def result(self, answer: Answer | None) -> ItemResult:
        assert answer is not None, "every figure is asked about"
        if not answer.text.strip():
            error = PageError(
                ErrorCode.EMPTY_ANSWER, f"{self._figure['name']}: the model said nothing about it"
            )
            return self._row(PageStatus.FAILED, answer, error)
        cut = answer.finish_reason == "length"
        return self._row(PageStatus.TRUNCATED if cut else PageStatus.OK, answer, None)

    def failure(self, error: PageError) -> ItemResult:
        return self._row(PageStatus.FAILED, None, error)

    def _row(
        self, status: PageStatus, answer: Answer | None, error: PageError | None
    ) -> ItemResult:
        row = {
            "figure_id": self._figure["figure_id"],
            "page_id": self._figure["page_id"],
            "doc_id": self._figure["doc_id"],
            "task": Task.DESCRIBE.value,
            "text": answer.text.strip() if answer else None,
            **outcome(
                status,
                answer,
                error,
                model=self._model,
                profile=self._profile.id,
                prompt_hash=self._profile.prompt_hash(Task.DESCRIBE),
            ),
        }
        return item_result(self.item_id, row, {"descriptions": [row]})


def _shrink(jpeg: bytes, policy: ImagePolicy) -> bytes:
    with Image.open(io.BytesIO(jpeg)) as image:
        image.thumbnail((policy.longest_side, policy.longest_side))
        sink = io.BytesIO()
        image.save(sink, "JPEG", quality=policy.jpeg_quality)
    return sink.getvalue()
