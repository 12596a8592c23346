"""The types that all packages share: pages, blocks, figures, statuses and error codes.

Frozen dataclasses, no I/O. Boxes are `(x1, y1, x2, y2)` in pixels of the stored page image, origin
at the top left, `x1 < x2` and `y1 < y2`.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from llm_ocr.documents import Document

if TYPE_CHECKING:
    from PIL.Image import Image


def valid_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, and surrogate pairs by their character.

    PDFs, JSON and file names may contain surrogates, which can be neither stored nor sent.
    """
    try:
        text.encode()  # nearly every text is valid, and this is the fastest way to know
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class PageStatus(StrEnum):
    """The result of a page, a figure or a document; each ends in exactly one status.

    Only figures are `skipped`: those that are too small to be described.
    """

    OK = "ok"
    BLANK = "blank"
    TRUNCATED = "truncated"
    REPETITIVE = "repetitive"
    FALLBACK = "fallback"
    SKIPPED = "skipped"
    FAILED = "failed"


class ErrorCode(StrEnum):
    """Why a page failed, as a category; the error message names the input."""

    NOT_FOUND = "not_found"
    READ_ERROR = "read_error"
    ADDRESS_REFUSED = "address_refused"
    SOURCE_CHANGED = "source_changed"
    EMPTY_FILE = "empty_file"
    UNSUPPORTED_FORMAT = "unsupported_format"
    CORRUPT_DOCUMENT = "corrupt_document"
    ENCRYPTED = "encrypted"
    WRONG_PASSWORD = "wrong_password"
    NO_PAGES = "no_pages"
    CORRUPT_PAGE = "corrupt_page"
    TOO_LARGE = "too_large"
    RENDER_CRASHED = "render_crashed"
    RENDER_TIMEOUT = "render_timeout"
    REQUEST_REJECTED = "request_rejected"
    ENGINE_ERROR = "engine_error"
    ENGINE_CRASHED = "engine_crashed"
    ENGINE_TIMEOUT = "engine_timeout"
    EMPTY_ANSWER = "empty_answer"
    UNREADABLE_ANSWER = "unreadable_answer"
    MISSING_PAGES = "missing_pages"
    NO_TEXT_LAYER = "no_text_layer"
    INTERNAL_ERROR = "internal_error"


