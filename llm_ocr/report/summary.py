"""Summarize a run: its numbers, and their printed form."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice

from rich.console import Group
from rich.table import Table
from rich.text import Text

from llm_ocr import __version__
from llm_ocr.messages import pluralize
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
# How many of these are records, so that pages are shown, too.
RECORDS_SHOWN = 5
FINE = (PageStatus.OK, PageStatus.BLANK)
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
    """A page or record that needs attention (page 0: the whole document), and what is wrong."""

    source_uri: str
    page_number: int
    status: str
    error: str
    error_code: str | None = None


@dataclass(frozen=True)
class Summary:
    """The summary of a run.

    For the whole run: documents, `duplicates` (documents with the same bytes as another), pages,
    tokens, `errors` by code, `attempts` by rung, `rows` by table, `tasks` (figures of each task of
    Describe by status), `doubts` (pages that are ok but doubted, by reason), `records`, `routed`
    (pages that the embedded engine read instead of the model), `routed_tokens` (of their text), and
    `cost` in US dollars of the sessions with a known price (None if no price is known). `problems`
    are the first pages that need attention.

    For this session, which may have resumed another: `seconds`, `pages_done`, the speeds,
    `saved_seconds` (which the model would have taken for the text of routed pages, at the speed of
    the others; None without any), `retries`, `engine_restarts`, `memory_restarts` (those of them
    that were for the memory that the engine took), `downtime_seconds` (from the death
    of an engine to its next answer), `preemptions`, `peak_concurrency` (requests in flight),
    `gpu_utilization` (0..1), and `bottlenecks`: the share of the time (0..1) in which the engine,
    rendering, the network or storage limited the speed.
    """

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
    downtime_seconds: float
    preemptions: int
    peak_concurrency: int
    gpu_utilization: float | None
    bottlenecks: Mapping[str, float]
    rows: Mapping[str, int]
    cost: float | None
    model: str
    version: str
    problems: tuple[PageProblem, ...]
    doubts: Mapping[str, int] = field(default_factory=dict)
    records: RecordCounts = field(default_factory=RecordCounts)
    routed: int = 0
    routed_tokens: int = 0
    saved_seconds: float | None = None
    memory_restarts: int = 0

    @property
    def failed_ratio(self) -> float:
        """The share (0..1) of failed pages, or of failed records if it is larger."""
        records = self.records.by_status.get(PageStatus.FAILED, 0)
        pages = self.pages_by_status.get(PageStatus.FAILED, 0)
        return max(pages / max(1, self.pages), records / max(1, self.records.total))

    def as_dict(self) -> dict[str, object]:
        """The content of `summary.json`."""
        return asdict(self)

    def with_records(self, records: RecordCounts) -> "Summary":
        """The summary with the counts of records."""
        return replace(self, records=records)


@dataclass
class SessionStats:
    """What one process did: `counts` by stage since `started` (`time.monotonic()`), and the names
    of the `engines` that answered."""

    started: float
    counts: dict[str, Counts] = field(default_factory=dict)
    retries: int = 0
    engine_restarts: int = 0
    memory_restarts: int = 0
    downtime_seconds: float = 0.0
    preemptions: int = 0
    peak_concurrency: int = 0
    gpu_utilization: float | None = None
    bottlenecks: Mapping[str, float] = field(default_factory=dict)
    engines: Sequence[str] = ()

    @property
    def did_anything(self) -> bool:
        return any(counts.items for counts in self.counts.values())


def summarize(
    store: Store, commit_index: CommitIndex, plan: Plan, session: SessionStats
) -> Summary:
    """Summarize the run in `store` from its commits. Raises CountMismatchError."""
    stages = {
        name: _commits_in_plan(commit_index, name, plan)
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
        prompt_tokens=sum(counts.prompt_tokens for counts in (pages, described, parsed)),
        completion_tokens=sum(counts.completion_tokens for counts in (pages, described, parsed)),
        attempts=dict(sorted(pages.attempts.items())),
        seconds=seconds,
        pages_done=fresh.items,
        pages_per_second=fresh.items / seconds,
        tokens_per_second=tokens / seconds,
        retries=session.retries,
        engine_restarts=session.engine_restarts,
        memory_restarts=session.memory_restarts,
        downtime_seconds=session.downtime_seconds,
        preemptions=session.preemptions,
        peak_concurrency=session.peak_concurrency,
        gpu_utilization=session.gpu_utilization,
        bottlenecks=session.bottlenecks,
        rows=total((pages, described, assembled, parsed)).rows,
        cost=total_cost(read_sessions(store)),
        model=str(plan.settings["model"]),
        version=__version__,
        doubts=dict(sorted(pages.doubts.items())),
        routed=pages.routed,
        routed_tokens=pages.routed_tokens,
        saved_seconds=_saved_seconds(fresh, seconds),
        problems=tuple(islice(_problems_of(store, stages), PROBLEMS_SHOWN)),
    )


def _saved_seconds(fresh: Counts, seconds: float) -> float | None:
    generated = fresh.completion_tokens - fresh.routed_tokens
    return seconds * fresh.routed_tokens / generated if fresh.routed and generated else None


def _documents(plan: Plan, assembled: Mapping[str, CommitSummary]) -> int:
    """The number of documents; those of shards without a count are known once assembled."""
    return sum(
        shard.document_count
        or (assembled[shard.name].counts.items if shard.name in assembled else 0)
        for shard in plan.shards
    )


def _commits_in_plan(commit_index: CommitIndex, stage: str, plan: Plan) -> dict[str, CommitSummary]:
    """The commits of the plan's shards, without those of a later plan."""
    found = commit_index.entries(stage)
    return {shard.name: found[shard.name] for shard in plan.shards if shard.name in found}


