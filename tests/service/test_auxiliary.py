"""The step auxiliary in a worker: findings with places and images, retries, what is unmet."""

import io
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zxingcpp
from PIL import Image

from benchmarks.stamped_pages import make_page
from llm_ocr.service.database import Database
from llm_ocr.service.store_registry import StoreRegistry
from tests.auxiliary.onnx_detectors import save_detector
from tests.auxiliary.test_detectors import HAND, draw_page
from tests.servers.chat import answer, at_once, prompt_of, serving_beside
from tests.service.worker_processes import Service, stop_forking

PIPELINE = """
name: delivery
steps:
- step: extract
  retries: {limit: 0}
- step: auxiliary
  barcode:
    expect:
    - {symbology: Code 128, pattern: 'DN-\\d{6}', count: 1, page: first}
    - {symbology: Data Matrix, page: 2}
    - {symbology: Code 128, count: 0}
  date:
    expect:
    - {pattern: '2022-.*', page: last}
    - {pattern: '2023-.*'}
  signature:
    expect:
    - page: last
    - page: first
  stamp: {}
- step: assemble
"""


VLM_PIPELINE = """
name: asked
targets:
  vision: {{model: generic, base_url: "{base_url}", served_model: seer}}
steps:
- step: extract
  retries: {{limit: 0}}
- step: auxiliary
  target: vision
  retries: {{limit: 0}}
  barcode: {{back_end: vlm, expect: [{{symbology: EAN-13, count: 1}}]}}
  date: {{back_end: vlm, expect: [{{pattern: '2024-03-12'}}]}}
  signature: {{back_end: vlm}}
  stamp: {{back_end: vlm, prompt: "Find every seal. Give the box in thousandths."}}
"""


BOXES_PIPELINE = """
name: boxes
targets:
  vision: {{model: {model}, base_url: "{base_url}"}}
steps:
- step: extract
  retries: {{limit: 0}}
- step: auxiliary
  target: vision
  retries: {{limit: 0}}
  stamp: {{back_end: vlm}}
"""


DETECTOR_PIPELINE = """
name: detected
steps:
- step: extract
  retries: {limit: 0}
- step: auxiliary
  retries: {limit: 0}
  barcode: {back_end: onnx, detector: marks@production}
  date: {back_end: onnx, detector: marks@production}
  signature: {back_end: onnx, detector: marks@production}
  stamp: {back_end: onnx, detector: marks@production}
"""


@pytest.fixture
def service(database: Database, database_url: str, tmp_path: Path) -> Service:
    return Service(database, database_url, tmp_path)


def draw_code(value: str, symbology: str, scale: float) -> Image.Image:
    made = zxingcpp.create_barcode(value, zxingcpp.barcode_format_from_str(symbology))
    drawn = Image.fromarray(np.asarray(zxingcpp.write_barcode_to_image(made, scale=8)))
    size = (round(drawn.width / 8 * scale), round(drawn.height / 8 * scale))
    return drawn.resize(size, Image.Resampling.BOX)


