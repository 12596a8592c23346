"""Ask a model for a record of one chunk of a document: a page, or some of its text."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from PIL import Image

from llm_ocr.document.items import AskModel
from llm_ocr.inference.engine_extension import request_extension
from llm_ocr.inference.model_item import (
    ModelRef,
    ModelResult,
    PromptRequest,
    Usage,
    combine_answers,
)
from llm_ocr.inference.quality import QualityAssessment, QualityIssue
from llm_ocr.inference.request import ChatRequest, EarlierTurn
from llm_ocr.inference.responses import Answer
from llm_ocr.models.profile import ModelProfile, Prompt, Rung, Task
from llm_ocr.parsing.chunks import CHUNK_CHARACTERS
from llm_ocr.parsing.confidence import logprob_confidences
from llm_ocr.parsing.json_answers import SURROUNDING_TEXT, extract_json, field_keys
from llm_ocr.parsing.missing_rows import may_lack_rows, row_lists, with_missing_rows
from llm_ocr.parsing.schema import Schema, SchemaError, ValidatedRecord
from llm_ocr.parsing.validation import to_json
from llm_ocr.records import ImagePolicy, PageError, ParsedAnswer
from llm_ocr.sources.raster import encode, fit

# Where there was no JSON, or it was cut: once more, with what was wrong and room for more. At a
# temperature, as one that ran into a loop would do so again.
AGAIN = Rung("again", sampling={"temperature": 0.3, "seed": 1}, longer=True)
# Tokens that the prompt may take more when it is asked again.
_SPARE = 256
# Characters of text a token is at least, and tokens that an image and the schema take at most.
_TOKEN_CHARACTERS = 3
_BESIDE = 2_000
# Characters of a document's text for which a request has room at least.
_LEAST_TEXT = 2_000
# What a second pass is asked, with the rows by the names of their lists.
_MISSING = (
    "These rows of its lists were found before:\n{}\n"
    "Which rows of the lists are missing there? Give only the missing ones in the lists, each with "
    "all its values, in the order of the page. Give empty lists if no row is missing."
)
# Tokens of a chat template around the two messages of an example.
_TURN_TOKENS = 16


@dataclass(frozen=True)
class Chunk:
    """`name` says which it is; `overlaps` if it begins with what the part before it ends with."""

    name: str
    text: str
    image: Callable[[], bytes] | None = None
    overlaps: bool = False


@dataclass(frozen=True)
class ChunkResult(ModelResult):
    """The record in an answer, and how sure the model was of its values (by path, 0..1);
    `rows_added` are those that a second pass found."""

    record: ValidatedRecord | None = None
    confidences: Mapping[str, float] | None = None
    rows_added: int = 0


class ChunkItem:
    """A chunk that a model is asked about; the second model, with `is_check`. With `found`, the
    rows of its lists that are known, only for those that are missing there."""

    def __init__(
        self,
        part: Chunk,
        schema: Schema,
        *,
        is_check: bool = False,
        found: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        self.part, self.is_check = part, is_check
        self._schema = schema
        self._missing = "" if found is None else _MISSING.format(to_json(found))
        self._last: ChunkResult | None = None

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return [AGAIN]

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        prompt = profile.prompt(Task.PARSE)
        limit = prompt.max_tokens
        if rung is AGAIN and self._was_cut:
            limit = self._room(profile, 2 * limit)
            if limit <= prompt.max_tokens:
                return []
        return [self._question(profile, prompt, limit, {**profile.sampling, **rung.sampling})]

    def read(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answer = combine_answers([answer for _, answer in exchanges])
        found = extract_json(answer.text, field_keys(self._schema))
        self._last = ChunkResult(
            model=model,
            strategy=rung.name,
            prompt_hash=model.profile.prompt_hash(Task.PARSE),
            answer=answer,
            parsed=ParsedAnswer((), tuple(one for one in found.notes if one != SURROUNDING_TEXT)),
            assessment=_assessment(answer, found.value is not None, found.truncated),
            record=None if found.value is None else self._schema.validate(found.value),
            confidences=logprob_confidences(answer.text, answer.logprobs),
        )
        return self._last

    def read_without_model(self) -> None:
        return None

    @property
    def _was_cut(self) -> bool:
        return self._last is not None and self._last.assessment.issue is QualityIssue.CUT

    def _room(self, profile: ModelProfile, wanted: int) -> int:
        """Tokens left for an answer, after the prompt as the server counted it."""
        taken = self._last.answer.prompt_tokens if self._last and self._last.answer else 0
        return min(wanted, profile.serving.max_model_len - taken - _SPARE)

    def _question(
        self,
        profile: ModelProfile,
        prompt: Prompt,
        limit: int,
        sampling: Mapping[str, object],
    ) -> PromptRequest:
        schema, part = self._schema, self.part
        text = _page_text(part.text)
        said = f"The JSON schema:\n{json.dumps(schema.json_schema)}"
        reason = f"Asked before, {self._last.assessment.reason}. Mind that." if self._last else ""
        again = "\n\n".join(filter(None, (self._missing, reason)))
        with_schema = "\n\n".join(filter(None, (prompt.text, said, text, again)))
        request = ChatRequest(
            prompt=with_schema,
            jpeg=part.image() if part.image else None,
            max_tokens=limit,
            sampling=sampling,
            extension=request_extension(profile, Task.PARSE),
            earlier=_earlier_turns(schema, profile, prompt),
        )
        if profile.schema_arguments is not None:
            minded = "\n\n".join(filter(None, (_described_examples(schema), again)))
            arguments = profile.schema_arguments(schema.json_schema, minded)
            request = replace(request, prompt=part.text, chat_template_kwargs=arguments)
        if not prompt.guided:
            return PromptRequest(replace(request, sampling={**sampling, "logprobs": True}))
        form = {"name": schema.name, "schema": schema.json_schema}
        guided = replace(
            request,
            prompt="\n\n".join(filter(None, (prompt.text, text, again))),
            structured_output={
                "response_format": {"type": "json_schema", "json_schema": form},
                "logprobs": True,
            },
            prompt_without_schema=with_schema,
        )
        return PromptRequest(guided)


async def ask_for_missing_rows(
    chunk: Chunk,
    schema: Schema,
    result: ChunkResult,
    ask_model: AskModel,
    usage: Usage,
    *,
    is_check: bool = False,
) -> ChunkResult:
    """The result with the rows that its lists lack, if the answer was cut or they seem to lack any.

    Where the second request fails, or its answer has no record, the first result stays.
    """
    record = result.record
    was_cut = result.assessment.issue is QualityIssue.CUT
    if record is None or not (was_cut or may_lack_rows(record.fields, chunk.text)):
        return result
    item = ChunkItem(chunk, schema, is_check=is_check, found=row_lists(record.fields))
    try:
        more = await ask_model(item, usage)
    except PageError as error:
        usage.attempts += error.attempts
        return result
    if not isinstance(more, ChunkResult) or more.record is None:
        return result
    completed = with_missing_rows(
        schema,
        (record, result.confidences or {}),
        (more.record, more.confidences or {}),
        chunk.text,
    )
    answers = [one.answer for one in (result, more) if one.answer is not None]
    return replace(
        result,
        answer=combine_answers(answers),
        record=completed.record,
        confidences=completed.confidences or None,
        rows_added=completed.rows_added,
    )


def text_budget(profile: ModelProfile, schema: Schema) -> int:
    """Characters of text that fit a request with a page's image and the schema's examples, and
    leave room for an answer."""
    left = _room_for_text(profile) - example_tokens(schema, profile)
    return max(_LEAST_TEXT, min(CHUNK_CHARACTERS, left * _TOKEN_CHARACTERS))


def _room_for_text(profile: ModelProfile) -> int:
    """Tokens of a request without examples that are left for a document's text."""
    return profile.serving.max_model_len - profile.prompt(Task.PARSE).max_tokens - _BESIDE


