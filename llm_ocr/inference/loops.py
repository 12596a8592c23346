"""Repetition loops in an answer: what a model writes again and again when it has lost its way.

The text becomes a string with one character a token, in which numbers are all alike. Distances
between equal stretches propose periods; for each, the longest stretch that repeats at it is found,
and is a loop if it goes on longer than documents do: a prose sentence a few times, a form's row
dozens of times, empty cells by the hundred. Numbers that differ without rule are information, and
acquit. Where loops drift too far for any period, prose of very few words tells them. A block at the
very place of the one before is told by its place alone: no page has the same figure five times in
one box.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_ocr.inference.tokens import NUMBER, Tokens, tokens_of

_BLANK = re.compile(r"\s{200,}")
_SAME = re.compile(r"(.{1,12}?)\1{14,}+", re.DOTALL)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>?|&[a-z]+;?")
_COUNTED_NAME = re.compile(r"image_\d+")
_TABLE = re.compile(r"</?(?:td|tr|th|table)\b|(?<!<)\|(?!>)", re.IGNORECASE)
# One sign in a row, where the answer ended by itself and where it was cut: a line of dots across a
# page has up to 180, made ones of the tests have 120. At half of these they still pass, at twice
# these an answer of 700 underscores does.
MOST_SIGNS = (400, 250)
# Where a block begins in the grammars that say places: DeepSeek-OCR's tags, JSON, HTML, LightOnOCR.
_PLACED = re.compile(
    r"<\|ref\|>(?:(?!<\|).)*<\|/ref\|>\s*<\|det\|>|\{\s*\"bbox(?:_2d)?\"\s*:"
    r"|<[a-zA-Z][^<>]*\bdata-bbox\s*=|!\[[^\]\n]*\]\([^)\n]*\)\s*\d",
    re.DOTALL,
)
# Blocks in one place that are a loop (recorded answers have one), and how many may take turns.
SAME_PLACE, TURNS = 5, 4
# Stretches by whose repetition periods are proposed, in tokens, and how many periods are tried.
STRETCHES = (3, 10, 36)
PROPOSALS = 6
# A token that does not match costs this many that do: chance variations don't end a stretch.
MISMATCH = 9
# The share of a loop's periods that must be exact: a cell that differs in each row is content.
EXACT_PERIODS = 0.6
# What a server stops: patterns of a few tokens, many times.
LONGEST_STOPPED = 200
STOPPED_TIMES = 12
# What is left behind a loop that ran to the answer's end.
TAIL = 60
# Prose of few words: words looked at together, and how many of them may be different ones.
SALAD_WORDS = 240
SALAD_DISTINCT = 0.14


@dataclass(frozen=True)
class Loop:
    """`text[:start]` is worth keeping: it ends with the pattern's first occurrence.

    `period` is the pattern's length in characters, `count` how often it stands there. `has_words`
    is whether words or numbers repeat: then the page's own text can tell whether they do there.
    """

    start: int
    period: int
    count: float
    kind: str
    has_words: bool = True


@dataclass(frozen=True)
class _Run:
    """Tokens `first` to `last` (excluded) equal those `period` tokens before them."""

    first: int
    last: int
    period: int


def find_loop(
    text: str, finish_reason: str | None = None, *, without_words: bool = False
) -> Loop | None:
    """The loop in an answer, or None; `without_words`: only such as repeat no word.

    An answer that the token limit cut ("length") or the server stopped ("repetition") in the
    middle of a repetition is judged by fewer of its periods than one that ended by itself.
    """
    is_cut = finish_reason in ("length", "repetition")
    tokens = tokens_of(text)
    found = [_blank(text, is_cut), _same_characters(text, is_cut), _same_place(text)]
    if finish_reason == "repetition":
        found.append(_stopped(text))
    for run in _runs(tokens):
        found.append(_judged(run, tokens, text, is_cut))
    found.append(_salad(tokens, text, is_cut))
    loops = [loop for loop in found if loop and not (without_words and loop.has_words)]
    return min(loops, key=lambda loop: (loop.start, loop.period)) if loops else None


def _same_place(text: str) -> Loop | None:
    """The same blocks in the same boxes again and again."""
    starts = [match.start() for match in _PLACED.finditer(text)]
    ends = [*starts[1:], len(text)] if starts else []
    blocks = [
        _COUNTED_NAME.sub("image", text[start:end]).strip(" \t\r\n,{}[]<>")
        for start, end in zip(starts, ends, strict=True)
    ]
    for turns in range(1, TURNS + 1):
        run = 0
        for k in range(turns, len(blocks)):
            run = run + 1 if _is_again(blocks, k, turns) else 0
            if run >= (SAME_PLACE - 1) * turns:
                first = k - run - turns + 1
                return _in_place(starts, ends, blocks, first, turns)
    return None


def _is_again(blocks: Sequence[str], k: int, turns: int) -> bool:
    """Whether it is the block `turns` before; text that has no place may stand behind the last."""
    now, before = blocks[k], blocks[k - turns]
    return now == before or (k == len(blocks) - 1 and now.startswith(before))


def _in_place(
    starts: Sequence[int], ends: Sequence[int], blocks: Sequence[str], first: int, turns: int
) -> Loop:
    last = first + turns
    while last < len(blocks) and _is_again(blocks, last, turns):
        last += 1
    period = starts[first + turns] - starts[first]
    return Loop(ends[first + turns - 1], period, (last - first) / turns, "same place", False)


def _runs(tokens: Tokens) -> Iterator[_Run]:
    """The longest repeating stretch of each period that the text proposes."""
    codes, tried = tokens.codes, set[int]()
    for stretch in STRETCHES:
        last: dict[str, int] = {}
        distances: Counter[int] = Counter()
        for k in range(len(codes) - stretch + 1):
            piece = codes[k : k + stretch]
            before = last.get(piece)
            if before is not None:
                distances[k - before] += 1
            last[piece] = k
        for period, times in distances.most_common(PROPOSALS):
            if period not in tried and times >= stretch:
                tried.add(period)
                yield _longest(codes, period)


def _longest(codes: str, period: int) -> _Run:
    """The stretch with the most tokens that equal those `period` before, few others among them."""
    best = score = 0
    begin = first = last = period
    for k, (now, before) in enumerate(zip(codes[period:], codes, strict=False), period):
        if now == before:
            score += 1
            if score > best:
                best, first, last = score, begin, k + 1
        else:
            score -= MISMATCH
            if score <= 0:
                score, begin = 0, k + 1
    return _Run(first, last, period)


@dataclass(frozen=True)
class _Pattern:
    """What repeats, for the rules: `letters` in words a period; `numbers` are "none", "same",
    "counted" (they grow by rule) or "free"; `size` and `length` are characters of a period and of
    all of it."""

    count: float
    letters: int
    numbers: str
    in_table: bool
    has_filler: bool
    exact: float
    size: float
    length: int


def _judged(run: _Run, tokens: Tokens, text: str, is_cut: bool) -> Loop | None:
    if run.last <= run.first:
        return None
    begin, end = tokens.starts[run.first - run.period], tokens.ends[run.last - 1]
    count = (run.last - run.first) / run.period + 1
    size = (end - begin) / count
    period = range(run.first - run.period, run.first)
    sample = text[begin : tokens.starts[run.first]]
    pattern = _Pattern(
        count=count,
        letters=sum(tokens.letters[k] for k in period),
        numbers=_numbers(run, tokens),
        in_table=bool(_TABLE.search(sample)),
        has_filler=any(tokens.kinds[k] == "filler" for k in period),
        exact=_exact(run, tokens.codes),
        size=size,
        length=end - begin,
    )
    runs_out = len(text.rstrip()) - end <= max(TAIL, 1.5 * size)
    if not _is_loop(pattern, len(text), is_cut and runs_out):
        return None
    has_words = bool(pattern.letters) or pattern.numbers != "none"
    return Loop(tokens.starts[run.first], round(size), count, _kind(pattern), has_words)


def _kind(pattern: _Pattern) -> str:
    if pattern.numbers == "counted":
        return "numbered"
    if pattern.in_table:
        return "rows"
    return "exact" if pattern.exact == 1.0 else "drifting"


def _numbers(run: _Run, tokens: Tokens) -> str:
    """Whether the numbers of the run are always the same, grow by rule, or say something."""
    places = [k for k in range(run.first, run.last) if tokens.codes[k] == NUMBER]
    if not places:
        return "none"
    steps = {k: tokens.values[k] - tokens.values[k - run.period] for k in places}
    moves = {k: step for k, step in steps.items() if step}
    if len(moves) <= 0.02 * len(places):
        return "same"
    ruled = sum(step == steps.get(k - run.period, step) for k, step in moves.items())
    return "counted" if ruled >= 0.7 * len(moves) else "free"


def _exact(run: _Run, codes: str) -> float:
    """The share of periods that equal the one before."""
    period = run.period
    starts = range(run.first - period, run.last - period + 1, period)
    pairs = len(starts) - 1
    same = sum(codes[a : a + period] == codes[b : b + period] for a, b in pairwise(starts))
    return same / pairs if pairs > 0 else 1.0


def _is_loop(pattern: _Pattern, text_length: int, runs_out: bool) -> bool:
    """Whether it repeats for longer than a document would; `runs_out`: it ran into a limit."""
    if not pattern.letters:
        return _is_empty_loop(pattern, text_length, runs_out)
    is_prose = not pattern.in_table and not pattern.has_filler
    if pattern.exact < EXACT_PERIODS and not (is_prose and pattern.letters >= 60):
        return False
    if pattern.numbers == "free":
        # Rows of a ledger or a form: the same words, other numbers.
        return runs_out and is_prose and pattern.letters >= 40 and pattern.count >= 10
    return pattern.count >= _most_times(pattern, is_prose)[runs_out]


def _most_times(pattern: _Pattern, is_prose: bool) -> tuple[float, float]:
    """How often a document may say it: in an answer that ended by itself, and in a cut one."""
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
    """Cells, dots and numbers, without a word: forms and tables have many of them."""
    if pattern.exact < EXACT_PERIODS or pattern.numbers == "free":
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


def _stopped(text: str) -> Loop | None:
    """What a server stopped, which ends with it: the shortest pattern that the text ends with."""
    for period in range(1, min(LONGEST_STOPPED, len(text) // STOPPED_TIMES) + 1):
        pattern = text[-period:]
        start = len(text)
        while text.endswith(pattern, 0, start):
            start -= period
        count = (len(text) - start) // period
        if count >= STOPPED_TIMES:
            return Loop(start + period, period, count, "exact")
    return None


def _blank(text: str, is_cut: bool) -> Loop | None:
    for match in _BLANK.finditer(text):
        length = match.end() - match.start()
        if length >= (200 if is_cut and match.end() == len(text) else 600):
            return Loop(match.start(), 1, length, "blank", has_words=False)
    return None


def _same_characters(text: str, is_cut: bool) -> Loop | None:
    """A few characters again and again without a break, as in 0000… or hahaha…"""
    for match in _SAME.finditer(text):
        length, period = match.end() - match.start(), len(match[1])
        if not match.group().strip():
            continue
        runs_out = is_cut and len(text.rstrip()) - match.end() <= TAIL
        if length < _most_characters(match[1], runs_out):
            continue
        has_words = _has_words(match[1])
        return Loop(match.start() + period, period, length / period, "exact", has_words)
    return None


def _has_words(pattern: str) -> bool:
    return any(one.isalnum() for one in _MARKUP.sub("", pattern))


def _most_characters(pattern: str, runs_out: bool) -> int:
    """How long a document's own rules, dots, empty cells or words without spaces may be."""
    if _TABLE.search(pattern):
        return 700 if runs_out else 5000
    if not any(one.isalnum() for one in pattern):
        if len(set(pattern)) == 1:
            return MOST_SIGNS[runs_out]
        return 600 if runs_out else 1000
    return 150 if runs_out else 400


def _salad(tokens: Tokens, text: str, is_cut: bool) -> Loop | None:
    """Prose that turns the same few words over and over, with no period."""
    words = [k for k, kind in enumerate(tokens.kinds) if kind == "word" and tokens.letters[k] > 1]
    window: deque[int] = deque()
    counts: Counter[str] = Counter()
    for place in words:
        window.append(place)
        counts[tokens.codes[place]] += 1
        if len(window) <= SALAD_WORDS:
            continue
        gone = tokens.codes[window.popleft()]
        counts[gone] -= 1
        if not counts[gone]:
            del counts[gone]
        if len(counts) <= SALAD_DISTINCT * SALAD_WORDS and _is_prose(window, tokens, is_cut):
            start = tokens.starts[window[min(len(counts) * 2, len(window) - 1)]]
            size = (tokens.ends[window[-1]] - tokens.starts[window[0]]) / len(window)
            return Loop(start, round(size), len(window), "few words")
    return None


def _is_prose(window: Sequence[int], tokens: Tokens, is_cut: bool) -> bool:
    """Whether words follow each other there: not cells, lines of a form, or figures."""
    span = window[-1] - window[0] + 1
    return len(window) >= (0.7 if is_cut else 0.8) * span
