"""Classes of pages and of a document under review: the machine's, with what reviewers changed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llm_ocr.classification.options import DocumentRule, choose_class
from llm_ocr.records import ClassificationPath
from llm_ocr.service.review.edits import (
    Correction,
    FieldEdit,
    InvalidEditError,
    live_reclassifications,
)

# A class is a folder's name in the examples of a classifier.
_NAME = re.compile(r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,99}")
# Who decided on a page's class in an approved result, beside `ClassificationPath`.
REVIEWER_PATH = "reviewer"


@dataclass(frozen=True)
class ReviewedClass:
    """The class of a page, or of the document without a page; None if nobody knows it.

    `is_certain` is false for a guess, of which `reason` says why it is one. `is_reviewed`: a person
    has said so, be it the machine's class or another one.
    """

    page: int | None
    value: str | None
    machine_value: str | None
    is_certain: bool
    is_reviewed: bool
    reason: str | None = None


@dataclass(frozen=True)
class ReviewedClasses:
    """The classes of a document and its pages; a page that nobody classified has none."""

    document: ReviewedClass
    pages: Sequence[ReviewedClass]

    def of(self, page: int | None) -> ReviewedClass | None:
        """The class of a page, or of the document."""
        found = (one for one in (self.document, *self.pages) if one.page == page)
        return next(found, None)


def apply_reclassifications(
    result: Mapping[str, Any], corrections: Sequence[Correction], rule: DocumentRule
) -> ReviewedClasses:
    """The classes of a result with the corrections that are not undone. If a reviewer has set the
    class of a page, the document's follows by the rule of its pipeline, unless a reviewer has set
    that too. A document of one page has the class of its page."""
    said: dict[int | None, str] = {}
    for one in live_reclassifications(corrections):
        said.pop(one.page, None)
        said[one.page] = str(one.new)
    by_page = {one["page"]: one for one in result["page_classes"]}
    numbers = sorted(by_page) or [page["number"] for page in result["pages"]]
    if said and len(result["pages"]) == 1:
        said = dict.fromkeys([None, *numbers], list(said.values())[-1])
    pages = [_page_class(number, by_page.get(number), said.get(number)) for number in numbers]
    machine = value = result["class"]
    if None in said:
        value = said[None]
    elif said:
        value = choose_class([page.value if page.is_certain else None for page in pages], rule)
    document = ReviewedClass(None, value, machine, value is not None, None in said)
    return ReviewedClasses(document, pages)


def check_class(edit: FieldEdit, classes: ReviewedClasses) -> ReviewedClass:
    """The class that an edit changes. Raises InvalidEditError if there is no such page, or if the
    new class can't be one."""
    found = classes.of(edit.page)
    if found is None:
        raise InvalidEditError(f"the document has no page {edit.page} that has a class")
    if not isinstance(edit.value, str) or not _is_class_name(edit.value):
        raise InvalidEditError(
            f"{edit.value!r} can't be a class: a class is a name of up to 100 characters, without "
            "slashes, and doesn't begin with a point"
        )
    return found


def approved_classes(result: Mapping[str, Any], classes: ReviewedClasses) -> Mapping[str, Any]:
    """`class` and `page_classes` of an approved result."""
    by_page = {one["page"]: one for one in result.get("page_classes", [])}
    reviewed = {
        page.page: {
            **by_page.get(page.page, {}),
            "page": page.page,
            "class": page.value,
            "path": REVIEWER_PATH,
            "probability": 1.0,
            "reason": None,
        }
        for page in classes.pages
        if page.is_reviewed
    }
    merged = {**by_page, **reviewed}
    return {
        "class": classes.document.value,
        "page_classes": [merged[number] for number in sorted(merged)],
    }


def _is_class_name(name: str) -> bool:
    return name == name.strip() and _NAME.fullmatch(name) is not None


def _page_class(number: int, machine: Mapping[str, Any] | None, said: str | None) -> ReviewedClass:
    value = None if machine is None else machine["class"]
    if said is not None:
        return ReviewedClass(number, said, value, is_certain=True, is_reviewed=True)
    is_guess = machine is None or machine["path"] == ClassificationPath.REVIEW
    reason = None if machine is None else machine["reason"]
    return ReviewedClass(number, value, value, not is_guess, is_reviewed=False, reason=reason)
