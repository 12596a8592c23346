"""The tables and figures of `benchmarks.scaling`, from its results."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.scaling_ideal import mean_tokens
from benchmarks.scaling_runs import TIERS, LoadPoint, SteadyPoint
from benchmarks.simpages import PROMPT_TOKENS
from benchmarks.simulation import GPUS
from llm_ocr.platforms.costs.latency import DocumentQueue, replica_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.scaling import IdealPoint, Results

COLORS = ("#1f77b4", "#d95f02", "#2a8f5c")
# The goals: of the GPUs' own throughput at saturation, of the latency at low load at up to this
# load, and of the best throughput with more workers.
SATURATED, FLAT, FLAT_LOAD, NEVER_LOWER = 0.95, 1.2, 0.8, 0.97


def tables(results: "Results") -> str:
    """All tables in Markdown, with the goals at the end."""
    load = results.load
    head = (
        f"`{results.command}` on {results.date}: documents of {load.pages} pages, GPUs like "
        f"{load.gpu} with at most {load.window} requests each, {load.speed_up:g} times as fast."
    )
    parts = {
        "Throughput with a backlog": _steady_table(results),
        "Workers for each number of GPUs": _ratio_table(results),
        f"Latency by load, {_most_gpus(results)} GPUs": _load_table(results),
        "Where the time of a document goes": _parts_table(results),
        "CPU seconds of each tier": _tier_table(results),
        "Requests per GPU": _window_table(results),
        "The formula of llm-ocr plan": _formula_table(results),
        "Goals": _goal_table(results),
    }
    sections = [f"### {title}\n\n{body}" for title, body in parts.items()]
    if results.stored is not None:
        stored = results.stored
        sections.append(
            f"Stored per document: {stored.database / 1000:.1f} kB in the database, "
            f"{stored.storage / 1000:.0f} kB in {stored.objects:.0f} objects in the storage."
        )
    return "\n\n".join([head, *sections])


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(names) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, rule, *rows))


def _most_gpus(results: "Results") -> int:
    return max(point.gpus for point in results.steady)


def _by_gpus(results: "Results") -> dict[int, list[SteadyPoint]]:
    return {
        gpus: list(points) for gpus, points in groupby(results.steady, key=lambda point: point.gpus)
    }


def _steady_table(results: "Results") -> str:
    names = (
        *("GPUs", "workers x tasks", "pages/min", "of the GPUs' own", "requests per GPU"),
        *("P50", "P95", "documents", "CPU of the machine", "load average"),
    )
    return _table(
        names,
        [
            (
                str(point.gpus),
                f"{point.workers} x {point.tasks}",
                f"{point.pages_per_minute:.1f}",
                f"{point.pages_per_minute / (point.gpus * results.direct):.3f}",
                f"{point.in_flight:.1f}",
                _seconds(point.p50),
                _seconds(point.p95),
                str(point.usage.documents),
                f"{point.usage.machine.busy:.0%}",
                f"{point.usage.machine.load:.1f}",
            )
            for point in results.steady
        ],
    )


def _ratio_table(results: "Results") -> str:
    rows = []
    for gpus, points in _by_gpus(results).items():
        best = max(point.pages_per_minute for point in points)
        enough = next(p for p in points if p.pages_per_minute >= NEVER_LOWER * best)
        slots = enough.workers * enough.tasks
        cores = _cores(enough, "worker", results)
        rows.append(
            (
                str(gpus),
                f"{enough.workers} x {enough.tasks}",
                f"{slots / gpus:.1f}",
                f"{slots * results.load.pages / (gpus * results.load.window):.2f}",
                f"{cores / gpus:.3f}",
            )
        )
    names = (
        *("GPUs", "fewest workers x tasks for 0.97 of the best", "documents per GPU"),
        *("their pages per request of a GPU", "cores of workers per GPU"),
    )
    return _table(names, rows)


def _load_table(results: "Results") -> str:
    low, *_ = results.arrivals
    ideals = {
        (point.load, point.is_random): point
        for point in results.ideal
        if point.window == results.load.window
    }
    rows = []
    for point in results.arrivals:
        alone = (ideals.get((point.load, is_random)) for is_random in (False, True))
        rows.append(
            (
                f"{point.load:.0%}",
                str(len(point.seconds)),
                _seconds(point.p50),
                _seconds(point.p95),
                f"{point.p95 / low.p95:.2f}",
                *(_seconds(None if ideal is None else ideal.p95) for ideal in alone),
                f"{point.usage.machine.load:.1f}",
            )
        )
    names = (
        *("load", "documents", "P50", "P95", f"P95 / P95 at {low.load:.0%}"),
        *("P95 of GPUs alone", "with random arrivals", "load average"),
    )
    return _table(names, rows)


def _parts_table(results: "Results") -> str:
    first, last = results.arrivals[0], _flat_point(results)
    rows = [
        (
            "wait for a worker" if name == "queue" else name,
            *(
                cell
                for point in (first, last)
                for cell in (
                    f"{point.parts[name]:.2f} s",
                    f"{point.parts[name] / sum(point.parts.values()):.1%}",
                )
            ),
        )
        for name in first.parts
    ]
    names = ("part", f"{first.load:.0%} load", "share", f"{last.load:.0%} load", "share")
    return _table(names, rows)


def _tier_table(results: "Results") -> str:
    """CPU per document where the service was saturated, and what that makes of a core."""
    point = max(results.steady, key=lambda point: point.usage.documents)
    rate = results.direct * 60 / results.load.pages
    rows = []
    for tier in TIERS:
        seconds = point.usage.cpu[tier]
        per_hour = 3600 / seconds if seconds else 0.0
        rows.append(
            (
                tier,
                f"{1000 * seconds:.0f} ms",
                f"{1000 * seconds / results.load.pages:.1f} ms",
                f"{per_hour:,.0f}" if seconds else "",
                f"{per_hour / rate:.0f}" if seconds else "",
            )
        )
    names = (
        *("tier", "CPU per document", "CPU per page", "documents per hour and core"),
        f"such {results.load.gpu.upper()} GPUs that a core keeps busy",
    )
    return _table(names, rows)


def _window_table(results: "Results") -> str:
    found = {(point.window, point.load): point for point in results.ideal if not point.is_random}
    low = min(point.load for point in results.ideal)
    rows = []
    for window, speed in sorted(results.windows.items()):
        if (window, low) not in found or (window, FLAT_LOAD) not in found:
            continue
        first, last = found[window, low], found[window, FLAT_LOAD]
        rows.append(
            (
                str(window),
                f"{speed:.1f}",
                f"{first.p95:.0f} s",
                f"{last.p95:.0f} s",
                f"{last.p95 / first.p95:.2f}",
            )
        )
    names = (
        *("requests per GPU", "pages/min per GPU", f"P95 at {low:.0%} load"),
        *(f"P95 at {FLAT_LOAD:.0%} load", "ratio"),
    )
    return _table(names, rows)


def _formula_table(results: "Results") -> str:
    """The latency that `llm-ocr plan` computes, beside simulated GPUs with random arrivals."""
    gpu, pages = GPUS[results.load.gpu], results.load.pages
    alone = mean_tokens() * (gpu.base + gpu.per_sequence) + PROMPT_TOKENS * gpu.per_prompt_token
    rows = []
    for point in sorted(results.ideal, key=lambda point: (point.window, point.load)):
        if not point.is_random:
            continue
        replica = replica_of(results.windows[point.window], alone, point.window)
        latency = DocumentQueue(replica, point.gpus, pages, point.load).latency()
        rows.append(
            (
                str(point.window),
                f"{point.load:.0%}",
                f"{point.p50:.0f} s",
                f"{latency.p50:.0f} s",
                f"{point.p95:.0f} s",
                f"{latency.p95:.0f} s",
                f"{latency.p95 / point.p95:.2f}",
            )
        )
    names = (
        *("requests per GPU", "load", "P50 simulated", "P50 by the formula"),
        *("P95 simulated", "P95 by the formula", "ratio of P95"),
    )
    return _table(names, rows)


def _goal_table(results: "Results") -> str:
    saturated = {
        gpus: max(point.pages_per_minute for point in points) / (gpus * results.direct)
        for gpus, points in _by_gpus(results).items()
    }
    later = min(_shares_of_best(results))
    low, flat = results.arrivals[0], _flat_point(results)
    rows = [
        ("throughput at saturation / the GPUs' own", min(saturated.values()), SATURATED, True),
        (f"P95 at {flat.load:.0%} load / at {low.load:.0%}", flat.p95 / low.p95, FLAT, False),
        ("throughput with more workers / the best before", later, NEVER_LOWER, True),
    ]
    return _table(
        ("", "measured", "goal", "met"),
        [
            (
                name,
                f"{value:.3f}",
                f"at {'least' if at_least else 'most'} {goal:g}",
                "yes" if (value >= goal) == at_least or value == goal else "no",
            )
            for name, value, goal, at_least in rows
        ],
    )


def _shares_of_best(results: "Results") -> Iterable[float]:
    """Of each step, its throughput as a share of the best one with fewer workers, at most 1."""
    for points in _by_gpus(results).values():
        best = 0.0
        for point in points:
            best = max(best, point.pages_per_minute)
            yield point.pages_per_minute / best if best else 0.0


def _flat_point(results: "Results") -> LoadPoint:
    """The highest load at which the latency should be flat."""
    return max(
        (point for point in results.arrivals if point.load <= FLAT_LOAD),
        key=lambda point: point.load,
    )


def _cores(point: SteadyPoint, tier: str, results: "Results") -> float:
    """Cores that a tier used, in the time of the simulated GPU."""
    per_second = point.pages_per_minute / 60 / results.load.pages
    return point.usage.cpu[tier] * per_second


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"


# Figures ---------------------------------------------------------------------------------------


def draw(results: "Results", folder: Path) -> None:
    """Draw `scaling-throughput.svg`, `scaling-latency.svg` and `scaling-tiers.svg`."""
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and the same results give the same bytes.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scaling", "font.size": 10})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    _draw_throughput(axes[0], results)
    _draw_durations(axes[1], results)
    _save(figure, folder / "scaling-throughput.svg")
    figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    _draw_loads(axis, results)
    _save(figure, folder / "scaling-latency.svg")
    figure, axis = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
    _draw_tiers(axis, results)
    _save(figure, folder / "scaling-tiers.svg")


def _draw_throughput(axis: "Axes", results: "Results") -> None:
    for color, (gpus, points) in zip(COLORS, _by_gpus(results).items(), strict=False):
        slots = [point.workers * point.tasks for point in points]
        speeds = [point.pages_per_minute for point in points]
        axis.plot(slots, speeds, "o-", color=color, label=_label(gpus))
        axis.axhline(gpus * results.direct, color=color, linestyle=":", linewidth=1)
    axis.set_xlabel("documents in progress (workers x tasks)")
    axis.set_ylabel("throughput (pages/min)")
    axis.set_title("Throughput; dotted: the GPUs alone", fontsize=10)
    axis.set_xlim(left=0)
    _finish(axis)


def _draw_durations(axis: "Axes", results: "Results") -> None:
    for color, (gpus, points) in zip(COLORS, _by_gpus(results).items(), strict=False):
        found = [(point.workers * point.tasks, point.p50, point.p95) for point in points]
        known = [(slots, p50, p95) for slots, p50, p95 in found if p50 is not None]
        if known:
            slots, middles, highs = zip(*known, strict=True)
            axis.plot(slots, highs, "o-", color=color, label=f"{_label(gpus)}, P95")
            axis.plot(slots, middles, "o--", color=color, alpha=0.6, label=f"{_label(gpus)}, P50")
    axis.set_xlabel("documents in progress (workers x tasks)")
    axis.set_ylabel("duration of a document (s)")
    axis.set_title("Duration without the queue", fontsize=10)
    axis.set_xlim(left=0)
    _finish(axis)


def _draw_loads(axis: "Axes", results: "Results") -> None:
    loads = [100 * point.load for point in results.arrivals]
    axis.plot(loads, [point.p95 for point in results.arrivals], "o-", color=COLORS[1], label="P95")
    axis.plot(loads, [point.p50 for point in results.arrivals], "o-", color=COLORS[0], label="P50")
    for is_random, style in ((False, "--"), (True, ":")):
        points = _ideal(results, is_random)
        label = f"P95, GPUs alone, arrivals {'at random' if is_random else 'at equal intervals'}"
        values = [point.p95 for point in points]
        axis.plot([100 * p.load for p in points], values, style, color="gray", label=label)
    axis.set_xlabel("load (% of what the GPUs can do)")
    axis.set_ylabel("submission to result (s)")
    axis.set_title(f"Latency by load, {_label(_most_gpus(results))}", fontsize=10)
    _finish(axis)


def _ideal(results: "Results", is_random: bool) -> "list[IdealPoint]":
    return [
        point
        for point in results.ideal
        if point.window == results.load.window and point.is_random == is_random
    ]


def _draw_tiers(axis: "Axes", results: "Results") -> None:
    point = max(results.steady, key=lambda point: point.usage.documents)
    rate = results.direct / 60 / results.load.pages
    tiers = [tier for tier in TIERS if point.usage.cpu[tier]]
    values = [1 / (point.usage.cpu[tier] * rate) for tier in tiers]
    bars = axis.barh(tiers[::-1], values[::-1], color=COLORS[0])
    axis.bar_label(bars, fmt="%.0f", padding=3)
    axis.set_xscale("log")
    axis.set_xlabel(f"{results.load.gpu.upper()} GPUs that one core of the tier keeps busy")
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)


def _label(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _finish(axis: "Axes") -> None:
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _save(figure: object, path: Path) -> None:
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)
    # Without the date.
    figure.savefig(path, metadata={"Date": None})
