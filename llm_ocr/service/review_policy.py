"""The conditions of a pipeline under which its results are reviewed, and the reasons found."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from llm_ocr.document.split import SplitDocument
from llm_ocr.records import ClassificationPath, DocumentResult, PageClass, PageStatus, Record

# Reasons stored for a document; the rest is counted.
MAX_REASONS = 50
WORDS = ("never", "always")


class ReasonCode(StrEnum):
    """Why a document is reviewed."""

    ALWAYS = "always"
    LOW_CONFIDENCE = "low_confidence"
    UNVERIFIED = "unverified"
    FAILED_RULE = "failed_rule"
    DISAGREEMENT = "disagreement"
    UNKNOWN_CLASS = "unknown_class"
    UNMET_EXPECTATION = "unmet_expectation"
    SAMPLE = "sample"


class ReviewPolicy(BaseModel):
    """`review:` of a pipeline: `never`, `always`, or any of these conditions.

    `below_confidence` is the confidence (0..1) of a value below which it is reviewed. `unverified`:
    a value isn't on the page. `failed_rule`: a value is invalid, or a rule of the schema fails.
    `disagreement`: the second model of `check_model` has another value, or no record.
    `unknown_class`: nothing decided on the class of a page. `unmet_expectations`: the pages aren't
    as the step auxiliary expects.
    `sample` is the percentage of the other documents that are reviewed too, chosen by their ids.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    always: bool = False
    below_confidence: Annotated[float, Field(gt=0, le=1)] | None = None
    unverified: bool = False
    failed_rule: bool = False
    disagreement: bool = False
    unknown_class: bool = False
    unmet_expectations: bool = False
    sample: Annotated[float, Field(ge=0, le=100)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _parse_word(cls, value: object) -> object:
        if value in WORDS:
            return {"always": True} if value == "always" else {}
        if not isinstance(value, Mapping | cls):
            raise ValueError(f"use never, always, or conditions: {', '.join(cls.conditions())}")
        return value

    @classmethod
    def conditions(cls) -> list[str]:
        """The conditions that can be combined."""
        return [name for name in cls.model_fields if name != "always"]

    @property
    def needs_record(self) -> bool:
        """Whether a condition is about a record's values."""
        conditions = (self.unverified, self.failed_rule, self.disagreement)
        return self.below_confidence is not None or any(conditions)


def find_reasons(
    policy: ReviewPolicy, result: DocumentResult, document_id: str, pipeline: str
) -> list[dict[str, Any]]:
    """The reasons why a result must be reviewed, in words; none if it needn't be.

    Each has `code` (a ReasonCode), `message`, and for a value the index of its `record`, its `path`
    and its `page`.
    """
    found: list[dict[str, Any]] = []
    if policy.always:
        message = f"every document of the pipeline {pipeline} is reviewed"
        found.append({"code": ReasonCode.ALWAYS, "message": message})
    for index, record in enumerate(result.records):
        name = describe_record(index, record.class_name, record.page_numbers)
        for reason in _record_reasons(policy, record):
            if len(result.records) > 1:
                reason["message"] = f"{name}: {reason['message']}"
            found.append({**reason, "record": index})
    if policy.unknown_class:
        for page in result.page_classes:
            if page.path is ClassificationPath.REVIEW:
                message = f"page {page.page_number}: unknown kind of page: {page.reason}"
                code = ReasonCode.UNKNOWN_CLASS
                found.append({"code": code, "message": message, "page": page.page_number})
    if policy.unmet_expectations:
        for unmet in result.unmet_expectations:
            where = {} if unmet.page is None else {"page": unmet.page}
            code = ReasonCode.UNMET_EXPECTATION
            found.append({"code": code, "message": unmet.message, **where})
    if not found and is_sampled(document_id, policy.sample):
        message = f"random sample of {policy.sample:g}%"
        found.append({"code": ReasonCode.SAMPLE, "message": message})
    return _limit(found)


def split_reasons(part: SplitDocument, classes: Mapping[int, PageClass]) -> list[dict[str, Any]]:
    """The reasons why a document that was split from a scan must be reviewed: pages without a
    certain class, of its own or beside it."""
    found: list[dict[str, Any]] = []
    code = ReasonCode.UNKNOWN_CLASS
    for number in part.uncertain:
        why = classes[number].reason if number in classes else "it has no image"
        message = f"page {number}: unknown kind of page: {why}"
        found.append({"code": code, "message": message, "page": number})
    for number in part.uncertain_beside:
        message = f"page {number}, beside this document, has no certain class: it may belong to it"
        found.append({"code": code, "message": message})
    return _limit(found)


def is_sampled(document_id: str, percentage: float) -> bool:
    """Whether a document belongs to the sample: the same each time it is processed."""
    digest = hashlib.sha256(document_id.encode()).digest()
    return int.from_bytes(digest[:8]) < percentage / 100 * 2**64


def describe_record(index: int, class_name: str | None, pages: Sequence[int]) -> str:
    """A name for one of several records, such as "invoice, page 3"; `index` counts from 0."""
    name = class_name or f"record {index + 1}"
    if not pages:
        return name
    place = f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]} to {pages[-1]}"
    return f"{name}, {place}"


def _record_reasons(policy: ReviewPolicy, record: Record) -> Iterator[dict[str, Any]]:
    if policy.failed_rule:
        if record.status is PageStatus.FAILED:
            message = f"there is no record: {record.error or record.outcome.error_code}"
            yield {"code": ReasonCode.FAILED_RULE, "message": message}
        for error in record.errors:
            message = f"{error.path}: {error.reason}" if error.path else error.reason
            yield {"code": ReasonCode.FAILED_RULE, "path": error.path, "message": message}
    if policy.disagreement:
        yield from _disagreements(record)
    for evidence in record.evidence:
        path, where = evidence.path, {"path": evidence.path, "page": evidence.page_number}
        if policy.unverified and evidence.matched is None:
            message = f"{path}: no evidence on the page"
            yield {"code": ReasonCode.UNVERIFIED, "message": message, **where}
        elif policy.below_confidence and evidence.confidence < policy.below_confidence:
            message = f"{path}: confidence {evidence.confidence:.2f} < {policy.below_confidence:g}"
            yield {"code": ReasonCode.LOW_CONFIDENCE, "message": message, **where}


def _disagreements(record: Record) -> Iterator[dict[str, Any]]:
    code = ReasonCode.DISAGREEMENT
    if record.check_error is not None:
        message = f"{record.check_model} could not check it: {record.check_error}"
        yield {"code": code, "message": message}
    for one in record.disagreements or ():
        has = f"has {one.check_value}" if one.check_value is not None else "has none"
        message = f"{one.path}: {one.value or 'no value'}, but {record.check_model} {has}"
        yield {"code": code, "path": one.path, "message": message}


def _limit(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = list(found[:MAX_REASONS])
    if len(found) > MAX_REASONS:
        more = f"and {len(found) - MAX_REASONS:,} more reasons"
        shown.append({"code": found[MAX_REASONS]["code"], "message": more})
    return shown
