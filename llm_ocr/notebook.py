"""Displays for notebooks: inputs, the progress of jobs, results, costs and proposed tests.

Needs the extra `notebooks`.
"""

import asyncio
import base64
import io
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import Markdown, display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageDraw
from rich.console import Console

from llm_ocr.batch.comparison_files import RunComparison, render_comparison
from llm_ocr.batch.interruption import CancellationToken, run_until_stopped
from llm_ocr.document.configure import render_pool
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.evaluation.predictions import open_predictions
from llm_ocr.evaluation.proposals import Proposal
from llm_ocr.evaluation.reporters.text import render
from llm_ocr.evaluation.runner import evaluate, load_references
from llm_ocr.messages import pluralize
from llm_ocr.models.catalog import profile_named
from llm_ocr.platforms.base import Job, JobSpec, JobState, Platform, PlatformError, wait
from llm_ocr.platforms.costs.estimate_table import render_estimate
from llm_ocr.platforms.costs.estimates import Estimate, MachineEstimate, price_pages
from llm_ocr.platforms.costs.page_estimate import PageEstimate
from llm_ocr.platforms.costs.price_files import load_prices
from llm_ocr.platforms.costs.prices import Citation, Interval
from llm_ocr.platforms.costs.throughput import load_throughput
from llm_ocr.records import Page, PageError
from llm_ocr.report.sessions import SessionLog, read_sessions, total_cost
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import absolute_input, list_documents
from llm_ocr.sources.names import safe_name
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import open_store
from llm_ocr.tables.read import load_descriptions, load_documents, load_figures, load_pages
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import blockquote, escape_inline, figure_address


@dataclass(frozen=True)
class Preview:
    """A document's first page as the model will see it, or why it can't be drawn."""

    name: str
    jpeg: bytes | None
    error: str = ""


def preview_pages(
    inputs: Sequence[str], settings: Settings | None = None, *, count: int = 3
) -> list[Preview]:
    """The first pages of the first documents. Raises NoInputError or StorageError."""
    chosen = settings or Settings()

    async def work(stop: CancellationToken) -> list[Preview]:
        return await stop.guard(
            _render_previews([absolute_input(one) for one in inputs], chosen, count)
        )

    return run_until_stopped(work)


async def _render_previews(inputs: Sequence[str], settings: Settings, count: int) -> list[Preview]:
    policy = profile_named(settings.model).image
    found: list[Preview] = []
    async with render_pool(settings) as pool:
        for planned in await asyncio.to_thread(list_documents, inputs):
            async for document, error in pool.rows(planned):
                try:
                    if error is not None:
                        raise error
                    image = await pool.render(Page(document, 1), policy)
                    found.append(Preview(document.name, image.jpeg))
                except PageError as refused:
                    found.append(Preview(document.name, None, refused.message))
                finally:
                    pool.release(document)
                if len(found) == count:
                    return found
    return found


# Pages for which costs are compared: so many that start-up times of machines hardly matter.
MANY_PAGES = 100_000
LABEL_COLORS = {"table": "seagreen", "image": "darkorange", "image_caption": "goldenrod"}
OTHER_COLOR = "steelblue"


