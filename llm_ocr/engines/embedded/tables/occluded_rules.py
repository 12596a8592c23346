"""Rules across that words hide: a word's rectangle is often higher than the space between rules."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from llm_ocr.engines.embedded.models import Array
from llm_ocr.engines.embedded.tables.rules import SHORTEST_ACROSS, Rules, RulingLine

# In heights of a word: how far pieces of one rule may be apart, and ends from a rule down; and how
# far from a word's rectangle what is hidden behind it.
SAME, NEAR, AROUND = 0.25, 0.35, 0.15
# A piece of which words cover more than this may be strokes of theirs.
COVERED = 0.5
_DOWN = np.array([0, -1, 0, 1], dtype=np.float32)


def occluded_rules(rules: Rules, height: float) -> Rules:
    """Rules whose pieces across go on behind letters: from one piece to the next, and to the next
    rule down. `height` is that of a usual word."""
    boxes = np.array(rules.letters, dtype=np.float32).reshape(-1, 4)
    across: list[RulingLine] = []
    for pieces in _together(rules.across, boxes, height):
        whole = replace(pieces[0], end=max(piece.end for piece in pieces))
        is_seen = any(_hidden_part(piece, boxes) < COVERED * piece.length for piece in pieces)
        across += [_extend(whole, rules.down, boxes, height)] if is_seen else pieces
    return replace(rules, across=tuple(across))


def _together(rules: Iterable[RulingLine], words: Array, height: float) -> list[list[RulingLine]]:
    """Pieces of one rule each, from left to right."""
    found: list[list[RulingLine]] = []
    for rule in sorted(rules, key=lambda rule: rule.start):
        home = next((one for one in found if _goes_on(one[-1], rule, words, height)), None)
        if home is None:
            found.insert(0, [rule])
        else:
            home.append(rule)
    return found


def _goes_on(before: RulingLine, rule: RulingLine, words: Array, height: float) -> bool:
    if abs(before.at - rule.at) > SAME * height:
        return False
    return _is_hidden(RulingLine(rule.at, before.end, rule.start), words, height)


def _extend(
    rule: RulingLine, down: Iterable[RulingLine], words: Array, height: float
) -> RulingLine:
    near = NEAR * height
    lines = [one.at for one in down if one.start - near < rule.at < one.end + near]
    left = max((x for x in lines if x < rule.start + near), default=rule.start)
    right = min((x for x in lines if x > rule.end - near), default=rule.end)
    if left < rule.start - near and _is_hidden(
        RulingLine(rule.at, left, rule.start), words, height
    ):
        rule = replace(rule, start=left)
    if right > rule.end + near and _is_hidden(RulingLine(rule.at, rule.end, right), words, height):
        rule = replace(rule, end=right)
    return rule


def _is_hidden(stretch: RulingLine, words: Array, height: float) -> bool:
    """Whether words lie on a stretch, and what they leave of it is too short to be seen."""
    hidden = _hidden_part(stretch, words + AROUND * height * _DOWN)
    return hidden > 0 and stretch.length - hidden < SHORTEST_ACROSS * height


def _hidden_part(stretch: RulingLine, words: Array) -> float:
    """How much of a stretch words lie on, in pixels."""
    over = (words[:, 1] < stretch.at) & (stretch.at < words[:, 3])
    ends, starts = (
        np.minimum(words[over, 2], stretch.end),
        np.maximum(words[over, 0], stretch.start),
    )
    return float(np.clip(ends - starts, 0, None).sum())
