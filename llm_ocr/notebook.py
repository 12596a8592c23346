"""What notebooks show: the input, a job's progress, the results and their cost, tests of them.

Needs the extra `notebooks`.
"""

import base64
import io
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import Markdown, display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, ImageDraw
from rich.console import Console

from llm_ocr.engines.embedded.command import EMBEDDED
from llm_ocr.evaluation.predictions import open_predictions
from llm_ocr.evaluation.proposals import Proposal
from llm_ocr.evaluation.reporters.text import render
from llm_ocr.evaluation.runner import evaluate, load_references
from llm_ocr.messages import counted
from llm_ocr.pipeline.preview import preview_pages
from llm_ocr.platforms.base import Job, JobSpec, JobState, Platform, PlatformError, wait
from llm_ocr.platforms.costs.estimate_table import render_estimate
from llm_ocr.platforms.costs.estimates import Estimate, MachineEstimate, price_pages
from llm_ocr.platforms.costs.page_estimate import PageEstimate
from llm_ocr.platforms.costs.price_files import load_prices
from llm_ocr.platforms.costs.prices import Citation, Interval
from llm_ocr.platforms.costs.throughput import load_throughput
from llm_ocr.report.sessions import SessionLog, read_sessions, total_cost
from llm_ocr.sources.names import safe_name
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import open_store
from llm_ocr.tables.read import load_descriptions, load_documents, load_figures, load_pages
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import inline, quoted

# Pages that costs are compared for: enough that machines' starts don't decide.
MANY_PAGES = 100_000
LABEL_COLORS = {"table": "seagreen", "image": "darkorange", "image_caption": "goldenrod"}
OTHER_COLOR = "steelblue"


def steps(*commands: str, do: bool) -> None:
    """Commands of a shell: with `do` given one after the other, and else only shown.

    Raises CalledProcessError for one that fails; those after it are not given.
    """
    for command in commands:
        print(f"$ {command}", flush=True)  # noqa: T201
        if do:
            done = subprocess.run(
                ["bash", "-c", command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            print(done.stdout, end="")  # noqa: T201
            done.check_returncode()


def show_preview_pages(place: str, count: int = 3) -> None:
    """The first pages of some documents. Raises NoInputError or StorageError."""
    previews = preview_pages([place], count=count)
    figure, axes = plt.subplots(1, len(previews), figsize=(12, 5), squeeze=False)
    for axis, preview in zip(axes[0], previews, strict=True):
        if preview.jpeg is not None:
            axis.imshow(Image.open(io.BytesIO(preview.jpeg)))
        axis.set_title(preview.error or preview.name, wrap=True, fontsize=9)
        axis.axis("off")
    _show(figure)


def show_plan(estimate: Estimate) -> None:
    """What the pages cost everywhere, as `llm-ocr plan` prints it."""
    Console(width=100, force_jupyter=False).print(render_estimate(estimate), highlight=False)


def show_costs(model: str = "deepseek-ocr") -> None:
    """What 1,000 pages cost, of 100,000: the published speeds of GPUs at their platforms' prices,
    beside commercial APIs; where each figure is from, and when it was read.

    Nothing here is measured on this machine.
    """
    many = Interval(MANY_PAGES, MANY_PAGES, MANY_PAGES)
    pages = PageEstimate(1, 1, 0, many)
    estimate = price_pages(pages, load_prices(), load_throughput(), model=model)
    bars = [
        (f"{one.platform} {one.machine}", _thousand(one.cost), one.price_source, "steelblue")
        for one in estimate.offers
    ]
    bars += [(one.title, _thousand(one.cost), one.source, "silver") for one in estimate.apis]
    bars.sort(key=lambda bar: bar[1].expected)
    figure, axes = plt.subplots(figsize=(12, 0.32 * len(bars) + 1))
    _cost_bars(axes, bars, model)
    _show(figure)
    speeds = {f"speed on {one.gpu}": one.speed_source for one in estimate.offers}
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
        title=f"dollars for 1,000 pages: {model} on GPUs (blue), commercial APIs (gray)",
    )
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)


def _sources(sources: Mapping[str, Citation]) -> Iterator[str]:
    yield f"Of {MANY_PAGES:,} pages, starts of machines included. `*` as quoted by others."
    yield ""
    yield "| figure | from | read |"
    yield "| --- | --- | --- |"
    for what, source in sources.items():
        star = "*" if source.second_hand else ""
        yield f"| {what}{star} | {source.url} | {source.date} |"


