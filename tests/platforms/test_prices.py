"""The price list: its arithmetic against published examples, and a user's file over it."""

import math
from pathlib import Path

import pytest

from llm_ocr.platforms.offers import Quote, offer, quote
from llm_ocr.platforms.planning import gpus_of, price_per_hour
from llm_ocr.platforms.price_files import load_prices
from llm_ocr.platforms.prices import (
    Interval,
    NoSuchPriceError,
    PageTiers,
    Source,
    TokenPrice,
    rounded_up,
)
from llm_ocr.platforms.survey import Survey
from llm_ocr.platforms.tables import TableFileError
from llm_ocr.platforms.throughput import Speeds, Throughput, load_speeds

EXACT = Interval(1, 1, 1)


def pages(count: float) -> Interval:
    return EXACT.times(count)


def at(pages_per_minute: float, gpu: str = "l4") -> Throughput:
    return Throughput(gpu, "deepseek-ocr", EXACT.times(pages_per_minute), Source("test", ""))


def quoted(count: float, *wanted: str, tasks: int = 1) -> Quote:
    found = Survey(10, 10, 1_000_000, pages(count))
    speeds = load_speeds()
    return quote(found, load_prices(), speeds, model="deepseek-ocr", wanted=wanted, tasks=tasks)


def test_cloud_runs_seconds_are_the_hours_that_are_told_of_it() -> None:
    """The SKU $0.0001867 is $0.672 an hour; with 8 vCPU and 32 GiB beside it (about $0.75) an hour
    is about $1.40 to $1.42 (posts of April and August 2026 that quote the price page)."""
    prices = load_prices()
    assert prices.price_per_hour("cloud-run", "nvidia-l4") == pytest.approx(0.672 + 0.75, abs=0.01)
    small = prices.price_per_hour("cloud-run", "nvidia-l4-small")
    assert small == pytest.approx(0.672 + 4 * 0.018 * 3.6 + 16 * 0.002 * 3.6, abs=0.001)


def test_hugging_face_bills_every_minute_begun() -> None:
    """huggingface.co/docs/hub/jobs-pricing: an hourly price, charged for every minute a job runs
    or starts."""
    jobs = load_prices().platform("hf-jobs")
    assert rounded_up(1, jobs) == 60
    assert rounded_up(60, jobs) == 60
    assert rounded_up(60.5, jobs) == 120
    # The recipe's A100: 91 pages a minute at $2.50 an hour.
    one = offer(pages(9100), load_prices(), jobs, jobs.machine("a100"), at(91, "a100"), 1)
    assert one.compute.expected == pytest.approx((100 + jobs.start_minutes) / 60 * 2.50)
    assert one.start_cost == pytest.approx(jobs.start_minutes / 60 * 2.50)


def test_aws_bills_seconds_and_at_least_a_minute() -> None:
    """EC2: by the second, with a minimum of 60 seconds."""
    batch = load_prices().platform("aws-batch")
    assert rounded_up(7, batch) == 60
    assert rounded_up(61.2, batch) == 62
    hour = offer(pages(60 * 39), load_prices(), batch, batch.machine("g6.xlarge"), at(39), 1)
    assert hour.compute.expected - hour.start_cost == pytest.approx(0.8048)


def test_cloud_run_bills_tenths_of_a_second_and_every_start_of_a_task_that_had_to_end() -> None:
    """cloud.google.com/run/pricing: rounded up to 100 ms. GPU tasks end after an hour."""
    run = load_prices().platform("cloud-run")
    assert rounded_up(12.34, run) == pytest.approx(12.4)
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
def test_apis_by_the_page(api: str, count: int, dollars: float) -> None:
    price = load_prices().apis[api].price
    assert isinstance(price, PageTiers)
    assert price.cost(count) == pytest.approx(dollars)


def test_an_api_by_tokens_is_its_image_its_question_and_its_answer() -> None:
    prices = load_prices()
    price = prices.apis["claude-sonnet"].price
    assert isinstance(price, TokenPrice)
    page = prices.page
    image = price.image.tokens(page.width, page.height)
    asked = 1000 * (page.prompt_tokens + image) * 2 / 1e6
    assert price.cost(1000, page, 0) == pytest.approx(asked)
    assert price.cost(1000, page, 1100) == pytest.approx(asked + 1000 * 1100 * 10 / 1e6)
    [shown] = [one for one in quoted(1000).apis if one.name == "claude-sonnet"]
    assert shown.batch is not None
    assert shown.batch.expected == pytest.approx(shown.cost.expected / 2)
    assert shown.cost.low < shown.cost.expected < shown.cost.high


def test_every_figure_says_where_it_is_from_and_when() -> None:
    prices = load_prices()
    machines = [one for platform in prices.platforms.values() for one in platform.machines.values()]
    sources = [one.source for one in machines] + [one.source for one in prices.apis.values()]
    sources += [one.source for one in load_speeds().known.values()]
    assert all(source.url and source.date for source in sources)
    assert all(source.note for source in sources if source.second_hand)


