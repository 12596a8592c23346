"""Parse: a page or a document -> a record of the user's schema, with the place of each value."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from llm_ocr.inference.client import ChatRequest
from llm_ocr.inference.quality import Flaw, Verdict
from llm_ocr.inference.replies import Answer
from llm_ocr.models.profile import ModelProfile, Prompt, Rung, Task
from llm_ocr.parsing.answers import AROUND, keys_of, read_answer
from llm_ocr.parsing.confidences import sureness
from llm_ocr.parsing.evidence import find_evidence
from llm_ocr.parsing.leaves import without
from llm_ocr.parsing.loading import LoadedSchema
from llm_ocr.parsing.merging import merge_validated
from llm_ocr.parsing.record import Evidence, FieldError, PageText, Validated
from llm_ocr.parsing.shape import labels_of
from llm_ocr.parsing.windows import windows
from llm_ocr.records import ErrorCode, PageError, PageStatus, ParsedAnswer
from llm_ocr.settings import RecordPer, RecordSource
from llm_ocr.stages.rows import block_of
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

# Where there was no JSON, or it was cut: once more, with room for more. At a temperature, as the
# same request at none gets the same answer: one that ran into a loop would do so again.
AGAIN = Rung("again", sampling={"temperature": 0.3, "seed": 1}, longer=True)


@dataclass(frozen=True)
class Wanted:
    """What is to be parsed, from what, and into what."""

    schema: LoadedSchema
    per: RecordPer = RecordPer.DOCUMENT
    source: RecordSource = RecordSource.BOTH
    drop_unsupported: bool = False

    @property
    def asked(self) -> str:
        """The same for what gives the same records."""
        drops = "-dropped" if self.drop_unsupported else ""
        return f"{self.schema.name}-{self.schema.schema_hash}-{self.per}-{self.source}{drops}"


@dataclass(frozen=True)
class RecordReading(Reading):
    """The record in the answers, and how sure the model was of its values (by path, 0..1)."""

    record: Validated | None = None
    sureness: Mapping[str, float] | None = None


@dataclass(frozen=True)
class ParseStage:
    """The shard's documents, or its pages, that Extract has read."""

    rows_of: ReadShard
    wanted: Wanted
    name: str = "parse"
    tables: Sequence[str] = ("records",)

    def asked(self, shard: str) -> Mapping[str, str]:
        """What the shard is asked, as its commit says it."""
        return {self.name: self.wanted.asked}

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator["RecordItem"]:
        pages = self.rows_of("pages", shard.name, None)
        if self.wanted.source is RecordSource.TEXT:
            pages = ({**row, "image": None} for row in pages)
        by = "page_id" if self.wanted.per is RecordPer.PAGE else "doc_id"
        for record_id, rows in groupby(pages, key=lambda row: str(row[by])):
            if record_id in done:
                continue
            yield RecordItem(record_id, tuple(rows), self.wanted)


