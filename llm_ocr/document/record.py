"""Parse one document, or one page, into a record of the user's schema."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import IO, NamedTuple

from llm_ocr.document.items import AskModel, outcome
from llm_ocr.document.record_chunks import (
    Chunk,
    ChunkItem,
    ChunkResult,
    ask_for_missing_rows,
    check_examples,
    text_budget,
)
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.inference.model_item import ModelResult, Usage, combine_answers
from llm_ocr.inference.quality import QualityAssessment, QualityIssue
from llm_ocr.inference.responses import Answer
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.chunks import split_chunks
from llm_ocr.parsing.disagreement import find_disagreements
from llm_ocr.parsing.evidence import find_evidence
from llm_ocr.parsing.leaves import clear_leaves, leaves
from llm_ocr.parsing.loading import LoadedSchema
from llm_ocr.parsing.merging import merge_records
from llm_ocr.parsing.schema import InputMode, PageBlocks, RecordScope, ValidatedRecord
from llm_ocr.parsing.schema_fields import field_labels
from llm_ocr.records import (
    Disagreement,
    ErrorCode,
    FieldError,
    FieldEvidence,
    PageError,
    PageResult,
    PageStatus,
    ParsedAnswer,
    Record,
)
from llm_ocr.text.markdown import unescape_markdown


@dataclass(frozen=True)
class ParseSpec:
    """What is to be parsed, from what, and into what; `model` where it is another than usual.

    `check_model` is the profile of a second model that answers each request too; None for no check.
    With `second_pass`, models are asked for rows that long lists lack.
    """

    schema: LoadedSchema
    per: RecordScope = RecordScope.DOCUMENT
    source: InputMode = InputMode.BOTH
    drop_unverified: bool = False
    model: str | None = None
    check_model: str | None = None
    second_pass: bool = False

    @property
    def asked(self) -> str:
        """The same for what gives the same records."""
        what = [self.per, self.source, self.schema.name, self.schema.schema_hash]
        if self.drop_unverified:
            what.append("dropped")
        if self.model is not None:
            what.append(self.model)
        if self.check_model is not None:
            what.append(f"checked by {self.check_model}")
        if self.second_pass:
            what.append("second pass")
        return "-".join(what)

    def check(self, profile: ModelProfile) -> None:
        """Raise SchemaError if the model, or the one that checks it, can't be asked so."""
        check_examples(self.schema, profile)
        if self.check_profile is not None:
            check_examples(self.schema, self.check_profile)

    @property
    def reads_images(self) -> bool:
        """Whether the model is shown the page images."""
        return self.source is not InputMode.TEXT

    @cached_property
    def check_profile(self) -> ModelProfile | None:
        if self.check_model in (None, EMBEDDED.id):
            return None if self.check_model is None else EMBEDDED
        return profile_named(self.check_model)

    @cached_property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """What fields may be called on a page, by path."""
        return field_labels(self.schema.json_schema)

    @cached_property
    def defaults(self) -> Mapping[str, object]:
        """The schema's default values, by path."""
        return dict(leaves(self.schema.validate({}).fields))


@dataclass(frozen=True)
class RecordResult(ModelResult):
    """The record that the parts' answers make, and how sure the model was of its values;
    `rows_added` are those of a second pass (None without one)."""

    record: ValidatedRecord | None = None
    confidences: Mapping[str, float] | None = None
    check: "RecordCheck | None" = None
    rows_added: int | None = None


@dataclass(frozen=True)
class RecordCheck:
    """What the second model says of a record: the values on which the two disagree, or an `error`
    where it has no complete record."""

    model: str
    disagreements: tuple[Disagreement, ...] | None = None
    error: str | None = None


