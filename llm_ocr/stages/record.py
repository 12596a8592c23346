"""Parse one document, or one page, into a record."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import IO, Any

from llm_ocr.inference.quality import Flaw, Verdict
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.window import Window
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.chunks import split_chunks
from llm_ocr.parsing.evidence import find_evidence
from llm_ocr.parsing.leaves import clear_leaves, leaves
from llm_ocr.parsing.loading import LoadedSchema
from llm_ocr.parsing.merging import merge_records
from llm_ocr.parsing.schema import (
    Evidence,
    FieldError,
    InputMode,
    PageBlocks,
    RecordScope,
    ValidatedRecord,
)
from llm_ocr.parsing.schema_fields import field_labels
from llm_ocr.records import (
    ErrorCode,
    PageError,
    PageStatus,
    ParsedAnswer,
)
from llm_ocr.stages.record_chunks import Chunk, ChunkItem, ChunkResult, text_budget
from llm_ocr.stages.row_builders import block_of, evidence_row
from llm_ocr.stages.stage import (
    ModelItem,
    ModelResult,
    Usage,
    combine_answers,
    item_result,
    outcome_columns,
)
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import unescaped

# Gets the best result for a chunk.
Best = Callable[[ModelItem, Usage], Awaitable[ModelResult | None]]


@dataclass(frozen=True)
class ParseSpec:
    """What is to be parsed, from what, and into what; `model` where it is another than usual."""

    schema: LoadedSchema
    per: RecordScope = RecordScope.DOCUMENT
    source: InputMode = InputMode.BOTH
    drop_unverified: bool = False
    model: str | None = None

    @property
    def asked(self) -> str:
        """The same for what gives the same records."""
        what = [self.per, self.source, self.schema.name, self.schema.schema_hash]
        if self.drop_unverified:
            what.append("dropped")
        if self.model is not None:
            what.append(self.model)
        return "-".join(what)

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
    """The record that the parts' answers make, and how sure the model was of its values."""

    record: ValidatedRecord | None = None
    confidences: Mapping[str, float] | None = None