def finish(platform: Platform, spec: JobSpec) -> Job:
    """Submit a job, print what changes, and return it at its end. Raises PlatformError for one
    that fails."""

    def tell(now: Job) -> None:
        tasks = (f"{task.index}: {task.state}" for task in now.tasks)
        print(now.state, *tasks, now.message, now.url, sep="  ")  # noqa: T201

    job_id = platform.submit(spec)
    print(f"{job_id}: llm-ocr jobs logs {platform.name} {job_id} --task 0 --follow")  # noqa: T201
    job = wait(platform, job_id, tell)
    if job.state is not JobState.SUCCEEDED:
        said = [job.message, *(f"task {task.index}: {task.message}" for task in job.tasks)]
        raise PlatformError(f"{job_id} {job.state}: {'; '.join(filter(None, said))}")
    return job


def summary_of(out: str) -> dict[str, Any]:
    """A run's summary, in which every page has ended in exactly one status."""
    summary: dict[str, Any] = json.loads(open_store(out).get("summary.json"))
    if sum(summary["pages_by_status"].values()) != summary["pages"]:
        raise ValueError(f"{out}: counts don't balance, {summary['pages_by_status']}")
    return summary


def show_page(out: str) -> None:
    """The page with the most blocks, each with its box and label."""
    display(page_with_boxes(max(load_pages(out), key=lambda page: len(page["blocks"]))))


def show_document(out: str) -> None:
    """The document with the most figures, as Markdown."""
    document = max(load_documents(out), key=lambda one: one["markdown"].count("](figures/"))
    mine = [one for one in load_figures(out) if one["doc_id"] == document["doc_id"]]
    display(Markdown(with_figures(document["markdown"], mine)))


def show_figures(out: str, count: int = 3) -> None:
    """Some figures, with captions and descriptions."""
    said = {row["figure_id"]: row["text"] for row in load_descriptions(out)}
    for row in list(load_figures(out))[:count]:
        display(Image.open(io.BytesIO(row["image"]["bytes"])))
        told = said.get(row["figure_id"]) or "no description"
        caption = inline(row["caption"] or "no caption", formulas=True)
        display(Markdown(f"*{caption}*\n\n{quoted(told)}"))


def show_proposals(out: str, proposals: Sequence[Proposal]) -> None:
    """Each page that tests are proposed of, small, with its tests below it."""
    pictures = {
        (page.document, page.number): page.jpeg
        for page in open_predictions(out).pages_with_images(
            {(page["name"], page["page_number"]) for page in load_pages(out)}
        )
    }
    rest = list(proposals)
    for (name, number), jpeg in pictures.items():
        mine = [
            one
            for one in rest
            if one.test["page"] == number and safe_name(PurePath(one.test["pdf"])) == name
        ]
        if mine and jpeg is not None:
            picture = Image.open(io.BytesIO(jpeg))
            picture.thumbnail((700, 700))
            display(picture)
            display(Markdown("\n".join(_proposed(mine))))


def _proposed(proposals: Sequence[Proposal]) -> Iterator[str]:
    yield "| id | asks | because |"
    yield "| --- | --- | --- |"
    for one in proposals:
        asked = {key: one.test[key] for key in one.test if key not in ("pdf", "page", "id")}
        said = "; ".join(f"{key}: {value}" for key, value in asked.items())
        cells = (str(cell).replace("|", "\\|") for cell in (one.test["id"], said, one.reason))
        yield f"| {' | '.join(cells)} |"


def show_evaluation(out: str, tests: str) -> None:
    """A run by tests or ground truth, as `llm-ocr eval` prints it. Raises
    NothingToEvaluateError."""
    console = Console(width=100, force_jupyter=False)
    for result in evaluate(open_predictions(out), load_references([tests])):
        console.print(render(result), highlight=False)
        for problem in result.problems:
            print(problem)  # noqa: T201