def _problems_of(
    store: Store, stages: Mapping[str, Mapping[str, CommitSummary]]
) -> Iterator[PageProblem]:
    """Some records that were not made, then pages that need attention."""
    yield from islice(_problem_records(store, stages["parse"]), RECORDS_SHOWN)
    yield from _problem_pages(store, stages["extract"])


def _problem_records(store: Store, shards: Mapping[str, CommitSummary]) -> Iterator[PageProblem]:
    columns = ["record_id", "source_uri", "status", "error_code", "error"]
    for row in _rows_of_doubtful(store, "records", shards, columns):
        if row["status"] not in FINE:
            _, _, page = row["record_id"].partition("/")
            yield PageProblem(
                *(row["source_uri"], int(page or 0), row["status"]),
                *(row["error"] or "", row["error_code"]),
            )


def _problem_pages(store: Store, shards: Mapping[str, CommitSummary]) -> Iterator[PageProblem]:
    columns = ["source_uri", "page_number", "status", "error_code", "error", "flaw", "agreement"]
    for row in _rows_of_doubtful(store, "pages", shards, columns):
        if row["status"] not in FINE or doubt_message(row):
            message = row["error"] or _describe_doubt(row, doubt_message(row))
            yield PageProblem(
                *(row["source_uri"], row["page_number"], displayed_status(row)),
                *(message, row["error_code"]),
            )


def _rows_of_doubtful(
    store: Store, table: str, shards: Mapping[str, CommitSummary], columns: Sequence[str]
) -> Iterator[Row]:
    """The rows of a table in shards with any that need attention; the others are not read."""
    doubtful = sorted(
        name
        for name, one in shards.items()
        if one.counts.doubts or set(one.counts.statuses) - {*FINE}
    )
    pieces = published_ranges(store, table) if doubtful else {}
    for name in doubtful:
        yield from read_range(store, pieces[name], columns) if name in pieces else ()


def _describe_doubt(row: Row, doubt: str) -> str:
    return f"{row['source_uri']}, page {row['page_number']}: {doubt}" if doubt else ""


Explain = Callable[[str, str | None], str]


def without_advice(error: str, code: str | None) -> str:
    """The error as it is."""
    return error


