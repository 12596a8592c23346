"""The types that all rooms share: pages, blocks, figures, statuses and error codes.

Frozen dataclasses, no I/O. Boxes are `(x1, y1, x2, y2)` in pixels of the stored page image, origin
at the top left, `x1 < x2` and `y1 < y2`.
"""

from dataclasses import dataclass
from enum import StrEnum

from llm_ocr.documents import Document


def valid_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, and pairs of them by their character.

    PDFs, JSON and file names may hold surrogates, which can be neither stored nor sent.
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

    `message` names the input, says what is wrong and what to do; it becomes the row's `error`.
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
    """One image of a document. `number` counts from 1.

    Number 0 stands for a whole document that could not be opened, whose pages nobody can count.
    """

    document: Document
    number: int

    @property
    def page_id(self) -> str:
        return self.document.page_id(self.number)


@dataclass(frozen=True)
class ImagePolicy:
    """The page image a model wants: longest side in pixels (never exceeded), JPEG quality.

    An image whose longest side is shorter than `smallest_side` is enlarged to it. `with_lines` is
    whether the lines of the page's text layer are wanted beside it.
    """

    longest_side: int
    jpeg_quality: int = 90
    smallest_side: int = 0
    with_lines: bool = False


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


class TextLayerUse(StrEnum):
    """Use of a PDF's own text; `auto`: where it can be trusted, and to check answers; `only`: no
    model is asked."""

    AUTO = "auto"
    OFF = "off"
    ONLY = "only"


@dataclass(frozen=True)
class TextWord:
    """A word of a page's own text, and where it stands."""

    text: str
    box: Box


@dataclass(frozen=True)
class TextLine:
    """A line of a page's own text. `bold` is whether (nearly) all of it is; `vertical` text runs
    up or down."""

    text: str
    words: tuple[TextWord, ...]
    bold: bool = False
    vertical: bool = False


# A text layer with less than this is a page number or a stamp.
MIN_LAYER_CHARACTERS = 25
MAX_LAYER_DAMAGE = 0.05
# Broken layers agreed 0.20 to 0.22 with what their pages show, good ones 0.85 and more.
MIN_LAYER_TRUST = 0.5


@dataclass(frozen=True)
class TextLayer:
    """The text that a PDF itself holds for a page, in its own order.

    `under_image` says that an image covers most of the page: then the text comes from an earlier
    OCR. `damage` is the share of garbled characters. `trust` (0..1) says how likely the text is
    what the page shows, judged by the PDF alone, and `doubts` are the reasons against it. `lines`
    are the text with its boxes, `pictures` the images on the page; both only if
    `ImagePolicy.with_lines`.
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
        """Whether there is enough text that isn't garbled, as by a font without a character map."""
        enough = sum(not character.isspace() for character in self.text) >= MIN_LAYER_CHARACTERS
        return enough and self.damage < MAX_LAYER_DAMAGE

    @property
    def is_own(self) -> bool:
        """Whether it is trusted and not the text of an earlier OCR, which proves nothing."""
        return self.is_trusted and not self.under_image

    @property
    def is_trusted(self) -> bool:
        """Whether it can stand for what the page shows, unless the page itself says otherwise."""
        return self.is_usable and self.trust >= MIN_LAYER_TRUST


@dataclass(frozen=True)
class PageImage:
    """A rendered page: upright, at most `ImagePolicy.longest_side` pixels on its longest side.

    `ink` is the share of pixels that differ clearly from the background (0..1). `width_pt` and
    `height_pt` are the upright page's size in points (1/72 inch), None for an image without a
    resolution; `rotation` is the clockwise turn in degrees that was applied to make it upright
    (from /Rotate, EXIF, or the way its text runs). `text_layer` is None where the page has no text
    of its own.
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
    """A labeled box on a page with its Markdown; `box` is None where the model gave none.

    `confidence` (0..1) is how sure its reader was of the text, where it says so.
    """

    label: str
    text: str
    box: Box | None
    confidence: float | None = None


@dataclass(frozen=True)
class PageLine:
    """A line of text as it was read on a page, how sure its reader was of it (0..1), and where.

    `doubtful` is what may well be misread, as handwriting mostly is.
    """

    text: str
    confidence: float
    doubtful: bool
    box: Box


@dataclass(frozen=True)
class ParsedAnswer:
    """A parsed answer of a model: blocks in reading order, and notes on what had to be repaired."""

    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A block cut out of its page as an image.

    `figure_id` is `page_id/k`, k counting from 1; `name` is the file name that Markdown refers to;
    `jpeg` is `width` x `height` pixels, cut from the source at up to 200 dpi.
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