class RecordItem:
    """One document, one page, or pages of one class: an `Item` of `Record`. `pages` are its pages,
    `profile` is that of the model that is asked about each chunk of them; `class_name` is the class
    that chose the schema."""

    def __init__(
        self,
        record_id: str,
        pages: "PageSpool",
        wanted: ParseSpec,
        profile: ModelProfile,
        class_name: str | None = None,
    ) -> None:
        self._record_id, self._wanted, self._profile = record_id, wanted, profile
        self._pages, self._class_name = pages, class_name
        self._answer: RecordResult | None = None

    @property
    def item_id(self) -> str:
        return self._record_id

    @property
    def _first(self) -> PageResult:
        return self._pages[0].page

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        """Ask about each chunk, merge the answers to a record, and have it checked, if wanted.

        A chunk that got no answer is missing from it. Raises PageError where all are.
        """
        answer = await self._ask_chunks(ask_model, usage, self._profile)
        if answer.record is None or (profile := self._wanted.check_profile) is None:
            return answer
        return replace(answer, check=await self._check(answer.record, profile, ask_model, usage))

    async def _check(
        self, record: ValidatedRecord, profile: ModelProfile, ask_model: AskModel, usage: Usage
    ) -> RecordCheck:
        """Ask the second model for the same record, and compare the two."""
        try:
            answer = await self._ask_chunks(ask_model, usage, profile, is_check=True)
        except PageError as error:
            usage.attempts += error.attempts
            return RecordCheck(profile.model, error=error.message)
        model = answer.model.name if answer.model else profile.model
        if answer.record is None or answer.assessment.issue is not None:
            return RecordCheck(model, error=answer.assessment.reason)
        fields = record.fields, answer.record.fields
        return RecordCheck(model, tuple(await asyncio.to_thread(find_disagreements, *fields)))

    async def _ask_chunks(
        self, ask_model: AskModel, usage: Usage, profile: ModelProfile, *, is_check: bool = False
    ) -> RecordResult:
        """The record that a model, the second one with `is_check`, makes of all chunks."""
        schema = self._wanted.schema
        chunks = list(self._parts(text_budget(profile, schema)))
        if not chunks:
            first = self._first
            said = first.error or "nothing was read on its pages"
            code = first.outcome.error_code or ErrorCode.MISSING_PAGES
            raise PageError(code, f"{first.name}: no record without pages: {said}")
        # The embedded engine would find the same rows.
        has_second_pass = self._wanted.second_pass and not profile.takes_extension

        async def ask_about(chunk: Chunk) -> ModelResult | None:
            result = await ask_model(ChunkItem(chunk, schema, is_check=is_check), usage)
            if not has_second_pass or not isinstance(result, ChunkResult):
                return result
            return await ask_for_missing_rows(
                chunk, schema, result, ask_model, usage, is_check=is_check
            )

        if len(chunks) == 1:
            ended: list[ModelResult | BaseException | None] = [await ask_about(chunks[0])]
        else:
            # All of them end before a failure is raised, so that all are counted.
            ended = await asyncio.gather(*map(ask_about, chunks), return_exceptions=True)
        failures = [end for end in ended if isinstance(end, BaseException)]
        grave = [failure for failure in failures if not isinstance(failure, PageError)]
        if grave or len(failures) == len(chunks):
            raise (grave or failures)[0]
        usage.attempts += sum(end.attempts for end in failures if isinstance(end, PageError))
        joined = self._joined(chunks, ended)
        if not has_second_pass:
            return joined
        added = sum(one.rows_added for one in ended if isinstance(one, ChunkResult))
        return replace(joined, rows_added=added)

    async def result(self, answer: ModelResult | None, usage: Usage) -> Record:
        assert isinstance(answer, RecordResult), "every record is asked about"
        # Whatever fails from here on, the model's answer is in the result.
        self._answer = answer
        if answer.record is None:
            error = PageError(
                ErrorCode.UNREADABLE_ANSWER,
                f"{self._first.name}: the model's answer holds no JSON object; it is in raw_answer",
            )
            return self._result(PageStatus.FAILED, answer, usage, error)
        record, evidence = await asyncio.to_thread(self._supported, answer.record, answer)
        result = self._result(answer.status, answer, usage)
        return replace(
            result, fields=record.fields, errors=tuple(record.errors), evidence=tuple(evidence)
        )

    def failure(self, error: PageError, usage: Usage) -> Record:
        return self._result(PageStatus.FAILED, self._answer, usage, error)

    def _parts(self, room: int) -> Iterator[Chunk]:
        """Pages with their images, or their text in windows of at most `room` characters."""
        name = self._first.name
        if self._wanted.source is InputMode.TEXT:
            texts = [_plain_text(held.page) for held in self._pages if held.page.markdown]
            for number, window in enumerate(split_chunks(texts, room), 1):
                yield Chunk(f"{name}, part {number}", window.text, overlaps=window.overlaps)
            return
        for held in self._pages:
            of = f"{name}, page {held.page.page_number}"
            text = _plain_text(held.page) if self._wanted.source is InputMode.BOTH else ""
            if held.image is not None:
                # What is beyond the room for text, the image shows.
                yield Chunk(of, text[:room], held.image)
            elif text:
                for window in split_chunks([text], room):
                    yield Chunk(of, window.text, overlaps=window.overlaps)

    def _lost(self) -> Iterator[str]:
        """What of the document no model was shown."""
        for page, image in self._pages:
            is_shown = page.markdown or image is not None
            if page.status is PageStatus.FAILED and not is_shown:
                yield f"page {page.page_number} could not be read: {page.error}"

    def _joined(
        self, parts: Sequence[Chunk], ended: Sequence[ModelResult | BaseException | None]
    ) -> RecordResult:
        readings = [one for one in ended if isinstance(one, ChunkResult)]
        read = [
            (number, one.record, one.confidences or {})
            for number, one in enumerate(ended)
            if isinstance(one, ChunkResult) and one.record is not None
        ]
        missing = [*self._lost()]
        missing += [
            f"{part.name}: {_why(one)}"
            for part, one in zip(parts, ended, strict=True)
            if not (isinstance(one, ChunkResult) and one.record is not None)
        ]
        cut = [one for one in readings if one.assessment.issue is QualityIssue.CUT]
        notes = [note for one in readings for note in one.parsed.notes]
        answer = combine_answers([one.answer for one in readings if one.answer is not None])
        record, confidences = self._merged(parts, read, [*missing, *notes]) if read else (None, {})
        assessment = _assessment(
            answer, record, [*missing, *(one.assessment.reason for one in cut)]
        )
        first = readings[0]
        return RecordResult(
            model=first.model,
            strategy=next(
                (one.strategy for one in readings if one.strategy != first.strategy), first.strategy
            ),
            prompt_hash=first.prompt_hash,
            answer=answer,
            parsed=ParsedAnswer((), tuple(notes)),
            assessment=assessment,
            is_fallback=assessment.is_good and any(one.is_fallback for one in readings),
            record=record,
            confidences=confidences or None,
        )

    def _merged(
        self,
        parts: Sequence[Chunk],
        read: Sequence[tuple[int, ValidatedRecord, Mapping[str, float]]],
        notes: Sequence[str],
    ) -> tuple[ValidatedRecord, Mapping[str, float]]:
        """The parts' records as one, with the notes among its errors, and how sure its values are.

        A part overlaps the one before it only if that was read.
        """
        numbers = [number for number, _, _ in read]
        overlaps = [
            place
            for place, number in enumerate(numbers)
            if parts[number].overlaps and place and numbers[place - 1] == number - 1
        ]
        merged = merge_records(self._wanted.schema, [one for _, one, _ in read], overlaps)
        told = [FieldError("", None, note) for note in dict.fromkeys(notes)]
        record = ValidatedRecord(merged.record.fields, (*merged.record.errors, *told))
        sure: dict[str, float] = {}
        for path, _ in leaves(record.fields):
            place, there = merged.origin(path)
            likely = read[place][2].get(there)
            if likely is not None:
                sure[path] = likely
        return record, sure

    def _supported(
        self, record: ValidatedRecord, reading: RecordResult
    ) -> tuple[ValidatedRecord, Sequence[FieldEvidence]]:
        """The record with the places of its values; without those that have none, if wanted.

        A default of the schema's is not from the page, and is not looked for there in vain.
        """
        pages = [
            PageBlocks(page.page_id, page.page_number, page.blocks, page.lines)
            for page, _ in self._pages
        ]
        wanted = self._wanted
        values = dict(leaves(record.fields))
        found = [
            one
            for one in find_evidence(record.fields, pages, reading.confidences, wanted.labels)
            if one.matched is not None
            or one.path not in wanted.defaults
            or wanted.defaults[one.path] != values[one.path]
        ]
        if not wanted.drop_unverified:
            return record, found
        dropped = [one.path for one in found if one.matched is None]
        fields, gone = clear_leaves(record.fields, dropped)
        said = "the page does not show it (`drop_unverified`)"
        errors = [FieldError(path, json.dumps(gone[path]), said) for path in dropped]
        kept = [one for one in found if one.matched is not None]
        return ValidatedRecord(fields, (*record.errors, *errors)), kept

    def _result(
        self,
        status: PageStatus,
        answer: RecordResult | None,
        usage: Usage,
        error: PageError | None = None,
    ) -> Record:
        """The record without its fields."""
        first, schema = self._first, self._wanted.schema
        check = answer.check if answer else None
        return Record(
            outcome=outcome(status, answer, usage, error),
            record_id=self._record_id,
            doc_id=first.doc_id,
            source_uri=first.source_uri,
            name=first.name,
            schema=schema.name,
            schema_hash=schema.schema_hash,
            raw_answer=answer.answer.text if answer and answer.answer else None,
            page_numbers=tuple(held.page.page_number for held in self._pages),
            class_name=self._class_name,
            check_model=check.model if check else None,
            check_error=check.error if check else None,
            disagreements=check.disagreements if check else None,
            rows_added=answer.rows_added if answer else None,
        )


