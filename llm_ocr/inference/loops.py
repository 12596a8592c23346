"""Find repetition loops in an answer: what a model writes over and over when it is stuck.

The text becomes a string with one character per token, in which all numbers are the same. Distances
between equal parts propose periods. For each period the longest repetition is found, and is a loop
if it is longer than documents repeat themselves: a few times for a sentence of prose, dozens of
times for a form's row, hundreds of times for empty cells. Numbers that differ without a rule are
content, so such a repetition is no loop. Where a loop drifts too far for any period, prose of very
few words reveals it. Blocks with the same box are found by the box alone: no page has the same
figure five times in one place.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_ocr.inference.tokens import NUMBER, Tokens, tokenize

_BLANK = re.compile(r"\s{200,}")
_SAME = re.compile(r"(.{1,12}?)\1{14,}+", re.DOTALL)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>?|&[a-z]+;?")
_COUNTED_NAME = re.compile(r"image_\d+")
_TABLE = re.compile(r"</?(?:td|tr|th|table)\b|(?<!<)\|(?!>)", re.IGNORECASE)
# The same mark in a row, where the answer ended by itself and where it was cut: a line of dots
# across a page has up to 180, generated ones in the tests have 120. At half of these they still
# pass; at twice these, so does an answer of 700 underscores.
MAX_REPEATED_MARKS = (400, 250)
# Where a block begins in the formats that have boxes: the tags of DeepSeek-OCR, Unlimited-OCR and
# MinerU, JSON, HTML, LightOnOCR.
_BOXED_BLOCK = re.compile(
    r"<\|ref\|>(?:(?!<\|).)*<\|/ref\|>\s*<\|det\|>|<\|det\|>\s*[A-Za-z][\w \-]*\["
    r"|\{\s*\"bbox(?:_2d)?\"\s*:"
    r"|<\|box_start\|>|<[a-zA-Z][^<>]*\bdata-bbox\s*=|!\[[^\]\n]*\]\((?:\s*\d+\s*,|[^)\n]*\)\s*\d)",
    re.DOTALL,
)
# How many blocks with one box are a loop (recorded answers have one), and how many boxes may
# alternate.
MIN_SAME_BOX, MAX_ALTERNATING_BOXES = 5, 4
# Lengths in tokens of the parts whose distances propose periods, and how many periods are tried
# per length.
PART_LENGTHS = (3, 10, 36)
MAX_PROPOSALS = 6
# A token that does not match costs this many that do: random variations don't end a repetition.
MISMATCH_COST = 9
# The share of a loop's periods that must be exact: a cell that differs in each row is content.
MIN_EXACT_SHARE = 0.6
# What a server stops: patterns of a few tokens, many times.
MAX_STOPPED_PERIOD = 200
MIN_STOPPED_COUNT = 12
# Characters that may follow a loop that runs to the answer's end.
MAX_TAIL = 60
# Prose of few words: the words counted together, and the share of them that must be distinct.
DIVERSITY_WINDOW = 240
MIN_DISTINCT_SHARE = 0.14


@dataclass(frozen=True)
class Loop:
    """A repetition. `text[:start]` is worth keeping: it ends with the pattern's first occurrence.

    `period` is the pattern's length in characters, `count` how often it occurs. `has_words` is
    whether words or numbers repeat: then the page's text layer can tell whether they are on the
    page.
    """

    start: int
    period: int
    count: float
    kind: str
    has_words: bool = True


@dataclass(frozen=True)
class _Repetition:
    """Tokens `first` to `last` (excluded) equal those `period` tokens before them."""

    first: int
    last: int
    period: int


def find_loop(
    text: str, finish_reason: str | None = None, *, without_words: bool = False
) -> Loop | None:
    """The first loop in an answer, or None; `without_words`: only loops that repeat no word.

    Where the token limit ("length") or the server ("repetition") ended the answer in the middle of
    a repetition, fewer periods make a loop than where the answer ended by itself.
    """
    is_cut = finish_reason in ("length", "repetition")
    tokens = tokenize(text)
    found = [
        _find_blank(text, is_cut),
        _find_repeated_characters(text, is_cut),
        _find_same_boxes(text),
    ]
    if finish_reason == "repetition":
        found.append(_find_at_end(text))
    for repetition in _find_repetitions(tokens):
        found.append(_as_loop(repetition, tokens, text, is_cut))
    found.append(_find_low_diversity(tokens, text, is_cut))
    loops = [loop for loop in found if loop and not (without_words and loop.has_words)]
    return min(loops, key=lambda loop: (loop.start, loop.period)) if loops else None


def _find_same_boxes(text: str) -> Loop | None:
    """The same blocks in the same boxes over and over."""
    starts = [match.start() for match in _BOXED_BLOCK.finditer(text)]
    ends = [*starts[1:], len(text)] if starts else []
    blocks = [
        _COUNTED_NAME.sub("image", text[start:end]).strip(" \t\r\n,{}[]<>")
        for start, end in zip(starts, ends, strict=True)
    ]
    for boxes in range(1, MAX_ALTERNATING_BOXES + 1):
        repeated = 0
        for k in range(boxes, len(blocks)):
            repeated = repeated + 1 if _is_repeated(blocks, k, boxes) else 0
            if repeated >= (MIN_SAME_BOX - 1) * boxes:
                first = k - repeated - boxes + 1
                return _same_boxes_loop(starts, ends, blocks, first, boxes)
    return None


def _is_repeated(blocks: Sequence[str], k: int, boxes: int) -> bool:
    """Whether block `k` equals the one `boxes` before it; the last may be followed by text without
    a box."""
    block, before = blocks[k], blocks[k - boxes]
    return block == before or (k == len(blocks) - 1 and block.startswith(before))


def _same_boxes_loop(
    starts: Sequence[int], ends: Sequence[int], blocks: Sequence[str], first: int, boxes: int
) -> Loop:
    last = first + boxes
    while last < len(blocks) and _is_repeated(blocks, last, boxes):
        last += 1
    period = starts[first + boxes] - starts[first]
    return Loop(ends[first + boxes - 1], period, (last - first) / boxes, "same box", False)


def _find_repetitions(tokens: Tokens) -> Iterator[_Repetition]:
    """The longest repetition of each period that the text proposes."""
    codes, tried = tokens.codes, set[int]()
    for length in PART_LENGTHS:
        last: dict[str, int] = {}
        distances: Counter[int] = Counter()
        for k in range(len(codes) - length + 1):
            part = codes[k : k + length]
            before = last.get(part)
            if before is not None:
                distances[k - before] += 1
            last[part] = k
        for period, count in distances.most_common(MAX_PROPOSALS):
            if period not in tried and count >= length:
                tried.add(period)
                yield _longest_repetition(codes, period)


def _longest_repetition(codes: str, period: int) -> _Repetition:
    """The part with the most tokens that equal those `period` before them, and few that don't."""
    best = score = 0
    begin = first = last = period
    for k, (code, before) in enumerate(zip(codes[period:], codes, strict=False), period):
        if code == before:
            score += 1
            if score > best:
                best, first, last = score, begin, k + 1
        else:
            score -= MISMATCH_COST
            if score <= 0:
                score, begin = 0, k + 1
    return _Repetition(first, last, period)


