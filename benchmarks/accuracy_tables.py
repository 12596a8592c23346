"""The results of `benchmarks.accuracy` as tables."""

from collections.abc import Iterable

from benchmarks.accuracy_engines import ENGINES, OURS, PLAIN
from benchmarks.accuracy_results import KINDS, Passed, Results
from benchmarks.pages.making import DARK, DIGITAL, SCANNED, TURNED
from benchmarks.reading.report import format_table

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
            print(format_table([_HEAD[:wide], *(row[:wide] for row in rows)]))
    for name, title in TESTED.items():
        if any(key[1] == name for key in found.bench):
            print(f"\nTests in olmOCR-bench's format, {title}; no formulas\n")
            print(format_table([_TESTS, *_bench_rows(found, name)]))
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
