"""Read barcodes and QR codes on page images, with more effort where codes may have been missed.

zxing-cpp's plain pass reads a page as it is, and misses codes that are small, blurred or aslant.
The bars of linear codes are easy to locate, so a region with bars that wasn't read is read again:
level, enlarged and sharpened. Matrix codes look more like text, so their regions are read again
only if a code is missing. Values of linear codes, whose check digits are weak or missing, are
wrong now and then: they count only if two readings agree. Matrix codes are protected by their error
correction.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import zxingcpp
from PIL import Image

from llm_ocr.auxiliary.barcode_regions import (
    CodeRegion,
    Pixels,
    find_regions,
    make_region,
    make_views,
)
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind

SOURCE = "zxing-cpp"
# The share of values that were right, (right + 1) / (read + 2). On pages 0 to 5 of the split
# develop of `benchmarks.barcodes`, 63 values were read, at least 16 of them not by the plain pass,
# and none was wrong.
PLAIN_CONFIDENCE, REPEATED_CONFIDENCE = 0.98, 0.94
# Any part of such a code is a valid one, so that even the plain pass reads wrong values. A reading
# counts if it is so many modules high, a digit being so many wide. In 40 scans of the split
# develop, in three passes, 48 readings of parts were up to 1.3 modules high, and 12 of 93 of whole
# codes less than 3. Half of it is just above the parts; twice as much loses 4 more readings.
_UNPROTECTED = frozenset({zxingcpp.BarcodeFormat.ITF, zxingcpp.BarcodeFormat.ITF14})
LEAST_HEIGHT, ITF_DIGIT, ITF_ENDS = 3.0, 8.0, 8.5
_READABLE = zxingcpp.BarcodeFormats(zxingcpp.BarcodeFormat.AllReadable)
# Each reads codes that the other one doesn't.
_BINARIZERS = (zxingcpp.Binarizer.LocalAverage, zxingcpp.Binarizer.GlobalHistogram)
# Of these, two readings have to agree.
_LINEAR = frozenset(
    zxingcpp.barcode_formats_list(zxingcpp.BarcodeFormats(zxingcpp.BarcodeFormat.AllLinear))
)

Point = tuple[float, float]


@dataclass(frozen=True)
class _Reading:
    """A value that was read, and the corners of its code in pixels of the page."""

    value: str
    format: zxingcpp.BarcodeFormat
    corners: tuple[Point, ...]

    @property
    def box(self) -> Box:
        xs, ys = zip(*self.corners, strict=True)
        return Box(min(xs), min(ys), max(xs), max(ys))

    def is_at(self, other: "_Reading") -> bool:
        """Whether they are of the same code: the center of one is in the box of the other."""
        return self.box.contains_center(other.box) or other.box.contains_center(self.box)

    def agrees(self, other: "_Reading") -> bool:
        return self.value == other.value and self.format == other.format


class UnknownSymbologyError(ValueError):
    """A name is not one of a symbology that zxing-cpp reads."""


def parse_symbologies(names: Collection[str]) -> frozenset[str]:
    """The symbologies that these names include, as findings name them: a family such as DataBar
    includes its members; case, spaces and hyphens don't matter. Raises UnknownSymbologyError."""
    found: set[str] = set()
    for name in names:
        try:
            family = zxingcpp.BarcodeFormats(zxingcpp.barcode_format_from_str(name))
            members = zxingcpp.barcode_formats_list(family)
        except ValueError as error:
            known = ", ".join(sorted(map(str, zxingcpp.barcode_formats_list(_READABLE))))
            raise UnknownSymbologyError(
                f"{name!r} is not a symbology; use one of {known}"
            ) from error
        found.update(str(member) for member in members)
    return frozenset(found)


def find_barcodes(
    image: Image.Image,
    symbologies: Collection[str] = (),
    has_all: Callable[[Sequence[AuxiliaryFinding]], bool] = lambda found: True,
    places: Sequence[Box] = (),
) -> list[AuxiliaryFinding]:
    """The barcodes of `symbologies` (all without any) on a page image, from top to bottom.

    `has_all` tells whether findings include every code that is expected; while it doesn't, regions
    that may have a matrix code are read again, too. `places` are where a detector or a vision model
    sees codes.
    """
    page = np.asarray(image.convert("L"))
    formats = [zxingcpp.barcode_format_from_str(name) for name in symbologies]
    plain = [reading for reading in _read(page, formats) if _is_whole(reading)]
    readings = [reading for reading in plain if reading.format not in _LINEAR]
    found = [_finding(reading, PLAIN_CONFIDENCE) for reading in readings]
    doubtful = [reading for reading in plain if reading.format in _LINEAR]
    seen = [make_region(page, place) for place in places]
    regions = [*seen, *find_regions(page)]
    for reading in doubtful:
        if not any(region.contains(_center(reading.box)) for region in regions):
            regions.append(make_region(page, _expand(reading.box)))
    for region in regions:
        first = [reading for reading in doubtful if region.contains(_center(reading.box))]
        doubtful = [reading for reading in doubtful if reading not in first]
        is_idle = not region.is_linear and region not in seen and has_all(found)
        if not first and (is_idle or any(_covers(reading, region) for reading in readings)):
            continue
        for reading in _read_region(page, region, formats, first):
            if not any(reading.is_at(other) for other in readings):
                readings.append(reading)
                is_plain = any(map(reading.agrees, first))
                confidence = PLAIN_CONFIDENCE if is_plain else REPEATED_CONFIDENCE
                found.append(_finding(reading, confidence))
    return sorted(found, key=lambda finding: (finding.box.y1, finding.box.x1))


