"""What reviews leave behind: corrections as a table, tests for `llm-ocr eval`, examples for a
classifier, and a report.

Only approved reviews count as truth: a person has seen the whole record.
"""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from llm_ocr.parsing.schema_fields import ValueKind
from llm_ocr.service.database import Database
from llm_ocr.service.review.desk import OpenReview, ReviewDesk
from llm_ocr.service.review.edits import (
    EditAction,
    FieldStatus,
    ReviewField,
    live_ids,
    pattern_of,
)
from llm_ocr.service.review.reviews import ReviewState, list_reviews
from llm_ocr.service.review_policy import ReasonCode

BATCH = 200
COLUMNS = (
    *("document_id", "document_name", "document_type", "review_state", "action", "is_undone"),
    *("record", "path", "old", "new", "page", "old_box", "new_box", "confidence", "reason"),
    *("reviewer_name", "created_at", "seconds", "model", "pipeline", "pipeline_revision"),
)
# The values of these columns are JSON: a number differs from a text.
_JSON_COLUMNS = frozenset({"old", "new", "old_box", "new_box"})
# Reasons that don't depend on what the model read.
_UNBIASED = frozenset({ReasonCode.ALWAYS, ReasonCode.SAMPLE})
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ALL_FIELDS = "all fields"


def open_reviews(
    database: Database, desk: ReviewDesk, tenant: str, states: Sequence[ReviewState]
) -> Iterator[OpenReview]:
    """The reviews of a tenant in these states, oldest first, each with its record."""
    for state in states:
        after = 0
        while found := list_reviews(database, tenant, state=state, after=after, limit=BATCH):
            after = found[-1].id
            for review in found:
                yield desk.open_review(tenant, review)


def corrections_csv(reviews: Iterator[OpenReview]) -> str:
    """Everything that reviewers did, one edit per row; `is_undone` marks what was taken back."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for opened in reviews:
        review = opened.review
        live = live_ids(opened.corrections)
        for correction in opened.corrections:
            if correction.action == EditAction.UNDO:
                continue
            row = {
                **vars(correction),
                "document_name": review.document_name,
                "document_type": review.document_type,
                "review_state": review.state,
                "is_undone": correction.id not in live,
                "created_at": correction.created_at.isoformat(),
            }
            encoded = {name: json.dumps(row[name], ensure_ascii=False) for name in _JSON_COLUMNS}
            writer.writerow({**row, **encoded})
    return written.getvalue()


def evaluation_tests(reviews: Iterator[OpenReview]) -> Iterator[str]:
    """Tests for `llm-ocr eval --tests`, one JSON object per line: each text that a reviewer
    corrected or confirmed is present on its page. Numbers and dates are left out: pages write them
    in other ways than records."""
    for opened in reviews:
        for record in opened.records:
            for field in record.fields:
                if not _is_text_seen(field):
                    continue
                test = {
                    "id": f"{opened.review.document_id}_{record.index}_{field.path}",
                    "pdf": opened.review.document_name,
                    "page": field.page,
                    "type": "present",
                    "text": field.value,
                    "max_diffs": 0,
                }
                yield json.dumps(test, ensure_ascii=False)


def write_examples(
    reviews: Iterator[OpenReview], desk: ReviewDesk, tenant: str, folder: Path
) -> Mapping[str, int]:
    """Write the pages whose class a reviewer has set or confirmed to `folder`, with a subfolder for
    each class, as `llm-ocr classifier fit` takes it; returns the number of pages of each class.

    A document's pages of one class are one file: a classifier is evaluated without the other pages
    of the same file, which are more alike than pages of other documents.
    """
    counts: Counter[str] = Counter()
    for opened in reviews:
        by_class: dict[str, list[int]] = defaultdict(list)
        has_image = {page.number for page in opened.pages if page.image}
        for page in opened.classes.pages:
            if page.is_reviewed and page.value and page.page in has_image:
                by_class[page.value].append(page.page)
        for name, numbers in by_class.items():
            images = [desk.page_image(tenant, opened.review, number) for number in numbers]
            target = folder / name
            target.mkdir(parents=True, exist_ok=True)
            _write_pages(images, target / opened.review.document_id)
            counts[name] += len(images)
    return counts


def _write_pages(jpegs: Sequence[bytes], path: Path) -> None:
    """Write page images as a file: a JPEG as it is, several as a PDF."""
    if len(jpegs) == 1:
        path.with_suffix(".jpg").write_bytes(jpegs[0])
        return
    first, *others = (Image.open(io.BytesIO(jpeg)) for jpeg in jpegs)
    first.save(path.with_suffix(".pdf"), save_all=True, append_images=others, quality=95)


def _is_text_seen(field: ReviewField) -> bool:
    is_seen = field.status in (FieldStatus.CORRECTED, FieldStatus.CONFIRMED)
    is_text = isinstance(field.value, str) and bool(field.value.strip())
    return is_seen and is_text and field.kind == ValueKind.TEXT and field.page is not None


@dataclass(frozen=True)
class ThresholdRow:
    """What a threshold on the confidence would have done to one field: how many of its values are
    reviewed, and how many that people changed are not."""

    field: str
    threshold: float
    values: int
    changed: int
    reviewed: int
    missed: int

    @property
    def reviewed_share(self) -> float:
        return self.reviewed / self.values

    @property
    def missed_share(self) -> float:
        return self.missed / self.values


@dataclass(frozen=True)
class ConfidenceReport:
    """How often people changed values, by confidence. `documents` are the approved ones that it is
    based on, of which `unbiased` were chosen at random or because all are reviewed."""

    documents: int
    unbiased: int
    rows: Sequence[ThresholdRow]

    def of(self, field: str = ALL_FIELDS) -> Sequence[ThresholdRow]:
        """The rows of one field."""
        return [row for row in self.rows if row.field == field]


def report_confidence(
    reviews: Iterator[OpenReview],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    only_unbiased: bool = False,
) -> ConfidenceReport:
    """Compare the machine's confidences with what people changed, per field and for all fields.

    A value that the machine didn't find has no confidence: a threshold can only miss it.
    """
    seen: dict[str, list[tuple[float | None, bool]]] = defaultdict(list)
    documents = unbiased = 0
    for opened in reviews:
        is_unbiased = all(reason["code"] in _UNBIASED for reason in opened.review.reasons)
        if only_unbiased and not is_unbiased:
            continue
        documents += 1
        unbiased += is_unbiased
        for record in opened.records:
            for field in record.fields:
                is_changed = _is_changed(field)
                if field.confidence is None and not is_changed:
                    continue
                for name in (pattern_of(field.path), ALL_FIELDS):
                    seen[name].append((field.confidence, is_changed))
    names = [ALL_FIELDS, *sorted(seen.keys() - {ALL_FIELDS})] if seen else []
    rows = [_row(name, threshold, seen[name]) for name in names for threshold in thresholds]
    return ConfidenceReport(documents, unbiased, rows)


def _is_changed(field: ReviewField) -> bool:
    """Whether a reviewer changed the value; a correction may also be of the box alone."""
    is_other = field.status is FieldStatus.CORRECTED and field.value != field.machine_value
    return is_other or field.status is FieldStatus.ABSENT


def _row(field: str, threshold: float, values: Sequence[tuple[float | None, bool]]) -> ThresholdRow:
    below = [confidence is not None and confidence < threshold for confidence, _ in values]
    return ThresholdRow(
        field,
        threshold,
        len(values),
        sum(is_changed for _, is_changed in values),
        sum(below),
        sum(
            is_changed and not is_reviewed
            for (_, is_changed), is_reviewed in zip(values, below, strict=True)
        ),
    )
