"""Lines of running text -> the groups that become blocks."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import OcrLine, area, overlap
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import CLOSE, close_together, follows, is_apart
from llm_ocr.engines.embedded.words.rows import rows_of, text_start

# Of a line at least this share lies in the region that it is counted to.
HELD = 0.45
# Of one region lines may be further apart than elsewhere, as a share of their height.
CLOSE_IN_REGION = 1.6
# A line that the next word did not fit in ends so near the right edge, in line heights.
NEAR_EDGE = 3.0
# Heights that differ by less are of one size: known ones, and measured ones.
SAME_SIZE, SAME_MEASURED = 1.15, 1.3
_SENTENCE_END = re.compile(r"[.:;!?。！？]\W*$")


@dataclass(frozen=True)
class LineGroup:
    """Lines that belong together, and what the detector calls them ("" where it found none)."""

    label: str
    lines: list[OcrLine]


def groups(regions: Sequence[Region], lines: Sequence[OcrLine]) -> list[LineGroup]:
    """Every line in one group: by the detector's regions, where these are of one column, and else
    by how close the lines are."""
    held: dict[int, list[OcrLine]] = {}
    free: list[OcrLine] = []
    for line in lines:
        k = _region_of(line, regions)
        if k is None:
            free.append(line)
        else:
            held.setdefault(k, []).append(line)
    found = [
        LineGroup(regions[k].label, part)
        for k, inner in held.items()
        for part in _one_column_each(inner)
    ]
    found += [LineGroup("", part) for part in close_together(free, CLOSE)]
    return [part for group in _rejoin(found) for part in _heads_apart(group)]


def _region_of(line: OcrLine, regions: Sequence[Region]) -> int | None:
    shares = [
        (overlap(line.rect, region.rect) / max(1.0, area(line.rect)), region.score, k)
        for k, region in enumerate(regions)
        if region.label not in ("figure", "table")
    ]
    share, _, k = max(shares, default=(0.0, 0.0, 0))
    return k if share > HELD else None


def _one_column_each(lines: list[OcrLine]) -> list[list[OcrLine]]:
    """A region's lines, in several groups where columns stand side by side in it."""
    rows = rows_of(lines)
    apart = [row for row in rows if any(is_apart(*two) for two in pairwise(row))]
    if len(apart) < 2 or not _have_gutter(apart):
        return [lines]
    return close_together(lines, CLOSE_IN_REGION)


def _heads_apart(group: LineGroup) -> list[LineGroup]:
    """A group, rows in bold or of another size being groups of their own: the detector often puts
    a heading and its text into one region."""
    parts: list[list[OcrLine]] = []
    for row in rows_of(group.lines):
        if parts and _alike(parts[-1], row):
            parts[-1].extend(row)
        else:
            parts.append(list(row))
    if len(parts) < 2 or not _is_headed(parts):
        return [group]
    return [LineGroup("text" if group.label == "title" else group.label, part) for part in parts]


def _alike(above: Sequence[OcrLine], row: Sequence[OcrLine]) -> bool:
    """Whether rows are of one size, and both in bold or neither of them."""
    most = SAME_SIZE if any(line.is_exact for line in row) else SAME_MEASURED
    is_bold = all(line.bold for line in row)
    ratio = max(line.height for line in row) / above[-1].height
    return is_bold == above[-1].bold and 1 / most < ratio < most


def _is_headed(parts: Sequence[Sequence[OcrLine]]) -> bool:
    """Whether there are few parts: one head or two, each of a few short lines, and no more."""
    heads = sum(
        len(part) <= 3 and sum(len(line.text) for line in part) < 120 for part in parts[:-1]
    )
    return len(parts) <= 4 and heads >= len(parts) // 2


def _have_gutter(rows: Sequence[Sequence[OcrLine]]) -> bool:
    """Whether all of the rows with several parts have a gap in one place, and most of those parts
    are no bullets or numbers."""
    start, end = max(row[0].rect[2] for row in rows), min(row[-1].rect[0] for row in rows)
    return start < end and sum(len(row[0].text) > 6 for row in rows) >= 0.6 * len(rows)


def _rejoin(found: list[LineGroup]) -> list[LineGroup]:
    """Groups with stray lines of running text put where they go on: the detector often draws a
    region a line too small."""
    joined: list[LineGroup] = []
    for group in sorted(found, key=lambda one: min(line.rect[1] for line in one.lines)):
        home = next((one for one in joined if _goes_on(one, group)), None)
        if home is None:
            joined.append(group)
        else:
            home.lines.extend(group.lines)
    return joined


def _goes_on(home: LineGroup, group: LineGroup) -> bool:
    """Whether one of two groups is a line or two, right below or above the other's prose, or
    whether its sentence goes on in the other one."""
    runs_on = _runs_on(home.lines, group.lines)
    is_text = {home.label, group.label} <= {"", "text", "reference"}
    is_short = min(len(home.lines), len(group.lines)) <= 2
    if not runs_on and not (is_text and is_short and not _may_head(home, group)):
        return False
    last = max(home.lines, key=lambda line: line.rect[3])
    first = min(group.lines, key=lambda line: line.rect[1])
    lines = [*home.lines, *group.lines]
    height = statistics.median(line.height for line in lines)
    left, right = (min(map(text_start, one.lines)) for one in (home, group))
    few, many = sorted((home.lines, group.lines), key=len)
    inner = min(map(text_start, few)) > min(map(text_start, many)) - 0.6 * height
    ends = max(line.rect[2] for line in few) < max(line.rect[2] for line in many) + 1.5 * height
    return (
        abs(left - right) < 1.5 * height
        and inner
        and ends
        and follows(last, first, 0.9)
        and 1 / 1.2 < first.height / last.height < 1.2
    )


def _runs_on(lines: Sequence[OcrLine], others: Sequence[OcrLine]) -> bool:
    """Whether lines end in the middle of a sentence near their right edge, and others continue
    it."""
    last, first = rows_of(lines)[-1][-1], rows_of(others)[0][0].text.strip()
    right = max(line.rect[2] for line in (*lines, *others))
    is_full = last.rect[2] > right - NEAR_EDGE * last.height
    continues = first[:1].islower() or first.startswith("(")
    return is_full and continues and _SENTENCE_END.search(last.text) is None


def _may_head(home: LineGroup, group: LineGroup) -> bool:
    """Whether one line above others is so short that it may be their heading."""
    if len(home.lines) > 1:
        return False
    wide = max(line.rect[2] - line.rect[0] for line in group.lines)
    line = home.lines[0]
    return line.rect[2] - line.rect[0] < 0.75 * wide