class RecordItem:
    """One document, or one page, on its way to a record."""

    def __init__(self, record_id: str, pages: Sequence[Row], wanted: Wanted) -> None:
        self._record_id, self._pages, self._wanted = record_id, pages, wanted

    @property
    def item_id(self) -> str:
        return self._record_id

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return [AGAIN]

    async def questions(self, profile: ModelProfile, rung: Rung) -> Sequence[Question]:
        asked = [one for one in self._asked_with() if one.image is not None or one.text]
        if not asked:
            first = self._pages[0]
            said = first["error"] or "nothing was read on its pages"
            code = ErrorCode(first["error_code"] or ErrorCode.MISSING_PAGES)
            raise PageError(code, f"{first['name']}: no record without pages: {said}")
        prompt = profile.prompt(Task.PARSE)
        limit = prompt.max_tokens * (2 if rung is AGAIN else 1)
        sampling = {**profile.sampling, **rung.sampling}
        return [self._question(one, prompt, limit, sampling) for one in asked]

    def read(self, reader: Reader, rung: Rung, asked: Sequence[tuple[Question, Answer]]) -> Reading:
        schema = self._wanted.schema
        known = keys_of(schema)
        parts: list[Validated] = []
        mended: list[str] = []
        sure: dict[str, float] = {}
        is_cut = False
        for _, answer in asked:
            found = read_answer(answer.text, known)
            mended += found.notes
            if found.value is not None:
                parts.append(schema.validate(found.value))
                is_cut = is_cut or found.cut
                sure = {**sureness(answer.text, answer.logprobs), **sure}
        answer = joined(asked)
        record = merge_validated(schema, parts) if parts else None
        if record is not None:
            told = [FieldError("", None, note) for note in dict.fromkeys(mended) if note != AROUND]
            record = Validated(record.fields, (*record.errors, *told))
        return RecordReading(
            reader=reader,
            way=rung.name,
            prompt_hash=reader.profile.prompt_hash(Task.PARSE),
            answer=answer,
            parsed=ParsedAnswer((), tuple(mended)),
            verdict=_verdict(answer, len(parts), len(asked), is_cut),
            record=record,
            sureness=sure or None,
        )

    def without_model(self) -> None:
        return None

    async def result(self, reading: Reading | None, spent: Spent) -> ItemResult:
        assert isinstance(reading, RecordReading), "every record is asked about"
        if reading.record is None:
            error = PageError(
                ErrorCode.UNREADABLE_ANSWER,
                f"{self._pages[0]['name']}: the model's answer holds no JSON object; it is in "
                "raw_answer",
            )
            return self._row(PageStatus.FAILED, reading, spent, error)
        record, evidence = await asyncio.to_thread(self._supported, reading)
        return self._row(reading.status, reading, spent, record=record, evidence=evidence)

    def failure(self, error: PageError, spent: Spent) -> ItemResult:
        return self._row(PageStatus.FAILED, None, spent, error)

    def _asked_with(self) -> Iterator["_Shown"]:
        if self._wanted.source is RecordSource.TEXT:
            texts = [row["markdown"] or "" for row in self._pages]
            yield from (_Shown(None, text) for text in windows(texts))
            return
        for row in self._pages:
            image = row["image"]["bytes"] if row["image"] else None
            text = row["markdown"] or "" if self._wanted.source is RecordSource.BOTH else ""
            yield _Shown(image, text)

    def _question(
        self, shown: "_Shown", prompt: Prompt, limit: int, sampling: Mapping[str, object]
    ) -> Question:
        schema = self._wanted.schema
        text = f"What was read on it:\n\n<page>\n{shown.text}\n</page>" if shown.text else ""
        said = f"The JSON schema:\n{json.dumps(schema.json_schema)}"
        form = {"name": schema.name, "schema": schema.json_schema}
        request = ChatRequest(
            prompt="\n\n".join(filter(None, (prompt.text, text))),
            jpeg=shown.image,
            max_tokens=limit,
            sampling={**sampling, "logprobs": True},
            guide={"response_format": {"type": "json_schema", "json_schema": form}},
            unguided="\n\n".join(filter(None, (prompt.text, said, text))),
        )
        return Question(request)

    def _supported(self, reading: RecordReading) -> tuple[Validated, Sequence[Evidence]]:
        """The record with the places of its values; without those that have none, if wanted."""
        assert reading.record is not None
        pages = [
            PageText(row["page_id"], row["page_number"], [block_of(one) for one in row["blocks"]])
            for row in self._pages
        ]
        record = reading.record
        labels = labels_of(self._wanted.schema.json_schema)
        found = find_evidence(record.fields, pages, reading.sureness, labels)
        if not self._wanted.drop_unsupported:
            return record, found
        dropped = [one.path for one in found if one.found is None]
        fields, values = without(record.fields, dropped)
        said = "the page does not show it (--drop-unsupported)"
        errors = [FieldError(path, json.dumps(values[path]), said) for path in dropped]
        kept = [one for one in found if one.found is not None]
        return Validated(fields, (*record.errors, *errors)), kept

    def _row(
        self,
        status: PageStatus,
        reading: RecordReading | None,
        spent: Spent,
        error: PageError | None = None,
        record: Validated | None = None,
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
            "evidence": [_evidence_row(one) for one in evidence],
            "raw_answer": answer,
            **outcome(status, reading, spent, error),
        }
        return item_result(self.item_id, row, {"records": [row]})


@dataclass(frozen=True)
class _Shown:
    image: bytes | None
    text: str


def _verdict(answer: Answer, read: int, asked: int, is_cut: bool) -> Verdict:
    length = len(answer.text)
    if not read:
        return Verdict(Flaw.UNREADABLE, 0, None, "the answer holds no JSON object")
    if is_cut or answer.finish_reason in ("length", "repetition"):
        return Verdict(Flaw.CUT, length, None, "the answer was cut")
    if read < asked:
        return Verdict(Flaw.CUT, length, None, f"{asked - read} of {asked} answers hold no object")
    return Verdict(None, length, None)


def _evidence_row(one: Evidence) -> dict[str, Any]:
    box = vars(one.box) if one.box else dict.fromkeys(("x1", "y1", "x2", "y2"))
    plain = {key: value for key, value in vars(one).items() if key != "box"}
    return {**plain, "found": one.found.value if one.found else None, **box}
