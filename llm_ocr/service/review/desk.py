"""A reviewer's desk: open a document with its record and rules, edit it, approve or reject it."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.classification.options import DocumentRule
from llm_ocr.parsing.schema import Schema, SchemaError
from llm_ocr.records import FieldError
from llm_ocr.service.database import Database
from llm_ocr.service.documents import document_folder, load_document
from llm_ocr.service.pipelines import (
    Pipeline,
    UnknownPipelineError,
    load_pipeline,
    load_record_schemas,
)
from llm_ocr.service.results import DOCUMENT_JSON, page_image_path
from llm_ocr.service.review.edits import (
    Correction,
    EditAction,
    FieldEdit,
    FieldStatus,
    InvalidEditError,
    ReviewField,
    ReviewRecord,
    apply_corrections,
    check_edit,
    live_corrections,
    live_reclassifications,
)
from llm_ocr.service.review.page_classes import (
    ReviewedClasses,
    apply_reclassifications,
    approved_classes,
    check_class,
)
from llm_ocr.service.review.page_words import PageWord, find_words, is_measured, split_words
from llm_ocr.service.review.reviews import (
    Review,
    Reviewer,
    ReviewState,
    add_correction,
    decide,
    last_correction,
    load_corrections,
    load_review,
)
from llm_ocr.service.schema import DocumentState
from llm_ocr.storage.store import Store

# Results and schemas in memory, so that an edit needs only the database.
CACHED = 32


@dataclass(frozen=True)
class ReviewPage:
    """A page of the document: the size of its image in pixels, None without an image."""

    number: int
    width: int | None
    height: int | None
    image: str | None


@dataclass(frozen=True)
class OpenReview:
    """A review with the records as they are now. `schema_problem` says why rules aren't checked."""

    review: Review
    pages: Sequence[ReviewPage]
    records: Sequence[ReviewRecord]
    classes: ReviewedClasses
    corrections: Sequence[Correction]
    schema_problem: str | None = None
    # Classes that the pipeline names.
    known_classes: Sequence[str] = ()

    def field(self, record: int, path: str) -> ReviewField | None:
        """The field at a path of a record."""
        if not 0 <= record < len(self.records):
            return None
        found = (field for field in self.records[record].fields if field.path == path)
        return next(found, None)