def test_the_interval_is_from_few_pages_read_fast_to_many_read_slowly() -> None:
    prices = load_prices()
    batch = prices.platform("aws-batch")
    speed = Throughput("l4", "deepseek-ocr", Interval(30, 40, 50), Source("", ""))
    some = Interval(9_000, 10_000, 12_000)
    one = offer(some, prices, batch, batch.machine("g6.xlarge"), speed, 1)
    assert one.gpu_hours.low == pytest.approx(9_000 / 50 / 60)
    assert one.gpu_hours.expected == pytest.approx(10_000 / 40 / 60)
    assert one.gpu_hours.high == pytest.approx(12_000 / 30 / 60)
    assert one.cost.low < one.cost.expected < one.cost.high


def test_tasks_share_the_time_and_each_pays_its_start() -> None:
    prices = load_prices()
    jobs = prices.platform("hf-jobs")
    alone = offer(pages(39 * 600), prices, jobs, jobs.machine("l4"), at(39), 1)
    five = offer(pages(39 * 600), prices, jobs, jobs.machine("l4"), at(39), 5)
    start = jobs.start_minutes / 60
    assert alone.wall_hours.expected == pytest.approx(10 + start)
    assert five.wall_hours.expected == pytest.approx(2 + start)
    assert five.gpu_hours == alone.gpu_hours
    assert five.start_cost == pytest.approx(5 * alone.start_cost)
    four = offer(pages(39 * 600), prices, jobs, jobs.machine("l4x4"), at(39), 1)
    assert four.wall_hours.expected == pytest.approx(2.5 + start, abs=1 / 60)


def test_a_quote_has_every_platform_with_the_cheapest_first() -> None:
    found = quoted(100_000)
    assert {one.platform for one in found.offers} == {
        "hf-jobs", "sagemaker", "cloud-run", "aws-batch"
    }  # fmt: skip
    costs = [one.cost.expected for one in found.offers]
    assert costs == sorted(costs)
    assert set(found.unmeasured) == {"h200", "a10g"}
    assert {one.gpu for one in quoted(100, "a100").offers} == {"a100"}
    assert [one.machine for one in quoted(100, "l40sx4").offers] == ["l40sx4"]


def test_what_has_no_price_or_no_speed_is_told() -> None:
    with pytest.raises(NoSuchPriceError, match="no platform has a price for tpu; GPUs are a100"):
        quoted(100, "tpu")
    with pytest.raises(NoSuchPriceError, match=r"is on h200 is not known; it was measured on a100"):
        quoted(100, "h200")
    with pytest.raises(NoSuchPriceError, match="how fast olmocr-2 is is not known"):
        found = Survey(1, 1, 1, pages(1))
        quote(found, load_prices(), Speeds({}), model="olmocr-2")


def test_launchers_ask_for_the_price_of_a_machine_or_a_gpu() -> None:
    assert price_per_hour("hf-jobs", "a100") == price_per_hour("hf-jobs", "a100-large") == 2.50
    assert price_per_hour("aws-batch", "l4") == 0.5772
    assert gpus_of("sagemaker") == ("l40s", "l4")
    assert "l4" in gpus_of("hf-jobs")
    with pytest.raises(NoSuchPriceError, match="there are hf-jobs, sagemaker"):
        price_per_hour("azure", "a100")
    with pytest.raises(NoSuchPriceError, match=r"Cloud Run jobs has no price for 'a100'; .* l4"):
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
    assert machine.source == Source(str(mine), "")
    assert prices.platform("hf-jobs").machine("b200").source.url == "a contract"
    assert prices.platform("hf-jobs").start_minutes == 3
    assert prices.price_per_hour("hf-jobs", "l4") == 0.80
    assert prices.platform("hf-jobs").machine("l4").source.url.startswith("https://huggingface.co")
    assert prices.apis["textract-text"].source.url == str(mine)
    assert load_prices().price_per_hour("hf-jobs", "a100") == 2.50, "the package's are as they were"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("platforms = [", "not TOML"),
        ("[platforms.hf-jobs.machines]\na100-large = { price = 2 }", "a100-large.price: Extra"),
        ("[platforms.hf-jobs]\nstart_minutes = 'six'", "start_minutes: Input should be a valid"),
        ("[platforms.hf-jobs.machines]\nx = { gpu = 'l4' }", "machines.x: give price_per_hour"),
        ("[platforms.hf-jobs]\nstart_minutes = -1", "start_minutes: Input should be greater"),
        ("[platforms.cloud-run]\ntask_minutes = 2", "cloud-run: task_minutes leave no time"),
        ("[platforms.mine]\ntitle = 'x'", "platforms.mine.machines: Field required"),
        ("[apis.x]\ntitle = 'x'\ninput = 1.0", "apis.x: give either per_thousand_pages"),
        ("[apis.textract-text]\nper_thousand_pages = [[5, 1.0], [3, 2.0], [1.0]]", "pages rising"),
        ("[apis.textract-text]\nper_thousand_pages = []", "write \\[\\[pages, price\\]"),
    ],
)
def test_a_wrong_file_is_told_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(TableFileError, match=said) as told:
        load_prices(mine)
    assert str(mine) in str(told.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableFileError, match="No such file"):
        load_prices(tmp_path / "nowhere.toml")
