"""A quote in print: a table to decide from, on 80 columns or, with more of it, on 100."""

from collections.abc import Callable, Iterable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from llm_ocr.messages import counted
from llm_ocr.platforms.offers import ApiOffer, Offer, Quote
from llm_ocr.platforms.prices import Interval, Source
from llm_ocr.platforms.survey import Survey

UNREADABLE_SHOWN = 3
# Columns that the table of offers takes with all it has.
WIDE = 100
# The longest name of a machine: a place's name breaks before it and not within.
MACHINE = 15


def render_quote(quote: Quote, width: int = WIDE) -> Group:
    """What there is to read, what it costs where, and what the figures are from.

    On fewer than 100 columns (80 at least) the parts of the cost are left out.
    """
    is_wide = width >= WIDE
    parts: list[Text | Table] = [_input(quote.survey), Text(), _offers(quote, is_wide), Text()]
    if quote.apis:
        parts += [_apis(quote.apis, quote.survey), Text()]
    if not is_wide:
        more = f"GPU hours, starts and storage: on {WIDE} columns, or with --json."
        parts.append(Text(more, "dim"))
    parts += [Text(line, "dim") for line in _notes(quote)]
    return Group(*parts)


def _input(survey: Survey) -> Text:
    how_many = (
        "all counted" if survey.counted == survey.documents else f"{survey.counted:,} counted"
    )
    pages = counted(round(survey.pages.expected), "page")
    if not survey.is_exact:
        pages = f"about {pages} ({survey.pages.low:,.0f}-{survey.pages.high:,.0f})"
    text = Text(f"{counted(survey.documents, 'file')} ({how_many}), {_size(survey.bytes)}: ")
    text.append(pages, "bold")
    if survey.unreadable:
        text.append(f"\n{len(survey.unreadable):,} of those counted can't be opened:", "yellow")
        for reason in survey.unreadable[:UNREADABLE_SHOWN]:
            text.append(f"\n  {reason}", "yellow")
    return text


def _offers(quote: Quote, is_wide: bool) -> Table:
    tasks = "1 task" if quote.tasks == 1 else f"{counted(quote.tasks, 'task')} at once"
    title = f"{quote.model}, {tasks}"
    # A space between columns: nine of them are to stand on 100.
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("where", overflow="fold", min_width=MACHINE)
    table.add_column("GPU", no_wrap=True)
    rows = [_row(one, is_wide) for one in quote.offers]
    for name in rows[0]:
        table.add_column(name, justify="right", no_wrap=True)
    for one, row in zip(quote.offers, rows, strict=True):
        gpu = one.gpu if one.gpus == 1 else f"{one.gpus}x{one.gpu}"
        table.add_row(f"{one.platform} {one.machine}", gpu, *row.values())
    return table


def _row(one: Offer, is_wide: bool) -> dict[str, str | Text]:
    """An offer's figures by the names of their columns."""
    parts = {"starts": _money(one.start_cost), "storage": _money(one.storage.expected)}
    hours = {"GPU hours": _range(one.gpu_hours, _hours)}
    return {
        "$/h": f"{one.price_per_hour:.2f}",
        "pages/min": f"{one.pages_per_minute.expected:,.0f}",
        **(hours if is_wide else {}),
        "time": _range(one.wall_hours, _duration),
        **(parts if is_wide else {}),
        "cost": _cost(one.cost, "bold"),
    }


def _apis(offers: Iterable[ApiOffer], survey: Survey) -> Table:
    table = Table(title="Commercial APIs", title_justify="left", box=None, pad_edge=False)
    table.add_column("API", no_wrap=True)
    for name in ("per 1,000 pages", "cost", "by its batch API"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in offers:
        each = one.cost.expected / survey.pages.expected * 1000
        batch = "" if one.batch is None else _money(one.batch.expected)
        mark = "*" if one.source.second_hand else ""
        table.add_row(f"{one.title}{mark}", _money(each), _cost(one.cost), batch)
    return table


def _notes(quote: Quote) -> list[str]:
    lines = [
        "US dollars without tax. From - to: fewest pages at the highest speed, most at the lowest.",
        "For reading pages alone: describing their figures comes on top (docs: Costs).",
    ]
    if quote.unmeasured:
        lines.append(f"No measured speed of {quote.model} on {', '.join(quote.unmeasured)}.")
    if any(one.spot for one in quote.offers):
        lines.append("Spot prices change, and machines are taken away: pages in flight cost again.")
    sources = {one.gpu: f"Speed on {one.gpu}: {_from(one.speed_source)}" for one in quote.offers}
    sources |= {
        one.platform: f"Prices of {one.platform}: {_from(one.price_source)}" for one in quote.offers
    }
    lines += sources.values()
    lines.append("* as others quote it; where each price is from, and when: --json")
    return lines


def _from(source: Source) -> str:
    said = ", ".join(part for part in (source.url, source.date) if part)
    return f"{said}*" if source.second_hand else said


def _cost(cost: Interval, style: str = "") -> Text:
    between = _range(cost, _money)
    return Text.assemble((_money(cost.expected), style), f" ({between})" if "-" in between else "")


def _range(interval: Interval, said: Callable[[float], str]) -> str:
    low, high = said(interval.low), said(interval.high)
    return low if low == high else f"{low}-{high.removeprefix('$')}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2f}"


def _money(dollars: float) -> str:
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
