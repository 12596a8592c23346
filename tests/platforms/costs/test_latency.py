"""The approximation of latencies, compared with exact values and with simulated GPUs."""

import pytest

from benchmarks.scaling_ideal import (
    arrival_times,
    ideal_latencies,
    mean_tokens,
    quantile,
    saturated_pages_per_second,
)
from benchmarks.simpages import PROMPT_TOKENS
from benchmarks.simulation import GPUS
from llm_ocr.platforms.costs.latency import (
    DocumentQueue,
    documents_in_progress,
    erlang_c,
    longest_page,
    replica_of,
)


@pytest.mark.parametrize(
    ("servers", "utilization", "expected"),
    # By hand for one and two servers; the others are in tables of Erlang's formula.
    [(1, 0.7, 0.7), (2, 0.5, 1 / 3), (5, 0.8, 0.5541), (10, 0.8, 0.4092), (3, 0.0, 0.0)],
)
def test_erlang_c(servers: int, utilization: float, expected: float) -> None:
    assert erlang_c(servers, utilization) == pytest.approx(expected, abs=1e-4)


def test_a_replica_has_the_speed_that_it_was_made_from() -> None:
    replica = replica_of(pages_per_minute=39, page_seconds=40, window=105)
    assert 60 * replica.pages_per_second == pytest.approx(39)
    assert replica.mean_page_seconds(0.0) == 40
    # Little's law: with the whole window in use, a page takes window / speed.
    assert replica.mean_page_seconds(1.0) == pytest.approx(105 / (39 / 60))
    half = replica.with_window(52)
    assert replica.pages_per_second / 2 < half.pages_per_second < replica.pages_per_second


def test_the_longest_page_of_a_document() -> None:
    assert longest_page(1, 0.5) == pytest.approx(0.783, abs=0.001)
    assert 2.0 < longest_page(8, 0.5) < 2.2
    assert longest_page(8, 0.5) < longest_page(8, 0.95) < longest_page(100, 0.95)
    # The limit of tokens.
    assert longest_page(100_000, 0.95) == 5.7


@pytest.mark.parametrize("window", [16, 64])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_it_agrees_with_simulated_gpus(window: int, load: float) -> None:
    gpu, gpus, pages = GPUS["l4"], 4, 8
    speed = saturated_pages_per_second(gpu, window, pages=400)
    alone = mean_tokens() * (gpu.base + gpu.per_sequence) + PROMPT_TOKENS * gpu.per_prompt_token
    times = arrival_times(250, load * gpus * speed / pages, is_random=True)
    simulated = ideal_latencies(gpu, gpus, window, times, pages)[50:]
    queue = DocumentQueue(replica_of(60 * speed, alone, window), gpus, pages, load)
    latency = queue.latency()
    assert latency.p50 == pytest.approx(quantile(simulated, 0.5), rel=0.12)
    assert latency.p95 == pytest.approx(quantile(simulated, 0.95), rel=0.15)
    assert queue.share_within(latency.p95) == pytest.approx(0.95, abs=0.005)


def test_latency_grows_with_load_pages_and_variation() -> None:
    replica = replica_of(20, 40, 16)
    queues = [DocumentQueue(replica, 1, 8, load) for load in (0.1, 0.5, 0.8, 0.95)]
    p95 = [queue.latency().p95 for queue in queues]
    assert p95 == sorted(p95)
    assert p95[-1] > 2 * p95[0]
    equal = DocumentQueue(replica, 1, 8, 0.8, arrival_variation=0.0).latency()
    assert p95[0] < equal.p95 < p95[2]
    assert DocumentQueue(replica, 1, 2, 0.1).latency().p95 < p95[0]
    # A book doesn't fit on the GPU at once: its pages take as long as the GPU's speed allows.
    book = DocumentQueue(replica, 1, 1000, 0.0).latency()
    assert book.p50 > (1000 - 16) / (20 / 60)
    assert documents_in_progress(replica, 1, 1000) == 1


def test_a_queue_needs_free_capacity() -> None:
    with pytest.raises(ValueError, match="a utilization of 1 is not below 1"):
        DocumentQueue(replica_of(20, 40, 16), 1, 8, 1.0)
