"""Decide which pages the embedded engine reads instead of a model on a GPU.

Such a page is born digital, its text layer is trusted, and its layout is simple: text alone, in one
or two columns. The layer is judged before the engine is asked, the layout by what it reads.
"""

from collections.abc import Sequence

from llm_ocr.inference.model_item import ModelResult
from llm_ocr.records import (
    CAPTION_LABELS,
    FIGURE_LABELS,
    FURNITURE_LABELS,
    Block,
    Box,
    TextLayer,
)

# The share of mathematical signs from which on a line is a formula: LaTeX in a model's answer, and
# plain text in the embedded engine's. On 79 pages of papers, textbooks, forms and reports, lines of
# pages with formulas have up to 0.08 and more, those of all others at most 0.03; at half of this,
# "CI = confidence interval" is a formula, at twice this one of five pages with formulas has none.
MAX_SIGN_SHARE = 0.05
_MATH_SIGNS = frozenset("=≈≠≤≥≡∝±×÷∂∇∫∑∏√∞∈∉⊂⊆∪∩∀∃→⇒↦⟨⟩‖αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ")
MAX_COLUMNS = 2
# Labels of blocks that make a layout complex: tables, figures, and what belongs to them.
_COMPLEX_LABELS = frozenset({"table"}) | FIGURE_LABELS | CAPTION_LABELS


def has_simple_text(layer: TextLayer) -> bool:
    """Whether the layer is the page's own, trusted text, without formulas."""
    return layer.is_own and not any(map(_is_formula, layer.text.splitlines()))


def has_simple_layout(result: ModelResult) -> bool:
    """Whether the embedded engine used the text layer, left no doubt, and found text alone."""
    metadata = result.metadata
    if metadata is None or not metadata.is_layer_used or metadata.rotation or metadata.unread_share:
        return False
    blocks = result.parsed.blocks
    text = [block for block in blocks if block.label not in FURNITURE_LABELS]
    is_text_alone = not any(block.label in _COMPLEX_LABELS for block in blocks)
    return result.assessment.is_good and is_text_alone and _column_count(text) <= MAX_COLUMNS


def _is_formula(line: str) -> bool:
    characters = [one for one in line if not one.isspace()]
    signs = sum(one in _MATH_SIGNS for one in characters)
    return signs > MAX_SIGN_SHARE * len(characters)


def _column_count(blocks: Sequence[Block]) -> int:
    """The most blocks that stand side by side."""
    boxes = [block.box for block in blocks if block.box is not None]
    return max((_count_beside(box, boxes) for box in boxes), default=0)


def _count_beside(box: Box, boxes: Sequence[Box]) -> int:
    """How many boxes a horizontal line through the middle of `box` crosses."""
    middle = (box.y1 + box.y2) / 2
    return sum(other.y1 <= middle <= other.y2 for other in boxes)
