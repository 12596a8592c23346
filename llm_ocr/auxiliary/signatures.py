"""Find the lines to sign on, and tell whether there is a signature on them.

A line to sign on is a printed rule whose label says so. With pen strokes above it, which are no
printed text, the signature is `present`; with nothing `absent`; anything between is `unsure`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from llm_ocr.auxiliary.stamps import (
    MIN_CHROMA,
    MIN_DARKNESS,
    SEARCH_SCALE,
    SOURCE,
    Pixels,
    Scan,
    load_recognizer,
    measure_ink,
)
from llm_ocr.engines.embedded.geometry import OcrLine
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind
from llm_ocr.text.normalize import normalize

PRESENT, ABSENT, UNSURE = "present", "absent", "unsure"
# Words of labels, without accents and in lower case.
_LABEL = re.compile(
    r"\b(sign(ed|ature|atures|here)?|unterschrift|unterzeichner|gezeichnet|firma|firmato|assinatura"
    r"|handtekening|podpis|underskrift|signatur)\b"
)
# Lengths of lines to sign on, and the thickest of them, in mm.
MIN_RULE, MAX_RULE, MAX_THICKNESS = 25.0, 130.0, 1.2
# What is looked at around a rule, in mm: above it for strokes, below and to the left for a label.
ABOVE, BELOW, LEFT = 15.0, 8.0, 60.0
# How near to the rule a label on its left ends, in mm.
NEAR = 12.0
# Printed text is read with the first confidence, pen strokes hardly ever with the second; its lines
# are at most so high, in mm.
PRINTED_SCORE, SURELY_PRINTED, PRINTED_HEIGHT = 0.88, 0.97, 5.0
# A signature is at least so wide and high, and has so much ink (mm, square mm). Half of it is a
# tick, or a stroke that got there otherwise; less is dirt.
MIN_WIDTH, MIN_HEIGHT, MIN_INK = 10.0, 3.0, 5.0
# All of 19 and 21 verdicts on the split develop of `benchmarks.stamps` were right: 20/21, 22/23.
CONFIDENCE = {PRESENT: 0.95, ABSENT: 0.95, UNSURE: 0.5}


@dataclass(frozen=True)
class _Rule:
    """A printed horizontal line, in pixels of the scan."""

    x1: float
    x2: float
    y: float


def find_signatures(scan: Scan, stamps: Sequence[AuxiliaryFinding] = ()) -> list[AuxiliaryFinding]:
    """The places for signatures on an upright scan, from top to bottom, each with whether it is
    signed. Ink of `stamps` makes a verdict unsure."""
    found: list[AuxiliaryFinding] = []
    for rule in _find_rules(scan):
        area = _area_around(scan, rule)
        x, y = round(area.x1), round(area.y1)
        part = np.ascontiguousarray(scan.pixels[y : round(area.y2), x : round(area.x2), ::-1])
        lines = load_recognizer().lines(part)
        at = _Rule(rule.x1 - x, rule.x2 - x, rule.y - y)
        label = _find_label(lines, at, scan.scale)
        if label is None:
            continue
        space = _space_above(scan, rule)
        is_stamped = any(_meet(space, stamp.box) for stamp in stamps)
        state = _judge(scan, space, rule, lines, (x, y))
        state = UNSURE if state == PRESENT and is_stamped else state
        found.append(
            AuxiliaryFinding(
                kind=FindingKind.SIGNATURE,
                value=state,
                box=space,
                confidence=CONFIDENCE[state],
                source=SOURCE,
                text=label,
                problem="it may or may not be a signature" if state == UNSURE else None,
            )
        )
    return sorted(found, key=lambda finding: (finding.box.y1, finding.box.x1))


def _find_rules(scan: Scan) -> Iterator[_Rule]:
    """The horizontal lines that are long enough to sign on, and no part of a table."""
    shrink = min(1.0, SEARCH_SCALE / scan.scale)
    small = cv2.resize(scan.pixels, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
    scale = scan.scale * shrink
    darkness = measure_ink(np.asarray(small, np.uint8))[1]
    dark = np.asarray(darkness > MIN_DARKNESS, np.uint8)
    flat = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((1, round(7 * scale)), np.uint8))
    # A rule that is a little askew falls into steps.
    joined = cv2.dilate(flat, np.ones((3, round(1.5 * scale)), np.uint8))
    upright = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((round(6 * scale), 1), np.uint8))
    count, _, boxes, _ = cv2.connectedComponentsWithStats(joined)
    for label in range(1, count):
        x, y, width, height, _ = boxes[label].tolist()
        if not MIN_RULE * scale <= width <= MAX_RULE * scale:
            continue
        if height > (MAX_THICKNESS + 0.02 * width / scale) * scale + 3:
            continue
        near = round(1.5 * scale)
        ends = [
            upright[max(0, y - near) : y + height + near, max(0, at - near) : at + near]
            for at in (x, x + width)
        ]
        if not any(end.any() for end in ends):
            yield _Rule(x / shrink, (x + width) / shrink, (y + height / 2) / shrink)


def _area_around(scan: Scan, rule: _Rule) -> Box:
    height, width = scan.pixels.shape[:2]
    return Box(
        max(0.0, rule.x1 - LEFT * scan.scale),
        max(0.0, rule.y - ABOVE * scan.scale),
        min(float(width), rule.x2 + 5 * scan.scale),
        min(float(height), rule.y + BELOW * scan.scale),
    )


def _space_above(scan: Scan, rule: _Rule) -> Box:
    """Where the signature is expected."""
    height, width = scan.pixels.shape[:2]
    return Box(
        max(0.0, rule.x1 - scan.scale),
        max(0.0, rule.y - ABOVE * scan.scale),
        min(float(width), rule.x2 + 4 * scan.scale),
        min(float(height), rule.y + 3 * scan.scale),
    )


def _find_label(lines: Sequence[OcrLine], rule: _Rule, scale: float) -> str | None:
    """The text that says that the rule is to be signed on: below it, or on its left."""
    for line in lines:
        if not _LABEL.search(normalize(line.text)):
            continue
        x1, y1, x2, y2 = line.rect
        is_below = y1 > rule.y - scale and min(x2, rule.x2) - max(x1, rule.x1) > 0.4 * (x2 - x1)
        is_left = (
            rule.x1 - NEAR * scale < x2 < rule.x1 + 3 * scale
            and y1 - 2 * scale < rule.y < y2 + 3 * scale
        )
        if is_below or is_left:
            return line.text
    return None


def _judge(
    scan: Scan, space: Box, rule: _Rule, lines: Sequence[OcrLine], offset: tuple[int, int]
) -> str:
    """Whether there are pen strokes in the space above a rule."""
    x1, y1, x2, y2 = (round(side) for side in (space.x1, space.y1, space.x2, space.y2))
    chroma, darkness = measure_ink(np.asarray(scan.pixels[y1:y2, x1:x2], np.uint8))
    colored = chroma > MIN_CHROMA
    ink = np.asarray((darkness > MIN_DARKNESS) | colored, np.uint8)
    level, thick = round(rule.y) - y1, max(2, round(0.35 * scan.scale))
    ink[max(0, level - thick) : level + thick + 1] = 0
    # Neither a label below nor the text above belongs to it.
    ink[level + thick :] = 0
    has_masked = False
    for line in lines:
        left, top, right, bottom = line.rect
        rows = slice(max(0, round(top) + offset[1] - y1), max(0, round(bottom) + offset[1] - y1))
        columns = slice(max(0, round(left) + offset[0] - x1), max(0, round(right) + offset[0] - x1))
        part = ink[rows, columns]
        is_low = bottom - top <= PRINTED_HEIGHT * scan.scale
        is_printed = line.score >= PRINTED_SCORE and is_low
        if not part.size or not is_printed:
            continue
        if colored[rows, columns].sum() > 0.3 * part.sum():
            # Nobody prints names in blue.
            continue
        has_masked = has_masked or line.score < SURELY_PRINTED
        ink[rows, columns] = 0
    return _measure_strokes(ink, scan.scale, has_masked)


def _measure_strokes(ink: Pixels, scale: float, has_masked: bool) -> str:
    ink = np.asarray(cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)), np.uint8)
    kernel = np.ones((round(2 * scale), round(2 * scale)), np.uint8)
    count, labels, boxes, _ = cv2.connectedComponentsWithStats(cv2.dilate(ink, kernel))
    verdict = UNSURE if has_masked else ABSENT
    for label in range(1, count):
        width, height = (boxes[label, side] / scale - 2 for side in (2, 3))
        area = float(ink[labels == label].sum()) / scale**2
        if width >= MIN_WIDTH and height >= MIN_HEIGHT and area >= MIN_INK:
            return PRESENT
        if width >= MIN_WIDTH / 2 and height >= MIN_HEIGHT / 2 and area >= MIN_INK / 2:
            verdict = UNSURE
    return verdict


def _meet(one: Box, other: Box) -> bool:
    return one.x1 < other.x2 and other.x1 < one.x2 and one.y1 < other.y2 and other.y1 < one.y2
