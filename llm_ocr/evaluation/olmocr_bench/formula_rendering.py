"""Render formulas with matplotlib's mathtext and compare their glyphs. Requires matplotlib."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.mathtext import MathTextParser

# Points at a font size of 10: glyphs on one line differ by less.
SAME_HEIGHT = 0.6
DPI = 72
# Commands without a visible effect, and commands that mathtext knows by another name.
_INVISIBLE = re.compile(
    r"\\(?:displaystyle|textstyle|limits|nolimits|nonumber|notag|tag\*?\{[^{}]*\}|label\{[^{}]*\})"
)
_SYNONYMS = {
    r"\dfrac": r"\frac",
    r"\tfrac": r"\frac",
    r"\lvert": "|",
    r"\rvert": "|",
    r"\lVert": r"\Vert",
    r"\rVert": r"\Vert",
    r"\implies": r"\Longrightarrow",
    r"\iff": r"\Longleftrightarrow",
    r"\bold": r"\mathbf",
    r"\pmb": r"\mathbf",
    r"\mathbfit": r"\mathbf",
    r"\big": "",
    r"\Big": "",
    r"\bigg": "",
    r"\Bigg": "",
    r"\bigl": "",
    r"\bigr": "",
    r"\Bigl": "",
    r"\Bigr": "",
}
_COMMAND = re.compile(r"\\[a-zA-Z]+")
# Glyphs that grow with their content.
_STRETCHABLE = frozenset("()[]{}|‖⟨⟩⌈⌉⌊⌋√∑∏∫")


class CannotRenderError(Exception):
    """A formula that mathtext can't render."""


@dataclass(frozen=True)
class MathGlyph:
    """A character, its size, and its height above the baseline; the size is 0 if it grows with its
    content. The rule of a fraction or root is "—"."""

    character: str
    size: float
    height: float


@lru_cache(maxsize=2_000)
def render_formula(formula: str) -> tuple[MathGlyph, ...]:
    """The glyphs of a LaTeX formula, left to right, then top down. Raises CannotRenderError."""
    source = _COMMAND.sub(lambda name: _SYNONYMS.get(name[0], name[0]), _INVISIBLE.sub("", formula))
    try:
        picture = MathTextParser("path").parse(f"${' '.join(source.split())}$", dpi=DPI)
    except (ValueError, RuntimeError, KeyError, IndexError) as error:
        raise CannotRenderError(f"{formula}: {str(error).splitlines()[-1:]}") from error
    glyphs = [
        (float(x), float(y), _base_character(code), size)
        for _, size, code, _, x, y in _glyphs(picture)
    ]
    rules = [(float(x), float(y), "—", 0.0) for x, y, _, _ in picture.rects]
    found = sorted(
        (x, -y, character, size) for x, y, character, size in glyphs + rules if character.strip()
    )
    return tuple(
        MathGlyph(character, 0.0 if character in _STRETCHABLE else round(size, 1), -below)
        for _, below, character, size in found
    )


def _glyphs(picture: object) -> list[tuple[object, float, int, object, float, float]]:
    """Font, size, code point, glyph index, x, y; old versions of matplotlib have no glyph index."""
    found = []
    for glyph in picture.glyphs:  # type: ignore[attr-defined]
        font, size, code, *rest, x, y = glyph
        found.append((font, size, code, rest, x, y))
    return found


def _base_character(code: int) -> str:
    """Bold, italic and double-struck letters become plain ones."""
    return unicodedata.normalize("NFKC", chr(code))


def contains(formula: tuple[MathGlyph, ...], part: tuple[MathGlyph, ...]) -> bool:
    """Whether `formula` contains `part`: the same glyphs in a row, with the same sizes and relative
    heights."""
    length = len(part)
    return any(_is_same(formula[k : k + length], part) for k in range(len(formula) - length + 1))


def _is_same(glyphs: tuple[MathGlyph, ...], others: tuple[MathGlyph, ...]) -> bool:
    shift: float | None = None
    for glyph, other in zip(glyphs, others, strict=True):
        if (glyph.character, glyph.size) != (other.character, other.size):
            return False
        if not glyph.size:
            continue
        shift = glyph.height - other.height if shift is None else shift
        if abs(glyph.height - other.height - shift) > SAME_HEIGHT:
            return False
    return True