class RecordItem:
    """Parse one document, or one page, into a record."""

    def __init__(self, record_id: str, pages: Iterable[Row], wanted: ParseSpec) -> None:
        self._record_id, self._wanted = record_id, wanted
        self._images = PageImageSpool()
        with_images = wanted.source is not InputMode.TEXT
        self._pages = [self._images.taken(row, keep=with_images) for row in pages]
        self._reading: RecordResult | None = None

    @property
    def item_id(self) -> str:
        return self._record_id

    async def read(
        self, best: Best, places: Window, profile: ModelProfile, usage: Usage
    ) -> ModelResult:
        """Ask about each chunk in its own slot, through `best`, and merge the answers to a record.

        A chunk that got no answer is missing from it. Raises PageError where all are.
        """

        async def one(part: Chunk) -> ModelResult | None:
            async with places.place():
                return await best(ChunkItem(part, self._wanted.schema), usage)

        parts = list(self._parts(text_budget(profile)))
        if not parts:
            first = self._pages[0]
            said = first["error"] or "nothing was read on its pages"
            code = ErrorCode(first["error_code"] or ErrorCode.MISSING_PAGES)
            raise PageError(code, f"{first['name']}: no record without pages: {said}")
        if len(parts) == 1:
            ended: list[ModelResult | BaseException | None] = [await one(parts[0])]
        else:
            # All of them end before a failure is raised, so that all are counted.
            ended = await asyncio.gather(*map(one, parts), return_exceptions=True)
        failures = [one for one in ended if isinstance(one, BaseException)]
        grave = [one for one in failures if not isinstance(one, PageError)]
        if grave or len(failures) == len(parts):
            raise (grave or failures)[0]
        usage.attempts += sum(one.attempts for one in failures if isinstance(one, PageError))
        return self._joined(parts, ended)

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        assert isinstance(reading, RecordResult), "every record is asked about"
        # Whatever fails from here on, what was answered is in the row.
        self._reading = reading
        if reading.record is None:
            error = PageError(
                ErrorCode.UNREADABLE_ANSWER,
                f"{self._pages[0]['name']}: the model's answer holds no JSON object; it is in "
                "raw_answer",
            )
            return self._row(PageStatus.FAILED, reading, usage, error)
        record, evidence = await asyncio.to_thread(self._supported, reading.record, reading)
        return self._row(reading.status, reading, usage, record=record, evidence=evidence)

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._row(PageStatus.FAILED, self._reading, usage, error)

    def _parts(self, room: int) -> Iterator[Chunk]:
        """Pages with their images, or their text in windows of at most `room` characters."""
        name = str(self._pages[0]["name"])
        if self._wanted.source is InputMode.TEXT:
            texts = [_said(row) for row in self._pages if row["markdown"]]
            for number, window in enumerate(split_chunks(texts, room), 1):
                yield Chunk(f"{name}, part {number}", window.text, overlaps=window.overlaps)
            return
        for row in self._pages:
            of = f"{name}, page {row['page_number']}"
            text = _said(row) if self._wanted.source is InputMode.BOTH else ""
            if row["image"] is not None:
                # What is beyond the room for text, the image shows.
                yield Chunk(of, text[:room], row["image"])
            elif text:
                for window in split_chunks([text], room):
                    yield Chunk(of, window.text, overlaps=window.overlaps)

    def _lost(self) -> Iterator[str]:
        """What of the document no model was shown."""
        for row in self._pages:
            is_shown = row["markdown"] or row["image"] is not None
            if row["status"] == PageStatus.FAILED and not is_shown:
                yield f"page {row['page_number']} could not be read: {row['error']}"

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
        cut = [one for one in readings if one.verdict.flaw is Flaw.CUT]
        notes = [note for one in readings for note in one.parsed.notes]
        answer = combine_answers([one.answer for one in readings if one.answer is not None])
        record, confidences = self._merged(parts, read, [*missing, *notes]) if read else (None, {})
        verdict = _verdict(answer, record, [*missing, *(one.verdict.why for one in cut)])
        first = readings[0]
        return RecordResult(
            reader=first.reader,
            strategy=next(
                (one.strategy for one in readings if one.strategy != first.strategy), first.strategy
            ),
            prompt_hash=first.prompt_hash,
            answer=answer,
            parsed=ParsedAnswer((), tuple(notes)),
            verdict=verdict,
            is_fallback=verdict.is_good and any(one.is_fallback for one in readings),
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
    ) -> tuple[ValidatedRecord, Sequence[Evidence]]:
        """The record with the places of its values; without those that have none, if wanted.

        A default of the schema's is not from the page, and is not looked for there in vain.
        """
        pages = [
            PageBlocks(row["page_id"], row["page_number"], [block_of(one) for one in row["blocks"]])
            for row in self._pages
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
        said = "the page does not show it (--drop-unverified)"
        errors = [FieldError(path, json.dumps(gone[path]), said) for path in dropped]
        kept = [one for one in found if one.matched is not None]
        return ValidatedRecord(fields, (*record.errors, *errors)), kept

    def _row(
        self,
        status: PageStatus,
        reading: RecordResult | None,
        usage: Usage,
        error: PageError | None = None,
        record: ValidatedRecord | None = None,
        evidence: Sequence[Evidence] = (),
    ) -> ItemResult:
        first, schema = self._pages[0], self._wanted.schema
        answer = reading.answer.text if reading and reading.answer else None
        row: dict[str, Any] = {
            "record_id": self._record_id,
            "doc_id": first["doc_id"],
            "source_uri": first["source_uri"],
            "name": first["name"],
            "schema": schema.name,
            "schema_hash": schema.schema_hash,
            "fields": json.dumps(record.fields, ensure_ascii=False) if record else None,
            "errors": [vars(one) for one in record.errors] if record else [],
            "evidence": [evidence_row(one) for one in evidence],
            "raw_answer": answer,
            **outcome_columns(status, reading, usage, error),
        }
        return item_result(self.item_id, row, {"records": [row]})


def _said(row: Row) -> str:
    """A page's text to copy values from: without Markdown's escapes."""
    return unescaped(row["markdown"] or "")


def _why(ended: ModelResult | BaseException | None) -> str:
    if isinstance(ended, PageError):
        return f"nobody could be asked about it: {ended.message}"
    return "the answer holds no JSON object; it is in raw_answer"


def _verdict(answer: Answer, record: ValidatedRecord | None, why: Sequence[str]) -> Verdict:
    if record is None:
        return Verdict(Flaw.UNREADABLE, 0, None, "the answer holds no JSON object")
    length = len(answer.text)
    if why:
        return Verdict(Flaw.CUT, length, None, "; ".join(dict.fromkeys(why)))
    return Verdict(None, length, None)


IN_MEMORY = 16  # of a document


class PageImageSpool:
    """The images of a document's pages: of a long one in a file, so that it takes no more memory
    than a short one."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._in_memory = 0

    def taken(self, row: Row, *, keep: bool) -> Row:
        """The row with what gives its image instead of it, or None."""
        held = row["image"]["bytes"] if keep and row["image"] else None
        return {**row, "image": None if held is None else self._kept(held)}

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