class ReviewDesk:
    """Reviews of the documents in `database`, whose results are in `store`.

    All methods block. They raise UnknownDocumentError, UnknownReviewError, and what the functions
    of `review.reviews` raise.
    """

    def __init__(self, database: Database, store: Store) -> None:
        self._database, self._store = database, store
        self._cache: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, tenant: str, document_id: str) -> OpenReview:
        """A review with its records. Raises StorageError."""
        return self.open_review(tenant, load_review(self._database, tenant, document_id))

    def edit(
        self, reviewer: Reviewer, document_id: str, version: int, edit: FieldEdit
    ) -> OpenReview:
        """Correct, confirm or clear a field, or change a class. Raises InvalidEditError."""
        opened = self.open(reviewer.tenant, document_id)
        if edit.action is EditAction.RECLASSIFY:
            return self._reclassify(reviewer, opened, version, edit)
        machine = self._machine_record(reviewer.tenant, opened.review, edit.record)
        schema = self._schemas(opened.review).find(machine)
        action, old, new = check_edit(edit, machine, opened.corrections, schema)
        before = opened.field(edit.record, edit.path)
        document = load_document(self._database, reviewer.tenant, document_id)
        models = (step["model"] for step in document.steps if step["name"] == "parse")
        values = {
            "action": action,
            "record": edit.record,
            "path": edit.path,
            "old": old,
            "new": new,
            "page": edit.page or (before.page if before else None),
            "old_box": None if before is None or before.box is None else list(before.box),
            "new_box": None if edit.box is None else list(edit.box),
            "confidence": None if before is None else before.confidence,
            "reason": edit.reason,
            "seconds": edit.seconds,
            "model": next(models, None),
        }
        add_correction(self._database, reviewer, opened.review, version, values)
        return self.open(reviewer.tenant, document_id)

    def _reclassify(
        self, reviewer: Reviewer, opened: OpenReview, version: int, edit: FieldEdit
    ) -> OpenReview:
        before = check_class(edit, opened.classes)
        values = {
            "action": edit.action,
            "record": 0,
            "path": "",
            "old": before.value,
            "new": edit.value,
            "page": edit.page,
            "reason": edit.reason,
            "seconds": edit.seconds,
        }
        add_correction(self._database, reviewer, opened.review, version, values)
        return self.open(reviewer.tenant, opened.review.document_id)

    def undo(self, reviewer: Reviewer, document_id: str, version: int) -> OpenReview:
        """Take back the last edit. Raises InvalidEditError if there is none."""
        review = load_review(self._database, reviewer.tenant, document_id)
        last = last_correction(load_corrections(self._database, review))
        if last is None:
            raise InvalidEditError("there is nothing to undo")
        values = {
            "action": EditAction.UNDO,
            "undoes": last.id,
            "record": last.record,
            "path": last.path,
            "old": last.new,
            "new": last.old,
            "page": last.page,
            "old_box": last.new_box,
            "new_box": last.old_box,
        }
        add_correction(self._database, reviewer, review, version, values)
        return self.open(reviewer.tenant, document_id)

    def words(self, tenant: str, review: Review, number: int) -> list[PageWord]:
        """The words of a page of the result. Raises StorageError."""
        content = json.loads(self._store.get(f"{self._folder(tenant, review)}/{DOCUMENT_JSON}"))
        pages = (page for page in content["pages"] if page["number"] == number)
        page = next(pages, None)
        return [] if page is None else split_words(page)

    def page_image(self, tenant: str, review: Review, number: int) -> bytes:
        """The JPEG of a page of the result. Raises StorageError and FileNotFoundError."""
        return self._store.get(f"{self._folder(tenant, review)}/{page_image_path(number)}")

    def approve(
        self, reviewer: Reviewer, document_id: str, version: int, seconds: float | None = None
    ) -> Review:
        """Write the corrected result beside the machine's, and finish the document."""
        opened = self.open(reviewer.tenant, document_id)
        review = opened.review
        # What one version of a review approves is always the same: nothing can be overwritten by
        # something else.
        name = f"approved-{version}.json"
        is_own = review.reviewer == reviewer.id and review.version == version
        if is_own and review.state is ReviewState.OPEN:
            folder = self._folder(reviewer.tenant, review)
            result = json.loads(self._store.get(f"{folder}/{DOCUMENT_JSON}"))
            has_error = load_document(self._database, reviewer.tenant, document_id).row["error"]
            state = DocumentState.PARTIALLY_SUCCEEDED if has_error else DocumentState.SUCCEEDED
            content = _approved_content(result, opened, reviewer, state)
            text = json.dumps(content, ensure_ascii=False, indent=2)
            self._store.put(f"{folder}/{name}", text.encode())
        decide(
            self._database,
            reviewer,
            review,
            version,
            ReviewState.APPROVED,
            seconds=seconds,
            approved_file=name,
        )
        return load_review(self._database, reviewer.tenant, document_id)

    def reject(
        self,
        reviewer: Reviewer,
        document_id: str,
        version: int,
        reason: str,
        seconds: float | None = None,
    ) -> Review:
        """Reject the document, which has then failed."""
        review = load_review(self._database, reviewer.tenant, document_id)
        decide(
            self._database,
            reviewer,
            review,
            version,
            ReviewState.REJECTED,
            reason=reason,
            seconds=seconds,
        )
        return load_review(self._database, reviewer.tenant, document_id)

    def open_review(self, tenant: str, review: Review) -> OpenReview:
        """A review that is loaded already, with its records. Raises StorageError."""
        found = load_corrections(self._database, review)
        result = self._result(tenant, review)
        schemas = self._schemas(review)
        records = [
            apply_corrections(index, record, found, schemas.find(record))
            for index, record in enumerate(result["records"])
        ]
        pages = [
            ReviewPage(page["number"], page["width"], page["height"], page.get("image"))
            for page in result["pages"]
        ]
        options = self._classify_options(review)
        rule = DocumentRule(options.get("document_class", DocumentRule.MAJORITY))
        classes = apply_reclassifications(result, found, rule)
        known = options.get("page_classes", ())
        return OpenReview(review, pages, records, classes, found, schemas.problem, known)

    def _machine_record(self, tenant: str, review: Review, index: int) -> Mapping[str, Any]:
        records: Sequence[Mapping[str, Any]] = self._result(tenant, review)["records"]
        if not 0 <= index < len(records):
            raise InvalidEditError(f"the document has no record {index}")
        return records[index]

    def _result(self, tenant: str, review: Review) -> Mapping[str, Any]:
        """The machine's records and pages, without their text."""

        def load() -> Mapping[str, Any]:
            content = json.loads(self._store.get(f"{self._folder(tenant, review)}/{DOCUMENT_JSON}"))
            names = ("number", "width", "height", "image")
            pages = [{name: page.get(name) for name in names} for page in content["pages"]]
            records = content.get("records", [])
            _locate_evidence(records, content["pages"])
            return {
                "records": records,
                "pages": pages,
                "class": content.get("class"),
                "page_classes": content.get("page_classes", []),
            }

        found: Mapping[str, Any] = self._load_once(
            (tenant, review.document_id, review.result), load
        )
        return found

    def _schemas(self, review: Review) -> "_Schemas":
        """The record schemas of the pipeline, or why they can't be loaded."""

        def load() -> _Schemas:
            try:
                return _Schemas(load_record_schemas(self._pipeline(review)))
            except (SchemaError, UnknownPipelineError) as error:
                return _Schemas({}, f"rules aren't checked: {error}")

        found: _Schemas = self._load_once(
            ("schemas", review.pipeline, review.pipeline_revision), load
        )
        return found

    def _classify_options(self, review: Review) -> Mapping[str, Any]:
        """The options of the pipeline's step classify; none without the step."""

        def load() -> Mapping[str, Any]:
            try:
                steps = self._pipeline(review).steps
            except UnknownPipelineError:
                return {}
            options = (step.options for step in steps if step.step == "classify")
            return next(options, {})

        found: Mapping[str, Any] = self._load_once(
            ("classify", review.pipeline, review.pipeline_revision), load
        )
        return found

    def _pipeline(self, review: Review) -> Pipeline:
        return load_pipeline(self._database, review.pipeline, review.pipeline_revision)

    def _folder(self, tenant: str, review: Review) -> str:
        return f"{document_folder(tenant, review.document_id)}/{review.result}"

    def _load_once(self, key: tuple[str, ...], load: Any) -> Any:  # noqa: ANN401
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        value = load()
        with self._lock:
            self._cache[key] = value
            if len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return value


