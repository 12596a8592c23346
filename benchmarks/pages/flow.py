"""Headings, paragraphs, lists and notes into columns, from the top of each to its bottom."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.pages.fonts import width
from benchmarks.pages.sheet import ASCENT, Sheet, part
from benchmarks.pages.style import Colour, Style
from benchmarks.pages.truth import HEADING, LIST, PARAGRAPH, TITLE, Item, Part, TrueBlock
from benchmarks.pages.typeset import SetLine, Word, joined, lines_of, words_of


@dataclass(frozen=True)
class Frame:
    """A column's place."""

    x: float
    top: float
    wide: float
    bottom: float


class Flow:
    """Where the next block goes; a style of its own for boxes in another ink."""

    def __init__(self, sheet: Sheet, frames: Sequence[Frame], style: Style | None = None) -> None:
        self.sheet, self.style = sheet, style or sheet.style
        self._frames, self._at = list(frames), 0
        self.y = frames[0].top

    @property
    def frame(self) -> Frame:
        return self._frames[self._at]

    @property
    def room(self) -> float:
        return self.frame.bottom - self.y

    @property
    def is_at_top(self) -> bool:
        return self.y == self.frame.top

    def go_on(self) -> bool:
        """Go to the next column; False if this is the last."""
        if self._at + 1 == len(self._frames):
            return False
        self._at += 1
        self.y = self.frame.top
        return True

    def needs(self, high: float) -> bool:
        """Find room for something that high, in this column or a later one."""
        while self.room < high:
            if not self.go_on():
                return False
        return True

    def paragraph(
        self,
        sentences: Sequence[str],
        kind: str = PARAGRAPH,
        font: str | None = None,
        size: float | None = None,
        splits: bool = True,
        emphasis: tuple[int, int] = (0, 0),
    ) -> bool:
        """As many sentences as there is room for; False where there is none.

        Words from the first number of `emphasis` to before the second are italic.
        """
        style = self.style
        size = size or style.size
        leading = style.leading * size / style.size
        for number in range(len(sentences), 0, -1):
            text = " ".join(sentences[:number])
            words = words_of(text, font or style.body.regular)
            slanted = style.body.bold_italic if font == style.body.bold else style.body.italic
            words = [
                (word, slanted if emphasis[0] <= k < emphasis[1] else cut)
                for k, (word, cut) in enumerate(words)
            ]
            lines = lines_of(words, size, self.frame.wide, style.indent, style.hyphenated)
            if self._fits(len(lines), leading, splits):
                self._set(kind, text, lines, size, leading, splits)
                return True
        return False

    def _fits(self, lines: int, leading: float, splits: bool) -> bool:
        rooms = [self.room, *(one.bottom - one.top for one in self._frames[self._at + 1 :])]
        held = [int(room / leading) for room in rooms]
        return sum(one for one in held if one > 1) >= lines if splits else max(held) >= lines

    def _set(
        self,
        kind: str,
        text: str,
        lines: Sequence[SetLine],
        size: float,
        leading: float,
        splits: bool,
    ) -> None:
        parts: list[Part] = []
        left, first = list(lines), True
        while left:
            held = int(self.room / leading)
            if held < min(2, len(left)) or (not splits and held < len(left)):
                self.go_on()
                continue
            here, left = left[:held], left[held:]
            boxes = []
            for line in here:
                shift = self.style.indent if first else 0.0
                wide = None if line.last or not self.style.justified else self.frame.wide - shift
                boxes.append(self._line(line, self.frame.x + shift, size, leading, wide))
                first = False
            parts.append(part(joined(here), boxes))
        self.sheet.add(TrueBlock(kind, text, tuple(parts)))
        self.y += self.style.between

    def _line(
        self, line: SetLine, x: float, size: float, leading: float, wide: float | None = None
    ) -> tuple[float, float, float, float]:
        base = self.y + (leading - size) / 2 + ASCENT * size
        self.y += leading
        return self.sheet.line_of(line, x, base, size, wide, self.style.ink)

    def heading(self, text: str, level: int) -> bool:
        """A title (1), section (2) or subsection (3), if three lines go below it too."""
        style = self.style
        size = style.size * style.heads[level - 1]
        bold = level != 2 or style.sections_bold
        font = style.head.bold if bold else style.head.regular
        leading = size * 1.18
        lines = lines_of(words_of(text, font), size, self.frame.wide)
        before = 0.0 if self.is_at_top else size * 0.7
        if not self.needs(before + len(lines) * leading + 3.2 * style.leading):
            return False
        self.y += 0.0 if self.is_at_top else before
        centred = style.centred_heads and level < 3
        boxes = [self._line(line, self._start(line, centred), size, leading) for line in lines]
        self.y += size * 0.35
        kind = TITLE if level == 1 else HEADING
        self.sheet.add(TrueBlock(kind, text, (part(text, boxes),), level=level))
        return True

    def _start(self, line: SetLine, centred: bool) -> float:
        return self.frame.x + ((self.frame.wide - line.natural) / 2 if centred else 0.0)

    def caption(self, kind: str, text: str, label: str, centred: bool = False) -> None:
        """A caption whose first words, the label, are bold."""
        style = self.style
        words: list[Word] = [
            *words_of(label, style.body.bold),
            *words_of(text, style.body.regular),
        ]
        self.small(kind, words, style.small, centred)

    def small(self, kind: str, words: Sequence[Word], size: float, centred: bool = False) -> None:
        """A block that is set solid and never split, as notes and captions are."""
        leading = size * 1.2
        lines = lines_of(words, size, self.frame.wide)
        centred = centred and len(lines) == 1
        boxes = [self._line(line, self._start(line, centred), size, leading) for line in lines]
        text = " ".join(word for word, _ in words)
        self.sheet.add(TrueBlock(kind, text, (part(text, boxes),)))

    def list(self, items: Sequence[Item]) -> bool:
        """A list as a whole, in one column."""
        style = self.style
        step = style.size * 1.9
        placed = []
        for item in items:
            shift = step * (item.depth + 0.3)
            hang = max(step * 0.75, width(item.marker + " ", style.body.regular, style.size))
            words = words_of(item.text, style.body.regular)
            lines = lines_of(words, style.size, self.frame.wide - shift - hang)
            placed.append((item, shift, hang, lines))
        if not self.needs(sum(len(lines) for *_, lines in placed) * style.leading + style.size):
            return False
        self.y += style.size * 0.4
        boxes = []
        for item, shift, hang, lines in placed:
            x = self.frame.x + shift
            base = self.y + (style.leading - style.size) / 2 + ASCENT * style.size
            font, ink = style.body.regular, style.ink
            boxes.append(self.sheet.text(item.marker, x, base, font, style.size, ink))
            boxes += [self._line(line, x + hang, style.size, style.leading) for line in lines]
        text = " ".join(f"{item.marker} {item.text}" for item in items)
        self.sheet.add(TrueBlock(LIST, text, (part(text, boxes),), items=tuple(items)))
        self.y += style.size * 0.5
        return True

    def skip(self, high: float) -> None:
        self.y = min(self.frame.bottom, self.y + high)


def inked(style: Style, ink: Colour) -> Style:
    return replace(style, ink=ink)