def scan(path: Path) -> Path:
    """Three pages of A4 at 150 dpi: a cover with a large code, a page with a code that the plain
    pass misses, and one with two date stamps and a signature."""
    pages = [Image.new("RGB", (1240, 1754), "white") for _ in range(2)]
    pages[0].paste(draw_code("DN-004711", "Code 128", 3), (200, 300))
    pages[1].paste(draw_code("8400-1133", "Data Matrix", 1.4), (900, 1500))
    pages.append(make_page(2, "develop").image.resize((1240, 1754)))
    pages[0].save(path, save_all=True, append_images=pages[1:], resolution=150)
    return path


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_findings_have_places_and_images_and_unmet_expectations_are_listed(
    service: Service, tmp_path: Path
) -> None:
    with serving_beside(at_once) as server, service.worker(server.base_url):
        document = service.submit(scan(tmp_path / "delivery.pdf"), pipeline=PIPELINE)
        (finished,) = service.wait_until_finished(document)
    stop_forking()
    assert finished.state == "succeeded", finished.row["error"]
    result = service.result(document)
    cover, matrix, *drawn = result["findings"]
    assert (cover["kind"], cover["value"], cover["page"]) == ("barcode", "DN-004711", 1)
    assert (matrix["symbology"], matrix["value"], matrix["page"]) == ("Data Matrix", "8400-1133", 2)
    assert matrix["confidence"] < cover["confidence"]
    # In pixels of the page image, whatever the resolution was that the page was searched at.
    page = result["pages"][0]
    scale = page["width"] / 1240
    left, top, right, bottom = (value / scale for value in cover["box"])
    assert 200 < left < right < 900
    assert 300 < top < bottom < 500
    assert len(cover["corners"]) == 4
    assert {finding["page"] for finding in drawn} == {3}
    found = {(finding["kind"], finding["value"]) for finding in drawn}
    assert ("signature", "present") in found
    assert {value for kind, value in found if kind == "date"} == {"2022-09-07", "2011-10-27"}
    stamps = sorted(value for kind, value in found if kind == "stamp")
    assert [stamp.split()[0] for stamp in stamps] == ["EINGANG", "MAIL"]
    for finding in drawn:
        image = Image.open(io.BytesIO(service.read(document, finding["file"])))
        x1, y1, x2, y2 = finding["box"]
        assert image.width / image.height == pytest.approx((x2 - x1) / (y2 - y1), rel=0.6)
    for finding in (cover, matrix):
        image = Image.open(io.BytesIO(service.read(document, finding["file"])))
        assert zxingcpp.read_barcode(image.resize((image.width * 3, image.height * 3))) is not None
    assert [unmet["message"] for unmet in result["unmet_expectations"]] == [
        "expected no Code 128 barcodes, found 1",
        "expected at least one date like 2023-.*, found none",
        "expected at least one signature like present on the first page, found none",
    ]
    (step,) = [step for step in finished.steps if step["name"] == "auxiliary"]
    assert (step["state"], step["items_done"], step["items_failed"]) == ("succeeded", 3, 0)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_detector_of_the_registry_finds_stamps_signatures_and_codes(
    service: Service, tmp_path: Path
) -> None:
    registry = StoreRegistry(service.database, service.store)
    references: list[str] = []
    # The second one takes red ink for codes.
    for layout, kind in (("yolo", "stamp"), ("detr", "barcode")):
        classes = [{"name": "red", "kind": kind}, {"name": "blue", "kind": "signature"}]
        folder = save_detector(tmp_path / layout, layout, classes=classes)
        version = registry.publish("marks", folder, by="test")
        registry.promote("marks", version.version, "production", by="test", reason="test")
        references.append(version.reference)
    registry.rollback("marks", "production", by="test", reason="test")
    page = Image.fromarray(draw_page())
    page.save(tmp_path / "a.png", dpi=(120, 120))
    with serving_beside(at_once) as server, service.worker(server.base_url):
        document = service.submit(tmp_path / "a.png", pipeline=DETECTOR_PIPELINE)
        (finished,) = service.wait_until_finished(document)
        assert finished.state == "succeeded", finished.row["error"]
        registry.promote(
            "marks", references[1].split("/")[1], "production", by="test", reason="test"
        )
        second = service.submit(tmp_path / "a.png", pipeline=DETECTOR_PIPELINE)
        service.wait_until_finished(second)
    stop_forking()
    result = service.result(document)
    found = {finding["kind"]: finding for finding in result["findings"]}
    assert {kind: finding["value"] for kind, finding in found.items()} == {
        "date": "2024-03-12",
        "signature": "present",
        "stamp": "12 MAR 24",
    }
    assert {finding["source"] for finding in found.values()} == {f"onnx {references[0]}"}
    scale = result["pages"][0]["width"] / page.width
    assert found["signature"]["box"] == pytest.approx([side * scale for side in HAND], abs=10)
    code, signature = service.result(second)["findings"]
    assert (code["kind"], code["value"]) == ("barcode", None)
    assert code["problem"] == "the barcode can't be read"
    assert {code["source"], signature["source"]} == {f"onnx {references[1]}"}


@dataclass
class Seer:
    """A vision model: answers pages by the kind of finding that it is asked for, in JSON."""

    answers: dict[str, Any]
    prompts: list[str] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Any:  # noqa: ANN401
        if "response_format" not in body:
            return at_once(body)
        self.prompts.append(prompt_of(body))
        schema = body["response_format"]["json_schema"]
        return answer(self.answers[schema["name"].removesuffix("_findings")])


