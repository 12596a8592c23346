"""What a run did, as numbers and in print."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice

from rich.console import Group
from rich.table import Table
from rich.text import Text

from llm_ocr import __version__
from llm_ocr.messages import counted
from llm_ocr.records import PageStatus
from llm_ocr.report.descriptions import summarize_descriptions
from llm_ocr.report.doubts import DOUBTED, displayed_status, doubt_message, format_doubts
from llm_ocr.report.integrity import verify_counts
from llm_ocr.report.record_counts import RecordCounts
from llm_ocr.report.sessions import read_sessions, total_cost
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex, CommitSummary
from llm_ocr.tables.counts import Counts, total
from llm_ocr.tables.data_files import published_ranges
from llm_ocr.tables.plan import Plan
from llm_ocr.tables.read import read_range
from llm_ocr.tables.schema import Row

SUMMARY_PATH = "summary.json"
PROBLEMS_SHOWN = 10
STATUS_STYLES = {
    PageStatus.OK: "green",
    PageStatus.BLANK: "dim",
    PageStatus.TRUNCATED: "yellow",
    PageStatus.REPETITIVE: "yellow",
    PageStatus.FALLBACK: "cyan",
    PageStatus.SKIPPED: "dim",
    PageStatus.FAILED: "red",
}
DOUBTED_STYLE = "yellow"
OF_PAGES = [status for status in PageStatus if status is not PageStatus.SKIPPED]


@dataclass(frozen=True)
class PageProblem:
    """Something to look at first: a page (number 0: the whole document), and what is wrong."""

    source_uri: str
    page_number: int
    status: str
    error: str


@dataclass(frozen=True)
class Summary:
    """A run's account. `pages` and `tokens` are of the whole run, and so are `duplicates`, the
    documents with the bytes of another. `seconds`, `pages_done` and the speeds are of this session,
    which may have gone on with an earlier one's work; so are `retries` and what follows.
    `seconds_down` is from the engine's deaths until it answered again. `held_back` says at which
    share (0..1) of the moments the engine, rendering, the network or storage held the run back;
    `gpu_busy` is the GPUs' mean utilization (0..1). `rows` are those of each table; `cost` is in US
    dollars, of all sessions whose price is known (None: of none). `tasks` are the figures of each
    task of Describe by status. `doubts` are the pages that are ok and doubted, by what they are
    doubted for. `records` are counted when they are all there."""

    out: str
    documents: int
    duplicates: int
    pages: int
    pages_by_status: Mapping[str, int]
    errors: Mapping[str, int]
    figures: int
    descriptions: int
    tasks: Mapping[str, Mapping[str, int]]
    prompt_tokens: int
    completion_tokens: int
    attempts: Mapping[str, int]
    seconds: float
    pages_done: int
    pages_per_second: float
    tokens_per_second: float
    retries: int
    engine_restarts: int
    seconds_down: float
    preemptions: int
    widest_window: int
    gpu_busy: float | None
    held_back: Mapping[str, float]
    rows: Mapping[str, int]
    cost: float | None
    model: str
    version: str
    look_at: tuple[PageProblem, ...]
    doubts: Mapping[str, int] = field(default_factory=dict)
    records: RecordCounts = field(default_factory=RecordCounts)

    @property
    def failed_ratio(self) -> float:
        """Share of pages that failed, or of records if it is more, 0..1."""
        records = self.records.by_status.get(PageStatus.FAILED, 0)
        pages = self.pages_by_status.get(PageStatus.FAILED, 0)
        return max(pages / max(1, self.pages), records / max(1, self.records.total))

    def as_dict(self) -> dict[str, object]:
        """The content of `summary.json`."""
        return asdict(self)

    def with_records(self, records: RecordCounts) -> "Summary":
        """The same with the records' account."""
        return replace(self, records=records)


@dataclass
class SessionStats:
    """What one process did of a run: `counts` by stage, since `started` (`time.monotonic()`);
    `engines` answered."""

    started: float
    counts: dict[str, Counts] = field(default_factory=dict)
    retries: int = 0
    engine_restarts: int = 0
    seconds_down: float = 0.0
    preemptions: int = 0
    widest_window: int = 0
    gpu_busy: float | None = None
    held_back: Mapping[str, float] = field(default_factory=dict)
    engines: Sequence[str] = ()

    @property
    def did_anything(self) -> bool:
        return any(counts.items for counts in self.counts.values())


def summarize(
    store: Store, commit_index: CommitIndex, plan: Plan, session: SessionStats
) -> Summary:
    """Summarize the run in `store` from its commits. Raises CountMismatchError."""
    stages = {
        name: _planned(commit_index, name, plan)
        for name in ("extract", "describe", "assemble", "parse")
    }
    verify_counts(plan, **stages)
    pages, described, assembled, parsed = (
        total(entry.counts for entry in stages[name].values()) for name in stages
    )
    seconds = max(1e-9, time.monotonic() - session.started)
    fresh = session.counts.get("extract", Counts())
    tokens = sum(counts.completion_tokens for counts in session.counts.values())
    return Summary(
        out=store.uri,
        documents=_documents(plan, stages["assemble"]),
        duplicates=plan.duplicates,
        pages=pages.items,
        pages_by_status={status.value: pages.statuses.get(status, 0) for status in OF_PAGES},
        errors=dict(sorted(pages.errors.items())),
        figures=pages.rows.get("figures", 0),
        descriptions=described.statuses.get(PageStatus.OK, 0),
        tasks=described.by_task,
        prompt_tokens=sum(one.prompt_tokens for one in (pages, described, parsed)),
        completion_tokens=sum(one.completion_tokens for one in (pages, described, parsed)),
        attempts=dict(sorted(pages.attempts.items())),
        seconds=seconds,
        pages_done=fresh.items,
        pages_per_second=fresh.items / seconds,
        tokens_per_second=tokens / seconds,
        retries=session.retries,
        engine_restarts=session.engine_restarts,
        seconds_down=session.seconds_down,
        preemptions=session.preemptions,
        widest_window=session.widest_window,
        gpu_busy=session.gpu_busy,
        held_back=session.held_back,
        rows=total((pages, described, assembled, parsed)).rows,
        cost=total_cost(read_sessions(store)),
        model=str(plan.settings["model"]),
        version=__version__,
        doubts=dict(sorted(pages.doubts.items())),
        look_at=tuple(islice(_problem_pages(store, stages["extract"]), PROBLEMS_SHOWN)),
    )