def _plain_text(page: PageResult) -> str:
    """A page's text to copy values from: without Markdown's escapes."""
    return unescape_markdown(page.markdown)


def _why(ended: ModelResult | BaseException | None) -> str:
    if isinstance(ended, PageError):
        return f"nobody could be asked about it: {ended.message}"
    return "the answer holds no JSON object; it is in raw_answer"


def _assessment(
    answer: Answer, record: ValidatedRecord | None, why: Sequence[str]
) -> QualityAssessment:
    if record is None:
        return QualityAssessment(
            QualityIssue.UNREADABLE, 0, None, "the answer holds no JSON object"
        )
    length = len(answer.text)
    if why:
        return QualityAssessment(QualityIssue.CUT, length, None, "; ".join(dict.fromkeys(why)))
    return QualityAssessment(None, length, None)


IN_MEMORY = 16  # of a document


class HeldPage(NamedTuple):
    """A page without its image, and what gives the image, if it is kept."""

    page: PageResult
    image: Callable[[], bytes] | None


class PageSpool:
    """The pages of a document, in order, with their images: those of a long document in a file, so
    that it takes no more memory than a short one."""

    def __init__(self) -> None:
        self._pages: list[HeldPage] = []
        self._file: IO[bytes] | None = None
        self._in_memory = 0

    def add(self, page: PageResult) -> None:
        image = None if page.image is None else self._kept(page.image)
        self._pages.append(HeldPage(replace(page, image=None), image))

    def __iter__(self) -> Iterator[HeldPage]:
        return iter(self._pages)

    def __getitem__(self, place: int) -> HeldPage:
        return self._pages[place]

    def _kept(self, image: bytes) -> Callable[[], bytes]:
        if self._in_memory < IN_MEMORY:
            self._in_memory += 1
            return lambda: image
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="llm-ocr-")  # noqa: SIM115 - open as long as the document is
        start = self._file.seek(0, 2)
        self._file.write(image)
        return partial(self._read, start, len(image))

    def _read(self, start: int, length: int) -> bytes:
        assert self._file is not None, "the image was written there"
        self._file.seek(start)
        return self._file.read(length)
