"""Classify pages: by their nearest examples first, then by a model, and else for people."""

import asyncio
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PIL import Image

from llm_ocr.classification.options import (
    OTHER,
    ClassifyOptions,
    DocumentRule,
    choose_class,
)
from llm_ocr.document.figure_tasks import FigureAnswer, read_class
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
from llm_ocr.models.profile import ModelProfile, Prompt, Rung, Task
from llm_ocr.records import (
    Block,
    ClassificationPath,
    ErrorCode,
    PageClass,
    PageError,
    PageResult,
    PageStatus,
    ParsedAnswer,
)
from llm_ocr.sources.raster import encode, fit, fit_size

if TYPE_CHECKING:
    from llm_ocr.classification.classifier import PageClassifier, PageVote

MAX_TOKENS = 32


@dataclass(frozen=True)
class LoadedClassifier:
    """A classifier, and the version that results name: NAME/VERSION, or a hash of its files."""

    classifier: "PageClassifier"
    version: str


@dataclass(frozen=True)
class PageClassification:
    """How pages are classified. `loaded` is the classifier of the options, if they name one."""

    options: ClassifyOptions
    loaded: LoadedClassifier | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that a model chooses from; it may also answer that the page is another."""
        known = () if self.loaded is None else self.loaded.classifier.classes
        return (*dict.fromkeys(self.options.page_classes or known), OTHER)


class ClassifyItem:
    """One page to be classified: an `Item` of `PageClass`. `page` has its image."""

    def __init__(self, classification: PageClassification, page: PageResult) -> None:
        self._classification, self._page = classification, page
        self._vote: PageVote | None = None
        self._milliseconds = 0.0

    @property
    def item_id(self) -> str:
        return self._page.page_id

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        started = time.perf_counter()
        self._vote = await self._compare()
        self._milliseconds = 1000 * (time.perf_counter() - started)
        if self._vote is not None and self._vote.is_accepted:
            return None
        return await ask_model(self, usage)

    async def _compare(self) -> "PageVote | None":
        if (loaded := self._classification.loaded) is None:
            return None
        # Takes numpy, which only comes with some extras.
        from llm_ocr.classification.descriptors import PageInput, top_text
        from llm_ocr.classification.options import ClassifierError

        assert self._page.image is not None
        image = Image.open(io.BytesIO(self._page.image))
        page = PageInput(image, top_text(self._page))
        try:
            return (await asyncio.to_thread(loaded.classifier.classify, [page]))[0]
        except ClassifierError as error:
            raise PageError(ErrorCode.ENGINE_ERROR, str(error)) from error

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """Rungs that read in strips or with another prompt are for text."""
        return [rung for rung in profile.ladder if rung.bands == 1 and rung.task is Task.DOCUMENT]

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        policy, jpeg = profile.image, self._page.image
        assert jpeg is not None
        size = self._page.width or 1, self._page.height or 1
        if fit_size(*size, policy) != size:
            jpeg = await asyncio.to_thread(_fit, jpeg, profile)
        prompt, classes = self._prompt(profile), list(self._classification.classes)
        request = ChatRequest(
            prompt.text,
            jpeg,
            prompt.max_tokens,
            {**profile.sampling, **rung.sampling},
            extension=request_extension(profile, Task.CLASSIFY),
        )
        structured = {"structured_outputs": {"choice": classes}, "logprobs": True}
        return [
            PromptRequest(
                replace(request, structured_output=structured, prompt_without_schema=prompt.text)
            )
        ]

    def read(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answer, profile = combine_answers([answer for _, answer in exchanges]), model.profile
        text = answer.text.strip()
        blocks = (Block("text", text, None),) if text else ()
        assessment = assess(answer, blocks, QualitySignals(ink=1.0, may_loop=profile.may_loop))
        if blocks:
            unreadable = self._read(answer).unreadable
            assessment = (
                QualityAssessment(QualityIssue.UNREADABLE, 0, None, unreadable)
                if unreadable
                else QualityAssessment(None, len(answer.text), None)
            )
        asked_as = profile.hash_prompt(self._prompt(profile))
        return ModelResult(model, rung.name, asked_as, answer, ParsedAnswer(blocks), assessment)

    def read_without_model(self) -> None:
        return None

    async def result(self, answer: ModelResult | None, usage: Usage) -> PageClass:
        if self._vote is not None and self._vote.is_accepted:
            vote = self._vote
            return self._page_class(
                ClassificationPath.KNN, vote.class_name, vote.probability, None, answer, usage
            )
        if answer is None or answer.answer is None:
            return self._review(None, None, None, answer, usage)
        if answer.status is PageStatus.FAILED:
            reason = f"the model's answer can't be used: {answer.assessment.reason}"
            return self._review(None, None, reason, answer, usage)
        said = self._read(answer.answer)
        assert said.text is not None
        doubt = self._doubt(said)
        if doubt is not None:
            return self._review(said.text, said.confidence, doubt, answer, usage)
        return self._page_class(
            ClassificationPath.VLM, said.text, said.confidence, None, answer, usage
        )

    def failure(self, error: PageError, usage: Usage) -> PageClass:
        result = self._page_class(ClassificationPath.REVIEW, None, None, error.message, None, usage)
        return replace(result, outcome=outcome(PageStatus.FAILED, None, usage, error))

    def _doubt(self, said: FigureAnswer) -> str | None:
        """Why a model's answer isn't taken; None if it is."""
        least, vote = self._classification.options.min_probability, self._vote
        if said.text == OTHER:
            return "the model finds that it is of no known kind"
        if said.confidence is None:
            return "the server reported no log-probabilities, so the model's answer has no weight"
        if said.confidence < least:
            return f"the model's probability for {said.text} is {said.confidence:.2f} < {least:.2f}"
        if vote is not None and vote.plausible and said.text not in vote.plausible:
            names = " or ".join(vote.plausible)
            return f"the model says {said.text}, and the page resembles {names}"
        return None

    def _review(
        self,
        class_name: str | None,
        probability: float | None,
        reason: str | None,
        answer: ModelResult | None,
        usage: Usage,
    ) -> PageClass:
        vote, loaded = self._vote, self._classification.loaded
        if vote is not None and loaded is not None:
            # Takes numpy, as above.
            from llm_ocr.classification.explanation import describe_decision

            refused = describe_decision(loaded.classifier, vote)
            reason = refused if reason is None else f"{refused} {reason[0].upper()}{reason[1:]}."
            if class_name is None:
                class_name, probability = vote.class_name, vote.probability
        reason = reason or "no model was asked"
        path = ClassificationPath.REVIEW
        return self._page_class(path, class_name, probability, reason, answer, usage)

    def _page_class(
        self,
        path: ClassificationPath,
        class_name: str | None,
        probability: float | None,
        reason: str | None,
        answer: ModelResult | None,
        usage: Usage,
    ) -> PageClass:
        vote, loaded = self._vote, self._classification.loaded
        return PageClass(
            outcome=outcome(PageStatus.OK, answer, usage),
            page_id=self._page.page_id,
            doc_id=self._page.doc_id,
            path=path,
            class_name=class_name,
            probability=probability,
            p_value=None if vote is None else vote.p_value,
            reason=reason,
            milliseconds=self._milliseconds + 1000 * usage.seconds,
            classifier=None if loaded is None else loaded.version,
        )

    def _prompt(self, profile: ModelProfile) -> Prompt:
        listed = ", ".join(self._classification.classes[:-1])
        return profile.custom_prompt(
            f"What kind of page is this? Answer with one of these, and nothing else: {listed}. "
            f"Answer {OTHER} if it is none of them.",
            MAX_TOKENS,
        )

    def _read(self, answer: Answer) -> FigureAnswer:
        return read_class(answer, self._classification.classes)


def classify_document(pages: Sequence[PageClass], rule: DocumentRule) -> str | None:
    """The class of a document, by the classes of its pages; see `choose_class`."""
    names = [None if page.path is ClassificationPath.REVIEW else page.class_name for page in pages]
    return choose_class(names, rule)


def classification_key(classification: PageClassification) -> str:
    """What the results depend on besides the page and the model, as JSON."""
    loaded = classification.loaded
    after = {"document_class", "split", "first_page_classes", "pipelines"}
    options = classification.options.model_dump(mode="json", exclude=after)
    return json.dumps([options, None if loaded is None else loaded.version], sort_keys=True)


def _fit(jpeg: bytes, profile: ModelProfile) -> bytes:
    policy = profile.image
    with Image.open(io.BytesIO(jpeg)) as image:
        return encode(fit(image.convert("RGB"), policy), policy.jpeg_quality)