def example_tokens(schema: Schema, profile: ModelProfile) -> int:
    """Tokens that the examples of a schema take in each request, at most; an image is counted as
    what a page takes."""
    if profile.takes_extension:
        return 0
    texts = sum(len(one.text) + len(one.answer) for one in schema.examples)
    images = sum(one.image is not None for one in schema.examples)
    prompts = len(profile.prompt(Task.PARSE).text) * len(schema.examples)
    characters = texts + (prompts if profile.schema_arguments is None else 0)
    turns = _TURN_TOKENS * len(schema.examples)
    return -(-characters // _TOKEN_CHARACTERS) + turns + images * profile.serving.page_tokens


def check_examples(schema: Schema, profile: ModelProfile) -> None:
    """Raise SchemaError if a model can't be shown the examples of a schema, as they are too long or
    have images that it doesn't take."""
    if profile.takes_extension:
        return
    if profile.schema_arguments is not None and any(one.image for one in schema.examples):
        raise SchemaError(
            f"The examples of the schema {schema.name}: {profile.id} takes examples as text: give "
            "each a text in place of its image"
        )
    taken = example_tokens(schema, profile)
    room = _room_for_text(profile) - _LEAST_TEXT // _TOKEN_CHARACTERS
    if taken > max(room, 0):
        raise SchemaError(
            f"The examples of the schema {schema.name} take up to {taken:,} tokens of each request,"
            f" but {profile.id} has room for {max(room, 0):,} (a context of "
            f"{profile.serving.max_model_len:,}, less the page and the answer): shorten them, or "
            "give fewer"
        )


def _page_text(text: str) -> str:
    return f"What was read on it:\n\n<page>\n{text}\n</page>" if text else ""


def _earlier_turns(
    schema: Schema, profile: ModelProfile, prompt: Prompt
) -> tuple[EarlierTurn, ...]:
    """The examples as exchanges before the request; none for a model that has another way."""
    if profile.takes_extension or profile.schema_arguments is not None:
        return ()
    return tuple(
        EarlierTurn(
            "\n\n".join(filter(None, (prompt.text, _page_text(one.text)))),
            None if one.image is None else _example_jpeg(one.image, profile.image),
            one.answer,
        )
        for one in schema.examples
    )


def _described_examples(schema: Schema) -> str:
    """The examples in words, for a model whose chat template takes instructions."""
    return "\n\n".join(
        f"Example {number}. From this document:\n{one.text}\nthe result is:\n{one.answer}"
        for number, one in enumerate(schema.examples, 1)
    )


@lru_cache(maxsize=32)
def _example_jpeg(image: bytes, policy: ImagePolicy) -> bytes:
    """An example's image as a page image of the model."""
    with Image.open(io.BytesIO(image)) as stored:
        return encode(fit(stored.convert("RGB"), policy), policy.jpeg_quality)


def _assessment(answer: Answer, is_read: bool, is_cut: bool) -> QualityAssessment:
    length = len(answer.text)
    if not is_read:
        return QualityAssessment(
            QualityIssue.UNREADABLE, 0, None, "the answer holds no JSON object"
        )
    if is_cut or answer.finish_reason in ("length", "repetition"):
        return QualityAssessment(QualityIssue.CUT, length, None, "the answer was cut")
    return QualityAssessment(None, length, None)
