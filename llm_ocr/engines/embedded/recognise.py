"""Lines of text on an image: PP-OCRv6 through RapidOCR, with the models in its wheel."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidocr import RapidOCR

from llm_ocr.engines.embedded.geometry import Line, Rect, Word

Image = npt.NDArray[np.uint8]

MIN_SCORE = 0.5
# Taller than wide by this factor: text that runs along the margin, of which nothing good is read.
VERTICAL = 1.6

_PARAMETERS: dict[str, object] = {
    "Global.log_level": "error",
    # The image comes in the size that its client chose; shrinking it again only loses text.
    "Global.max_side_len": 6000,
    "Det.limit_type": "max",
    "Det.limit_side_len": 1280,
    # On one core a batch is no faster than its lines one by one, and pads them to the longest.
    "Rec.rec_batch_num": 1,
    # Parallel requests use the cores; threads within one would only get in each other's way.
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


class Recogniser:
    """Finds and reads the lines of an image. Not thread safe."""

    def __init__(self) -> None:
        self._engine = RapidOCR(params=_PARAMETERS)

    def lines(self, image: Image) -> list[Line]:
        """The lines on an image (height x width x 3, BGR), in no particular order."""
        # Every flag each time: an instance keeps them from call to call.
        found: Any = self._engine(
            image, use_det=True, use_cls=False, use_rec=True, return_word_box=True
        )
        return [] if found.boxes is None else list(_lines(found))

    def texts(self, crops: Sequence[Image]) -> list[tuple[str, float]]:
        """What each of some images of one line says, with its confidence (0..1)."""
        return [self._text(crop) for crop in crops]

    def _text(self, crop: Image) -> tuple[str, float]:
        found: Any = self._engine(
            crop, use_det=False, use_cls=False, use_rec=True, return_word_box=False
        )
        return (str(found.txts[0]), float(found.scores[0])) if found.txts else ("", 0.0)


def _lines(found: Any) -> Iterator[Line]:  # noqa: ANN401
    rows = zip(found.boxes, found.txts, found.scores, found.word_results, strict=True)
    for corners, text, score, words in rows:
        height = float(np.linalg.norm(corners[0] - corners[3]))
        width = float(np.linalg.norm(corners[0] - corners[1]))
        vertical = height > VERTICAL * width and len(text) > 3
        if score < MIN_SCORE or not text.strip() or vertical:
            continue
        line = _rect(corners)
        parts = tuple(
            Word((left, line[1], right, line[3]), word)
            for word, _, box in words or ()
            if word.strip()
            for left, _, right, _ in [_rect(np.asarray(box))]
        )
        yield Line(text, parts or (Word(line, text),), float(score), _slope(corners))


def _slope(corners: npt.NDArray[Any]) -> float:
    across, down = (corners[1] - corners[0]) + (corners[2] - corners[3])
    return float(down / across) if across > 0 else 0.0


def _rect(corners: npt.NDArray[Any]) -> Rect:
    x1, y1 = corners.min(axis=0)
    x2, y2 = corners.max(axis=0)
    return float(x1), float(y1), float(x2), float(y2)
