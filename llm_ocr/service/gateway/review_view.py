"""What the page of a document shows: its fields as rows, and the part of the page around each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.service.review.desk import OpenReview, ReviewPage
from llm_ocr.service.review.edits import FieldStatus, ReviewField, ReviewRecord
from llm_ocr.service.review.reviews import Reviewer, ReviewState
from llm_ocr.service.review_policy import describe_record

# Margins of a crop, in heights of its box: what is beside a value tells more than what is above.
CROP_MARGINS = (1.0, 0.25)
# Largest size of a crop in CSS pixels, and the height to which a lower one is enlarged.
CROP_WIDTH, CROP_HEIGHT, LINE_HEIGHT = 300.0, 72.0, 26.0


@dataclass(frozen=True)
class EvidenceCrop:
    """A part of a page's image, in its pixels, and the size at which it is shown. The browser cuts
    it out of the image that it shows anyway: a gateway decodes no images."""

    page: ReviewPage
    left: float
    top: float
    width: float
    height: float

    @property
    def shown_width(self) -> float:
        return self.width * self._scale

    @property
    def shown_height(self) -> float:
        return self.height * self._scale

    @property
    def _scale(self) -> float:
        largest = min(CROP_WIDTH / self.width, CROP_HEIGHT / self.height)
        return min(largest, max(LINE_HEIGHT / self.height, 0.5))


@dataclass(frozen=True)
class FieldRow:
    """A field on the page: its number is that of its element. `group` is the list item that it
    belongs to, if it is the first of it; `record` names its record in the same way, if there are
    several."""

    id: str
    field: ReviewField
    group: str | None
    crop: EvidenceCrop | None
    record: str | None = None


def view_document(opened: OpenReview, reviewer: Reviewer) -> Mapping[str, Any]:
    """What the templates of a document need."""
    review = opened.review
    rows = list(list_rows(opened))
    return {
        "review": review,
        "opened": opened,
        "rows": rows,
        "lists": list(_lists(opened)),
        "is_editable": review.state is ReviewState.OPEN and review.is_claimed_by(reviewer),
        "open_count": sum(row.field.status is FieldStatus.UNCONFIRMED for row in rows),
        "reason_paths": {
            (reason.get("record", 0), reason.get("path")) for reason in review.reasons
        },
        "rules": [
            f"{name}: {error.reason}" if (name := _record_name(opened, record)) else error.reason
            for record in opened.records
            for error in record.errors
            if opened.field(record.index, error.path) is None
        ],
    }


def list_rows(opened: OpenReview) -> Iterator[FieldRow]:
    """The rows of all records."""
    pages = {page.number: page for page in opened.pages}
    for record in opened.records:
        group = None
        for number, field in enumerate(record.fields):
            item = _item_of(field.path)
            page = None if field.page is None else pages.get(field.page)
            crop = None if page is None else _crop(field, page)
            row_id = f"f-{record.index}-{number}"
            yield FieldRow(
                row_id,
                field,
                item if item != group else None,
                crop,
                _record_name(opened, record) if number == 0 else None,
            )
            group = item


def find_row(opened: OpenReview, record: int, path: str) -> FieldRow:
    """The row of the field at a path of a record."""
    return next(
        row for row in list_rows(opened) if (row.field.record, row.field.path) == (record, path)
    )


def class_choices(opened: OpenReview, used: Sequence[str]) -> Sequence[str]:
    """Classes that a reviewer is likely to mean: those of the pipeline and of this document, and
    those that reviewers have used."""
    shown = (opened.classes.document, *opened.classes.pages)
    found = {name for one in shown for name in (one.value, one.machine_value) if name}
    return sorted(found.union(opened.known_classes, used))


def _crop(field: ReviewField, page: ReviewPage) -> EvidenceCrop | None:
    """The part of the page around a field's box; None without a box or an image."""
    if field.box is None or not (page.image and page.width and page.height):
        return None
    left, top, right, bottom = field.box
    beside, above = (margin * (bottom - top) for margin in CROP_MARGINS)
    left, right = max(0.0, left - beside), min(float(page.width), right + beside)
    top, bottom = max(0.0, top - above), min(float(page.height), bottom + above)
    if right <= left or bottom <= top:
        return None
    return EvidenceCrop(page, left, top, right - left, bottom - top)


def _item_of(path: str) -> str | None:
    """The path of the list item that a field belongs to."""
    parts = path.split(".")
    places = [k for k, part in enumerate(parts) if part.isdecimal()]
    return ".".join(parts[: places[-1] + 1]) if places else None


def _record_name(opened: OpenReview, record: ReviewRecord) -> str | None:
    """What a record is called where there are several; None for the only one of a document."""
    if len(opened.records) == 1 and record.class_name is None:
        return None
    return describe_record(record.index, record.class_name, record.pages)


def _lists(opened: OpenReview) -> Iterator[tuple[int, str, int, str]]:
    """The lists of objects to which an item can be added: record, path, next index, and what it is
    called."""
    for record in opened.records:
        for path, count in record.lists:
            name, label = _record_name(opened, record), path.replace("_", " ")
            yield record.index, path, count, f"{label} of {name}" if name else label
