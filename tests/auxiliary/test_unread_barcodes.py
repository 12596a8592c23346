"""Barcodes that a vision model has seen: what it says counts only if something confirms it."""

import pytest

from llm_ocr.auxiliary.expectations import BarcodeExpectation
from llm_ocr.auxiliary.unread_barcodes import find_unread
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind


def seen(
    text: str | None, symbology: str | None = None, problem: str | None = None
) -> AuxiliaryFinding:
    return AuxiliaryFinding(
        FindingKind.BARCODE,
        None,
        Box(100, 100, 300, 200),
        0.8,
        "vlm seer",
        text=text,
        symbology=symbology,
        problem=problem,
    )


@pytest.mark.parametrize(
    ("text", "symbology", "value"),
    [
        ("4 006381 333931", "EAN-13", "4006381333931"),
        ("4006381333931", "ean13", "4006381333931"),
        ("4006381333932", "EAN-13", None),
        ("400638133393", "EAN-13", None),
        ("9638 5074", "EAN-8", "96385074"),
        ("9638 5075", "EAN-8", None),
        ("0 12345 67890 5", "UPC-A", "012345678905"),
        ("01234565", "UPC-E", "01234565"),
        ("01234566", "UPC-E", None),
        ("154 00141 28876 3", "ITF-14", "15400141288763"),
        # These have no check digit that anyone can check.
        ("DN-004711", "Code 128", None),
        ("4006381333931", None, None),
        ("4006381333931", "something striped", None),
        ("٤٠٠٦٣٨١٣٣٣٩٣١", "EAN-13", None),
        (None, "QR Code", None),
        ("", "EAN-13", None),
    ],
)
def test_value_counts_if_its_check_digit_is_right(
    text: str | None, symbology: str | None, value: str | None
) -> None:
    (found,) = find_unread([seen(text, symbology)], [], [])
    assert found.value == value
    assert found.problem is not None
    assert ("only its check digit confirms it" in found.problem) == (value is not None)
    assert found.symbology in (
        None,
        "EAN-13",
        "EAN-8",
        "UPC-A",
        "UPC-E",
        "ITF-14",
        "Code 128",
        "QR Code",
    )


def test_value_counts_if_an_expected_pattern_matches_it() -> None:
    expected = BarcodeExpectation(symbology="Code 128", pattern=r"DN-\d{6}")
    codes = [
        seen("DN-00 47 11", "code128"),
        seen("DN-4711", "Code 128"),
        seen("DN-004711", "Code 39"),
    ]
    found = find_unread(codes, [], [BarcodeExpectation(), expected])
    assert [code.value for code in found] == ["DN-004711", None, None]
    assert "only the expected pattern confirms it" in str(found[0].problem)
    assert "nothing confirms 'DN-4711', which a model has read" in str(found[1].problem)


def test_what_was_read_is_listed_once() -> None:
    read = AuxiliaryFinding(FindingKind.BARCODE, "A1", Box(150, 120, 280, 150), 0.98, "zxing-cpp")
    assert find_unread([seen("anything", "Code 128")], [read], []) == []
    # Without a place of its own, a code is the one that was read only if it says the same.
    astray = "the model gave no valid box; the box is that of the page"
    assert find_unread([seen("A 1", "Code 128", astray)], [read], []) == []
    (other,) = find_unread([seen("B2", "Code 128", astray)], [read], [])
    assert str(other.problem).startswith(f"{astray}; the barcode can't be read")


def test_codes_of_other_symbologies_are_left_out() -> None:
    codes = [seen(None, "EAN-13"), seen(None, "QR Code"), seen(None, None)]
    found = find_unread(codes, [], [], ["QR Code"])
    assert [code.symbology for code in found] == ["QR Code", None]