class PageError(Exception):
    """An input that can't be read, with its category.

    `message` names the input and says what is wrong; it becomes the row's `error`.
    `attempts` counts the requests that were made for it.
    """

    def __init__(self, code: ErrorCode, message: str, attempts: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.attempts = attempts

    def __reduce__(self) -> tuple[type["PageError"], tuple[ErrorCode, str, int]]:
        return PageError, (self.code, self.message, self.attempts)


@dataclass(frozen=True)
class Page:
    """A page of a document. `number` counts from 1.

    Number 0 represents a document that could not be opened, so that its pages can't be counted.
    """

    document: Document
    number: int

    @property
    def page_id(self) -> str:
        return self.document.page_id(self.number)


@dataclass(frozen=True)
class ImagePolicy:
    """The page image that a model needs: the longest side in pixels (never exceeded) and the JPEG
    quality.

    An image whose longest side is shorter than `smallest_side` is enlarged to it. `max_pixels` and
    `min_pixels` bound the area (0: they don't), as some processors do; the longest side goes before
    `min_pixels`. Both sides are multiples of `multiple_of` pixels, so that the model's processor
    need not resize the image again. `with_lines`: the lines of the page's text layer are read, too.
    """

    longest_side: int
    jpeg_quality: int = 90
    smallest_side: int = 0
    with_lines: bool = False
    max_pixels: int = 0
    min_pixels: int = 0
    multiple_of: int = 1


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels of the stored page image."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def area(self) -> float:
        return max(0.0, self.x2 - self.x1) * max(0.0, self.y2 - self.y1)

    def contains_center(self, other: "Box") -> bool:
        x, y = (other.x1 + other.x2) / 2, (other.y1 + other.y2) / 2
        return self.x1 <= x <= self.x2 and self.y1 <= y <= self.y2


# The strategy of pages that the embedded engine read instead of the model, as they are simple.
ROUTED = "routed"


class TextLayerUse(StrEnum):
    """Use of a PDF's text layer. `auto`: where it can be trusted, and to check a model's answers;
    `only`: instead of a model."""

    AUTO = "auto"
    OFF = "off"
    ONLY = "only"


@dataclass(frozen=True)
class TextWord:
    """A word on a page and its box; `confidence` (0..1) is the engine's, None in a text layer."""

    text: str
    box: Box
    confidence: float | None = None


@dataclass(frozen=True)
class TextLine:
    """A line of a page's text layer. `bold`: (nearly) all of it is bold; `vertical`: it runs up or
    down."""

    text: str
    words: tuple[TextWord, ...]
    bold: bool = False
    vertical: bool = False


# A shorter text layer is a page number or a stamp.
MIN_LAYER_CHARACTERS = 25
MAX_LAYER_DAMAGE = 0.05
# Broken layers agreed at 0.20 to 0.22 with what their pages show, good ones at 0.85 and more.
MIN_LAYER_TRUST = 0.5


@dataclass(frozen=True)
class TextLayer:
    """The text of a page that is stored in its PDF, in the PDF's order.

    `under_image`: an image covers most of the page, so that the text comes from an earlier OCR.
    `damage` is the share of garbled characters. `trust` (0..1) is how likely the text is what the
    page shows, judged by the PDF alone, and `doubts` are the reasons against it. `lines` are the
    text with its boxes, `pictures` the boxes of images; both only with `ImagePolicy.with_lines`.
    """

    text: str
    under_image: bool
    damage: float = 0.0
    trust: float = 1.0
    doubts: tuple[str, ...] = ()
    lines: tuple[TextLine, ...] = ()
    pictures: tuple[Box, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether there is enough text, and not too much of it is garbled."""
        length = sum(map(len, self.text.split()))
        return length >= MIN_LAYER_CHARACTERS and self.damage < MAX_LAYER_DAMAGE

    @property
    def is_own(self) -> bool:
        """Whether it is trusted and not the text of an earlier OCR, which proves nothing."""
        return self.is_trusted and not self.under_image

    @property
    def is_trusted(self) -> bool:
        """Whether it can be used as the page's text, unless the page image contradicts it."""
        return self.is_usable and self.trust >= MIN_LAYER_TRUST


@dataclass(frozen=True)
class PageImage:
    """A rendered page: upright, at most `ImagePolicy.longest_side` pixels on its longest side.

    `ink` is the share of pixels that differ clearly from the background (0..1). `width_pt` and
    `height_pt` are the upright page's size in points (1/72 inch), None for an image without a
    resolution; `rotation` is the clockwise rotation in degrees that was applied to make it upright
    (from /Rotate, EXIF, or the direction of its text). `text_layer` is None if the page has none.
    """

    jpeg: bytes
    width: int
    height: int
    ink: float
    width_pt: float | None
    height_pt: float | None
    rotation: int
    text_layer: TextLayer | None = None


# The canonical labels of blocks; other labels of a model are kept unchanged.
FIGURE_LABELS = frozenset({"image", "figure", "chart"})
CAPTION_LABELS = frozenset({"image_caption", "figure_caption", "table_caption"})
FURNITURE_LABELS = frozenset({"header", "footer", "page_number"})
NOTE_LABEL = "footnote"


@dataclass(frozen=True)
class Block:
    """A labeled box on a page with its Markdown; `box` is None if the model returned none.

    `confidence` (0..1) is the engine's confidence in the text, if it reports one.
    """

    label: str
    text: str
    box: Box | None
    confidence: float | None = None


@dataclass(frozen=True)
class PageLine:
    """A line of text that an engine read on a page, with its confidence (0..1) and box.

    `doubtful`: it is likely to be wrong, as handwriting mostly is. `words` are in reading order,
    none where the engine reports only lines.
    """

    text: str
    confidence: float
    doubtful: bool
    box: Box
    words: tuple[TextWord, ...] = ()


@dataclass(frozen=True)
class ParsedAnswer:
    """A parsed answer of a model: blocks in reading order, and notes on what had to be repaired."""

    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A block cut out of its page as an image.

    `figure_id` is `page_id/k`, k counting from 1; `name` is the file name that Markdown refers to,
    as `figures/NAME`; `jpeg` is `width` x `height` pixels, cut from the source at up to 200 dpi.
    `caption` is the caption printed on the page. `description` is a model's description, where a
    `DocumentResult` has one.
    """

    figure_id: str
    page_id: str
    doc_id: str
    name: str
    label: str
    box: Box
    jpeg: bytes
    width: int
    height: int
    caption: str | None = None
    description: str | None = None

    @property
    def page_number(self) -> int:
        return int(self.page_id.rpartition("/")[2])

    @property
    def image(self) -> "Image":
        """The figure as a PIL image, RGB or gray."""
        from PIL.Image import open as open_image

        return open_image(io.BytesIO(self.jpeg))


# Results: one per item of a step -----------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How an item ended, what answered, and what it took.

    `error_code` and `error` are set where the status is not `ok`, `blank` or `skipped`; some
    `truncated` items have them, too. `attempts` counts requests, `prompt_tokens` and
    `completion_tokens` are summed over them, `seconds` is the time that their answers took.
    `strategy` is the rung of the retry ladder that gave the result, `finish_reason` the server's.
    `model`, `model_revision`, `profile` and `prompt_hash` say what was asked, None if nothing was.
    """

    status: PageStatus
    error_code: ErrorCode | None = None
    error: str | None = None
    attempts: int = 0
    strategy: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    model: str | None = None
    model_revision: str | None = None
    profile: str | None = None
    prompt_hash: str | None = None


@dataclass(frozen=True)
class StepResult:
    """What the results of all steps that ask a model have in common."""

    outcome: Outcome

    @property
    def status(self) -> PageStatus:
        return self.outcome.status

    @property
    def error(self) -> str | None:
        """What is wrong, where the status is not `ok`, `blank` or `skipped`."""
        return self.outcome.error


@dataclass(frozen=True)
class PageResult(StepResult):
    """A page as it was read.

    `page_number` counts from 1; 0 stands for a document that could not be opened. `image` is the
    page image as a JPEG of `width` x `height` pixels, None where it was not kept or there is none;
    boxes of `blocks`, `lines` and `figures` are in its pixels. `width_pt`, `height_pt` and
    `rotation` are as in `PageImage`. `notes` say what was repaired. `raw_answer` is the model's
    answer, `parser_version` the version of what parsed it.

    `lines` and `confidence` (0..1) come from an engine that reads line by line, else None.
    `text_layer` (0..1) is how far the PDF's own text, `layer_text`, can be trusted, and `agreement`
    (0..1) how far the answer agrees with it. `flaw` is why the answer is doubted, `missing` are
    words of the PDF's own text that it lacks. `content_hash` is the SHA-256 of the document's
    bytes, `metadata` the other columns of a dataset row as JSON.
    """

    page_id: str
    doc_id: str
    source_uri: str
    name: str
    page_number: int
    content_hash: str | None = None
    metadata: str | None = None
    image: bytes | None = None
    width: int | None = None
    height: int | None = None
    width_pt: float | None = None
    height_pt: float | None = None
    rotation: int | None = None
    markdown: str = ""
    blocks: tuple[Block, ...] = ()
    figures: tuple[Figure, ...] = ()
    lines: tuple[PageLine, ...] | None = None
    confidence: float | None = None
    notes: tuple[str, ...] = ()
    raw_answer: str | None = None
    agreement: float | None = None
    flaw: str | None = None
    missing: tuple[str, ...] = ()
    text_layer: float | None = None
    layer_text: str | None = None
    parser_version: int | None = None


@dataclass(frozen=True)
class Description(StepResult):
    """What one task made of a figure: `text`, and `data` as JSON or a class's `confidence` (0..1),
    depending on the task. `raw_answer` is set where `text` differs from the model's answer."""

    description_id: str
    figure_id: str
    page_id: str
    doc_id: str
    task: str
    text: str | None = None
    data: str | None = None
    confidence: float | None = None
    errors: tuple["FieldError", ...] = ()
    raw_answer: str | None = None


class ClassificationPath(StrEnum):
    """What decided on a page's class: its nearest examples, a vision language model, or nobody yet,
    so that people have to look at it."""

    KNN = "knn"
    VLM = "vlm"
    REVIEW = "review"


@dataclass(frozen=True)
class PageClass(StepResult):
    """The class of a page, and who decided on it (`path`).

    `probability` is the share of the nearest examples' votes, or that of the model's answer from
    its log-probabilities. `p_value` says how well the page fits among the examples of the class
    with the most votes. A page on the path `review` has a `reason`; its class is a guess, or None.
    `milliseconds` is the time for the comparison and the model. `classifier` is the version of the
    classifier, None if there was none.
    """

    page_id: str
    doc_id: str
    path: ClassificationPath
    class_name: str | None = None
    probability: float | None = None
    p_value: float | None = None
    reason: str | None = None
    milliseconds: float = 0.0
    classifier: str | None = None

    @property
    def page_number(self) -> int:
        return int(self.page_id.rpartition("/")[2])


class FindingKind(StrEnum):
    """What pages have besides text and figures."""

    BARCODE = "barcode"
    DATE = "date"
    SIGNATURE = "signature"
    STAMP = "stamp"


@dataclass(frozen=True)
class AuxiliaryFinding:
    """Something on a page besides its text and figures.

    `value` is what it says: a barcode's content, a date (YYYY-MM-DD), `present` or `unsure` for a
    signature, the text of a stamp; None if that is not known, and `problem` says why. `source` is
    what found it, `confidence` 0..1. `text` is the text as read. `symbology` and `corners` (x, y)
    are a barcode's, from its top left clockwise as it would be read. `candidates` are the possible
    dates of an ambiguous one. `name` is the file name of its image, `jpeg`.
    """

    kind: FindingKind
    value: str | None
    box: Box
    confidence: float
    source: str
    text: str | None = None
    problem: str | None = None
    symbology: str | None = None
    corners: tuple[tuple[float, float], ...] = ()
    candidates: tuple[str, ...] = ()
    name: str | None = None
    jpeg: bytes = b""


@dataclass(frozen=True)
class AuxiliaryResult(StepResult):
    """What was found on a page; `notes` say what reduces the quality of the findings."""

    page_id: str
    doc_id: str
    findings: tuple[AuxiliaryFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def page_number(self) -> int:
        return int(self.page_id.rpartition("/")[2])


@dataclass(frozen=True)
class UnmetExpectation:
    """What a document's pages should have: `expected`, in words, of which `found` were there.
    `page` is the number of the page that should have it; None for the whole document."""

    kind: FindingKind
    expected: str
    found: int
    message: str
    page: int | None = None


@dataclass(frozen=True)
class AssembledDocument:
    """A document's pages, figures and descriptions as one Markdown text.

    `status` is `ok`, `truncated` (some of it is missing) or `failed` (no page was read).
    """

    doc_id: str
    source_uri: str
    name: str
    status: PageStatus
    markdown: str = ""
    page_count: int = 0
    figure_count: int = 0
    error_code: ErrorCode | None = None
    error: str | None = None
    content_hash: str | None = None
    metadata: str | None = None


@dataclass(frozen=True)
class FieldError:
    """A value that is not in the record because it is invalid, or a check that the record fails.

    `path` is the field's, with dots (`lines.2.amount`), empty for the whole record. `value` is the
    raw value as JSON, None if there was none.
    """

    path: str
    value: str | None
    reason: str


class MatchType(StrEnum):
    """How a value matches the text of the page."""

    EXACT = "exact"
    NORMALIZED = "normalized"
    FUZZY = "fuzzy"


@dataclass(frozen=True)
class FieldEvidence:
    """Where one value of a record (a leaf; its path is as in `FieldError`) is on its page.

    `quote` is the text on the page. `matched` is None if the page doesn't show the value, which is
    then unverified. `confidence` is 0..1. `reading` (0..1) is how surely its characters on the page
    were read, `extraction` how sure the model was that it is the field's value: None where the
    engine that read the page, or the one that answered, doesn't report it.
    """

    path: str
    matched: MatchType | None
    confidence: float
    page_id: str | None = None
    page_number: int | None = None
    box: Box | None = None
    quote: str | None = None
    reading: float | None = None
    extraction: float | None = None


@dataclass(frozen=True)
class Disagreement:
    """A value of a record for which a second model has another one, both as JSON; None where one of
    them has none. `path` is as in `FieldError`; that of a row which only the second model found is
    its list's."""

    path: str
    value: str | None
    check_value: str | None


@dataclass(frozen=True)
class Record(StepResult):
    """A document, a page, or consecutive pages of one class, as JSON `fields` of the user's schema,
    None where there are none.

    `record_id` is the ID of the document or page, or DOCUMENT/FIRST-LAST. `page_numbers` are the
    pages that it was made of, `class_name` is their class if the schema was chosen by it. `errors`
    name the values that are missing from it, and `evidence` says where each value is on its page.

    `check_model` is the second model that was asked, `disagreements` are the values on which the
    two disagree (None if there was no check), and `check_error` says why it has no record.
    `rows_added` counts the rows of lists that a second pass found (None without one).
    """

    record_id: str
    doc_id: str
    source_uri: str
    name: str
    schema: str
    schema_hash: str
    fields: Mapping[str, Any] | None = None
    errors: tuple[FieldError, ...] = ()
    evidence: tuple[FieldEvidence, ...] = ()
    raw_answer: str | None = None
    page_numbers: tuple[int, ...] = ()
    class_name: str | None = None
    check_model: str | None = None
    check_error: str | None = None
    disagreements: tuple[Disagreement, ...] | None = None
    rows_added: int | None = None


@dataclass(frozen=True)
class UnparsedPage:
    """A page that belongs to no record where each class has a schema of its own, and why."""

    page_number: int
    class_name: str | None
    reason: str


@dataclass(frozen=True)
class DocumentResult:
    """One document after its steps: `status` and `error` as in `AssembledDocument`.

    Page images are left out. `records` holds one record, or one per page, or one for consecutive
    pages of a class; there are none without a schema. `unparsed_pages` are those whose class has no
    schema. `auxiliary` is what the step auxiliary found on each page, `unmet_expectations` what was
    expected and is missing. `page_classes` are those of the step classify, `class_name` is that of
    the document, None if it isn't certain.
    """

    doc_id: str
    source_uri: str
    name: str
    status: PageStatus
    markdown: str
    pages: tuple[PageResult, ...]
    descriptions: tuple[Description, ...] = ()
    records: tuple[Record, ...] = ()
    error_code: ErrorCode | None = None
    error: str | None = None
    auxiliary: tuple[AuxiliaryResult, ...] = ()
    unmet_expectations: tuple[UnmetExpectation, ...] = ()
    page_classes: tuple[PageClass, ...] = ()
    class_name: str | None = None
    unparsed_pages: tuple[UnparsedPage, ...] = ()

    @property
    def findings(self) -> tuple[AuxiliaryFinding, ...]:
        return tuple(finding for found in self.auxiliary for finding in found.findings)

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figure for page in self.pages for figure in page.figures)

    @property
    def record(self) -> Mapping[str, Any] | None:
        """The fields of the document's record; None without one."""
        return self.records[0].fields if self.records else None