def run_commands(*commands: str, do: bool) -> None:
    """Print shell commands; with `do` also run them, one after the other.

    Raises CalledProcessError for the first one that fails.
    """
    for command in commands:
        print(f"$ {command}", flush=True)  # noqa: T201
        if do:
            done = subprocess.run(
                ["bash", "-c", command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            print(done.stdout, end="")  # noqa: T201
            done.check_returncode()


def show_first_pages(source: str, count: int = 3) -> None:
    """Show the first pages of some documents. Raises NoInputError or StorageError."""
    previews = preview_pages([source], count=count)
    figure, axes = plt.subplots(1, len(previews), figsize=(12, 5), squeeze=False)
    for axis, preview in zip(axes[0], previews, strict=True):
        if preview.jpeg is not None:
            axis.imshow(Image.open(io.BytesIO(preview.jpeg)))
        axis.set_title(preview.error or preview.name, wrap=True, fontsize=9)
        axis.axis("off")
    _show(figure)


def show_estimate(estimate: Estimate) -> None:
    """Print the estimated cost on every platform, as `llm-ocr plan` does."""
    Console(width=100, force_jupyter=False).print(render_estimate(estimate), highlight=False)


def show_costs(model: str = "deepseek-ocr") -> None:
    """Show the cost of 1,000 pages (of 100,000): published GPU speeds at the platforms' prices,
    next to commercial APIs, with the source and the date of each figure. Nothing is measured.
    """
    many = Interval(MANY_PAGES, MANY_PAGES, MANY_PAGES)
    pages = PageEstimate(1, 1, 0, many)
    estimate = price_pages(pages, load_prices(), load_throughput(), model=model)
    bars = [
        (
            f"{offer.platform} {offer.machine}",
            _thousand(offer.cost),
            offer.price_source,
            "steelblue",
        )
        for offer in estimate.offers
    ]
    bars += [(api.title, _thousand(api.cost), api.source, "silver") for api in estimate.apis]
    bars.sort(key=lambda bar: bar[1].expected)
    figure, axes = plt.subplots(figsize=(12, 0.32 * len(bars) + 1))
    _cost_bars(axes, bars, model)
    _show(figure)
    speeds = {f"speed on {offer.gpu}": offer.speed_source for offer in estimate.offers}
    sources = speeds | {f"price: {name}": source for name, _, source, _ in bars}
    display(Markdown("\n".join(_sources(sources))))


def _thousand(cost: Interval) -> Interval:
    return cost.scale(1000 / MANY_PAGES)


def _cost_bars(axes: Axes, bars: Sequence[tuple[str, Interval, Citation, str]], model: str) -> None:
    expected = [cost.expected for _, cost, _, _ in bars]
    below = [cost.expected - cost.low for _, cost, _, _ in bars]
    above = [cost.high - cost.expected for _, cost, _, _ in bars]
    names = [f"{name}*" if source.second_hand else name for name, _, source, _ in bars]
    colors = [color for *_, color in bars]
    drawn = axes.barh(names, expected, xerr=[below, above], color=colors, capsize=2)
    axes.bar_label(drawn, [f"${cost:.2f}" for cost in expected], padding=8, fontsize=8)
    axes.margins(x=0.1)
    axes.set(
        title=f"US dollars per 1,000 pages: {model} on GPUs (blue), commercial APIs (gray)",
    )
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)


def _sources(sources: Mapping[str, Citation]) -> Iterator[str]:
    yield f"For {MANY_PAGES:,} pages, including the start of machines. `*`: a second-hand figure."
    yield ""
    yield "| figure | source | retrieved |"
    yield "| --- | --- | --- |"
    for figure, source in sources.items():
        star = "*" if source.second_hand else ""
        yield f"| {figure}{star} | {source.url} | {source.date} |"


def run_job(platform: Platform, spec: JobSpec) -> Job:
    """Submit a job, print its progress, and return it when it ends. Raises PlatformError if it
    fails."""

    def print_status(now: Job) -> None:
        tasks = (f"{task.index}: {task.state}" for task in now.tasks)
        print(now.state, *tasks, now.message, now.url, sep="  ")  # noqa: T201

    job_id = platform.submit(spec)
    print(f"{job_id}: llm-ocr jobs logs {platform.name} {job_id} --task 0 --follow")  # noqa: T201
    job = wait(platform, job_id, print_status)
    if job.state is not JobState.SUCCEEDED:
        messages = [job.message, *(f"task {task.index}: {task.message}" for task in job.tasks)]
        raise PlatformError(f"{job_id} {job.state}: {'; '.join(filter(None, messages))}")
    return job


def read_summary(out: str) -> dict[str, Any]:
    """Read the summary of a run; raises ValueError if its counts don't add up."""
    summary: dict[str, Any] = json.loads(open_store(out).get("summary.json"))
    if sum(summary["pages_by_status"].values()) != summary["pages"]:
        raise ValueError(f"{out}: the counts of pages don't add up: {summary['pages_by_status']}")
    return summary


def show_page(out: str) -> None:
    """Show the page with the most blocks, each with its box and label."""
    display(page_with_boxes(max(load_pages(out), key=lambda page: len(page["blocks"]))))


def show_document(out: str) -> None:
    """Show the document with the most figures, as Markdown."""
    document = max(load_documents(out), key=lambda row: row["markdown"].count("](figures/"))
    figures = [row for row in load_figures(out) if row["doc_id"] == document["doc_id"]]
    display(Markdown(with_figures(document["markdown"], figures)))


def show_figures(out: str, count: int = 3) -> None:
    """Show some figures with their captions and descriptions."""
    descriptions = {row["figure_id"]: row["text"] for row in load_descriptions(out)}
    for row in list(load_figures(out))[:count]:
        display(Image.open(io.BytesIO(row["image"]["bytes"])))
        description = descriptions.get(row["figure_id"]) or "no description"
        caption = escape_inline(row["caption"] or "no caption", formulas=True)
        display(Markdown(f"*{caption}*\n\n{blockquote(description)}"))


def show_proposals(out: str, proposals: Sequence[Proposal]) -> None:
    """Show a small image of each page that has proposed tests, with the tests below it."""
    pictures = {
        (page.document, page.number): page.jpeg
        for page in open_predictions(out).pages_with_images(
            {(page["name"], page["page_number"]) for page in load_pages(out)}
        )
    }
    for (name, number), jpeg in pictures.items():
        of_page = [
            proposal
            for proposal in proposals
            if proposal.test["page"] == number and safe_name(PurePath(proposal.test["pdf"])) == name
        ]
        if of_page and jpeg is not None:
            picture = Image.open(io.BytesIO(jpeg))
            picture.thumbnail((700, 700))
            display(picture)
            display(Markdown("\n".join(_proposal_table(of_page))))


def _proposal_table(proposals: Sequence[Proposal]) -> Iterator[str]:
    yield "| id | test | reason |"
    yield "| --- | --- | --- |"
    for proposal in proposals:
        fields = {
            key: value for key, value in proposal.test.items() if key not in ("pdf", "page", "id")
        }
        test = "; ".join(f"{key}: {value}" for key, value in fields.items())
        cells = (
            str(cell).replace("|", "\\|") for cell in (proposal.test["id"], test, proposal.reason)
        )
        yield f"| {' | '.join(cells)} |"


def show_evaluation(out: str, tests: str) -> None:
    """Print the evaluation of a run by tests or ground truth, as `llm-ocr eval` does. Raises
    NothingToEvaluateError."""
    console = Console(width=100, force_jupyter=False)
    for result in evaluate(open_predictions(out), load_references([tests])):
        console.print(render(result), highlight=False)
        for problem in result.problems:
            print(problem)  # noqa: T201


def show_comparison(comparison: RunComparison) -> None:
    """Print a comparison of two runs, as `llm-ocr compare` does."""
    Console(width=100, force_jupyter=False).print(render_comparison(comparison), highlight=False)


def show_against_estimate(out: str, offer: MachineEstimate) -> None:
    """Show the actual speed and cost next to the estimate, and how the page counts of the sessions
    add up to the run's.

    A session is one start of a task. Neither the time of a session that was killed nor what the
    platform charges for starting machines is counted here; the bill includes both. Pages that the
    embedded engine read on CPUs are not compared with the estimate, which is for GPUs.
    """
    sessions = read_sessions(open_store(run_uri(out)))
    reading = [session for session in sessions if "extract" in session.stages]
    pages = read_summary(out)["pages"]
    if any(_on_cpu(session) for session in reading):
        figure, axes = plt.subplots(figsize=(6, 3.5))
        _speeds(axes, reading, None)
        _show(figure)
        print(  # noqa: T201
            "The embedded engine read these pages on CPUs: they are not compared with the speed "
            f"and the price of {offer.machine}."
        )
    else:
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.5))
        _speeds(left, reading, offer.pages_per_minute)
        _costs(right, total_cost(reading) or 0.0, offer.cost)
        _show(figure)
        cost = total_cost(sessions) or 0.0
        print(f"all stages: ${cost:.2f}, ${1000 * cost / pages:.2f} for 1,000 pages")  # noqa: T201
    for line in explain_counts(reading, pages):
        print(line)  # noqa: T201


