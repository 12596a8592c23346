"""Describe: figure and task -> what it shows, in words, as data or as a class."""

import asyncio
import io
from collections.abc import Sequence
from dataclasses import replace

from PIL import Image

from llm_ocr.document.figure_tasks import FigureAnswer, FigureTask
from llm_ocr.document.items import AskModel, outcome
from llm_ocr.inference.engine_extension import request_extension
from llm_ocr.inference.model_item import (
    ModelRef,
    ModelResult,
    PromptRequest,
    Usage,
    combine_answers,
)
from llm_ocr.inference.quality import QualityAssessment, QualityIssue, QualitySignals, assess
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.models.profile import ModelProfile, Rung, Task
from llm_ocr.records import (
    Block,
    Description,
    ErrorCode,
    Figure,
    ImagePolicy,
    PageError,
    PageStatus,
    ParsedAnswer,
)
from llm_ocr.sources.raster import encode, fit_size
from llm_ocr.text.markdown import normalize_math_delimiters


class FigureItem:
    """One figure and one task: an `Item` of `Description`, and what a model is asked about.

    Of a figure that `is_small` nothing is asked.
    """

    def __init__(self, figure: Figure, task: FigureTask, *, is_small: bool = False) -> None:
        self._figure, self._task, self._is_small = figure, task, is_small

    @property
    def item_id(self) -> str:
        return f"{self._figure.figure_id}/{self._task.name}"

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        return await ask_model(self, usage)

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """A figure is no page: what a rung says of prompts and strips is not for it."""
        return [rung for rung in profile.ladder if rung.bands == 1 and rung.task is Task.DOCUMENT]

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        if self._is_small:
            return []
        policy, jpeg = profile.image, self._figure.jpeg
        size = self._figure.width, self._figure.height
        if fit_size(*size, policy) != size:
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
        if not task.structured_output or not prompt.guided:
            return request
        return replace(
            request,
            structured_output=task.structured_output,
            prompt_without_schema=f"{prompt.text}\n\n{task.format_instructions}",
        )

    def read(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answer, profile = combine_answers([answer for _, answer in exchanges]), model.profile
        said = answer.text.strip()
        blocks = (Block("text", said, None),) if said else ()
        assessment = self._assessment(answer, blocks, profile)
        if assessment.issue is QualityIssue.LOOP:
            blocks = (Block("text", answer.text[: assessment.kept_length].strip(), None),)
        asked_as = profile.hash_prompt(self._task.prompt(profile))
        return ModelResult(model, rung.name, asked_as, answer, ParsedAnswer(blocks), assessment)

    def _assessment(
        self, answer: Answer, blocks: Sequence[Block], profile: ModelProfile
    ) -> QualityAssessment:
        """How good the answer is. What is to have a form is good if it has: data may repeat."""
        assessment = assess(answer, blocks, QualitySignals(ink=1.0, may_loop=profile.may_loop))
        if self._task.read is None or not blocks:
            return assessment
        unreadable = self._task.read(answer).unreadable
        if unreadable:
            why = f"{unreadable} ({assessment.reason})" if assessment.reason else unreadable
            return QualityAssessment(QualityIssue.UNREADABLE, 0, None, why)
        return QualityAssessment(None, len(answer.text), None) if _ended(answer) else assessment

    def read_without_model(self) -> None:
        return None

    async def result(self, answer: ModelResult | None, usage: Usage) -> Description:
        if answer is None:
            return self._description(PageStatus.SKIPPED, None, usage)
        if answer.status is PageStatus.FAILED:
            error = self._why_failed(answer.assessment)
            return self._description(PageStatus.FAILED, answer, usage, error)
        said = self._said(answer)
        status = PageStatus.BLANK if said.is_blank else answer.status
        return self._description(status, answer, usage, said=said)

    def _said(self, reading: ModelResult) -> FigureAnswer:
        if self._task.read is not None and reading.answer is not None:
            return self._task.read(reading.answer)
        texts = [block.text for block in reading.parsed.blocks]
        return FigureAnswer(normalize_math_delimiters(texts[0]) if texts else None)

    def _why_failed(self, assessment: QualityAssessment) -> PageError:
        name, task = self._figure.name, self._task.name
        if assessment.issue is QualityIssue.UNREADABLE:
            message = f"{name}: {task}: {assessment.reason}; see raw_answer"
            return PageError(ErrorCode.UNREADABLE_ANSWER, message)
        return PageError(ErrorCode.EMPTY_ANSWER, f"{name}: {task}: the model said nothing about it")

    def failure(self, error: PageError, usage: Usage) -> Description:
        return self._description(PageStatus.FAILED, None, usage, error)

    def _description(
        self,
        status: PageStatus,
        answer: ModelResult | None,
        usage: Usage,
        error: PageError | None = None,
        said: FigureAnswer | None = None,
    ) -> Description:
        said, has_form = said or FigureAnswer(), self._task.read is not None
        return Description(
            outcome=outcome(status, answer, usage, error),
            description_id=self.item_id,
            figure_id=self._figure.figure_id,
            page_id=self._figure.page_id,
            doc_id=self._figure.doc_id,
            task=self._task.name,
            text=said.text,
            data=said.data,
            confidence=said.confidence,
            errors=said.errors,
            raw_answer=answer.answer.text if has_form and answer and answer.answer else None,
        )


def _ended(answer: Answer) -> bool:
    """Whether the model ended its answer itself."""
    return answer.finish_reason not in ("length", "repetition")


def _fitted(jpeg: bytes, policy: ImagePolicy) -> bytes:
    with Image.open(io.BytesIO(jpeg)) as image:
        size = fit_size(*image.size, policy)
        image.draft(None, (2 * size[0], 2 * size[1]))
        fitted = image.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
        return encode(fitted, policy.jpeg_quality)