def findings(*listed: dict[str, Any]) -> str:
    return json.dumps({"findings": listed})


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("model", "unit", "box"),
    [
        # The model's processor makes 1008 x 1400 pixels of the page's 1000 x 1400.
        ("qwen2.5-vl-7b", "in pixels of the image", [504, 350, 756, 700]),
        ("qwen3-vl-8b", "in thousandths of the image's width", [500, 250, 750, 500]),
    ],
)
def test_boxes_are_read_in_the_unit_that_the_model_gives_them_in(
    service: Service, tmp_path: Path, model: str, unit: str, box: list[int]
) -> None:
    seer = Seer({"stamp": findings({"text": "PAID", "box": box})})
    Image.new("RGB", (1000, 1400), "white").save(tmp_path / "a.png")
    with serving_beside(seer) as server, service.worker(server.base_url):
        pipeline = BOXES_PIPELINE.format(base_url=server.base_url, model=model)
        document = service.submit(tmp_path / "a.png", pipeline=pipeline)
        (finished,) = service.wait_until_finished(document)
    stop_forking()
    assert finished.state == "succeeded", finished.row["error"]
    result = service.result(document)
    (stamp,) = result["findings"]
    width, height = (result["pages"][0][side] for side in ("width", "height"))
    expected = [0.5 * width, 0.25 * height, 0.75 * width, 0.5 * height]
    assert stamp["box"] == pytest.approx(expected, abs=1)
    (prompt,) = seer.prompts
    assert unit in prompt


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_vision_model_finds_what_it_is_asked_for(service: Service, tmp_path: Path) -> None:
    seer = Seer(
        {
            "barcode": findings(
                {"symbology": "Code 128", "text": "DN-4711", "box": [150, 160, 500, 220]},
                {"symbology": "ean-13", "text": "4 006381 333931", "box": [500, 500, 700, 550]},
                {"symbology": "QR Code", "text": None, "box": [800, 800, 900, 870]},
            ),
            "date": findings(
                {"text": "12 MAR 2024", "box": [100, 100, 200, 150]},
                {"text": "03/04/2024", "box": [300, 100, 400, 150]},
            ),
            "signature": findings(
                {"state": "present", "text": "Signed by", "box": [500, 800, 900, 900]}
            ),
            "stamp": findings({"text": "PAID", "box": [900]}),
        }
    )
    page_image = Image.new("RGB", (1240, 1754), "white")
    page_image.paste(draw_code("DN-004711", "Code 128", 3), (200, 300))
    page_image.save(tmp_path / "a.png")
    with serving_beside(seer) as server, service.worker(server.base_url):
        pipeline = VLM_PIPELINE.format(base_url=server.base_url)
        document = service.submit(tmp_path / "a.png", pipeline=pipeline)
        (finished,) = service.wait_until_finished(document)
        assert finished.state == "succeeded", finished.row["error"]
        result = service.result(document)
        # Now one kind has an answer that is no JSON: the page's findings are incomplete.
        seer.answers["stamp"] = "I see a stamp."
        second = service.submit(tmp_path / "a.png", pipeline=pipeline)
        (failed,) = service.wait_until_finished(second)
    stop_forking()
    page = result["pages"][0]
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for finding in result["findings"]:
        by_kind[finding["kind"]].append(finding)
    # The first one can be read: what the model says of it doesn't count.
    read, printed, unread = by_kind["barcode"]
    assert (read["value"], read["source"], read["problem"]) == ("DN-004711", "zxing-cpp", None)
    assert (printed["value"], printed["symbology"]) == ("4006381333931", "EAN-13")
    assert (printed["source"], printed["problem"]) == (
        "vlm seer",
        "read by a model: only its check digit confirms it",
    )
    assert printed["box"] == pytest.approx(
        [0.5 * page["width"], 0.5 * page["height"], 0.7 * page["width"], 0.55 * page["height"]]
    )
    assert (unread["symbology"], unread["value"]) == ("QR Code", None)
    assert unread["problem"] == "the barcode can't be read"
    clear, ambiguous = by_kind["date"]
    assert clear["value"] == "2024-03-12"
    assert clear["box"] == pytest.approx(
        [0.1 * page["width"], 0.1 * page["height"], 0.2 * page["width"], 0.15 * page["height"]]
    )
    assert (ambiguous["value"], len(ambiguous["candidates"])) == (None, 2)
    (signature,) = by_kind["signature"]
    assert (signature["value"], signature["text"]) == ("present", "Signed by")
    assert signature["source"] == "vlm seer"
    (stamp,) = by_kind["stamp"]
    assert stamp["value"] == "PAID"
    assert stamp["box"] == [0, 0, page["width"], page["height"]]
    assert "no valid box" in stamp["problem"]
    assert result["unmet_expectations"] == []
    assert any(prompt.startswith("Find every seal.") for prompt in seer.prompts)
    assert failed.state == "partially_succeeded"
    assert failed.row["error"]["code"] == "unreadable_answer"
    assert failed.row["error"]["step"] == "auxiliary"
    assert "a.png, page 1: stamp" in failed.row["error"]["message"]
