"""Expectations of a type's pages, and what is reported where they aren't met."""

from typing import Any

import pytest
from pydantic import ValidationError

from llm_ocr.auxiliary.expectations import BarcodeExpectation, Expectation, find_unmet
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind

BARCODE = FindingKind.BARCODE


def code(value: str, symbology: str = "Code 128") -> AuxiliaryFinding:
    return AuxiliaryFinding(BARCODE, value, Box(0, 0, 9, 9), 0.99, "zxing-cpp", symbology=symbology)


PAGES = [(2, [code("INV-17"), code("4006381333931", "EAN-13")]), (3, []), (5, [code("INV-18")])]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, None),
        ({"pattern": r"INV-\d+"}, None),
        ({"pattern": r"INV-\d+", "count": 2}, None),
        ({"pattern": r"INV-\d+", "count": 1}, 2),
        ({"pattern": r"INV-1"}, 0),
        ({"pattern": r"INV-\d+", "page": "first", "count": 1}, None),
        ({"pattern": r"INV-18", "page": "last"}, None),
        ({"pattern": r"INV-18", "page": 2}, 0),
        ({"page": 3, "count": 0}, None),
        ({"symbology": "ean13"}, None),
        ({"symbology": ["EAN-13", "qrcode"], "count": 1}, None),
        ({"symbology": "UPC-A"}, 0),
        ({"symbology": "DataBar"}, 0),
    ],
)
def test_values_symbologies_counts_and_pages(wanted: dict[str, Any], found: int | None) -> None:
    unmet = find_unmet(BARCODE, [BarcodeExpectation(**wanted)], PAGES)
    assert [one.found for one in unmet] == ([] if found is None else [found])


def test_what_is_unmet_is_said_in_words() -> None:
    wanted = BarcodeExpectation(symbology="QR Code", pattern="INV.*", count=1, page="last")
    (unmet,) = find_unmet(BARCODE, [wanted], PAGES)
    assert unmet.page == 5
    assert unmet.expected == "one QR Code barcode like INV.* on the last page"
    assert unmet.message == f"expected {unmet.expected}, found none"
    (unmet,) = find_unmet(BARCODE, [BarcodeExpectation(symbology="ITF")], PAGES)
    assert (unmet.page, unmet.expected) == (None, "at least one ITF barcode")


def test_an_ean_13_code_whose_first_digit_is_0_is_a_upc_a_code() -> None:
    wanted = BarcodeExpectation(symbology="UPC-A")
    assert wanted.matches(code("0012345678905", "EAN-13"))
    assert not wanted.matches(code("4006381333931", "EAN-13"))


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"symbology": "Code 129"}, "'Code 129' is not a symbology"),
        ({"count": -1}, "greater than or equal to 0"),
        ({"page": "middle"}, "page"),
        ({"value": "1"}, "Extra inputs"),
    ],
)
def test_invalid_expectations_are_refused(wanted: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        BarcodeExpectation(**wanted)
    with pytest.raises(ValidationError):
        Expectation(**wanted)
