"""Formulas set by matplotlib's mathtext, as signs with their places. Needs matplotlib."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.mathtext import MathTextParser

# Points at a font size of 10: signs on one line differ less.
SAME_HEIGHT = 0.6
DPI = 72
# What says nothing to the eye, or what mathtext knows by another name.
_NOTHING = re.compile(
    r"\\(?:displaystyle|textstyle|limits|nolimits|nonumber|notag|tag\*?\{[^{}]*\}|label\{[^{}]*\})"
)
_NAMES = {
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
_NAME = re.compile(r"\\[a-zA-Z]+")
# They grow with what they hold.
_ELASTIC = frozenset("()[]{}|‖⟨⟩⌈⌉⌊⌋√∑∏∫")


class CannotDrawError(Exception):
    """A formula that mathtext doesn't know how to set."""


@dataclass(frozen=True)
class Sign:
    """A letter or sign, its size, and how high it stands; size 0 for what grows with its content,
    which has no height of its own. A stroke (of a fraction, a root) is "—"."""

    sign: str
    size: float
    height: float


@lru_cache(maxsize=2_000)
def drawn(formula: str) -> tuple[Sign, ...]:
    """The signs of a LaTeX formula, from left to right and from above. Raises CannotDrawError."""
    source = _NAME.sub(lambda name: _NAMES.get(name[0], name[0]), _NOTHING.sub("", formula))
    try:
        picture = MathTextParser("path").parse(f"${' '.join(source.split())}$", dpi=DPI)
    except (ValueError, RuntimeError, KeyError, IndexError) as error:
        raise CannotDrawError(f"{formula}: {str(error).splitlines()[-1:]}") from error
    signs = [(float(x), float(y), _sign(code), size) for _, size, code, _, x, y in _glyphs(picture)]
    strokes = [(float(x), float(y), "—", 0.0) for x, y, _, _ in picture.rects]
    found = sorted((x, -y, sign, size) for x, y, sign, size in signs + strokes if sign.strip())
    return tuple(
        Sign(sign, 0.0 if sign in _ELASTIC else round(size, 1), -below)
        for _, below, sign, size in found
    )


def _glyphs(picture: object) -> list[tuple[object, float, int, object, float, float]]:
    """Font, size, code point, glyph, x, y; some versions give no glyph."""
    found = []
    for glyph in picture.glyphs:  # type: ignore[attr-defined]
        font, size, code, *rest, x, y = glyph
        found.append((font, size, code, rest, x, y))
    return found


def _sign(code: int) -> str:
    """Bold, italic and double-struck letters are the letters."""
    return unicodedata.normalize("NFKC", chr(code))


def holds(formula: tuple[Sign, ...], part: tuple[Sign, ...]) -> bool:
    """Whether `part` stands in `formula`: the same signs, next to each other, of the same sizes and
    heights beside each other."""
    length = len(part)
    return any(_same(formula[k : k + length], part) for k in range(len(formula) - length + 1))


def _same(some: tuple[Sign, ...], others: tuple[Sign, ...]) -> bool:
    shift: float | None = None
    for one, other in zip(some, others, strict=True):
        if (one.sign, one.size) != (other.sign, other.size):
            return False
        if not one.size:
            continue
        shift = one.height - other.height if shift is None else shift
        if abs(one.height - other.height - shift) > SAME_HEIGHT:
            return False
    return True