def render_summary(summary: Summary, explain: Explain = without_advice) -> Group:
    """Render the summary for the terminal; `explain` adds to an error, by its code, what helps."""
    grid = Table.grid(padding=(0, 2))
    are_copies = "is a duplicate" if summary.duplicates == 1 else "are duplicates"
    copies = f", {summary.duplicates:,} of them {are_copies}" if summary.duplicates else ""
    grid.add_row("Documents", f"{summary.documents:,}{copies}")
    grid.add_row("Pages", Text.assemble(f"{summary.pages:,}  ", *_statuses(summary)))
    for line in format_doubts(summary.doubts):
        grid.add_row("", Text(line, DOUBTED_STYLE))
    if summary.routed:
        grid.add_row("Routed", _routing(summary))
    grid.add_row(
        "Figures", summarize_descriptions(summary.figures, summary.descriptions, summary.tasks)
    )
    grid.add_row("Tokens", f"{summary.prompt_tokens:,} in, {summary.completion_tokens:,} out")
    grid.add_row("This session", _speed(summary))
    if summary.retries or summary.engine_restarts:
        downtime = f"{summary.downtime_seconds:.0f} s"
        restarts = f"{pluralize(summary.engine_restarts, 'engine restart')} ({downtime})"
        if summary.memory_restarts:
            restarts += f", {summary.memory_restarts} of them for its memory"
        grid.add_row("Retries", f"{pluralize(summary.retries, 'request')}, {restarts}")
    if summary.cost is not None:
        grid.add_row("Cost", f"${summary.cost:,.2f}")
    for pair in summary.records.summary_rows():
        grid.add_row(*pair)
    if summary.bottlenecks and summary.pages_done:
        grid.add_row("Bottlenecks", _bottlenecks(summary))
    parts: list[Table | Text] = [grid]
    if summary.problems:
        parts.append(_problems(summary, explain))
    return Group(*parts)


def _statuses(summary: Summary) -> list[tuple[str, str]]:
    return [
        (f"{count:,} {status}  ", STATUS_STYLES[PageStatus(status)])
        for status, count in summary.pages_by_status.items()
        if count
    ]


def _speed(summary: Summary) -> str:
    if not summary.pages_done:
        return "no pages left to read"
    return (
        f"{pluralize(summary.pages_done, 'page')} in {summary.seconds:,.1f} s: "
        f"{summary.pages_per_second:.2f} pages/s, {summary.tokens_per_second:,.0f} tokens/s"
    )


def _routing(summary: Summary) -> str:
    share = f"{summary.routed:,} of {pluralize(summary.pages, 'page')} to the embedded engine"
    saved = f"about {summary.routed_tokens:,} tokens that the model did not have to generate"
    if summary.saved_seconds is not None:
        saved += f" ({summary.saved_seconds:,.0f} s at the speed of this session)"
    return f"{share} ({summary.routed / summary.pages:.0%}): {saved}"


def _bottlenecks(summary: Summary) -> str:
    shares = ", ".join(f"{name} {share:.0%}" for name, share in summary.bottlenecks.items())
    busy = "" if summary.gpu_utilization is None else f"; GPU busy {summary.gpu_utilization:.0%}"
    peak = pluralize(summary.peak_concurrency, "request")
    return f"{shares} of the time; at most {peak} in flight{busy}"


def _problems(summary: Summary, explain: Explain) -> Table:
    table = Table(title="Look at these first", title_justify="left", box=None, pad_edge=False)
    table.add_column("status")
    table.add_column("page", justify="right")
    table.add_column("what is wrong", overflow="fold")
    for problem in summary.problems:
        style = DOUBTED_STYLE
        if problem.status != DOUBTED:
            style = STATUS_STYLES[PageStatus(problem.status)]
        page = str(problem.page_number) if problem.page_number else "all"
        message = explain(problem.error, problem.error_code) or problem.source_uri
        table.add_row(Text(problem.status, style), page, Text(message))
    return table
