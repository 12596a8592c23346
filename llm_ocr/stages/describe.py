"""Describe: figure and task -> what it shows, in words, as data or as a class."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from llm_ocr.inference.quality import Evidence, Flaw, Verdict, judge
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.request import ChatRequest
from llm_ocr.models.profile import ModelProfile, Rung, Task
from llm_ocr.records import Block, ErrorCode, ImagePolicy, PageError, PageStatus, ParsedAnswer
from llm_ocr.sources.raster import encode, upscale
from llm_ocr.stages.engine_extension import request_extension
from llm_ocr.stages.stage import (
    ModelRef,
    ModelResult,
    PromptRequest,
    ReadShard,
    Usage,
    combine_answers,
    item_result,
    outcome_columns,
)
from llm_ocr.stages.tasks import FigureAnswer, FigureTask
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import with_dollars


@dataclass(frozen=True)
class SizedTask:
    """A task, for figures that take at least `smallest` (0..1) of their page."""

    task: FigureTask
    smallest: float = 0.0


@dataclass(frozen=True)
class DescribeStage:
    """The figures that Extract cut out of the shard's pages, each once for each task.

    `asked` says of a shard what its commit will say, task by task; `tasks_of` what that means.
    """

    rows_of: ReadShard
    asked: Callable[[str], Mapping[str, str]]
    tasks_of: Callable[[Mapping[str, str]], Sequence[SizedTask]]
    name: str = "describe"
    tables: Sequence[str] = ("descriptions",)

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator["FigureItem"]:
        tasks = self.tasks_of(self.asked(shard.name))
        areas = {
            row["page_id"]: (row["width"] or 0) * (row["height"] or 0)
            for row in self.rows_of("pages", shard.name, ["page_id", "width", "height"])
        }
        for figure in self.rows_of("figures", shard.name, None):
            share = _share(figure, areas.get(figure["page_id"], 0))
            for one in tasks:
                yield FigureItem(figure, one.task, is_small=share < one.smallest)


def _share(figure: Row, page_area: float) -> float:
    """The share of its page that a figure takes, 0..1; 1 where the page's size is unknown."""
    across, down = figure["x2"] - figure["x1"], figure["y2"] - figure["y1"]
    return float(across * down / page_area) if page_area else 1.0


class FigureItem:
    """One figure on its way to what one task wants of it."""

    def __init__(self, figure: Row, task: FigureTask, *, is_small: bool = False) -> None:
        self._figure, self._task, self._is_small = figure, task, is_small

    @property
    def item_id(self) -> str:
        return f"{self._figure['figure_id']}/{self._task.name}"

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """A figure is no page: what a rung says of prompts and strips is not for it."""
        return [rung for rung in profile.ladder if rung.bands == 1 and rung.task is Task.DOCUMENT]

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        if self._is_small:
            return []
        policy, jpeg = profile.image, self._figure["image"]["bytes"]
        side = max(self._figure["width"], self._figure["height"])
        if not policy.smallest_side <= side <= policy.longest_side:
            jpeg = await asyncio.to_thread(_fitted, jpeg, policy)
        return [PromptRequest(self._request(profile, rung, jpeg))]

    def _request(self, profile: ModelProfile, rung: Rung, jpeg: bytes) -> ChatRequest:
        task, prompt = self._task, self._task.prompt(profile)
        sampling = {**profile.sampling, **rung.sampling}
        request = ChatRequest(
            prompt.text,
            jpeg,
            prompt.max_tokens,
            sampling,
            extension=request_extension(profile, task.kind),
        )
        if not task.guide or not prompt.guided:
            return request
        return replace(request, guide=task.guide, unguided=f"{prompt.text}\n\n{task.form}")

    def read(
        self, reader: ModelRef, rung: Rung, asked: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answer, profile = combine_answers([answer for _, answer in asked]), reader.profile
        said = answer.text.strip()
        blocks = (Block("text", said, None),) if said else ()
        verdict = self._verdict(answer, blocks, profile)
        if verdict.flaw is Flaw.LOOP:
            blocks = (Block("text", answer.text[: verdict.kept].strip(), None),)
        asked_as = profile.hash_of(self._task.prompt(profile))
        return ModelResult(reader, rung.name, asked_as, answer, ParsedAnswer(blocks), verdict)

    def _verdict(self, answer: Answer, blocks: Sequence[Block], profile: ModelProfile) -> Verdict:
        """How good the answer is. What is to have a form is good if it has: data may repeat."""
        verdict = judge(answer, blocks, Evidence(ink=1.0, may_loop=profile.may_loop))
        if self._task.read is None or not blocks:
            return verdict
        unreadable = self._task.read(answer).unreadable
        if unreadable:
            why = f"{unreadable} ({verdict.why})" if verdict.why else unreadable
            return Verdict(Flaw.UNREADABLE, 0, None, why)
        return Verdict(None, len(answer.text), None) if _ended(answer) else verdict

    def read_without_model(self) -> None:
        return None

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        if reading is None:
            return self._row(PageStatus.SKIPPED, None, usage)
        if reading.status is not PageStatus.FAILED:
            said = self._said(reading)
            status = PageStatus.BLANK if said.is_blank else reading.status
            return self._row(status, reading, usage, said=said)
        return self._row(PageStatus.FAILED, reading, usage, self._why_failed(reading.verdict))

    def _said(self, reading: ModelResult) -> FigureAnswer:
        if self._task.read is not None and reading.answer is not None:
            return self._task.read(reading.answer)
        texts = [block.text for block in reading.parsed.blocks]
        return FigureAnswer(with_dollars(texts[0]) if texts else None)

    def _why_failed(self, verdict: Verdict) -> PageError:
        name, task = self._figure["name"], self._task.name
        if verdict.flaw is Flaw.UNREADABLE:
            message = f"{name}: {task}: {verdict.why}; see raw_answer"
            return PageError(ErrorCode.UNREADABLE_ANSWER, message)
        return PageError(ErrorCode.EMPTY_ANSWER, f"{name}: {task}: the model said nothing about it")

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._row(PageStatus.FAILED, None, usage, error)

    def _row(
        self,
        status: PageStatus,
        reading: ModelResult | None,
        usage: Usage,
        error: PageError | None = None,
        said: FigureAnswer | None = None,
    ) -> ItemResult:
        said, has_form = said or FigureAnswer(), self._task.read is not None
        row = {
            "description_id": self.item_id,
            "figure_id": self._figure["figure_id"],
            "page_id": self._figure["page_id"],
            "doc_id": self._figure["doc_id"],
            "task": self._task.name,
            "text": said.text,
            "data": said.data,
            "confidence": said.confidence,
            "errors": [vars(one) for one in said.errors],
            "raw_answer": reading.answer.text if has_form and reading and reading.answer else None,
            **outcome_columns(status, reading, usage, error),
        }
        return item_result(self.item_id, row, {"descriptions": [row]})


def _ended(answer: Answer) -> bool:
    """Whether the model ended its answer itself."""
    return answer.finish_reason not in ("length", "repetition")


def _fitted(jpeg: bytes, policy: ImagePolicy) -> bytes:
    with Image.open(io.BytesIO(jpeg)) as image:
        image.thumbnail((policy.longest_side, policy.longest_side))
        return encode(upscale(image, policy.smallest_side), policy.jpeg_quality)
