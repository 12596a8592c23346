"""The benchmark of scaling: its tables and figures, and on a small scale the whole of it."""

import sys
from pathlib import Path

import pytest

from benchmarks.scaling import Extent, load_results, main, measure, save
from benchmarks.scaling_figures import draw, tables
from benchmarks.scaling_ideal import (
    arrival_times,
    ideal_latencies,
    quantile,
    saturated_pages_per_second,
)
from benchmarks.scaling_runs import TIERS, Load
from benchmarks.simulation import GPUS

RESULTS = Path(__file__).parents[2] / "benchmarks" / "scaling.json"
DOCS = RESULTS.parents[1] / "docs"


def test_simulated_gpus_alone_do_as_much_as_arrives_and_are_slower_when_busy() -> None:
    gpu = GPUS["a100"]
    speed = saturated_pages_per_second(gpu, window=16, pages=300)
    latencies = []
    for load in (0.2, 0.9, 1.5):
        times = arrival_times(150, load * speed / 4, is_random=False)
        seconds = ideal_latencies(gpu, 1, 16, times, pages=4)
        assert len(seconds) == 150
        latencies.append(quantile(seconds, 0.95))
        finished = max(at + one for at, one in zip(times, seconds, strict=True))
        # 1.5 times as much as it can do takes 1.5 times as long as it took to arrive.
        assert finished >= times[-1] * max(1.0, 0.95 * load)
    assert latencies == sorted(latencies)
    assert latencies[2] > 2 * latencies[1] > 2 * latencies[0]


def test_quantiles() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([0.0, 10.0], 0.95) == 9.5
    assert quantile([7.0], 0.95) == 7.0


def test_results_are_drawn_again_from_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["scaling", "--draw", str(RESULTS), "--images", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    main()
    printed = capsys.readouterr().out
    page = (DOCS / "service" / "capacity.md").read_text()
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    assert len(rows) > 40
    assert [row for row in rows if row not in page] == [], "the page has the tables of the run"
    for name in ("throughput", "latency", "tiers"):
        drawn = (tmp_path / f"scaling-{name}.svg").read_text()
        assert "</svg>" in drawn
    assert "pages/min" in (tmp_path / "scaling-throughput.svg").read_text()


@pytest.mark.long
def test_the_benchmark_measures_a_service(tmp_path: Path) -> None:
    load = Load(gpu="a100", speed_up=20, window=4, pages=2, tasks=4, has_servers=False)
    extent = Extent({1: (1, 2)}, 150.0, 60.0, (0.5, 0.8), documents=4, ideal_documents=20)
    results = measure(tmp_path / "run", load, extent, "a test")
    first, second = results.steady
    assert (first.workers, second.workers) == (1, 2)
    assert second.pages_per_minute > 0.5 * results.direct
    assert second.usage.documents > 0
    assert all(second.usage.cpu[tier] > 0 for tier in ("gateway", "worker", "inference"))
    assert set(second.usage.cpu) == set(TIERS)
    for point in results.arrivals:
        assert len(point.seconds) == 4
        assert 0 < point.parts["extract"] < sum(point.parts.values())
        assert point.p50 <= point.p95
    assert results.stored is not None
    assert results.stored.objects > 2
    save(results, tmp_path / "results.json")
    assert load_results(tmp_path / "results.json") == results
    assert "| worker |" in tables(results)
    draw(results, tmp_path)
