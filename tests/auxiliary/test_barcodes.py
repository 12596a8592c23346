"""Barcodes on page images: values, places, codes that take more passes, and misread ones."""

import io
import random

import numpy as np
import pytest
import zxingcpp
from PIL import Image, ImageFilter

from benchmarks.barcodes import NO_CODE, make_scan, score
from llm_ocr.auxiliary.barcodes import (
    UnknownSymbologyError,
    _Reading,
    _select_confirmed,
    find_barcodes,
    parse_symbologies,
)
from llm_ocr.records import AuxiliaryFinding, Box


def code(value: str, symbology: str, scale: float = 3) -> Image.Image:
    made = zxingcpp.create_barcode(value, zxingcpp.barcode_format_from_str(symbology))
    drawn = Image.fromarray(np.asarray(zxingcpp.write_barcode_to_image(made, scale=8)))
    size = (round(drawn.width / 8 * scale), round(drawn.height / 8 * scale))
    return drawn.resize(size, Image.Resampling.BOX)


def none_missing(found: object) -> bool:
    return True


def all_missing(found: object) -> bool:
    return False


def test_codes_have_value_symbology_and_place_from_top_to_bottom() -> None:
    page = Image.new("RGB", (900, 900), "white")
    page.paste(code("INV-2024-0017", "Code 128"), (100, 500))
    page.paste(code("https://example.com", "QR Code"), (300, 100))
    square, lines = find_barcodes(page)
    assert (square.value, square.symbology) == ("https://example.com", "QR Code")
    assert (lines.value, lines.symbology) == ("INV-2024-0017", "Code 128")
    assert square.corners[0] == pytest.approx((312, 112), abs=3)
    assert square.corners[2] == pytest.approx((387, 187), abs=3)
    assert _is_within(square, Box(300, 100, 400, 200))
    assert _is_within(lines, Box(100, 500, 700, 700))
    assert [finding.value for finding in find_barcodes(page, ["qrcode"])] == [square.value]


@pytest.mark.parametrize("degrees", [0, 14, -14])
def test_a_missing_matrix_code_is_found_where_it_is(degrees: int) -> None:
    page = Image.new("L", (900, 1200), 255)
    small = code("8400-1133", "Data Matrix", 1.4)
    small = small.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    page.paste(small, (600, 800))
    # Too small and too blurred for the plain pass.
    page = page.filter(ImageFilter.GaussianBlur(0.4))
    assert find_barcodes(page) == []
    (found,) = find_barcodes(page, has_all=all_missing)
    assert (found.value, found.symbology) == ("8400-1133", "Data Matrix")
    # It is also read where a detector has seen it.
    seen = [Box(590, 790, 610 + small.width, 810 + small.height)]
    assert [one.value for one in find_barcodes(page, places=seen)] == [found.value]
    assert find_barcodes(page, places=[Box(100, 100, 200, 200)]) == []
    assert _is_within(found, Box(600, 800, 600 + small.width, 800 + small.height))
    assert found.confidence < 1


@pytest.mark.parametrize(("symbology", "number"), [("Codabar", 5), ("Code 39", 0), ("UPC-E", 4)])
def test_bars_that_the_plain_pass_misses_are_read_without_an_expectation(
    symbology: str, number: int
) -> None:
    # Aslant and blurred, very noisy, and upright and blurred, all at 150 dpi.
    scan = make_scan(symbology, number, "develop")
    page = Image.open(io.BytesIO(scan.image)).convert("L")
    assert zxingcpp.read_barcodes(page) == []
    (found,) = find_barcodes(page)
    assert (found.value, found.symbology) == (scan.value, symbology)
    assert found.confidence < 0.97
    # The place is that of bars: these are found in what is cut out there.
    box = found.box
    around = [round(side) for side in (box.x1 - 60, box.y1 - 60, box.x2 + 60, box.y2 + 60)]
    (again,) = find_barcodes(page.crop((around[0], around[1], around[2], around[3])))
    assert again.value == scan.value


def test_a_code_of_the_plain_pass_is_reported_once_whatever_else_is_missing() -> None:
    page = Image.new("L", (900, 600), 255)
    page.paste(code("4006381333931", "EAN-13"), (200, 200))
    plain = find_barcodes(page, has_all=none_missing)
    assert len(plain) == 1
    assert find_barcodes(page, has_all=all_missing) == plain


def test_part_of_an_itf_code_is_no_code() -> None:
    # Of this scan, zxing-cpp's plain call reads half of the digits.
    scan = make_scan("ITF", 10, "develop")
    result = score(scan)
    assert result.plain_wrong
    assert result.wrong == ()


def test_a_wrong_value_of_the_plain_pass_is_not_reported() -> None:
    # zxing-cpp's plain call reads this UPC-E code, and a second one that isn't there.
    result = score(make_scan("UPC-E", 11, "develop"))
    assert result.plain_wrong
    assert result.found
    assert result.wrong == ()


def test_two_passes_must_agree_on_a_linear_code_and_none_may_contradict() -> None:
    def reading(value: str, symbology: str) -> _Reading:
        corners = ((10.0, 10.0), (90.0, 10.0), (90.0, 40.0), (10.0, 40.0))
        return _Reading(value, zxingcpp.barcode_format_from_str(symbology), corners)

    lines, other = reading("01234565", "UPC-E"), reading("04210005", "UPC-E")
    square = reading("text", "QR Code")
    assert _select_confirmed([[lines], []]) == []
    assert _select_confirmed([[lines], [], [lines]]) == [lines]
    assert _select_confirmed([[lines], [other], [lines]]) == [lines]
    assert _select_confirmed([[lines, other], [other], [lines]]) == []
    assert _select_confirmed([[], [square]]) == [square]


def test_scans_of_the_benchmark_are_the_same_each_time_and_none_is_misread() -> None:
    scan = make_scan("QR Code", 0, "develop")
    assert scan == make_scan("QR Code", 0, "develop")
    assert scan.image != make_scan("QR Code", 0, "check").image
    for symbology in ("QR Code", NO_CODE):
        result = score(make_scan(symbology, 1, "develop"))
        assert result.wrong == ()
        assert result.found or symbology == NO_CODE


def test_noise_is_no_barcode() -> None:
    noise = random.Random(1).randbytes(600 * 400)
    page = Image.open(io.BytesIO(b"P5 600 400 255\n" + noise))
    assert find_barcodes(page, has_all=all_missing) == []


def test_names_of_symbologies_are_lenient_and_families_include_their_members() -> None:
    assert parse_symbologies(["qrcode"]) >= {"QR Code"}
    assert parse_symbologies(["data-bar", "Code128"]) >= {"DataBar Omni", "Code 128"}
    with pytest.raises(UnknownSymbologyError, match="'Code 129' is not a symbology; use one of"):
        parse_symbologies(["Code 129"])


def _is_within(finding: AuxiliaryFinding, box: Box) -> bool:
    found = finding.box
    return (
        box.x1 <= found.x1 < found.x2 <= box.x2
        and box.y1 <= found.y1 < found.y2 <= box.y2
        and found.area > 0.02 * box.area
    )
