"""Prices and estimates: the arithmetic against published examples, and a user's price file."""

import math
from pathlib import Path

import pytest

from llm_ocr.platforms.costs.estimates import (
    Estimate,
    list_gpus,
    price_machine,
    price_pages,
    price_per_hour,
)
from llm_ocr.platforms.costs.page_estimate import PageEstimate
from llm_ocr.platforms.costs.price_files import load_prices
from llm_ocr.platforms.costs.prices import (
    Citation,
    Interval,
    PageTiers,
    TokenPrice,
    UnknownPriceError,
)
from llm_ocr.platforms.costs.throughput import Throughput, ThroughputTable, load_throughput
from llm_ocr.platforms.costs.toml_files import TomlFileError

EXACT = Interval(1, 1, 1)


def pages(count: float) -> Interval:
    return EXACT.scale(count)


def at(pages_per_minute: float, gpu: str = "l4") -> Throughput:
    return Throughput(gpu, "deepseek-ocr", EXACT.scale(pages_per_minute), Citation("test", ""))


def estimate(count: float, *gpus: str, tasks: int = 1) -> Estimate:
    counts = PageEstimate(10, 10, 1_000_000, pages(count))
    speeds = load_throughput()
    return price_pages(counts, load_prices(), speeds, model="deepseek-ocr", gpus=gpus, tasks=tasks)


def test_cloud_run_prices_per_second_are_the_published_hourly_ones() -> None:
    """The SKU $0.0001867 is $0.672 an hour; with 8 vCPU and 32 GiB beside it (about $0.75) an hour
    is about $1.40 to $1.42 (posts of April and August 2026 that quote the price page)."""
    prices = load_prices()
    assert prices.price_per_hour("cloud-run", "nvidia-l4") == pytest.approx(0.672 + 0.75, abs=0.01)
    small = prices.price_per_hour("cloud-run", "nvidia-l4-small")
    assert small == pytest.approx(0.672 + 4 * 0.018 * 3.6 + 16 * 0.002 * 3.6, abs=0.001)


def test_hugging_face_bills_every_started_minute() -> None:
    """huggingface.co/docs/hub/jobs-pricing: an hourly price, charged for every minute a job runs
    or starts."""
    jobs = load_prices().platform("hf-jobs")
    assert jobs.billed_seconds(1) == 60
    assert jobs.billed_seconds(60) == 60
    assert jobs.billed_seconds(60.5) == 120
    # The recipe's A100: 91 pages a minute at $2.50 an hour.
    one = price_machine(pages(9100), load_prices(), jobs, jobs.machine("a100"), at(91, "a100"), 1)
    assert one.compute.expected == pytest.approx((100 + jobs.start_minutes) / 60 * 2.50)
    assert one.start_cost == pytest.approx(jobs.start_minutes / 60 * 2.50)


def test_aws_bills_seconds_and_at_least_a_minute() -> None:
    """EC2: by the second, with a minimum of 60 seconds."""
    batch = load_prices().platform("aws-batch")
    assert batch.billed_seconds(7) == 60
    assert batch.billed_seconds(61.2) == 62
    machine = batch.machine("g6.xlarge")
    hour = price_machine(pages(60 * 39), load_prices(), batch, machine, at(39), 1)
    assert hour.compute.expected - hour.start_cost == pytest.approx(0.8048)


def test_cloud_run_bills_tenths_of_a_second_and_every_restart_of_a_task() -> None:
    """cloud.google.com/run/pricing: rounded up to 100 ms. GPU tasks end after an hour."""
    run = load_prices().platform("cloud-run")
    assert run.billed_seconds(12.34) == pytest.approx(12.4)
    start = run.start_minutes / 60
    assert run.billed_hours(0.5) == pytest.approx(0.5 + start, abs=1e-4)
    useful = (50 - run.start_minutes) / 60
    assert run.billed_hours(3 * useful) == pytest.approx(3 * useful + 3 * start, abs=1e-4)
    assert run.billed_hours(3 * useful + 0.01) == pytest.approx(
        3 * useful + 0.01 + 4 * start, abs=1e-4
    )


def test_tiers_are_priced_as_in_googles_example() -> None:
    """cloud.google.com/document-warehouse/docs/pricing: 1.5 million documents at $10 a thousand up
    to a million and $2 above are 1000 * $10 + 500 * $2."""
    tiers = PageTiers(((1_000_000, 10.0), (10_000_000, 2.0), (math.inf, 1.0)))
    assert tiers.cost(1_500_000) == 1000 * 10 + 500 * 2
    assert tiers.cost(10_000_001) == pytest.approx(10_000 + 18_000 + 0.001)


