"""Rules across that words hide: a word's rectangle is often higher than the space between rules."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from llm_ocr.engines.embedded.models import Array
from llm_ocr.engines.embedded.tables.rules import SHORTEST_ACROSS, Rule, Rules

# In heights of a word: how far pieces of one rule may be apart, and ends from a rule down; and how
# far from a word's rectangle what is hidden behind it.
SAME, NEAR, AROUND = 0.25, 0.35, 0.15
# A piece of which words cover more than this may be strokes of theirs.
COVERED = 0.5
_DOWN = np.array([0, -1, 0, 1], dtype=np.float32)


def behind_words(rules: Rules, height: float) -> Rules:
    """Rules whose pieces across go on behind letters: from one piece to the next, and to the next
    rule down. `height` is that of a usual word."""
    boxes = np.array(rules.letters, dtype=np.float32).reshape(-1, 4)
    across: list[Rule] = []
    for pieces in _together(rules.across, boxes, height):
        whole = replace(pieces[0], end=max(piece.end for piece in pieces))
        is_seen = any(_hidden(piece, boxes) < COVERED * piece.length for piece in pieces)
        across += [_extended(whole, rules.down, boxes, height)] if is_seen else pieces
    return replace(rules, across=tuple(across))


def _together(rules: Iterable[Rule], words: Array, height: float) -> list[list[Rule]]:
    """Pieces of one rule each, from left to right."""
    found: list[list[Rule]] = []
    for rule in sorted(rules, key=lambda rule: rule.start):
        home = next((one for one in found if _goes_on(one[-1], rule, words, height)), None)
        if home is None:
            found.insert(0, [rule])
        else:
            home.append(rule)
    return found


def _goes_on(before: Rule, rule: Rule, words: Array, height: float) -> bool:
    if abs(before.at - rule.at) > SAME * height:
        return False
    return _is_hidden(Rule(rule.at, before.end, rule.start), words, height)


def _extended(rule: Rule, down: Iterable[Rule], words: Array, height: float) -> Rule:
    near = NEAR * height
    lines = [one.at for one in down if one.start - near < rule.at < one.end + near]
    left = max((x for x in lines if x < rule.start + near), default=rule.start)
    right = min((x for x in lines if x > rule.end - near), default=rule.end)
    if left < rule.start - near and _is_hidden(Rule(rule.at, left, rule.start), words, height):
        rule = replace(rule, start=left)
    if right > rule.end + near and _is_hidden(Rule(rule.at, rule.end, right), words, height):
        rule = replace(rule, end=right)
    return rule


def _is_hidden(stretch: Rule, words: Array, height: float) -> bool:
    """Whether words lie on a stretch, and what they leave of it is too short to be seen."""
    hidden = _hidden(stretch, words + AROUND * height * _DOWN)
    return hidden > 0 and stretch.length - hidden < SHORTEST_ACROSS * height


def _hidden(stretch: Rule, words: Array) -> float:
    """How much of a stretch words lie on, in pixels."""
    over = (words[:, 1] < stretch.at) & (stretch.at < words[:, 3])
    ends, starts = (
        np.minimum(words[over, 2], stretch.end),
        np.maximum(words[over, 0], stretch.start),
    )
    return float(np.clip(ends - starts, 0, None).sum())