def explain_counts(reading: Sequence[SessionLog], pages: int) -> list[str]:
    """Explain how the page counts of the sessions relate to the run's `pages`: sessions may be
    killed, and pages may be read twice."""
    ended = [session for session in reading if session.seconds is not None]
    killed, read = len(reading) - len(ended), sum(session.pages for session in ended)
    addends = " + ".join(str(session.pages) for session in ended) or "no"
    lines = [f"Sessions that ended read {addends} pages, {read} in all; the run has {pages}."]
    if read > pages:
        lines.append(
            f"That is {read - pages} more than there are: tasks that are done read what others "
            "have not committed yet, and of two readings of a page the one that is committed first "
            "is kept."
        )
    if killed:
        subject = "1 session was" if killed == 1 else f"{killed} sessions were"
        lines.append(
            f"{subject} killed and left no count. Pages that were staged by then are in the run "
            "and in nobody's count; the others were read again, and count for the session that did."
        )
    if read < pages:
        uncounted = pluralize(pages - read, "page")
        lines.append(f"In no session's count: {uncounted} of the run.")
    return lines


def show_bottlenecks(out: str) -> None:
    """Show what limited the speed of the sessions that read pages, as shares of their time."""
    sessions = read_sessions(open_store(run_uri(out)))
    measured = [
        session for session in sessions if session.bottlenecks and session.pages and session.seconds
    ]
    if not measured:
        print("Unknown: no session that read pages has ended, or all were too short.")  # noqa: T201
        return
    seconds = sum(session.seconds or 0 for session in measured)
    shares: dict[str, float] = {}
    for session in measured:
        for name, share in session.bottlenecks.items():
            shares[name] = shares.get(name, 0.0) + share * (session.seconds or 0) / seconds
    by_share = sorted(shares.items(), key=lambda share: -share[1])
    rows = [f"| {name} | {share:.0%} |" for name, share in by_share]
    display(Markdown("\n".join(["| bottleneck | share of the time |", "| --- | --- |", *rows])))


