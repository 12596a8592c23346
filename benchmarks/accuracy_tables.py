"""The results of `benchmarks.accuracy` as tables, and the bars that are to be reached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.accuracy_engines import ENGINES, OURS, PLAIN
from benchmarks.accuracy_results import KINDS, Passed, Results
from benchmarks.pages.making import DARK, DIGITAL, SCANNED, TURNED

SAID = {DIGITAL: "born-digital", SCANNED: "scanned", TURNED: "turned", DARK: "light on dark"}
TESTED = {"bench": "with text layers", "bench-images": "from images alone"}
MB = 1 << 20


def show(found: Results) -> None:
    print(f"This engine's backend: {found.backend}")
    for name in (DIGITAL, SCANNED, TURNED, DARK):
        rows = [_row(found, engine, name) for engine in ENGINES if (engine, name) in found.scores]
        # What so few pages cost is not measured.
        wide = len(_HEAD) if name in (DIGITAL, SCANNED) else len(_HEAD) - 3
        if rows:
            print(f"\nGenerated pages, {SAID[name]} ({found.pages[name]})\n")
            _table(_HEAD[:wide], [row[:wide] for row in rows])
    for name, title in TESTED.items():
        if any(key[1] == name for key in found.bench):
            print(f"\nTests in olmOCR-bench's format, {title}; no formulas\n")
            _table(_TESTS, list(_bench_rows(found, name)))
            _show_doubts(found, name)


_HEAD = (
    *("engine", "chars", "words", "in order", "order", "clean", "heads P", "heads R"),
    *("ruled", "unruled", "inner out", "CPU s/page", "CPU s start", "MB"),
)
_TESTS = (
    *("engine", *KINDS, "all", "without absent", "handwritten"),
    *("CPU s/page", "CPU s start", "MB"),
)


def _row(found: Results, engine: str, name: str) -> list[str]:
    whole, columns = found.totals(engine, name), found.totals(engine, name, columns=2)
    assert whole is not None
    order = columns.neighbors if columns else None
    markup: list[float | None] = [None] * 4
    if engine not in PLAIN:
        heads = whole.headings
        markup = [heads.precision, heads.recall, whole.ruled, whole.unruled]
    shares = [whole.characters, whole.words, whole.in_order, order, whole.clean]
    return [
        engine,
        *(_share(one) for one in (*shares, *markup, whole.inner_out)),
        *_costs(found, engine, name),
    ]


def _bench_rows(found: Results, name: str) -> Iterable[list[str]]:
    for engine in ENGINES:
        result = found.bench.get((engine, name))
        if result is None:
            continue
        passed = [
            *(result.kinds[kind] for kind in KINDS),
            *(result.all, result.without_absent, result.handwritten),
        ]
        counts = [_count(one) for one in passed]
        if engine in PLAIN:
            counts[KINDS.index("table")] += " (no tables)"
        yield [engine, *counts, *_costs(found, engine, name)]


def _show_doubts(found: Results, name: str) -> None:
    ours = found.bench.get((OURS, name))
    if ours is not None and ours.doubts is not None:
        printed, written = (f"{one.passed} of {one.tests}" for one in ours.doubts)
        print(f"\nLines said to be doubtful: {written} handwritten ones, {printed} printed ones")


def _costs(found: Results, engine: str, name: str) -> list[str]:
    cost = found.costs.get((engine, name))
    if cost is None or cost.cpu_a_page is None or cost.cpu_to_start is None:
        return ["-"] * 3
    return [
        f"{cost.cpu_a_page:.2f}",
        f"{cost.cpu_to_start:.1f}",
        f"{cost.peak_bytes / MB:.0f}",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _count(one: Passed) -> str:
    return f"{one.passed}/{one.tests}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """As Markdown, so that it can be put into a document."""
    wide = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    for row in (head, ["-" * one for one in wide], *rows):
        print(f"| {' | '.join(text.ljust(one) for text, one in zip(row, wide, strict=True))} |")


@dataclass(frozen=True)
class Bar:
    """What is to be reached, what was, and whether that is enough (None: not measured)."""

    text: str
    value: str
    reached: bool | None


def bars(found: Results) -> list[Bar]:
    """The issue's bars, printed and returned."""
    verdicts = [Bar(*one) for one in _bars(found)]
    print("\nTo be reached\n")
    words = {True: "reached", False: "NOT REACHED", None: "not measured"}
    _table(("bar", "value", ""), [[one.text, one.value, words[one.reached]] for one in verdicts])
    return verdicts


def _bars(found: Results) -> Iterable[tuple[str, str, bool | None]]:
    for name, least in (("bench", 38), ("bench-images", 35)):
        result = found.bench.get((OURS, name))
        text = f"tests of printed documents {TESTED[name]}, at least {least} of 42"
        if result is None:
            yield text, "-", None
        else:
            reached = result.all.passed >= least * result.all.tests / 42
            yield text, _count(result.all), reached
    yield from _characters(found)
    for name in (DIGITAL, SCANNED):
        yield from _structure(found, name)
    yield from _speed(found)


def _characters(found: Results) -> Iterable[tuple[str, str, bool | None]]:
    ours = found.totals(OURS, SCANNED)
    value = ours.characters if ours else None
    yield "characters of scanned pages, at least 97.5%", _share(value), _least(value, 0.975)
    others = {
        engine: theirs.characters
        for engine in ENGINES[1:]
        if (theirs := found.totals(engine, SCANNED)) is not None
    }
    text = "no other more than 0.2 points ahead there"
    if value is None or not others:
        yield text, "-", None
        return
    best = max(others, key=lambda engine: others[engine])
    yield text, f"{best} {_share(others[best])}", others[best] - value <= 0.002


def _structure(found: Results, name: str) -> Iterable[tuple[str, str, bool | None]]:
    whole, columns = found.totals(OURS, name), found.totals(OURS, name, columns=2)
    if whole is None:
        return
    for text, value, least in (
        ("neighbors in order on pages of columns", columns.neighbors if columns else None, 0.97),
        ("pages without header and footer in the text", whole.clean, 0.95),
        ("headings, precision", whole.headings.precision, 0.85),
        ("headings, recall", whole.headings.recall, 0.85),
        ("TEDS of ruled tables", whole.ruled, 0.80),
        ("TEDS of unruled tables", whole.unruled, 0.65),
    ):
        bar = f"{SAID[name]}: {text}, at least {least:.2f}"
        yield bar, "-" if value is None else f"{value:.3f}", _least(value, least)


def _speed(found: Results) -> Iterable[tuple[str, str, bool | None]]:
    for name, most in ((DIGITAL, 0.5), (SCANNED, 2.2)):
        ours, theirs = found.costs.get((OURS, name)), found.costs.get(("tesseract", name))
        text = f"{SAID[name]}: CPU time a page, at most {most} of Tesseract's"
        mine, other = ours and ours.cpu_a_page, theirs and theirs.cpu_a_page
        if not mine or not other:
            yield text, "-", None
        else:
            yield text, f"{mine / other:.2f}", mine / other <= most


def _least(value: float | None, least: float) -> bool | None:
    return None if value is None else value >= least
