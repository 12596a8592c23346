"""What a launch costs: the price of the machine travels with it, and so does what it may cost."""

import json
from pathlib import Path

import pytest

from llm_ocr.platforms.base import GpuType
from llm_ocr.platforms.launching import with_price_per_hour
from llm_ocr.platforms.registry import open_platform, platform_config
from llm_ocr.report.status import read_status
from tests.platforms.hf import READ, SCANS, Cloud, put_documents

pytestmark = pytest.mark.long

OPTIONS = ("--shard-pages", "2", "--flush-seconds", "0.2", "--viewer-pages", "0")
LAUNCH = ("launch", "hf-jobs", SCANS, "--out", READ, *OPTIONS)


def price_asked_for(cloud: Cloud, *options: str) -> str | None:
    """Of `--dry-run`."""
    done = cloud.llm_ocr(*LAUNCH, "--dry-run", *options)
    assert done.returncode == 0, done.stderr
    [request] = json.loads(done.stdout)
    price = request["body"]["env"].get("LLM_OCR_PRICE_PER_HOUR")
    return price if price is None else str(price)


def test_the_price_is_that_of_the_machine_unless_it_is_given(tmp_path: Path, cloud: Cloud) -> None:
    mine = tmp_path / "prices.toml"
    mine.write_text("[platforms.hf-jobs.machines]\nl4x1 = { price_per_hour = 0.7 }\n")
    assert price_asked_for(cloud, "--gpu", "l4") == "0.8"
    assert price_asked_for(cloud, "--instance", "h200") == "5.0"
    assert price_asked_for(cloud, "--gpu", "l4", "--prices", str(mine)) == "0.7"
    assert price_asked_for(cloud, "--gpu", "l4", "--price-per-hour", "0.1") == "0.1"
    assert price_asked_for(cloud, "--instance", "a-new-one") is None


def test_a_limit_needs_a_price(cloud: Cloud) -> None:
    done = cloud.llm_ocr(*LAUNCH, "--instance", "a-new-one", "--max-cost", "5")
    assert done.returncode == 2
    assert "--max-cost needs --price-per-hour" in " ".join(done.stderr.split())
    assert "has no price for 'a-new-one'" in " ".join(done.stderr.split())
    assert cloud.hub.jobs == {}


def test_budget_is_divided_and_a_spent_one_submits_nothing(tmp_path: Path, cloud: Cloud) -> None:
    put_documents(tmp_path / "in", 8)
    # A second of a task is a dollar: it is spent before the first page.
    dear = ("--price-per-hour", "3600", "--max-cost", "0.02", "--tasks", "2")
    done = cloud.llm_ocr(*LAUNCH, *dear, "--wait")
    assert done.returncode == 3
    assert done.stderr.count("budget (--max-cost) exhausted") == 2
    said = [line for job in cloud.hub.jobs.values() for line in job.lines()]
    assert any("share of worker 1 of 2" in line for line in said), said
    submitted = len(cloud.hub.jobs)
    again = cloud.llm_ocr(*LAUNCH, *dear)
    assert again.returncode == 5
    assert f"{READ} has cost $" in " ".join(again.stderr.split())
    assert len(cloud.hub.jobs) == submitted
    more = cloud.llm_ocr(*LAUNCH, "--price-per-hour", "3600", "--max-cost", "1e6", "--wait")
    assert more.returncode == 0, more.stderr
    assert read_status(READ).stages["extract"].items_committed == 8


@pytest.mark.parametrize(
    ("platform", "place", "gpu", "price"),
    [
        ("sagemaker", ("--region", "us-east-1", "--role", "me"), "l40s", 2.8),
        ("sagemaker", ("--region", "us-east-1", "--role", "me"), "l4", 1.222),
        ("aws-batch", ("--region", "us-east-1"), "l4", 0.5772),
        ("cloud-run", ("--region", "us-central1", "--project", "mine"), "l4", 1.42),
    ],
)
def test_each_platform_names_its_machine(
    platform: str, place: tuple[str, ...], gpu: str, price: float
) -> None:

    names = [word.removeprefix("--") for word in place[::2]]
    opened = open_platform(platform, platform_config(dict(zip(names, place[1::2], strict=True))))
    settings = with_price_per_hour({"shard_pages": 2}, opened, GpuType(gpu))
    assert settings["price_per_hour"] == pytest.approx(price, abs=0.005)
    assert settings["shard_pages"] == 2
    assert "price_per_hour" not in with_price_per_hour({}, opened, None)
