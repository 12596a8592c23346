"""Tables of contents: entries with their page numbers at the right, which never fall."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.block import CONTENTS, PageBlock, block_of
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, hull, inside
from llm_ocr.engines.embedded.regions.text_columns import words_in
from llm_ocr.engines.embedded.words.rows import rows_of, text_of

# So many entries below each other, no further apart than this in line heights, with their numbers'
# right ends in one line up to this, make a table of contents if half of the numbers stand apart and
# half of the entries have leaders or begin with a section's number.
ENTRIES, FAR, SAME_EDGE = 4, 8.0, 0.5
# The lines of an entry are no further from each other, in heights, and no higher than each other.
TIGHT, ALIKE = 0.4, 1.1

_LEADER = re.compile(r"(?:[.…·_]\s*){3}")
_SECTION = re.compile(r"(?:\d{1,2}|[A-Z](?=\.)|[IVX]{1,5}(?=\.))(?:\.\d{1,2})*\.?\s+\S")
_NUMBER = re.compile(r"(?:\d{1,2}|[A-Z]|[IVX]{1,5})(?:\.\d{1,2})*\.?")
_PAGE = re.compile(r"(?:^|[\s.…·_])(\d{1,4}|[ivx]{1,6}|[IVX]{1,6})$")


@dataclass(frozen=True)
class _Entry:
    """An entry's last line, with the number behind it; -1 for a Roman one."""

    lines: tuple[OcrLine, ...]
    page: int

    @property
    def right(self) -> float:
        return self.lines[-1].rect[2]

    @property
    def is_apart(self) -> bool:
        """Whether its number stands apart, or behind a leader."""
        return len(self.lines) > 1 or _LEADER.search(self.lines[0].text) is not None

    def is_above(self, other: "_Entry") -> bool:
        """Whether another entry may be the next one."""
        height = self.lines[0].height
        return (
            abs(other.right - self.right) < SAME_EDGE * height
            and other.lines[0].rect[1] - self.lines[0].rect[3] < FAR * height
            and self.page <= other.page
        )


def contents(lines: Sequence[OcrLine]) -> tuple[list[PageBlock], list[OcrLine]]:
    """The tables of contents among some lines, a block for each column of one, and the other
    lines."""
    entries = [entry for row in rows_of(lines) for entry in _entries(row)]
    runs: list[list[_Entry]] = []
    for entry in entries:
        run = next((run for run in runs if run[-1].is_above(entry)), None)
        if run is None:
            runs.append([entry])
        else:
            run.append(entry)
    ends = {id(line) for entry in entries for line in entry.lines}
    beginnings = [line for line in lines if id(line) not in ends]
    blocks: list[PageBlock] = []
    free = list(lines)
    for run in runs:
        marked = sum(_is_marked(entry.lines[0]) for entry in run)
        apart = sum(entry.is_apart for entry in run)
        if len(run) >= ENTRIES and 2 * min(marked, apart) >= len(run):
            rect = hull(line.rect for entry in run for line in entry.lines)
            rect = _with_beginnings(rect, run[0].lines[0].height, beginnings)
            held = [line for line in free if inside(line, [rect])]
            # Another run's entries may all be among those of a table that is known already.
            blocks += [block_of(CONTENTS, held)] if held else []
            free = [line for line in free if not inside(line, [rect])]
    return blocks, free


def _with_beginnings(rect: Rect, height: float, lines: Sequence[OcrLine]) -> Rect:
    """The rectangle of entries with the sections' numbers left of it, and the lines right above in
    which the first entry, lines of a height, begins."""
    left, top, right, bottom = rect
    for line in sorted(lines, key=lambda line: -line.rect[1]):
        if top < line.middle < bottom and _NUMBER.fullmatch(line.text.strip()):
            left = min(left, line.rect[0]) if left - line.rect[2] < FAR * height else left
        elif (
            left - height < line.rect[0]
            and line.rect[2] < right + height
            and line.height < ALIKE * height
        ):
            is_tight = -SAME_EDGE * height < top - line.rect[3] < TIGHT * height
            top = line.rect[1] if is_tight else top
    return left, top, right, bottom


def entries_of(block: PageBlock) -> list[list[str]]:
    """The rows of each entry of a table of contents, the last of which ends with its number."""
    found: list[list[str]] = []
    is_open = False
    for row in block.rows:
        text = text_of(row)
        if is_open and _SECTION.match(text) is None:
            found[-1].append(text)
        else:
            found.append([text])
        is_open = not _entries(row)
    return found


def _entries(row: Sequence[OcrLine]) -> list[_Entry]:
    """The entries that end in a row: a line that ends with its number, or a number behind one."""
    found = []
    for k, line in enumerate(row):
        end, before = _PAGE.search(line.text.strip()), row[max(0, k - 1)]
        if end is None:
            continue
        page = int(end[1]) if end[1].isdigit() else -1
        if end[1] == line.text.strip() and words_in(before) and before is not line:
            found.append(_Entry((before, line), page))
        elif words_in(line) and _is_marked(line):
            found.append(_Entry((line,), page))
    return found


def _is_marked(line: OcrLine) -> bool:
    """Whether a line has a leader or begins with a section's number."""
    text = line.text.strip()
    return _LEADER.search(text) is not None or _SECTION.match(text) is not None