@dataclass(frozen=True)
class _Pattern:
    """What repeats: `letters` in words per period; `numbers` are "none", "same", "counted" (they
    grow by a rule) or "free"; `size` and `length` are the characters of one period and of all."""

    count: float
    letters: int
    numbers: str
    in_table: bool
    has_filler: bool
    exact: float
    size: float
    length: int


def _as_loop(repetition: _Repetition, tokens: Tokens, text: str, is_cut: bool) -> Loop | None:
    if repetition.last <= repetition.first:
        return None
    begin, end = (
        tokens.starts[repetition.first - repetition.period],
        tokens.ends[repetition.last - 1],
    )
    count = (repetition.last - repetition.first) / repetition.period + 1
    size = (end - begin) / count
    period = range(repetition.first - repetition.period, repetition.first)
    sample = text[begin : tokens.starts[repetition.first]]
    pattern = _Pattern(
        count=count,
        letters=sum(tokens.letters[k] for k in period),
        numbers=_classify_numbers(repetition, tokens),
        in_table=bool(_TABLE.search(sample)),
        has_filler=any(tokens.kinds[k] == "filler" for k in period),
        exact=_exact_share(repetition, tokens.codes),
        size=size,
        length=end - begin,
    )
    runs_out = len(text.rstrip()) - end <= max(MAX_TAIL, 1.5 * size)
    if not _is_loop(pattern, len(text), is_cut and runs_out):
        return None
    has_words = bool(pattern.letters) or pattern.numbers != "none"
    return Loop(tokens.starts[repetition.first], round(size), count, _kind(pattern), has_words)


