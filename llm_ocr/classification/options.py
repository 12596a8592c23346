"""Define how the pages of a document are classified in a pipeline."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from llm_ocr.messages import CodedError

# The class of pages that are none of the others; no classifier may have it.
OTHER = "other"


class ClassifierError(CodedError):
    """An index, its examples or its embedder can't be used; the message names what and says why."""


class DocumentRule(StrEnum):
    """Which class a document has: that of most of its pages, or that of its first page."""

    MAJORITY = "majority"
    FIRST = "first"


def choose_class(names: Sequence[str | None], rule: DocumentRule) -> str | None:
    """The class of a document whose pages have these, in order. Pages that are for people to look
    at have none: None where the rule depends on them, and where as many pages are of another
    class."""
    if not names or rule is DocumentRule.FIRST:
        return names[0] if names else None
    (name, count), *others = Counter(names).most_common()
    return None if others and others[0][1] == count else name


class ClassifyOptions(BaseModel):
    """The classifier, and what becomes of pages that it doesn't accept.

    `classifier` is a folder, or NAME@ALIAS or NAME/VERSION of the registry. `page_classes` are
    those that a model chooses from (default: those of the classifier). A model's answer counts from
    `min_probability` on; other pages are for people to look at.

    `split` makes documents of the runs of pages of one class. Each page of `first_page_classes`
    begins a document, also after a page of the same class. `pipelines` are the pipelines of these
    documents by class, as NAME, or NAME@REVISION once they have been looked up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    classifier: Annotated[str, Field(min_length=1)] | None = None
    page_classes: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    min_probability: Annotated[float, Field(ge=0, le=1)] = 0.8
    document_class: DocumentRule = DocumentRule.MAJORITY
    split: bool = False
    first_page_classes: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    pipelines: dict[str, Annotated[str, Field(pattern="^[a-z][a-z0-9_-]*(@[0-9a-f]{16})?$")]] = {}

    @model_validator(mode="after")
    def _check(self) -> "ClassifyOptions":
        if self.classifier is None and len(set(self.page_classes)) < 2:
            raise ValueError("classify needs a classifier, or at least two page_classes")
        if OTHER in self.page_classes:
            raise ValueError(f"{OTHER!r} is always one of the classes: remove it from page_classes")
        return self
