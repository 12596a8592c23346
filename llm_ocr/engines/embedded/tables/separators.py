"""What parts a table's rows, and its columns: rules that are drawn, and gaps between words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import Rect, Word
from llm_ocr.engines.embedded.tables.rules import Rules, RulingLine

# Rules closer than this, in heights of a word, are one.
NEAR = 0.35
# The edge of a ground is found no further from a rule at the same place, in heights of a word.
NEAR_EDGE = 0.7
# Of a side so much must be drawn for it to part two cells.
DRAWN = 0.6
# A rule may go beyond the one that it ends at, or end before it, by so much, in heights of a word.
STANDS_OUT, FALLS_SHORT = 0.9, 0.28
# Of all sides within a closed grid at least so many are drawn.
CLOSED = 0.45
# A rule across is one of an open table's from this share of its width on.
ROW_RULE = 0.6
# Pieces of a rule across are no further apart, in heights: between those below heads that stand
# over some columns each there are other columns.
BROKEN = 2.0


@dataclass(frozen=True)
class Separator:
    """Where one row or column ends and the next begins: what is drawn there, or no lines where a
    gap between words tells of it."""

    at: float
    lines: tuple[RulingLine, ...] = ()

    @property
    def is_rule(self) -> bool:
        return bool(self.lines)

    @property
    def start(self) -> float:
        return min(line.start for line in self.lines)

    @property
    def end(self) -> float:
        return max(line.end for line in self.lines)

    def share(self, start: float, end: float) -> float:
        """How much of a stretch is drawn (0..1)."""
        pieces = sorted((max(start, line.start), min(end, line.end)) for line in self.lines)
        total, reached = 0.0, start
        for first, last in pieces:
            total += max(0.0, last - max(first, reached))
            reached = max(reached, last)
        return total / max(1.0, end - start)

    def parts(self, start: float, end: float) -> bool:
        """Whether it parts what stands along a stretch: a gap always does, a rule if it is drawn
        there."""
        return not self.is_rule or self.share(start, end) > DRAWN

    def longest_run(self, gap: float) -> float:
        """The length of its longest line, those with such a gap between being one."""
        longest, start, reached = 0.0, float("-inf"), float("-inf")
        for line in sorted(self.lines, key=lambda line: line.start):
            start = line.start if line.start > reached + gap else start
            reached = max(reached, line.end)
            longest = max(longest, reached - start)
        return longest


@dataclass(frozen=True)
class Separators:
    """Those between a table's rows and between its columns.

    In a closed grid each side of a cell is drawn, so that what isn't drawn parts nothing; it has
    its frame, too.
    """

    rows: Sequence[Separator]
    columns: Sequence[Separator]
    is_closed: bool = False

    @property
    def frame(self) -> Rect:
        return self.columns[0].at, self.rows[0].at, self.columns[-1].at, self.rows[-1].at

    def holds(self, word: Word) -> bool:
        left, top, right, bottom = self.frame
        return left <= word.x < right and top <= word.y < bottom

    @property
    def within(self) -> "Separators":
        """Those within the frame."""
        return replace(self, rows=self.rows[1:-1], columns=self.columns[1:-1])


def drawn_separators(lines: Iterable[RulingLine], height: float) -> list[Separator]:
    """Lines close to each other as one separator, at their mean weighed by length."""
    groups: list[list[RulingLine]] = []
    for line in sorted(lines, key=lambda line: line.at):
        if groups and line.at - groups[-1][-1].at < NEAR * height:
            groups[-1].append(line)
        else:
            groups.append([line])
    return [
        Separator(
            sum(line.at * line.length for line in group) / sum(line.length for line in group),
            tuple(group),
        )
        for group in groups
    ]


def through_table(rules: Rules, around: Rect, height: float) -> Separators:
    """Rules down, and across with the edges of grounds, that run along most of a table."""
    near = NEAR * height
    left, top, right, bottom = around
    columns = [
        one
        for one in drawn_separators(rules.down, height)
        if left + near < one.at < right - near and one.parts(top, bottom)
    ]
    across = [line for line in (*rules.across, *rules.edges) if top < line.at < bottom]
    left, right = min([left, *(x.start for x in across)]), max([right, *(x.end for x in across)])
    rows = [
        one
        for one in drawn_separators(across, height)
        if one.longest_run(BROKEN * height) > ROW_RULE * (right - left)
    ]
    return Separators(rows, columns)


def closed_grid(rules: Rules, height: float) -> Separators | None:
    """The sides of cells that all have rules around them; None without a frame on all sides and
    most of the sides within."""
    # What doesn't go from one line to another is no side of a cell, but an underline.
    across = _ending_at(rules.across, drawn_separators(rules.down, height), height)
    down = _ending_at(rules.down, drawn_separators(across, height), height)
    columns = drawn_separators(down, height)
    # A ground may end where no rule is, as that of a head; where one is, it parts no more than it.
    grounds = [
        edge
        for edge in _ending_at(rules.edges, columns, height)
        if all(abs(edge.at - rule.at) > NEAR_EDGE * height for rule in across)
    ]
    rows = drawn_separators((*across, *grounds), height)
    if len(rows) < 2 or len(columns) < 2 or len(rows) + len(columns) < 5:
        return None
    is_framed = all(
        side.parts(others[0].at, others[-1].at)
        for sides, others in ((rows, columns), (columns, rows))
        for side in (sides[0], sides[-1])
    )
    sides = [
        side.parts(one.at, other.at)
        for sides, others in ((rows, columns), (columns, rows))
        for side in sides[1:-1]
        for one, other in pairwise(others)
    ]
    if not is_framed or sum(sides) < CLOSED * len(sides):
        return None
    return Separators(rows, columns, is_closed=True)


def _ending_at(
    rules: Sequence[RulingLine], lines: Sequence[Separator], height: float
) -> list[RulingLine]:
    """The rules that go from one of some lines to another, where these reach them: a letter right
    above a rule is often taken for a part of it, and a caption above a frame for a rule."""
    near, short, out = NEAR * height, FALLS_SHORT * height, STANDS_OUT * height
    found = []
    for rule in rules:
        reached = [one.at for one in lines if one.start - near < rule.at < one.end + near]
        starts = [at for at in reached if -short < at - rule.start < out]
        ends = [at for at in reached if -short < rule.end - at < out]
        if starts and ends and min(starts) < max(ends):
            found.append(rule)
    return found