def _kind(pattern: _Pattern) -> str:
    if pattern.numbers == "counted":
        return "numbered"
    if pattern.in_table:
        return "rows"
    return "exact" if pattern.exact == 1.0 else "drifting"


def _classify_numbers(repetition: _Repetition, tokens: Tokens) -> str:
    """Whether the repetition's numbers are always the same, grow by a rule, or are content."""
    positions = [k for k in range(repetition.first, repetition.last) if tokens.codes[k] == NUMBER]
    if not positions:
        return "none"
    steps = {k: tokens.values[k] - tokens.values[k - repetition.period] for k in positions}
    moves = {k: step for k, step in steps.items() if step}
    if len(moves) <= 0.02 * len(positions):
        return "same"
    ruled = sum(step == steps.get(k - repetition.period, step) for k, step in moves.items())
    return "counted" if ruled >= 0.7 * len(moves) else "free"


def _exact_share(repetition: _Repetition, codes: str) -> float:
    """The share of periods that equal the one before."""
    period = repetition.period
    starts = range(repetition.first - period, repetition.last - period + 1, period)
    pairs = len(starts) - 1
    same = sum(codes[a : a + period] == codes[b : b + period] for a, b in pairwise(starts))
    return same / pairs if pairs > 0 else 1.0


def _is_loop(pattern: _Pattern, text_length: int, runs_out: bool) -> bool:
    """Whether it repeats more often than a document would; `runs_out`: it runs to the end of a cut
    answer."""
    if not pattern.letters:
        return _is_empty_loop(pattern, text_length, runs_out)
    is_prose = not pattern.in_table and not pattern.has_filler
    if pattern.exact < MIN_EXACT_SHARE and not (is_prose and pattern.letters >= 60):
        return False
    if pattern.numbers == "free":
        # Rows of a ledger or a form: the same words, other numbers.
        return runs_out and is_prose and pattern.letters >= 40 and pattern.count >= 10
    return pattern.count >= _max_count(pattern, is_prose)[runs_out]


def _max_count(pattern: _Pattern, is_prose: bool) -> tuple[float, float]:
    """How often a document may repeat it: in an answer that ended by itself, and in a cut one."""
    letters = pattern.letters
    if pattern.in_table:
        if letters < 12:
            return 250, 60
        if letters < 200:
            return (60, 14) if letters < 60 else (40, 10)
        return 12, 4
    if not is_prose:
        return 60, 25
    if pattern.numbers == "counted" and letters < 40:
        return 45, 20
    if letters < 12:
        return 60, 25
    if letters < 40:
        return 20, 9
    return (9, 5) if letters < 120 else (6, 3)


