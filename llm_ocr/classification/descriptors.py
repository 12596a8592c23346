"""Describe a page as vectors: where its ink is, which way its strokes run, the words at its top.

Vectors of ink and strokes have length 1, so that their distance is between 0 and 2 whatever the
darkness of a scan. Words are the presence of hashed words and pairs of words.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from PIL import Image

from llm_ocr.records import PageResult
from llm_ocr.text.normalize import fold_case

Array = npt.NDArray[np.float32]
# Changes with whatever changes the vectors of a page.
DESCRIPTOR_VERSION = 1
# The page is scaled to this size in pixels: text lines become strokes, and scanner noise vanishes.
WIDTH, HEIGHT = 192, 256
INK_CELLS = (24, 32)
# Cells of the histograms of oriented gradients (across, down) and directions of each.
HOG_CELLS, DIRECTIONS = (12, 16), 8
# The part of the page whose words are used: titles and letterheads are there.
TOP_SHARE = 1 / 3
WORD_BUCKETS = 4096
# Words after these many are body text, which tells kinds apart less than a title does.
MAX_WORDS = 120
_WORD = re.compile(r"[^\W_]+")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class PageInput:
    """What is known of a page that is to be classified: its upright image, and the words of its
    top third, None if nobody has read it."""

    image: Image.Image
    top_text: str | None = None


def describe_layout(image: Image.Image) -> Array:
    """Where a page has ink, and the directions of its strokes, as one vector of length 1."""
    ink = _ink(image)
    return _unit(np.concatenate([_unit(_ink_grid(ink)), _unit(_gradients(ink))]))


def hash_words(text: str) -> npt.NDArray[np.bool_]:
    """Which of the buckets have a word of a text, or two that follow each other on a line. All
    numbers of a length are equal: their values don't tell kinds of pages apart."""
    present = np.zeros(WORD_BUCKETS, np.bool_)
    left = MAX_WORDS
    for line in text.splitlines():
        words = [_DIGIT.sub("0", word) for word in _WORD.findall(fold_case(line))][:left]
        left -= len(words)
        for term in [*words, *(" ".join(pair) for pair in pairwise(words))]:
            digest = hashlib.blake2b(term.encode(), digest_size=4).digest()
            present[int.from_bytes(digest, "big") % WORD_BUCKETS] = True
    return present


def stack_words(texts: Sequence[str | None]) -> npt.NDArray[np.bool_]:
    """`hash_words` of each text, a row each; nothing is present where the words aren't known."""
    rows = [hash_words(text or "") for text in texts]
    return np.stack(rows) if rows else np.zeros((0, WORD_BUCKETS), np.bool_)


def top_text(page: PageResult) -> str | None:
    """The words in the top third of a page that was read: of its lines, else of its blocks, else
    from the beginning of its Markdown. None if nothing was read."""
    if page.lines is not None:
        places = [(line.text, (line.box.y1 + line.box.y2) / 2) for line in page.lines]
    else:
        # A block may begin in the top third and end below it.
        places = [(block.text, block.box.y1) for block in page.blocks if block.box is not None]
    if page.height and places:
        return join_top(places, page.height)
    return page.markdown or None


def join_top(places: Iterable[tuple[str, float]], height: float) -> str:
    """The texts in the top third of a page of this height, from the top down, a line each."""
    top = [(y, text) for text, y in places if y <= TOP_SHARE * height]
    return "\n".join(text for _, text in sorted(top))


def _ink(image: Image.Image) -> Array:
    """How dark each pixel is, 0 for paper to 1 for the darkest ink."""
    small = image.convert("L").resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    pixels = np.asarray(small, np.float32)
    # The paper of a scan is neither white nor even: its brightness is that of its neighborhood.
    paper = np.asarray(
        Image.fromarray(_block_maximum(pixels)).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR),
        np.float32,
    )
    depth = np.clip(paper - pixels, 0, None)
    darkest = max(48.0, float(np.percentile(depth, 99.5)))
    ink: Array = np.clip((depth / darkest - 0.06) / 0.94, 0, 1).astype(np.float32)
    return ink


def _block_maximum(pixels: Array, side: int = 32) -> Array:
    blocks = pixels.reshape(HEIGHT // side, side, WIDTH // side, side)
    bright: Array = np.percentile(blocks, 90, axis=(1, 3)).astype(np.float32)
    return bright


def _ink_grid(ink: Array) -> Array:
    across, down = INK_CELLS
    cells = ink.reshape(down, HEIGHT // down, across, WIDTH // across).mean(axis=(1, 3))
    # Blurred, so that a page that was scanned some millimeters aside stays near its kind.
    padded = np.pad(cells, 1, mode="edge")
    cells = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    cells = (cells[:, :-2] + 2 * cells[:, 1:-1] + cells[:, 2:]) / 4
    grid: Array = np.sqrt(cells).ravel().astype(np.float32)
    return grid


def _gradients(ink: Array) -> Array:
    """Histograms of oriented gradients: for each cell, how much runs in each direction."""
    down, across = np.gradient(ink)
    strength = np.hypot(down, across)
    direction = (np.arctan2(down, across) % np.pi) / np.pi * DIRECTIONS
    lower = np.floor(direction).astype(int) % DIRECTIONS
    share = direction - np.floor(direction)
    columns, rows = HOG_CELLS
    row = np.arange(HEIGHT)[:, None] * rows // HEIGHT
    column = np.arange(WIDTH)[None, :] * columns // WIDTH
    cell = (row * columns + column) * DIRECTIONS
    size = rows * columns * DIRECTIONS
    counts = np.bincount((cell + lower).ravel(), (strength * (1 - share)).ravel(), size)
    upper = (lower + 1) % DIRECTIONS
    counts += np.bincount((cell + upper).ravel(), (strength * share).ravel(), size)
    histograms: Array = np.sqrt(counts).astype(np.float32)
    return histograms


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector
