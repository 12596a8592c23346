"""Load object detectors, which are ONNX files, and find stamps, signatures and barcodes with them.

A detector is a folder with the network and `detector.yaml`, which says what goes in and what comes
out. Two layouts of outputs are known: that of YOLO, whose boxes overlap, and that of DETR and its
relatives, which give each object once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import numpy.typing as npt
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from llm_ocr.auxiliary.signatures import PRESENT
from llm_ocr.auxiliary.stamp_dates import find_stamp_dates
from llm_ocr.auxiliary.stamps import Pixels, Scan, read_stamp
from llm_ocr.engines.embedded.models import Array, Model, load
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind

CONFIG = "detector.yaml"
# What fills the rest of a page that is fitted into the network's input, as in YOLO's training.
GRAY = 114


class DetectorError(ValueError):
    """A detector can't be loaded or used; the message names its folder and what is wrong."""


class Layout(StrEnum):
    """`yolo`: one output of 4 + classes rows (or columns): center and size in pixels of the input,
    and a probability per class. `detr`: two outputs: center and size in shares of the input, and a
    logit per class."""

    YOLO = "yolo"
    DETR = "detr"


class Resize(StrEnum):
    """How a page becomes the input: `letterbox` keeps its proportions, `stretch` doesn't."""

    LETTERBOX = "letterbox"
    STRETCH = "stretch"


class DetectedClass(BaseModel):
    """A class of a detector, and what its objects are: nothing without a `kind`. `value` is that of
    a signature, such as absent for an empty place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: FindingKind | None = None
    value: str | None = None


class DetectorConfig(BaseModel):
    """The content of `detector.yaml`. `input_size` is width and height in pixels, `classes` are in
    the order of the outputs. Objects count from the probability `threshold` on; of two of the same
    kind that overlap by more than `overlap` (0..1), the more probable one counts. `mean` and `std`
    are those of the training, of red, green and blue from 0 to 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = "model.onnx"
    layout: Layout
    input_size: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]]
    classes: Annotated[tuple[DetectedClass, ...], Field(min_length=1)]
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    overlap: Annotated[float, Field(gt=0, le=1)] = 0.5
    resize: Resize | None = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @model_validator(mode="after")
    def _check(self) -> "DetectorConfig":
        if all(one.kind is None for one in self.classes):
            kinds = ", ".join(FindingKind)
            raise ValueError(f"no class has a kind: give one of them a kind of {kinds}")
        if 0 in self.std:
            raise ValueError("std has a 0")
        return self

    @property
    def keeps_proportions(self) -> bool:
        default = Resize.LETTERBOX if self.layout is Layout.YOLO else Resize.STRETCH
        return (self.resize or default) is Resize.LETTERBOX


@dataclass(frozen=True)
class Detection:
    """An object on a page, in its pixels."""

    kind: FindingKind
    box: Box
    probability: float
    value: str | None = None


