"""Judge barcodes that were seen on a page but can't be read."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import zxingcpp

from llm_ocr.auxiliary.barcodes import parse_symbologies
from llm_ocr.auxiliary.expectations import Expectation
from llm_ocr.records import AuxiliaryFinding

# The digits of values that end in a check digit, which no single wrong digit matches.
_CHECKED = {"EAN-13": 13, "EAN-8": 8, "UPC-A": 12, "UPC-E": 8, "ITF-14": 14}


def find_unread(
    seen: Sequence[AuxiliaryFinding],
    read: Sequence[AuxiliaryFinding],
    expectations: Sequence[Expectation],
    symbologies: Collection[str] = (),
) -> list[AuxiliaryFinding]:
    """The codes of `symbologies` (all without any) that a detector or a vision model has `seen` and
    that were not `read`.

    A model reads the characters that are printed beside a code, and makes some up. So its `text` is
    the value only if the check digit or the pattern of an expectation confirms it. A finding with a
    problem has no place of its own.
    """
    wanted = parse_symbologies(symbologies)
    unread = [one for one in seen if not any(_is_same(one, code) for code in read)]
    judged = [_judge(one, expectations) for one in unread]
    return [one for one in judged if not wanted or one.symbology in {None, *wanted}]


def _is_same(seen: AuxiliaryFinding, read: AuxiliaryFinding) -> bool:
    if seen.problem is None and (
        seen.box.contains_center(read.box) or read.box.contains_center(seen.box)
    ):
        return True
    return bool(seen.text) and "".join(str(seen.text).split()) == read.value


def _judge(code: AuxiliaryFinding, expectations: Sequence[Expectation]) -> AuxiliaryFinding:
    symbology, text = _symbology(code.symbology), code.text or ""
    value, problem = None, "the barcode can't be read"
    if text:
        problem = f"{problem}; nothing confirms {text!r}, which a model has read"
    for candidate in dict.fromkeys(filter(None, (text, "".join(text.split())))):
        named = replace(code, symbology=symbology, value=candidate)
        if any(one.pattern is not None and one.matches(named) for one in expectations):
            value, problem = candidate, "read by a model: only the expected pattern confirms it"
        elif _has_check_digit(candidate, symbology):
            value, problem = candidate, "read by a model: only its check digit confirms it"
    if code.problem:
        problem = f"{code.problem}; {problem}"
    return replace(code, symbology=symbology, value=value, problem=problem)


def _symbology(name: str | None) -> str | None:
    """A symbology as findings name it; None if it is unknown."""
    try:
        return str(zxingcpp.barcode_format_from_str(name or ""))
    except ValueError:
        return None


def _has_check_digit(value: str, symbology: str | None) -> bool:
    """Whether a value ends in its check digit; False for a symbology without one."""
    if len(value) != _CHECKED.get(symbology or "") or not value.isascii() or not value.isdigit():
        return False
    try:
        zxingcpp.create_barcode(value, zxingcpp.barcode_format_from_str(symbology or ""))
    except ValueError:
        return False
    return True