@pytest.mark.parametrize(
    ("api", "count", "dollars"),
    [
        # Textract: "a Detect Document Text call costs $1.50 per 1,000 pages" (dius.com.au), and
        # $0.60 above a million a month.
        ("textract-text", 1000, 1.50),
        ("textract-text", 2_000_000, 1500 + 600),
        # Public comparisons that quote the price pages: where text is $22.50, Textract's tables are
        # $225 and the layout parser $150; 1,632 pages are "about $2.50" with Document OCR.
        ("textract-text", 15_000, 22.50),
        ("textract-tables", 15_000, 225),
        ("document-ai-layout", 15_000, 150),
        ("document-ai-ocr", 1632, 2.448),
        ("document-ai-ocr", 6_000_000, 7500 + 600),
    ],
)
def test_apis_priced_per_page(api: str, count: int, dollars: float) -> None:
    price = load_prices().apis[api].price
    assert isinstance(price, PageTiers)
    assert price.cost(count) == pytest.approx(dollars)


def test_an_api_priced_per_token_bills_image_prompt_and_answer() -> None:
    prices = load_prices()
    price = prices.apis["claude-sonnet"].price
    assert isinstance(price, TokenPrice)
    page = prices.page
    image = price.image.tokens(page.width, page.height)
    asked = 1000 * (page.prompt_tokens + image) * 2 / 1e6
    assert price.cost(1000, page, 0) == pytest.approx(asked)
    assert price.cost(1000, page, 1100) == pytest.approx(asked + 1000 * 1100 * 10 / 1e6)
    [shown] = [one for one in estimate(1000).apis if one.name == "claude-sonnet"]
    assert shown.batch is not None
    assert shown.batch.expected == pytest.approx(shown.cost.expected / 2)
    assert shown.cost.low < shown.cost.expected < shown.cost.high


def test_every_figure_has_a_source_and_a_date() -> None:
    prices = load_prices()
    machines = [one for platform in prices.platforms.values() for one in platform.machines.values()]
    sources = [one.source for one in machines] + [one.source for one in prices.apis.values()]
    sources += [one.source for one in load_throughput().known.values()]
    assert sources
    assert all(source.url and source.date for source in sources)
    assert all(source.note for source in sources if source.second_hand)


def test_the_interval_spans_from_few_pages_read_fast_to_many_read_slowly() -> None:
    prices = load_prices()
    batch = prices.platform("aws-batch")
    speed = Throughput("l4", "deepseek-ocr", Interval(30, 40, 50), Citation("", ""))
    some = Interval(9_000, 10_000, 12_000)
    one = price_machine(some, prices, batch, batch.machine("g6.xlarge"), speed, 1)
    assert one.gpu_hours.low == pytest.approx(9_000 / 50 / 60)
    assert one.gpu_hours.expected == pytest.approx(10_000 / 40 / 60)
    assert one.gpu_hours.high == pytest.approx(12_000 / 30 / 60)
    assert one.cost.low < one.cost.expected < one.cost.high


def test_tasks_share_the_time_and_each_pays_its_start() -> None:
    prices = load_prices()
    jobs = prices.platform("hf-jobs")
    alone = price_machine(pages(39 * 600), prices, jobs, jobs.machine("l4"), at(39), 1)
    five = price_machine(pages(39 * 600), prices, jobs, jobs.machine("l4"), at(39), 5)
    start = jobs.start_minutes / 60
    assert alone.wall_hours.expected == pytest.approx(10 + start)
    assert five.wall_hours.expected == pytest.approx(2 + start)
    assert five.gpu_hours == alone.gpu_hours
    assert five.start_cost == pytest.approx(5 * alone.start_cost)
    four = price_machine(pages(39 * 600), prices, jobs, jobs.machine("l4x4"), at(39), 1)
    assert four.wall_hours.expected == pytest.approx(2.5 + start, abs=1 / 60)


