"""Detectors from ONNX files: both layouts of outputs, what is found, and folders that are wrong."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.auxiliary.detectors import DetectorError, load_detector, read_detections
from llm_ocr.auxiliary.stamps import Pixels, Scan
from llm_ocr.engines.embedded.models import in_wheel
from llm_ocr.records import FindingKind
from tests.auxiliary.onnx_detectors import CLASSES, save_detector

SEAL, HAND = (300, 200, 560, 300), (600, 900, 800, 940)


def draw_page() -> Pixels:
    """A page that is higher than wide, with a red stamp and a blue signature."""
    page = Image.new("RGB", (1000, 1200), "white")
    draw = ImageDraw.Draw(page)
    fonts = in_wheel("matplotlib", "mpl-data", "fonts", "ttf", "DejaVuSans-Bold.ttf")
    font = ImageFont.truetype(str(fonts), 40)
    draw.rectangle(SEAL, outline=(200, 20, 20), width=6)
    draw.text((430, 250), "12 MAR 24", fill=(200, 20, 20), font=font, anchor="mm")
    draw.rectangle(HAND, fill=(20, 20, 200))
    return np.asarray(page, np.uint8)


@pytest.mark.parametrize("layout", ["yolo", "detr"])
@pytest.mark.parametrize("resize", ["letterbox", "stretch"])
def test_objects_are_found_once_and_where_they_are(
    tmp_path: Path, layout: str, resize: str
) -> None:
    detector = load_detector(save_detector(tmp_path, layout, resize=resize), "marks/1")
    found = {one.kind: one for one in detector.detect(draw_page())}
    assert len(detector.detect(draw_page())) == 2
    hand = found[FindingKind.SIGNATURE].box
    assert (hand.x1, hand.y1, hand.x2, hand.y2) == pytest.approx(HAND, abs=8)
    assert found[FindingKind.SIGNATURE].probability > 0.9
    seal = found[FindingKind.STAMP].box
    assert ((seal.x1 + seal.x2) / 2, (seal.y1 + seal.y2) / 2) == pytest.approx((430, 250), abs=8)
    blank = np.full((500, 700, 3), 255, np.uint8)
    assert detector.detect(blank) == []


def test_stamps_are_read_and_signatures_have_the_state_of_their_class(tmp_path: Path) -> None:
    classes = [CLASSES[0], {"name": "empty field", "kind": "signature", "value": "absent"}]
    detector = load_detector(save_detector(tmp_path, "detr", classes=classes), "marks/1")
    page = draw_page()
    scan, detections = Scan(page, 5.0), detector.detect(page)

    def read(kind: FindingKind) -> Any:  # noqa: ANN401
        (finding,) = read_detections(scan, kind, detections, "onnx marks/1", date(2026, 1, 1))
        assert (finding.kind, finding.source) == (kind, "onnx marks/1")
        return finding

    assert read(FindingKind.STAMP).value == "12 MAR 24"
    assert read(FindingKind.DATE).value == "2024-03-12"
    assert read(FindingKind.SIGNATURE).value == "absent"
    assert read_detections(scan, FindingKind.BARCODE, detections, "", date(2026, 1, 1)) == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"classes": [{"name": "logo"}]}, "no class has a kind"),
        ({"classes": [{"name": "a", "kind": "seal"}]}, r"classes.0.kind: .*'stamp'"),
        ({"classes": [*CLASSES, CLASSES[0]]}, "outputs of .* x 3, but this network's are"),
        ({"input_size": [64, 64]}, "model.onnx can't be run: .*dimensions"),
        ({"file": "other.onnx"}, "there is no other.onnx in its folder"),
        ({"file": "../model.onnx"}, "there is no ../model.onnx in its folder"),
        ({"treshold": 0.5}, "treshold: Extra inputs"),
    ],
)
def test_a_folder_that_is_no_detector_is_refused(
    tmp_path: Path, config: dict[str, Any], problem: str
) -> None:
    folder = save_detector(tmp_path / "marks", "detr", **config)
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(DetectorError, match=f"marks/1: .*{problem}"):
        load_detector(folder, "marks/1")


def test_files_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    folder = save_detector(tmp_path, "yolo")
    (folder / "model.onnx").write_bytes(b"no network")
    with pytest.raises(DetectorError, match=r"model\.onnx can't be run"):
        load_detector(folder, "marks/1")
    (folder / "detector.yaml").write_text(json.dumps([1]))
    with pytest.raises(DetectorError, match=r"detector\.yaml: the file: .*dictionary"):
        load_detector(folder, "marks/1")
    (folder / "detector.yaml").unlink()
    with pytest.raises(DetectorError, match=r"marks/1 is no detector: it has no detector\.yaml"):
        load_detector(folder, "marks/1")
