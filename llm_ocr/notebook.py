"""What notebooks show: the input, a job's progress, the results and their cost, tests of them.

Needs the extra `notebooks`.
"""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import Markdown, display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console

from llm_ocr.evaluation.asking import evaluate, load
from llm_ocr.evaluation.printing import render
from llm_ocr.evaluation.propose import Proposal
from llm_ocr.evaluation.readings import open_readings
from llm_ocr.markdown import inline, quoted
from llm_ocr.messages import counted
from llm_ocr.pipeline.preview import first_pages
from llm_ocr.platforms.base import Job, JobSpec, Platform, PlatformError, State, wait
from llm_ocr.platforms.offers import Offer, Quote
from llm_ocr.platforms.prices import Interval
from llm_ocr.platforms.quote_table import render_quote
from llm_ocr.report.pictures import page_with_boxes, with_figures
from llm_ocr.report.sessions import SessionRecord, read_sessions, total_cost
from llm_ocr.sources.names import safe_name
from llm_ocr.storage.hub_address import run_place
from llm_ocr.storage.store import open_store
from llm_ocr.tables.read import load_descriptions, load_documents, load_figures, load_pages


def show_first_pages(place: str, count: int = 3) -> None:
    """The first pages of some documents. Raises NoInputError or StorageError."""
    previews = first_pages([place], count=count)
    figure, axes = plt.subplots(1, len(previews), figsize=(12, 5), squeeze=False)
    for axis, preview in zip(axes[0], previews, strict=True):
        if preview.jpeg is not None:
            axis.imshow(Image.open(io.BytesIO(preview.jpeg)))
        axis.set_title(preview.error or preview.name, wrap=True, fontsize=9)
        axis.axis("off")
    _show(figure)


def show_plan(quote: Quote) -> None:
    """What the pages cost everywhere, as `llm-ocr plan` prints it."""
    Console(width=100, force_jupyter=False).print(render_quote(quote), highlight=False)


def finish(platform: Platform, spec: JobSpec) -> Job:
    """Submit a job, print what changes, and return it at its end. Raises PlatformError for one
    that fails."""

    def tell(now: Job) -> None:
        tasks = (f"{task.index}: {task.state}" for task in now.tasks)
        print(now.state, *tasks, now.message, now.url, sep="  ")  # noqa: T201

    job_id = platform.submit(spec)
    print(f"{job_id}: llm-ocr jobs logs {platform.name} {job_id} --task 0 --follow")  # noqa: T201
    job = wait(platform, job_id, tell)
    if job.state is not State.SUCCEEDED:
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
        for page in open_readings(out).pictured(
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
        cells = (str(cell).replace("|", "\\|") for cell in (one.test["id"], said, one.why))
        yield f"| {' | '.join(cells)} |"


def show_evaluation(out: str, tests: str) -> None:
    """A run by tests or ground truth, as `llm-ocr eval` prints it. Raises
    NothingToEvaluateError."""
    console = Console(width=100, force_jupyter=False)
    for result in evaluate(open_readings(out), load([tests])):
        console.print(render(result), highlight=False)
        for problem in result.problems:
            print(problem)  # noqa: T201


def show_against_plan(out: str, offer: Offer) -> None:
    """Speed and cost of reading the pages, beside what the plan said.

    A session is one start of a task; one that was killed can't say what it took, nor is what the
    platform charges for starts in any of them: the bill has both.
    """
    sessions = read_sessions(open_store(run_place(out)))
    reading = [one for one in sessions if "extract" in one.stages]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.5))
    _speeds(left, reading, offer.pages_per_minute)
    _costs(right, total_cost(reading) or 0.0, offer.cost)
    _show(figure)
    whole, pages = total_cost(sessions) or 0.0, summary_of(out)["pages"]
    print(f"all stages: ${whole:.2f}, ${1000 * whole / pages:.2f} for 1,000 pages")  # noqa: T201


def _speeds(axes: Axes, reading: Sequence[SessionRecord], planned: Interval) -> None:
    names = [f"session {number}" for number in range(len(reading))]
    bars = axes.barh(names, [60 * one.pages / one.seconds if one.seconds else 0 for one in reading])
    said = [counted(one.pages, "page") if one.seconds else "killed" for one in reading]
    axes.bar_label(bars, said, padding=3, fontsize=8)
    axes.axvspan(planned.low, planned.high, color="goldenrod", alpha=0.3, label="planned")
    axes.axvline(planned.expected, color="goldenrod")
    axes.set(title="pages a minute")
    axes.invert_yaxis()
    axes.legend(fontsize=8)


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
