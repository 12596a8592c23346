"""Describe: figure -> what it shows, in words."""

import asyncio
import io
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from PIL import Image

from llm_ocr.inference.client import ChatRequest
from llm_ocr.inference.quality import Evidence, Flaw, judge
from llm_ocr.inference.replies import Answer
from llm_ocr.models.profile import ModelProfile, Rung, Task
from llm_ocr.records import Block, ErrorCode, ImagePolicy, PageError, PageStatus, ParsedAnswer
from llm_ocr.sources.raster import encode, enlarged
from llm_ocr.stages.stage import (
    Question,
    Reader,
    Reading,
    ReadShard,
    Spent,
    item_result,
    joined,
    outcome,
)
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row


@dataclass(frozen=True)
class DescribeStage:
    """The figures that Extract cut out of the shard's pages."""

    rows_of: ReadShard
    name: str = "describe"
    tables: Sequence[str] = ("descriptions",)

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator["FigureItem"]:
        for row in self.rows_of("figures", shard.name, None):
            yield FigureItem(row)


class FigureItem:
    """One figure on its way to a description."""

    def __init__(self, figure: Row) -> None:
        self._figure = figure

    @property
    def item_id(self) -> str:
        return str(self._figure["figure_id"])

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """A figure is no page: what a rung says of prompts and strips is not for it."""
        return [rung for rung in profile.ladder if rung.bands == 1 and rung.task is Task.DOCUMENT]

    async def questions(self, profile: ModelProfile, rung: Rung) -> Sequence[Question]:
        prompt, policy = profile.prompts[Task.DESCRIBE], profile.image
        jpeg = self._figure["image"]["bytes"]
        side = max(self._figure["width"], self._figure["height"])
        if not policy.smallest_side <= side <= policy.longest_side:
            jpeg = await asyncio.to_thread(_fitted, jpeg, policy)
        sampling = {**profile.sampling, **rung.sampling}
        return [Question(ChatRequest(prompt.text, jpeg, prompt.max_tokens, sampling))]

    def read(self, reader: Reader, rung: Rung, asked: Sequence[tuple[Question, Answer]]) -> Reading:
        answer, profile = joined(asked), reader.profile
        said = answer.text.strip()
        blocks = (Block("text", said, None),) if said else ()
        verdict = judge(answer, blocks, Evidence(ink=1.0, may_loop=profile.may_loop))
        if verdict.flaw is Flaw.LOOP:
            blocks = (Block("text", answer.text[: verdict.kept].strip(), None),)
        asked_as = profile.prompt_hash(Task.DESCRIBE)
        return Reading(reader, rung.name, asked_as, answer, ParsedAnswer(blocks), verdict)

    def without_model(self) -> None:
        return None

    async def result(self, reading: Reading | None, spent: Spent) -> ItemResult:
        assert reading is not None, "every figure is asked about"
        if reading.status is PageStatus.FAILED:
            error = PageError(
                ErrorCode.EMPTY_ANSWER, f"{self._figure['name']}: the model said nothing about it"
            )
            return self._row(PageStatus.FAILED, reading, spent, error)
        return self._row(reading.status, reading, spent)

    def failure(self, error: PageError, spent: Spent) -> ItemResult:
        return self._row(PageStatus.FAILED, None, spent, error)

    def _row(
        self,
        status: PageStatus,
        reading: Reading | None,
        spent: Spent,
        error: PageError | None = None,
    ) -> ItemResult:
        texts = [block.text for block in reading.parsed.blocks] if reading else []
        row = {
            "figure_id": self._figure["figure_id"],
            "page_id": self._figure["page_id"],
            "doc_id": self._figure["doc_id"],
            "task": Task.DESCRIBE.value,
            "text": texts[0] if texts else None,
            **outcome(status, reading, spent, error),
        }
        return item_result(self.item_id, row, {"descriptions": [row]})


def _fitted(jpeg: bytes, policy: ImagePolicy) -> bytes:
    with Image.open(io.BytesIO(jpeg)) as image:
        image.thumbnail((policy.longest_side, policy.longest_side))
        return encode(enlarged(image, policy.smallest_side), policy.jpeg_quality)