def show_against_plan(out: str, offer: MachineEstimate) -> None:
    """Speed and cost of reading the pages, beside what the plan said, and how the sessions' counts
    make the run's.

    A session is one start of a task; one that was killed can't say what it took, nor is what the
    platform charges for starts in any of them: the bill has both. Pages that the embedded engine
    read are compared with no GPU: a CPU's minutes are not to be had at a GPU's price.
    """
    sessions = read_sessions(open_store(run_uri(out)))
    reading = [one for one in sessions if "extract" in one.stages]
    pages = summary_of(out)["pages"]
    if any(_on_cpu(one) for one in reading):
        figure, axes = plt.subplots(figsize=(6, 3.5))
        _speeds(axes, reading, None)
        _show(figure)
        print(  # noqa: T201
            "The embedded engine read these pages, on CPUs: neither the speed nor the price of "
            f"{offer.machine} is compared with it."
        )
    else:
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.5))
        _speeds(left, reading, offer.pages_per_minute)
        _costs(right, total_cost(reading) or 0.0, offer.cost)
        _show(figure)
        whole = total_cost(sessions) or 0.0
        print(f"all stages: ${whole:.2f}, ${1000 * whole / pages:.2f} for 1,000 pages")  # noqa: T201
    for line in explained_counts(reading, pages):
        print(line)  # noqa: T201


def explained_counts(reading: Sequence[SessionLog], pages: int) -> list[str]:
    """How the pages that sessions counted make the run's `pages`, though some were killed, and
    some pages read twice."""
    ended = [one for one in reading if one.seconds is not None]
    killed, read = len(reading) - len(ended), sum(one.pages for one in ended)
    said = [
        f"Sessions that ended read {' + '.join(str(one.pages) for one in ended) or 'no'} pages, "
        f"{read} in all; the run has {pages}."
    ]
    if read > pages:
        said.append(
            f"That is {read - pages} more than there are: tasks that are done read what others "
            "have not committed yet, and of two readings of a page the one that is committed first "
            "is kept."
        )
    if killed:
        some = "1 session was" if killed == 1 else f"{killed} sessions were"
        said.append(
            f"{some} killed and left no count. Pages that were staged by then are in the run "
            "and in nobody's count; the others were read again, and count for the session that did."
        )
    if read < pages:
        uncounted = counted(pages - read, "page")
        said.append(f"In no session's count: {uncounted} of the run.")
    return said


def show_held_back(out: str) -> None:
    """What the sessions that read pages waited for, as shares of their time."""
    sessions = read_sessions(open_store(run_uri(out)))
    measured = [one for one in sessions if one.bottlenecks and one.pages and one.seconds]
    if not measured:
        print("Not known: no session that read pages has ended, or all were too short.")  # noqa: T201
        return
    seconds = sum(one.seconds or 0 for one in measured)
    shares: dict[str, float] = {}
    for one in measured:
        for name, share in one.bottlenecks.items():
            shares[name] = shares.get(name, 0.0) + share * (one.seconds or 0) / seconds
    most = sorted(shares.items(), key=lambda share: -share[1])
    rows = [f"| {name} | {share:.0%} |" for name, share in most]
    display(Markdown("\n".join(["| held back by | of the time |", "| --- | --- |", *rows])))


def _on_cpu(session: SessionLog) -> bool:
    return session.readers.get("extract", {}).get("profile") == EMBEDDED.id


def _speeds(axes: Axes, reading: Sequence[SessionLog], planned: Interval | None) -> None:
    names = [f"session {number}, task {one.worker}" for number, one in enumerate(reading)]
    bars = axes.barh(names, [60 * one.pages / one.seconds if one.seconds else 0 for one in reading])
    said = [counted(one.pages, "page") if one.seconds else "killed: no count" for one in reading]
    axes.bar_label(bars, said, padding=3, fontsize=8)
    axes.margins(x=0.3)
    if planned is not None:
        axes.axvspan(planned.low, planned.high, color="goldenrod", alpha=0.3, label="planned")
        axes.axvline(planned.expected, color="goldenrod")
        axes.legend(fontsize=8)
    axes.set(title="pages a minute")
    axes.invert_yaxis()


def _costs(axes: Axes, cost: float, planned: Interval) -> None:
    around = [[planned.expected - planned.low], [planned.high - planned.expected]]
    axes.barh(["planned"], [planned.expected], xerr=around, color="goldenrod", alpha=0.6, capsize=4)
    axes.barh(["sessions"], [cost])
    axes.set(title="dollars, for reading the pages")
    axes.invert_yaxis()


def _show(figure: Figure) -> None:
    """Here and now, and not again at the cell's end."""
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
        name = f"](figures/{figure['name']})"
        markdown = markdown.replace(name, f"](data:image/jpeg;base64,{data})")
    return markdown
