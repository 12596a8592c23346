"""The plan of a service: enough, and not more than that."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from llm_ocr.platforms.costs.capacity import (
    CapacityError,
    ServiceLoad,
    ServiceOffer,
    plan_service,
)
from llm_ocr.platforms.costs.capacity_table import render_plan
from llm_ocr.platforms.costs.latency import DocumentQueue, GpuReplica, documents_in_progress
from llm_ocr.platforms.costs.prices import UnknownPriceError
from llm_ocr.settings import Settings

LOAD = ServiceLoad(30_000, pages=8, within_seconds=600)


def offer_of(
    load: ServiceLoad, machine: str, *, prices: Path | None = None, throughput: Path | None = None
) -> ServiceOffer:
    settings = Settings(prices=prices, throughput=throughput)
    [offer] = plan_service(load, settings, gpus=[machine]).offers
    return offer


def test_the_plan_keeps_the_time_with_the_fewest_gpus() -> None:
    offers = plan_service(LOAD).offers
    assert {offer.gpu for offer in offers} == {"l4", "l40s", "a100"}
    prices = [offer.per_day.expected for offer in offers]
    assert prices == sorted(prices)
    for offer in offers:
        assert offer.latency.p95 <= 600
        assert offer.peak_utilization <= 0.8
        assert offer.mean_utilization == pytest.approx(offer.peak_utilization / 3)
        # 8.3 pages a second in the busiest hour.
        fewer = offer.peak_utilization * offer.replicas / (offer.replicas - 1)
        assert fewer > 0.8, offer.gpu


def test_less_time_needs_more_gpus_until_nothing_helps() -> None:
    replicas = [
        offer_of(replace(LOAD, within_seconds=seconds), "l4x1").replicas
        for seconds in (1200, 600, 300, 240)
    ]
    assert replicas == sorted(replicas)
    assert replicas[0] == replicas[1] < replicas[2] < replicas[3]
    message = (
        r"60 seconds \(`within`\) are too short for documents of 8 pages: on a100, the fastest"
    )
    with pytest.raises(CapacityError, match=message):
        plan_service(replace(LOAD, within_seconds=60))
    # Some GPUs are fast enough.
    plan = plan_service(replace(LOAD, within_seconds=150))
    assert plan.too_slow == ("l4",)
    assert {offer.gpu for offer in plan.offers} == {"l40s", "a100"}


def test_gpus_follow_the_busiest_hour() -> None:
    even, peak = (offer_of(replace(LOAD, peak=peak), "l40sx1") for peak in (1.0, 3.0))
    assert even.replicas < peak.replicas <= 3 * even.replicas
    assert even.mean_utilization == even.peak_utilization
    ten_times = offer_of(replace(LOAD, documents_per_day=300_000), "l40sx1")
    assert 9 * peak.replicas <= ten_times.replicas <= 10 * peak.replicas


def test_prices_are_of_all_machines_cores_and_storage() -> None:
    one, four = offer_of(LOAD, "l4x1"), offer_of(LOAD, "l4x4")
    assert one.replicas == one.machines == four.replicas == 17
    # Four GPUs a machine.
    assert four.machines == 5
    cores = one.tiers.cores * 0.0936 * 24
    assert one.per_day.expected == pytest.approx(17 * 0.80 * 24 + cores)
    assert four.per_day.expected == pytest.approx(5 * 3.80 * 24 + cores)
    assert one.per_month.expected == pytest.approx(30 * one.per_day.expected)
    assert one.per_thousand_pages.expected == pytest.approx(one.per_day.expected / 240)
    assert one.per_day.low < one.per_day.expected < one.per_day.high
    sagemaker = offer_of(LOAD, "ml.g6.2xlarge")
    stored = sagemaker.tiers.storage_gb_month * 0.023 / 30
    assert sagemaker.per_day.expected == pytest.approx(17 * 1.222 * 24 + cores + stored)


def test_other_tiers_follow_the_gpus_and_the_pages() -> None:
    small = offer_of(ServiceLoad(100, pages=1, within_seconds=3600), "l4x1")
    assert small.replicas == 1
    assert (small.tiers.workers, small.tiers.gateways, small.tiers.inference_processes) == (2, 2, 2)
    large = offer_of(replace(LOAD, documents_per_day=1_000_000), "l4x1")
    assert large.tiers.gateways > 2
    for offer in (small, large):
        tiers = offer.tiers
        # No worker sends more than 128 requests at a time.
        assert tiers.workers * 128 >= offer.replicas * offer.window
        assert tiers.cores >= tiers.workers + tiers.gateways + tiers.inference_processes
        assert tiers.database_connections > tiers.workers
    replica = GpuReplica(1.0, 0.0, large.window)
    filling = documents_in_progress(replica, large.replicas, 8)
    assert large.tiers.workers * large.tiers.tasks >= 1.5 * filling


def test_speeds_and_prices_of_the_user_count(tmp_path: Path) -> None:
    speeds, prices = tmp_path / "speeds.toml", tmp_path / "prices.toml"
    speeds.write_text(
        '[[measured]]\ngpu = "l4"\nmodel = "deepseek-ocr"\npages_per_minute = 78\nsource = "mine"\n'
    )
    prices.write_text("[platforms.hf-jobs.machines]\nl4x1 = { price_per_hour = 8.0 }\n")
    usual, fast = offer_of(LOAD, "l4x1"), offer_of(LOAD, "l4x1", throughput=speeds)
    assert fast.replicas == pytest.approx(usual.replicas / 2, abs=1)
    assert fast.latency.p95 < usual.latency.p95
    assert fast.speed_source.url == "mine"
    dear = offer_of(LOAD, "l4x1", prices=prices)
    added = 17 * (8.0 - 0.8) * 24
    assert dear.per_day.expected == pytest.approx(usual.per_day.expected + added)


def test_spot_machines_must_be_named() -> None:
    machines = {offer.machine for offer in plan_service(LOAD, gpus=["l4"]).offers}
    assert "g6.2xlarge" in machines
    assert "g6.2xlarge-spot" not in machines
    assert offer_of(LOAD, "g6.2xlarge-spot").gpu == "l4"


def test_gpus_without_a_speed_are_listed_or_an_error() -> None:
    assert set(plan_service(LOAD).unmeasured) == {"h200", "a10g"}
    with pytest.raises(UnknownPriceError, match="on h200 is not known"):
        plan_service(LOAD, gpus=["h200"])
    with pytest.raises(UnknownPriceError, match="no platform has a price for tpu"):
        plan_service(LOAD, gpus=["tpu"])


def test_the_latency_is_that_of_the_queue() -> None:
    offer = offer_of(replace(LOAD, within_seconds=300), "l4x1")
    # As in service.toml and throughput.toml.
    slowdown = (60 * 105 / (39 * 40.3) - 1) / 105
    replica = GpuReplica(40.3, slowdown, offer.window)
    queue = DocumentQueue(replica, offer.replicas, 8, offer.peak_utilization)
    assert queue.share_within(300) >= 0.95
    assert offer.latency.p95 == pytest.approx(queue.latency().p95, rel=0.01)


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_has_every_machine_and_fits(width: int) -> None:
    console = Console(width=width, record=True)
    with console.capture() as captured:
        console.print(render_plan(plan_service(LOAD), width), highlight=False)
    text = captured.get()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "240,000 pages, 8.33 per second in the busiest" in " ".join(text.split())
    for name in ("l4x1", "ml.g6.2xlarge", "17 l4", "8 l40s", "M/G/c"):
        assert name in text
    assert ("a month" in text) == (width == 100)