def _is_empty_loop(pattern: _Pattern, text_length: int, runs_out: bool) -> bool:
    """Whether cells, dots and numbers without a word are a loop: forms and tables have many."""
    if pattern.exact < MIN_EXACT_SHARE or pattern.numbers == "free":
        return False
    if pattern.numbers == "counted":
        return pattern.count >= (50 if runs_out else 160)
    if runs_out:
        return pattern.count >= 40 and pattern.length >= 700
    if pattern.in_table:
        return pattern.count >= 100 and pattern.length >= max(5000, 0.5 * text_length)
    if pattern.numbers == "same" and pattern.size >= 8:
        return pattern.count >= 80
    return pattern.count >= 450 and pattern.length >= 900


def _find_at_end(text: str) -> Loop | None:
    """The shortest pattern that the text ends with: what made the server stop it."""
    for period in range(1, min(MAX_STOPPED_PERIOD, len(text) // MIN_STOPPED_COUNT) + 1):
        pattern = text[-period:]
        start = len(text)
        while text.endswith(pattern, 0, start):
            start -= period
        count = (len(text) - start) // period
        if count >= MIN_STOPPED_COUNT:
            return Loop(start + period, period, count, "exact")
    return None


def _find_blank(text: str, is_cut: bool) -> Loop | None:
    for match in _BLANK.finditer(text):
        length = match.end() - match.start()
        if length >= (200 if is_cut and match.end() == len(text) else 600):
            return Loop(match.start(), 1, length, "blank", has_words=False)
    return None


def _find_repeated_characters(text: str, is_cut: bool) -> Loop | None:
    """A few characters over and over without a break, as in 0000… or hahaha…"""
    for match in _SAME.finditer(text):
        length, period = match.end() - match.start(), len(match[1])
        if not match.group().strip():
            continue
        runs_out = is_cut and len(text.rstrip()) - match.end() <= MAX_TAIL
        if length < _max_characters(match[1], runs_out):
            continue
        has_words = _has_words(match[1])
        return Loop(match.start() + period, period, length / period, "exact", has_words)
    return None


def _has_words(pattern: str) -> bool:
    return any(char.isalnum() for char in _MARKUP.sub("", pattern))


def _max_characters(pattern: str, runs_out: bool) -> int:
    """How long a document's lines of dots or dashes, empty cells or words without spaces may be."""
    if _TABLE.search(pattern):
        return 700 if runs_out else 5000
    if not any(char.isalnum() for char in pattern):
        if len(set(pattern)) == 1:
            return MAX_REPEATED_MARKS[runs_out]
        return 600 if runs_out else 1000
    return 150 if runs_out else 400


def _find_low_diversity(tokens: Tokens, text: str, is_cut: bool) -> Loop | None:
    """Prose that repeats the same few words without a period."""
    words = [k for k, kind in enumerate(tokens.kinds) if kind == "word" and tokens.letters[k] > 1]
    window: deque[int] = deque()
    counts: Counter[str] = Counter()
    for index in words:
        window.append(index)
        counts[tokens.codes[index]] += 1
        if len(window) <= DIVERSITY_WINDOW:
            continue
        oldest = tokens.codes[window.popleft()]
        counts[oldest] -= 1
        if not counts[oldest]:
            del counts[oldest]
        if len(counts) <= MIN_DISTINCT_SHARE * DIVERSITY_WINDOW and _is_prose(
            window, tokens, is_cut
        ):
            start = tokens.starts[window[min(len(counts) * 2, len(window) - 1)]]
            size = (tokens.ends[window[-1]] - tokens.starts[window[0]]) / len(window)
            return Loop(start, round(size), len(window), "few words")
    return None


def _is_prose(window: Sequence[int], tokens: Tokens, is_cut: bool) -> bool:
    """Whether the words follow each other, unlike cells, lines of a form, or numbers."""
    span = window[-1] - window[0] + 1
    return len(window) >= (0.7 if is_cut else 0.8) * span