def _read_region(
    page: Pixels,
    region: CodeRegion,
    formats: Sequence[zxingcpp.BarcodeFormat],
    first: list[_Reading],
) -> list[_Reading]:
    """The codes of a region, of which the plain pass has read the `first` ones, read in one view
    after the other until no reading is in doubt."""
    passes = [first]
    confirmed: list[_Reading] = []
    for view in make_views(page, region):
        readings = [
            reading
            for binarizer in _BINARIZERS
            for reading in _read(view.pixels, formats, binarizer)
            if _is_whole(reading)
        ]
        passes.append(
            [
                replace(reading, corners=tuple(map(view.to_page, reading.corners)))
                for k, reading in enumerate(readings)
                if not any(reading.agrees(one) and reading.is_at(one) for one in readings[:k])
            ]
        )
        confirmed = _select_confirmed(passes)
        seen = [reading for readings in passes for reading in readings]
        if confirmed and all(any(one.is_at(other) for other in confirmed) for one in seen):
            break
    return confirmed


def _covers(reading: _Reading, region: CodeRegion) -> bool:
    """Whether a region has a code that was read, and no room for another one."""
    length = max(math.dist(reading.corners[0], corner) for corner in reading.corners[1:])
    is_inside = region.contains(_center(reading.box))
    return is_inside and length > region.length / 2


def _read(
    image: Pixels,
    formats: Sequence[zxingcpp.BarcodeFormat],
    binarizer: zxingcpp.Binarizer = zxingcpp.Binarizer.LocalAverage,
) -> list[_Reading]:
    wanted = zxingcpp.BarcodeFormats(formats)
    readings: list[_Reading] = []
    for code in zxingcpp.read_barcodes(image, wanted, binarizer=binarizer):
        place = code.position
        points = (place.top_left, place.top_right, place.bottom_right, place.bottom_left)
        corners = tuple((float(point.x), float(point.y)) for point in points)
        reading = _Reading(code.text, code.format, corners)
        if code.text and not any(reading.is_at(one) and reading.agrees(one) for one in readings):
            readings.append(reading)
    return readings


def _is_whole(reading: _Reading) -> bool:
    """Whether a reading can't be of a part of a code. Lines that cross a code aslant leave it at
    its long side; few of them have the same part, as the next ones leave it elsewhere."""
    if reading.format not in _UNPROTECTED:
        return True
    top_left, top_right, _, bottom_left = reading.corners
    width, height = math.dist(top_left, top_right), math.dist(top_left, bottom_left)
    return height >= LEAST_HEIGHT * width / (ITF_DIGIT * len(reading.value) + ITF_ENDS)


def _select_confirmed(passes: Sequence[Sequence[_Reading]]) -> list[_Reading]:
    """The readings that count: of each code the value that most views have given, if that is
    enough of them and no other value was given as often."""
    codes: list[list[_Reading]] = []
    for reading in (reading for readings in passes for reading in readings):
        for code in codes:
            if code[0].is_at(reading):
                code.append(reading)
                break
        else:
            codes.append([reading])
    found: list[_Reading] = []
    for code in codes:
        votes = [sum(reading.agrees(other) for other in code) for reading in code]
        best = code[votes.index(max(votes))]
        rivals = [
            vote
            for reading, vote in zip(code, votes, strict=True)
            if not reading.agrees(best) and vote == max(votes)
        ]
        if not rivals and max(votes) >= (2 if best.format in _LINEAR else 1):
            found.append(best)
    return found


def _finding(reading: _Reading, confidence: float) -> AuxiliaryFinding:
    return AuxiliaryFinding(
        kind=FindingKind.BARCODE,
        value=reading.value,
        box=reading.box,
        confidence=confidence,
        source=SOURCE,
        symbology=str(reading.format),
        corners=reading.corners,
    )


def _expand(box: Box) -> Box:
    """A box with room for the bars, of which only some lines were read."""
    room = max(20.0, 0.1 * max(box.x2 - box.x1, box.y2 - box.y1))
    return Box(box.x1 - room, box.y1 - room, box.x2 + room, box.y2 + room)


def _center(box: Box) -> Point:
    return (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2