def _documents(plan: Plan, assembled: Mapping[str, CommitSummary]) -> int:
    """How many there are; of a shard where nobody counted them, once they are assembled."""
    return sum(
        shard.document_count
        or (assembled[shard.name].counts.items if shard.name in assembled else 0)
        for shard in plan.shards
    )


def _planned(commit_index: CommitIndex, stage: str, plan: Plan) -> dict[str, CommitSummary]:
    """The commits of the plan's shards; a later plan's may have come meanwhile."""
    found = commit_index.entries(stage)
    return {shard.name: found[shard.name] for shard in plan.shards if shard.name in found}


def _problem_pages(store: Store, shards: Mapping[str, CommitSummary]) -> Iterator[PageProblem]:
    """Pages to look at, of the shards that have such: others are not read."""
    columns = ["source_uri", "page_number", "status", "error", "flaw", "agreement"]
    fine = (PageStatus.OK, PageStatus.BLANK)
    doubtful = sorted(
        name
        for name, one in shards.items()
        if one.counts.doubts or set(one.counts.statuses) - {*fine}
    )
    pieces = published_ranges(store, "pages") if doubtful else {}
    for name in doubtful:
        for row in read_range(store, pieces[name], columns) if name in pieces else ():
            if row["status"] not in fine or doubt_message(row):
                said = row["error"] or _of(row, doubt_message(row))
                yield PageProblem(
                    row["source_uri"], row["page_number"], displayed_status(row), said
                )


def _of(row: Row, doubt: str) -> str:
    return f"{row['source_uri']}, page {row['page_number']}: {doubt}" if doubt else ""


def render_summary(summary: Summary) -> Group:
    """The printed form, for a terminal or a log."""
    grid = Table.grid(padding=(0, 2))
    are_copies = "is a copy of another" if summary.duplicates == 1 else "are copies of others"
    copies = f", {summary.duplicates:,} of them {are_copies}" if summary.duplicates else ""
    grid.add_row("Documents", f"{summary.documents:,}{copies}")
    grid.add_row("Pages", Text.assemble(f"{summary.pages:,}  ", *_statuses(summary)))
    for said in format_doubts(summary.doubts):
        grid.add_row("", Text(said, DOUBTED_STYLE))
    grid.add_row(
        "Figures", summarize_descriptions(summary.figures, summary.descriptions, summary.tasks)
    )
    grid.add_row("Tokens", f"{summary.prompt_tokens:,} in, {summary.completion_tokens:,} out")
    grid.add_row("This session", _speed(summary))
    if summary.retries or summary.engine_restarts:
        restarts = (
            f"{counted(summary.engine_restarts, 'engine restart')} ({summary.seconds_down:.0f} s)"
        )
        grid.add_row("Retries", f"{counted(summary.retries, 'request')}, {restarts}")
    if summary.cost is not None:
        grid.add_row("Cost", f"${summary.cost:,.2f}")
    for pair in summary.records.summary_rows():
        grid.add_row(*pair)
    if summary.held_back and summary.pages_done:
        grid.add_row("Held back by", _brakes(summary))
    parts: list[Table | Text] = [grid]
    if summary.look_at:
        parts.append(_problems(summary))
    return Group(*parts)


def _statuses(summary: Summary) -> list[tuple[str, str]]:
    return [
        (f"{count:,} {status}  ", STATUS_STYLES[PageStatus(status)])
        for status, count in summary.pages_by_status.items()
        if count
    ]


def _speed(summary: Summary) -> str:
    if not summary.pages_done:
        return "no page was left to read"
    return (
        f"{counted(summary.pages_done, 'page')} in {summary.seconds:,.1f} s: "
        f"{summary.pages_per_second:.2f} pages/s, {summary.tokens_per_second:,.0f} tokens/s"
    )


def _brakes(summary: Summary) -> str:
    shares = ", ".join(f"{name} {share:.0%}" for name, share in summary.held_back.items())
    busy = "" if summary.gpu_busy is None else f"; GPU busy {summary.gpu_busy:.0%}"
    return (
        f"{shares} of the time; at most {counted(summary.widest_window, 'request')} in flight{busy}"
    )


def _problems(summary: Summary) -> Table:
    table = Table(title="Look at these first", title_justify="left", box=None, pad_edge=False)
    table.add_column("status")
    table.add_column("page", justify="right")
    table.add_column("what is wrong", overflow="fold")
    for problem in summary.look_at:
        style = DOUBTED_STYLE
        if problem.status != DOUBTED:
            style = STATUS_STYLES[PageStatus(problem.status)]
        page = str(problem.page_number) if problem.page_number else "all"
        said = problem.error or problem.source_uri
        table.add_row(Text(problem.status, style), page, Text(said))
    return table