def _locate_evidence(
    records: Sequence[Mapping[str, Any]], pages: Sequence[Mapping[str, Any]]
) -> None:
    """Add to each piece of evidence whether its box is an estimate. Where the engine reported
    lines, the box of the words replaces an estimate."""
    by_number = {page["number"]: page for page in pages}
    words: dict[int, Sequence[PageWord]] = {}
    for record in records:
        for evidence in record["evidence"]:
            page, box = by_number.get(evidence["page"]), evidence["box"]
            evidence["is_estimated"] = False
            if page is None or box is None or is_measured(box, page):
                continue
            if page.get("lines") and evidence["quote"]:
                if page["number"] not in words:
                    words[page["number"]] = split_words(page)
                box = find_words(words[page["number"]], evidence["quote"], box) or box
            evidence["box"] = box
            evidence["is_estimated"] = not is_measured(box, page)


@dataclass(frozen=True)
class _Schemas:
    """The record schemas of a pipeline by class of pages, or the `problem` why there are none."""

    by_class: Mapping[str | None, Schema]
    problem: str | None = None

    def find(self, record: Mapping[str, Any]) -> Schema | None:
        """The schema of a record of `document.json`."""
        return self.by_class.get(record.get("class"))


def _approved_content(
    result: dict[str, Any], opened: OpenReview, reviewer: Reviewer, state: DocumentState
) -> dict[str, Any]:
    """The result with the corrected records; what people said replaces the machine's evidence."""
    records = []
    changed = len(live_reclassifications(opened.corrections))
    for machine, record in zip(result.get("records", []), opened.records, strict=True):
        live = live_corrections(opened.corrections, record.index)
        changed += sum(correction.action != EditAction.CONFIRM for correction in live)
        records.append(
            {
                **machine,
                "fields": None if machine["fields"] is None and not live else record.content,
                "errors": [_error(error, record) for error in record.errors],
                "evidence": list(_evidence(machine, record)),
            }
        )
    review = {
        "state": ReviewState.APPROVED,
        "reasons": opened.review.reasons,
        "reviewer": reviewer.name,
        "corrections": changed,
    }
    classes = approved_classes(result, opened.classes)
    content = {**result, "state": state, "records": records, **classes, "review": review}
    content["record"] = records[0]["fields"] if records else None
    return content


def _error(error: FieldError, record: ReviewRecord) -> Mapping[str, Any]:
    path = record.approved_paths.get(error.path, error.path)
    return {"path": path, "value": error.value, "reason": error.reason}


def _evidence(machine: Mapping[str, Any], record: ReviewRecord) -> Sequence[Mapping[str, Any]]:
    by_path = {evidence["path"]: evidence for evidence in machine["evidence"]}
    found: list[Mapping[str, Any]] = []
    for field in record.fields:
        path = record.approved_paths.get(field.path, field.path)
        if field.status is FieldStatus.CORRECTED:
            found.append(
                {
                    "path": path,
                    "matched": "corrected",
                    "confidence": 1.0,
                    "page": field.page,
                    "box": None if field.box is None else list(field.box),
                    "quote": None,
                }
            )
        elif field.path in by_path and field.status is not FieldStatus.ABSENT:
            found.append({**by_path[field.path], "path": path})
    return found