def test_an_estimate_has_every_platform_with_the_cheapest_first() -> None:
    found = estimate(100_000)
    assert found.cheapest("hf-jobs") == next(
        one for one in found.offers if one.platform == "hf-jobs"
    )
    assert {one.platform for one in found.offers} == {
        "hf-jobs", "sagemaker", "cloud-run", "aws-batch"
    }  # fmt: skip
    costs = [one.cost.expected for one in found.offers]
    assert costs == sorted(costs)
    assert set(found.unmeasured) == {"h200", "a10g"}
    assert {one.gpu for one in estimate(100, "a100").offers} == {"a100"}
    assert [one.machine for one in estimate(100, "l40sx4").offers] == ["l40sx4"]


def test_a_missing_price_or_speed_is_an_error() -> None:
    with pytest.raises(UnknownPriceError, match="no platform has a price for tpu; GPUs are a100"):
        estimate(100, "tpu")
    with pytest.raises(UnknownPriceError, match=r"on h200 is not known; it was measured on a100"):
        estimate(100, "h200")
    with pytest.raises(UnknownPriceError, match="the speed of olmocr-2 is not known"):
        found = PageEstimate(1, 1, 1, pages(1))
        price_pages(found, load_prices(), ThroughputTable({}), model="olmocr-2")


def test_prices_are_found_by_machine_or_gpu() -> None:
    assert price_per_hour("hf-jobs", "a100") == price_per_hour("hf-jobs", "a100-large") == 2.50
    assert price_per_hour("aws-batch", "l4") == 0.5772
    assert list_gpus("sagemaker") == ("l40s", "l4")
    assert "l4" in list_gpus("hf-jobs")
    with pytest.raises(UnknownPriceError, match="known platforms are hf-jobs, sagemaker"):
        price_per_hour("azure", "a100")
    with pytest.raises(UnknownPriceError, match=r"Cloud Run jobs has no price for 'a100'; .* l4"):
        price_per_hour("cloud-run", "a100")


def test_a_users_file_needs_only_what_differs(tmp_path: Path) -> None:
    mine = tmp_path / "prices.toml"
    mine.write_text(
        "[platforms.hf-jobs]\nstart_minutes = 3\n"
        "[platforms.hf-jobs.machines]\na100-large = { price_per_hour = 2.0 }\n"
        'mine = { gpu = "b200", gpus = 2, price_per_hour = 9.5, source = "a contract" }\n'
        "[apis.textract-text]\nper_thousand_pages = [[1.0]]\n"
    )
    prices = load_prices(mine)
    machine = prices.platform("hf-jobs").machine("a100")
    assert (machine.price_per_hour, machine.gpu) == (2.0, "a100")
    assert machine.source == Citation(str(mine), "")
    assert prices.platform("hf-jobs").machine("b200").source.url == "a contract"
    assert prices.platform("hf-jobs").start_minutes == 3
    assert prices.price_per_hour("hf-jobs", "l4") == 0.80
    assert prices.platform("hf-jobs").machine("l4").source.url.startswith("https://huggingface.co")
    assert prices.apis["textract-text"].source.url == str(mine)
    assert load_prices().price_per_hour("hf-jobs", "a100") == 2.50, "the package's are as they were"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("platforms = [", "invalid TOML"),
        ("[platforms.hf-jobs.machines]\na100-large = { price = 2 }", "a100-large.price: Extra"),
        ("[platforms.hf-jobs]\nstart_minutes = 'six'", "start_minutes: Input should be a valid"),
        ("[platforms.hf-jobs.machines]\nx = { gpu = 'l4' }", "machines.x: give price_per_hour"),
        ("[platforms.hf-jobs]\nstart_minutes = -1", "start_minutes: Input should be greater"),
        ("[platforms.cloud-run]\ntask_minutes = 2", "cloud-run: task_minutes must be larger"),
        ("[platforms.mine]\ntitle = 'x'", "platforms.mine.machines: Field required"),
        ("[apis.x]\ntitle = 'x'\ninput = 1.0", "apis.x: give either per_thousand_pages"),
        (
            "[apis.textract-text]\nper_thousand_pages = [[5, 1.0], [3, 2.0], [1.0]]",
            "pages ascending",
        ),
        ("[apis.textract-text]\nper_thousand_pages = []", "write \\[\\[pages, price\\]"),
    ],
)
def test_an_invalid_file_is_an_error_that_names_the_key(
    tmp_path: Path, text: str, said: str
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(TomlFileError, match=said) as raised:
        load_prices(mine)
    assert str(mine) in str(raised.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TomlFileError, match="No such file"):
        load_prices(tmp_path / "nowhere.toml")