@dataclass(frozen=True)
class ObjectDetector:
    """A loaded detector. `version` is what findings name: NAME/VERSION, or a hash of its files."""

    version: str
    config: DetectorConfig
    run: Model

    def detect(self, page: Pixels) -> list[Detection]:
        """The objects on a page of RGB pixels, the most probable ones first."""
        batch, scale = self._fit(page)
        boxes, scores = self._boxes(self.run(batch))
        height, width = page.shape[:2]
        found: list[Detection] = []
        for index in np.argsort(-scores.max(axis=1)):
            label, probability = int(scores[index].argmax()), float(scores[index].max())
            if probability < self.config.threshold:
                break
            detected = self.config.classes[label]
            x, y, wide, high = (boxes[index] / np.tile(scale, 2)).tolist()
            box = Box(
                max(0.0, x - wide / 2),
                max(0.0, y - high / 2),
                min(float(width), x + wide / 2),
                min(float(height), y + high / 2),
            )
            if detected.kind is None or box.x2 <= box.x1 or box.y2 <= box.y1:
                continue
            rivals = [other.box for other in found if other.kind is detected.kind]
            if all(_overlap(box, other) <= self.config.overlap for other in rivals):
                found.append(Detection(detected.kind, box, probability, detected.value))
        return found

    def _fit(self, page: Pixels) -> tuple[Array, npt.NDArray[np.float64]]:
        """The network's input, and by how much the page was scaled across and down."""
        (wide, high), (height, width) = self.config.input_size, page.shape[:2]
        scale = np.array([wide / width, high / height])
        if self.config.keeps_proportions:
            scale[:] = scale.min()
        size = (max(1, round(width * scale[0])), max(1, round(height * scale[1])))
        canvas = np.full((high, wide, 3), GRAY, np.uint8)
        # At the top left, so that boxes need no offset.
        canvas[: size[1], : size[0]] = cv2.resize(page, size, interpolation=cv2.INTER_AREA)
        normal = (canvas / 255.0 - self.config.mean) / self.config.std
        return np.ascontiguousarray(normal.transpose(2, 0, 1)[None], np.float32), scale

    def _boxes(self, outputs: Sequence[Array]) -> tuple[Array, Array]:
        """Centers and sizes in pixels of the input, and a probability per class, by object. Raises
        DetectorError."""
        count = len(self.config.classes)
        shapes = ", ".join("x".join(map(str, output.shape)) for output in outputs)
        if self.config.layout is Layout.YOLO:
            rows = outputs[0][0] if outputs[0].ndim == 3 else np.zeros((0, 0), np.float32)
            rows = rows if rows.shape[-1] == 4 + count else rows.T
            if rows.shape[-1] != 4 + count:
                raise DetectorError(
                    f"{self.version}: layout yolo with {count} classes has an output of 1 x "
                    f"{4 + count} x objects, but this network's is {shapes}"
                )
            return rows[:, :4], rows[:, 4:]
        found = [output[0] for output in outputs if output.ndim == 3]
        boxes = next((output for output in found if output.shape[-1] == 4), None)
        logits = next((output for output in found if output is not boxes), None)
        if boxes is None or logits is None or logits.shape[-1] < count:
            raise DetectorError(
                f"{self.version}: layout detr with {count} classes has outputs of 1 x objects x 4 "
                f"and 1 x objects x {count}, but this network's are {shapes}"
            )
        # A column more than there are classes stands for no object.
        probabilities = 1 / (1 + np.exp(-np.clip(logits[:, :count], -60, 60)))
        return boxes * np.tile(np.array(self.config.input_size, np.float32), 2), probabilities


def load_detector(folder: Path, version: str) -> ObjectDetector:
    """Load the detector in a folder, and try it on an empty page. Raises DetectorError."""
    path = folder / CONFIG
    try:
        config = DetectorConfig.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise DetectorError(f"{version} is no detector: it has no {CONFIG}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DetectorError(f"{version}: {CONFIG} can't be read: {error}") from error
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise DetectorError(f"{version}: {CONFIG}: {problems}") from error
    network = folder / config.file
    if not network.resolve().is_relative_to(folder.resolve()) or not network.is_file():
        raise DetectorError(f"{version}: {CONFIG}: file: there is no {config.file} in its folder")
    try:
        detector = ObjectDetector(version, config, load(network))
        detector.detect(np.full((64, 64, 3), 255, np.uint8))
    except DetectorError:
        raise
    except Exception as error:
        # onnxruntime's errors have no common class.
        raise DetectorError(f"{version}: {config.file} can't be run: {error}") from error
    return detector


def _overlap(one: Box, other: Box) -> float:
    """The shared area, as a share of that of both."""
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    shared = max(0.0, width) * max(0.0, height)
    return shared / (one.area + other.area - shared) if shared else 0.0


def read_detections(
    scan: Scan, kind: FindingKind, detections: Sequence[Detection], source: str, today: date
) -> list[AuxiliaryFinding]:
    """The findings of a kind, from top to bottom: stamps with their text, signatures, and dates.
    Dates are those of stamps if the detector has no class for them."""
    has_dates = any(one.kind is FindingKind.DATE for one in detections)
    wanted = FindingKind.STAMP if kind is FindingKind.DATE and not has_dates else kind
    found = [_read(scan, kind, one, source) for one in detections if one.kind is wanted]
    if kind is FindingKind.DATE:
        found = find_stamp_dates(found, today)
    return sorted(found, key=lambda finding: (finding.box.y1, finding.box.x1))


def _read(scan: Scan, kind: FindingKind, detection: Detection, source: str) -> AuxiliaryFinding:
    finding = AuxiliaryFinding(
        kind=kind,
        value=detection.value or PRESENT,
        box=detection.box,
        confidence=round(detection.probability, 3),
        source=source,
    )
    if kind is FindingKind.SIGNATURE:
        return finding
    text = " ".join(line for line, _ in read_stamp(scan, detection.box)) or None
    return replace(
        finding, value=text, text=text, problem=None if text else "its text can't be read"
    )
