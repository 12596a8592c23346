"""Renders a cost estimate as tables for a terminal of 80 columns, or in more detail of 100."""

from collections.abc import Callable, Iterable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from llm_ocr.messages import pluralize
from llm_ocr.platforms.costs.estimates import ApiEstimate, Estimate, MachineEstimate
from llm_ocr.platforms.costs.page_estimate import PageEstimate
from llm_ocr.platforms.costs.prices import Citation, Interval
from llm_ocr.report.summary import Explain, without_advice

UNREADABLE_SHOWN = 3
# Columns that the whole table of machines needs.
WIDE = 100
# The longest name of a machine: a line may break before it, and not within.
MACHINE = 15


def render_estimate(
    estimate: Estimate,
    width: int = WIDE,
    explain: Explain = without_advice,
    details: str = "the fields of Estimate",
) -> Group:
    """The input's pages, their cost on each machine and API, and where the figures are from.

    On fewer than 100 columns (80 at least) the parts of the cost are left out. `explain` adds to an
    error, by its code, what helps; `details` says where to find what the tables leave out.
    """
    is_wide = width >= WIDE
    machines = _machines(estimate, is_wide)
    parts: list[Text | Table] = [_input(estimate.survey, explain), Text(), machines, Text()]
    if estimate.apis:
        parts += [_apis(estimate.apis, estimate.survey), Text()]
    if not is_wide:
        more = f"GPU hours, starts and storage: on {WIDE} columns, or see {details}."
        parts.append(Text(more, "dim"))
    parts += [Text(line, "dim") for line in _notes(estimate, details)]
    return Group(*parts)


def _input(pages: PageEstimate, explain: Explain) -> Text:
    sampled = "all counted" if pages.counted == pages.documents else f"{pages.counted:,} counted"
    count = pluralize(round(pages.pages.expected), "page")
    if not pages.is_exact:
        count = f"about {count} ({pages.pages.low:,.0f}-{pages.pages.high:,.0f})"
    text = Text(f"{pluralize(pages.documents, 'file')} ({sampled}), {_size(pages.bytes)}: ")
    text.append(count, "bold")
    if pages.unreadable:
        text.append(f"\n{len(pages.unreadable):,} of those counted can't be opened:", "yellow")
        for one in pages.unreadable[:UNREADABLE_SHOWN]:
            text.append(f"\n  {explain(one.error, one.error_code)}", "yellow")
    return text


def _machines(estimate: Estimate, is_wide: bool) -> Table:
    count = estimate.tasks
    tasks = "1 task" if count == 1 else f"{pluralize(count, 'task')} at once"
    title = f"{estimate.model}, {tasks}"
    # One space between columns: nine of them have to fit into 100.
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("where", overflow="fold", min_width=MACHINE)
    table.add_column("GPU", no_wrap=True)
    rows = [_row(offer, is_wide) for offer in estimate.offers]
    for name in rows[0]:
        table.add_column(name, justify="right", no_wrap=True)
    for offer, row in zip(estimate.offers, rows, strict=True):
        gpu = offer.gpu if offer.gpus == 1 else f"{offer.gpus}x{offer.gpu}"
        table.add_row(f"{offer.platform} {offer.machine}", gpu, *row.values())
    return table


def _row(offer: MachineEstimate, is_wide: bool) -> dict[str, str | Text]:
    """A machine's figures by the names of their columns."""
    parts = {
        "starts": render_money(offer.start_cost),
        "storage": render_money(offer.storage.expected),
    }
    hours = {"GPU hours": render_interval(offer.gpu_hours, _hours)}
    return {
        "$/h": f"{offer.price_per_hour:.2f}",
        "pages/min": f"{offer.pages_per_minute.expected:,.0f}",
        **(hours if is_wide else {}),
        "time": render_interval(offer.wall_hours, _duration),
        **(parts if is_wide else {}),
        "cost": render_cost(offer.cost, "bold"),
    }


def _apis(apis: Iterable[ApiEstimate], pages: PageEstimate) -> Table:
    table = Table(title="Commercial APIs", title_justify="left", box=None, pad_edge=False)
    table.add_column("API", no_wrap=True)
    for name in ("per 1,000 pages", "cost", "by its batch API"):
        table.add_column(name, justify="right", no_wrap=True)
    for api in apis:
        per_thousand = api.cost.expected / pages.pages.expected * 1000
        batch = "" if api.batch is None else render_money(api.batch.expected)
        mark = "*" if api.source.second_hand else ""
        table.add_row(
            f"{api.title}{mark}", render_money(per_thousand), render_cost(api.cost), batch
        )
    return table


def _notes(estimate: Estimate, details: str) -> list[str]:
    offers, unmeasured = estimate.offers, estimate.unmeasured
    lines = [
        "US dollars without tax. From - to: fewest pages at the highest speed, most at the lowest.",
        "For reading pages alone: describing their figures costs extra (docs: Costs).",
    ]
    if unmeasured:
        lines.append(f"No measured speed of {estimate.model} on {', '.join(unmeasured)}.")
    if any(offer.spot for offer in offers):
        lines.append("Spot prices change, and machines get reclaimed: pages in flight cost again.")
    sources = {offer.gpu: f"Speed on {offer.gpu}: {cite(offer.speed_source)}" for offer in offers}
    sources |= {
        offer.platform: f"Prices of {offer.platform}: {cite(offer.price_source)}"
        for offer in offers
    }
    lines += sources.values()
    lines.append(f"* as quoted by others; where each price is from, and when: {details}")
    return lines


def cite(source: Citation) -> str:
    parts = ", ".join(part for part in (source.url, source.date) if part)
    return f"{parts}*" if source.second_hand else parts


def render_cost(cost: Interval, style: str = "") -> Text:
    between = render_interval(cost, render_money)
    return Text.assemble(
        (render_money(cost.expected), style), f" ({between})" if "-" in between else ""
    )


def render_interval(interval: Interval, render: Callable[[float], str]) -> str:
    low, high = render(interval.low), render(interval.high)
    return low if low == high else f"{low}-{high.removeprefix('$')}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2f}"


def render_money(dollars: float) -> str:
    if dollars >= 100:
        return f"${dollars:,.0f}"
    return f"${dollars:.2f}"


def _duration(hours: float) -> str:
    minutes = round(hours * 60)
    if minutes < 100:
        return f"{minutes}m"
    return f"{hours:,.1f}h" if hours < 48 else f"{hours / 24:,.1f}d"


def _size(size: int) -> str:
    for unit, power in (("GB", 9), ("MB", 6)):
        if size >= 10**power:
            return f"{size / 10**power:,.1f} {unit}"
    return f"{size / 1000:,.1f} kB"
