"""Evaluations as they are printed."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from llm_ocr.evaluation.comparing import Comparison, Side
from llm_ocr.evaluation.headings import HeadingScore
from llm_ocr.evaluation.intervals import Mean, Share
from llm_ocr.evaluation.sampling import SampleEvaluation
from llm_ocr.evaluation.scoring import Evaluation, Score
from llm_ocr.evaluation.truth import TruthEvaluation
from llm_ocr.messages import counted

# Rows that are printed; JSON and HTML have all, or more.
MOST_ROWS = 20
MOST_EXAMPLES = 10
BY = {
    "tests": "tests passed",
    "truth": "nearness to the ground truth",
    "signs": "what pages give away about themselves",
}


def render(result: Evaluation | TruthEvaluation | SampleEvaluation | Comparison) -> Group:
    """The printed form."""
    if isinstance(result, Evaluation):
        return _evaluation(result)
    if isinstance(result, TruthEvaluation):
        return _truth(result)
    if isinstance(result, SampleEvaluation):
        return _sample(result)
    return _comparison(result)


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def interval(low: float, high: float) -> str:
    """As `71-92%`."""
    return f"{100 * low:.0f}-{100 * high:.0f}%"


def ordered(documents: Mapping[str, Score]) -> list[tuple[str, Score]]:
    """Documents, those first in which most failed."""
    return sorted(documents.items(), key=lambda one: one[1].share.passed - one[1].share.total)


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _evaluation(found: Evaluation) -> Group:
    table = _table("kind", "passed", "of", "share", "95%", "page failed", "skipped")
    for kind, score in found.by_kind.items():
        table.add_row(kind, *_score_cells(score))
    table.add_section()
    table.add_row("all", *_score_cells(found.overall), style="bold")
    table.add_row("all but absent", *_score_cells(found.without_absent))
    documents = _table("document", "passed", "of", "share", "95%", "page failed", "skipped")
    names = ordered(found.by_document)
    for name, score in names[:MOST_ROWS]:
        documents.add_row(Text(name), *_score_cells(score))
    return Group(
        Text(f"{counted(len(found.results), 'test')} of {found.place}"),
        *(table, Text(""), documents),
        *_more(len(names), "document"),
        *_rejected(found.rejected),
    )


def _score_cells(score: Score) -> list[str]:
    share = score.share
    return [
        *(f"{share.passed:g}", f"{share.total:,}", *_share_cells(share)),
        *(str(score.failed_pages or ""), str(score.skipped or "")),
    ]


def _share_cells(share: Share) -> tuple[str, str]:
    return percent(share.value), interval(share.low, share.high) if share.total else ""


def _more(count: int, what: str) -> list[RenderableType]:
    return [Text(f"and {counted(count - MOST_ROWS, what)} more")] if count > MOST_ROWS else []


def _rejected(count: int) -> list[RenderableType]:
    if not count:
        return []
    return [Text(f'left out as "rejected": {counted(count, "test")}')]


def _truth(found: TruthEvaluation) -> Group:
    table = _means(found.means, "pages")
    for what, value in heading_rows(found.headings):
        table.add_row(what, percent(value), "", "")
    worst = _table("page", "edit distance", "order distance", "TEDS")
    pages = sorted(found.pages, key=lambda page: (-page.edits, page.document))
    for page in pages[:MOST_ROWS]:
        teds = f"{sum(page.teds) / len(page.teds):.3f}" if page.teds else ""
        name = Text(f"{page.document}{f' {page.truth.page}' if page.truth.page else ''}")
        worst.add_row(name, f"{page.edits:.3f}", f"{page.order:.3f}", teds)
    failed = found.failed_pages
    head = f"{counted(len(found.pages), 'page')} of {found.place} against ground truth"
    return Group(
        Text(f"{head}; {failed:,} of them failed" if failed else head),
        *(table, Text(""), worst),
        *_more(len(pages), "page"),
    )


def heading_rows(score: HeadingScore) -> Iterable[tuple[str, float | None]]:
    """What is told of headings, where the truth has any."""
    if score.expected:
        yield "headings found", score.recall
        yield "headings that are some", score.precision
        yield "headings of the right level", score.level_accuracy


def _means(means: Mapping[str, Mean], counted: str) -> Table:
    table = _table("", "mean", "95%", counted)
    for name, one in means.items():
        table.add_row(name, f"{one.value:.3f}", f"{one.low:.3f}-{one.high:.3f}", f"{one.count:,}")
    return table


def _sample(found: SampleEvaluation) -> Group:
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(found.statuses.items()))
    head: list[RenderableType] = [
        Text(f"{len(found.pages):,} of {counted(found.total, 'page')} of {found.place}, at random")
    ]
    head.append(Text(f"All pages: {statuses}"))
    if found.all_agreement is not None:
        head.append(Text(f"Agreement with text layers, all pages: {found.all_agreement:.3f}"))
    scripts = ", ".join(f"{name} {count}" for name, count in found.scripts.items())
    if scripts:
        head.append(Text(f"Scripts: {scripts}"))
    shares = _table("", "pages", "share", "95%")
    for name, share in found.shares.items():
        shares.add_row(name, f"{share.passed:g}", *_share_cells(share))
    worst = _table("worst pages", "doubt", "status")
    worst.add_column("what is odd", overflow="fold")
    odd = [page for page in found.pages if page.remarks]
    for page in odd[:MOST_ROWS]:
        place = Text(f"{page.document} {page.number}")
        worst.add_row(place, f"{page.doubt:.2f}", page.status, Text("; ".join(page.remarks)))
    tables = [_means(found.means, "pages"), shares, *([worst] if odd else [])]
    return Group(*head, *_apart(tables), *_more(len(odd), "page"))


def _apart(tables: Sequence[Table]) -> list[RenderableType]:
    found: list[RenderableType] = []
    for table in tables:
        found += [Text(""), table]
    return found


def _comparison(found: Comparison) -> Group:
    counts = ", ".join(f"{found.count(side):,} {side}" for side in Side)
    lines = [
        Text(
            f"{found.a}\nagainst {found.b}, {counted(len(found.pairs), 'page')} by {BY[found.by]}"
        ),
        Text(f"{counts} (p = {found.p_value:.2g}, sign test over pages)"),
    ]
    if found.difference is not None:
        one = found.difference
        said = f"{one.value:+.3f}, 95% {one.low:+.3f} to {one.high:+.3f} (bootstrap over documents)"
        lines.append(Text(f"mean difference {said}"))
    if found.unpaired:
        lines.append(Text(f"in one of them alone: {counted(found.unpaired, 'page')}"))
    table = _table("page", "", "difference")
    table.add_column("what is odd", overflow="fold")
    for pair in found.examples[:MOST_EXAMPLES]:
        worse = pair.b if pair.side is Side.WIN else pair.a
        remarks = Text("; ".join(worse.remarks[:3]))
        name = Text(f"{pair.document} {pair.number or ''}")
        table.add_row(name, pair.side, f"{pair.difference:+.3f}", remarks)
    return Group(*lines, *(_apart([table]) if found.examples else []))
