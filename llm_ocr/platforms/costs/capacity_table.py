"""Renders the plan of a service as tables for a terminal of 80 columns or more."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from llm_ocr.messages import format_duration, pluralize
from llm_ocr.platforms.costs.capacity import ServiceOffer, ServicePlan
from llm_ocr.platforms.costs.estimate_table import (
    MACHINE,
    WIDE,
    cite,
    render_cost,
    render_interval,
    render_money,
)


def render_plan(
    plan: ServicePlan, width: int = WIDE, details: str = "the fields of ServicePlan"
) -> Group:
    """The load, the GPUs and their price on each machine, the other processes, and the sources.

    On fewer than 100 columns (80 at least) utilization and the price of a month are left out.
    `details` says where to find what the tables leave out.
    """
    parts: list[Text | Table] = [_load(plan), Text(), _machines(plan, width >= WIDE), Text()]
    parts += [_processes(plan), Text()]
    parts += [Text(line, "dim") for line in _notes(plan, details)]
    return Group(*parts)


def _load(plan: ServicePlan) -> Text:
    load = plan.load
    documents = pluralize(round(load.documents_per_day), "document")
    within = format_duration(load.within_seconds)
    text = Text(f"{documents} of {load.pages:g} pages a day: ")
    text.append(f"{load.pages_per_day:,.0f} pages", "bold")
    text.append(
        f", {load.peak_pages_per_second:.2f} per second in the busiest hour "
        f"({load.peak:g} times the mean); 95% of documents within {within}"
    )
    return text


def _machines(plan: ServicePlan, is_wide: bool) -> Table:
    table = Table(
        title=plan.model, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("where", overflow="fold", min_width=MACHINE)
    rows = [_row(offer, is_wide) for offer in plan.offers]
    for name in rows[0]:
        table.add_column(name, justify="right", no_wrap=True)
    for offer, row in zip(plan.offers, rows, strict=True):
        table.add_row(f"{offer.platform} {offer.machine}", *row.values())
    return table


def _row(offer: ServiceOffer, is_wide: bool) -> dict[str, str | Text]:
    """A machine's figures by the names of their columns."""
    used = {"used": f"{offer.peak_utilization:.0%}"}
    month = {"a month": render_interval(offer.per_month, render_money)}
    return {
        "GPUs": f"{offer.replicas} {offer.gpu}",
        "requests": str(offer.window),
        **(used if is_wide else {}),
        "P50": format_duration(offer.latency.p50),
        "P95": format_duration(offer.latency.p95),
        **(month if is_wide else {}),
        "a day": render_cost(offer.per_day, "bold"),
        "1,000 pages": render_money(offer.per_thousand_pages.expected),
    }


def _processes(plan: ServicePlan) -> Table:
    table = Table(
        title="Beside the GPUs",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("GPUs")
    names = ("workers x tasks", "gateways", "inference", "cores", "database", "storage")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    seen: set[str] = set()
    for offer in plan.offers:
        if offer.gpu in seen:
            continue
        seen.add(offer.gpu)
        tiers = offer.tiers
        table.add_row(
            f"{offer.replicas} {offer.gpu}",
            f"{tiers.workers} x {tiers.tasks}",
            str(tiers.gateways),
            str(tiers.inference_processes),
            str(tiers.cores),
            f"{tiers.database_connections} connections",
            f"{tiers.storage_gb_month:,.0f} GB/month",
        )
    return table


def _notes(plan: ServicePlan, details: str) -> list[str]:
    lines = [
        "US dollars without tax, for machines that run day and night. From - to: the highest and "
        "the lowest speed. Prices include cores and storage, but no database service.",
        "GPUs: replicas of the inference tier; requests: `max_concurrency` of each; used: share of "
        "the GPUs in the busiest hour.",
        "Latency by an approximation of M/G/c (Allen-Cunneen): docs, Capacity of the service.",
    ]
    if plan.unmeasured:
        lines.append(f"No measured speed of {plan.model} on {', '.join(plan.unmeasured)}.")
    if plan.too_slow:
        lines.append(f"Too slow for this time: {', '.join(plan.too_slow)}.")
    speeds = {f"Speed on {offer.gpu}: {cite(offer.speed_source)}": None for offer in plan.offers}
    prices = {
        f"Prices of {offer.platform}: {cite(offer.price_source)}": None for offer in plan.offers
    }
    lines += [*speeds, *prices, f"CPU per page: {cite(plan.tier_source)}"]
    lines.append(f"* as quoted by others; where each price is from, and when: {details}")
    return lines