def _on_cpu(session: SessionLog) -> bool:
    return session.readers.get("extract", {}).get("profile") == EMBEDDED.id


def _speeds(axes: Axes, reading: Sequence[SessionLog], planned: Interval | None) -> None:
    names = [f"session {number}, task {session.worker}" for number, session in enumerate(reading)]
    speeds = [60 * session.pages / session.seconds if session.seconds else 0 for session in reading]
    bars = axes.barh(names, speeds)
    labels = [
        pluralize(session.pages, "page") if session.seconds else "killed: no count"
        for session in reading
    ]
    axes.bar_label(bars, labels, padding=3, fontsize=8)
    axes.margins(x=0.3)
    if planned is not None:
        axes.axvspan(planned.low, planned.high, color="goldenrod", alpha=0.3, label="estimate")
        axes.axvline(planned.expected, color="goldenrod")
        axes.legend(fontsize=8)
    axes.set(title="pages per minute")
    axes.invert_yaxis()


def _costs(axes: Axes, cost: float, planned: Interval) -> None:
    around = [[planned.expected - planned.low], [planned.high - planned.expected]]
    axes.barh(
        ["estimate"], [planned.expected], xerr=around, color="goldenrod", alpha=0.6, capsize=4
    )
    axes.barh(["sessions"], [cost])
    axes.set(title="US dollars for reading the pages")
    axes.invert_yaxis()


def _show(figure: Figure) -> None:
    """Display the figure once: closed figures are not shown again at the end of the cell."""
    figure.tight_layout()
    display(figure)
    plt.close(figure)


def page_with_boxes(page: Row, longest_side: int = 1000) -> Image.Image:
    """The page image with its blocks as labeled boxes."""
    picture = Image.open(io.BytesIO(page["image"]["bytes"])).convert("RGB")
    draw = ImageDraw.Draw(picture)
    for block in page["blocks"]:
        if block["x1"] is not None:
            color = LABEL_COLORS.get(block["label"], OTHER_COLOR)
            box = (block["x1"], block["y1"], block["x2"], block["y2"])
            draw.rectangle(box, outline=color, width=4)
            draw.text((block["x1"], block["y1"] - 24), block["label"], fill=color, font_size=22)
    picture.thumbnail((longest_side, longest_side))
    return picture


def with_figures(markdown: str, figures: Iterable[Row]) -> str:
    """A document's Markdown with figures as data URIs."""
    for figure in figures:
        data = base64.b64encode(figure["image"]["bytes"]).decode()
        name = f"]({figure_address(figure['name'])})"
        markdown = markdown.replace(name, f"](data:image/jpeg;base64,{data})")
    return markdown
