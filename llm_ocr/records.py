"""The words of the house as types: documents, pages, blocks, figures and what became of them.

Frozen dataclasses, no I/O. Boxes are `(x1, y1, x2, y2)` in pixels of the stored page image, origin
at the top left, `x1 < x2` and `y1 < y2`.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class PageStatus(StrEnum):
    """What became of a page (or a figure, or a document); each ends in exactly one.

    Only figures are `skipped`: those too small to be asked about.
    """

    OK = "ok"
    BLANK = "blank"
    TRUNCATED = "truncated"
    REPETITIVE = "repetitive"
    FALLBACK = "fallback"
    SKIPPED = "skipped"
    FAILED = "failed"


class ErrorCode(StrEnum):
    """Why a page failed: a category to count by; the message beside it names the input."""

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


# What a row's place is called, behind its file's URI.
ROW, ROWS = "#row=", "#rows="
# Rows `first` to `last`, both of them included; to the end of the file where `last` is None.
Range = tuple[int, int | None]


def document_id(uri: str, version: str) -> str:
    """16 hex digits that are others when place or content are."""
    return hashlib.sha256(f"{uri}\n{version}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Document:
    """One input file or one row of a dataset; nothing of its body was read to make it.

    `doc_id` is a hash of `source_uri` and `version` (for a file: its size and modification time).
    `name` is its path below the input without the ending, unique within a run; outputs are named
    by it. `kind` is `pdf` or `image`, or for what is in a dataset `parquet` or `webdataset`.

    In a plan, a document with `rows` (as `0-99,103`, or `0-` where nobody counted them) stands for
    those rows of the file, each a document of its own: see `row`. `column` is where they hold
    their images or PDF, `metadata` is what else a row holds, as JSON.
    """

    doc_id: str
    source_uri: str
    version: str
    name: str
    kind: str
    size: int
    rows: str | None = None
    column: str | None = None
    metadata: str | None = None

    def page_id(self, page_number: int) -> str:
        return f"{self.doc_id}/{page_number}"

    @property
    def file_uri(self) -> str:
        """The file that the rows are in."""
        if self.rows is None:
            return self.source_uri
        return self.source_uri.rpartition(ROWS if ROWS in self.source_uri else ROW)[0]

    @property
    def file_id(self) -> str:
        """The `doc_id` of the file that the rows are in."""
        return document_id(self.file_uri, self.version)

    @property
    def ranges(self) -> Iterator[Range]:
        """The rows, in order, counted from 0."""
        for piece in (self.rows or "").split(",") if self.rows else ():
            first, dash, last = piece.partition("-")
            yield int(first), (int(last) if last else None) if dash else int(first)

    @property
    def row_count(self) -> int | None:
        """How many documents it stands for; None where nobody counted its rows."""
        if self.rows is None:
            return 1
        count = 0
        for first, last in self.ranges:
            if last is None:
                return None
            count += last - first + 1
        return count

    def of_rows(self, ranges: Sequence[Range]) -> "Document":
        """The document that stands for some of the file's rows, given in order."""
        rows = ",".join(_written(one) for one in _joined(ranges))
        return self._at(f"{self.file_uri}{ROWS}{rows}", rows, self.name)

    def among(self, doc_ids: Collection[str]) -> "Document":
        """As `of_rows`, of those rows that have these ids; itself where nobody counted them."""
        if self.rows is None or self.row_count is None:
            return self
        numbers = (
            number for first, last in self.ranges for number in range(first, (last or 0) + 1)
        )
        wanted = [(one, one) for one in numbers if self.row(one).doc_id in doc_ids]
        return self.of_rows(wanted) if wanted else replace(self, rows="")

    def row(self, number: int) -> "Document":
        """One row as a document."""
        name = f"{self.name}-{number:06d}"
        return self._at(f"{self.file_uri}{ROW}{number}", str(number), name)

    def _at(self, uri: str, rows: str, name: str) -> "Document":
        doc_id = document_id(uri, self.version)
        return replace(self, doc_id=doc_id, source_uri=uri, rows=rows, name=name)


def _joined(ranges: Sequence[Range]) -> Iterator[Range]:
    """Ranges, those that follow each other as one."""
    start, end = ranges[0]
    for first, last in ranges[1:]:
        if end is not None and first == end + 1:
            end = last
        else:
            yield start, end
            start, end = first, last
    yield start, end


def _written(one: Range) -> str:
    first, last = one
    if last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"


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
    """What a PDF's own text is used for; `auto`: wherever it can be trusted, and to check answers;
    `only`: nothing is read but it."""

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
FEWEST_CHARACTERS = 25
MOST_DAMAGE = 0.05
# Broken layers agreed 0.20 to 0.22 with what their pages show, good ones 0.85 and more.
TRUSTED = 0.5


@dataclass(frozen=True)
class TextLayer:
    """The text that a PDF itself holds for a page, in its own order.

    `under_image` is whether an image covers most of the page: then the text is some earlier OCR's.
    `damage` is the share of its characters that are no text. `trust` (0..1) is how far the text can
    be taken for what the page shows, by what the PDF tells alone, and `doubts` say what speaks
    against it. `lines` are all of it with its places, `pictures` the images on the page; both only
    where `ImagePolicy.with_lines` asks for them.
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
        """Whether there is enough of it, and it is no rubbish from a font without a character
        map."""
        enough = sum(not one.isspace() for one in self.text) >= FEWEST_CHARACTERS
        return enough and self.damage < MOST_DAMAGE

    @property
    def is_trusted(self) -> bool:
        """Whether it can stand for what the page shows, unless the page itself says otherwise."""
        return self.is_usable and self.trust >= TRUSTED


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


# The canonical labels of blocks. Other labels that a model invents are kept as they come.
FIGURE_LABELS = frozenset({"image", "figure", "chart"})
CAPTION_LABELS = frozenset({"image_caption", "figure_caption", "table_caption"})
FURNITURE_LABELS = frozenset({"header", "footer", "page_number"})
NOTE_LABEL = "footnote"


@dataclass(frozen=True)
class Block:
    """A labelled box on a page with its Markdown; `box` is None where the model gave none.

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
    """A model's answer, read: blocks in reading order, and notes on what had to be mended."""

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
