"""Render evaluations as tables for the terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from llm_ocr.evaluation.comparison import Comparison, PairOutcome
from llm_ocr.evaluation.diagnostics import SampleEvaluation
from llm_ocr.evaluation.ground_truth import GroundTruthEvaluation
from llm_ocr.evaluation.headings import HeadingScore
from llm_ocr.evaluation.intervals import Mean, Proportion
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation, PassRate
from llm_ocr.evaluation.runner import EvaluationResult
from llm_ocr.messages import pluralize

# Rows that are printed; the JSON file has all, the HTML file more.
MAX_ROWS = 20
MAX_EXAMPLES = 10
COMPARED_BY = {
    "tests": "tests passed",
    "truth": "similarity to the ground truth",
    "diagnostics": "diagnostics without ground truth",
}


def render(result: EvaluationResult) -> Group:
    """A result as it is printed."""
    if isinstance(result, PageTestEvaluation):
        return _render_page_tests(result)
    if isinstance(result, GroundTruthEvaluation):
        return _render_ground_truth(result)
    if isinstance(result, SampleEvaluation):
        return _render_sample(result)
    return _render_comparison(result)


def format_percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def format_interval(proportion: Proportion) -> str:
    """The interval, such as `71-92%`."""
    if not proportion.total:
        return ""
    return f"{100 * proportion.low:.0f}-{100 * proportion.high:.0f}%"


def worst_documents(documents: Mapping[str, PassRate]) -> list[tuple[str, PassRate]]:
    """Documents by the number of failed tests, the most first."""

    def passed_less_total(document: tuple[str, PassRate]) -> float:
        proportion = document[1].proportion
        return proportion.passed - proportion.total

    return sorted(documents.items(), key=passed_less_total)


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _render_page_tests(evaluation: PageTestEvaluation) -> Group:
    columns = ("passed", "of", "share", "95%", "page failed", "skipped")
    kinds = _table("kind", *columns)
    for kind, rate in evaluation.by_kind.items():
        kinds.add_row(kind, *_pass_rate_cells(rate))
    kinds.add_section()
    kinds.add_row("all", *_pass_rate_cells(evaluation.overall), style="bold")
    kinds.add_row("all but absent", *_pass_rate_cells(evaluation.without_absent))
    documents = _table("document", *columns)
    worst = worst_documents(evaluation.by_document)
    for name, rate in worst[:MAX_ROWS]:
        documents.add_row(Text(name), *_pass_rate_cells(rate))
    return Group(
        Text(f"{pluralize(len(evaluation.results), 'test')} of {evaluation.uri}"),
        *(kinds, Text(""), documents),
        *_omission_note(len(worst), "document"),
        *_rejection_note(evaluation.rejected),
    )


def _pass_rate_cells(rate: PassRate) -> list[str]:
    proportion = rate.proportion
    return [
        *(f"{proportion.passed:g}", f"{proportion.total:,}", *_proportion_cells(proportion)),
        *(str(rate.failed_pages or ""), str(rate.skipped or "")),
    ]


def _proportion_cells(proportion: Proportion) -> tuple[str, str]:
    return format_percent(proportion.value), format_interval(proportion)


def _omission_note(count: int, what: str) -> list[RenderableType]:
    return [Text(f"and {pluralize(count - MAX_ROWS, what)} more")] if count > MAX_ROWS else []


def _rejection_note(count: int) -> list[RenderableType]:
    if not count:
        return []
    return [Text(f'left out as "rejected": {pluralize(count, "test")}')]


def _render_ground_truth(evaluation: GroundTruthEvaluation) -> Group:
    table = _means_table(evaluation.means)
    for name, value in heading_rows(evaluation.headings):
        table.add_row(name, format_percent(value), "", "")
    worst = _table("page", "edit distance", "order distance", "TEDS")
    pages = sorted(evaluation.pages, key=lambda page: (-page.edit_distance, page.document))
    for page in pages[:MAX_ROWS]:
        teds = f"{sum(page.teds) / len(page.teds):.3f}" if page.teds else ""
        title = Text(f"{page.document}{f' {page.truth.page}' if page.truth.page else ''}")
        worst.add_row(title, f"{page.edit_distance:.3f}", f"{page.order_distance:.3f}", teds)
    failed = evaluation.failed_pages
    heading = f"{pluralize(len(evaluation.pages), 'page')} of {evaluation.uri} against ground truth"
    return Group(
        Text(f"{heading}; {failed:,} of them failed" if failed else heading),
        *(table, Text(""), worst),
        *_omission_note(len(pages), "page"),
    )


def heading_rows(score: HeadingScore) -> Iterable[tuple[str, float | None]]:
    """The scores of headings by name; none if the ground truth has no headings."""
    if score.expected:
        yield "headings: recall", score.recall
        yield "headings: precision", score.precision
        yield "headings: correct level", score.level_accuracy


def _means_table(means: Mapping[str, Mean]) -> Table:
    table = _table("", "mean", "95%", "pages")
    for name, mean in means.items():
        interval = f"{mean.low:.3f}-{mean.high:.3f}"
        table.add_row(name, f"{mean.value:.3f}", interval, f"{mean.count:,}")
    return table


def _render_sample(evaluation: SampleEvaluation) -> Group:
    count, total = len(evaluation.pages), pluralize(evaluation.total, "page")
    statuses = sorted(evaluation.statuses.items())
    lines: list[RenderableType] = [
        Text(f"{count:,} of {total} of {evaluation.uri}, at random"),
        Text(f"All pages: {', '.join(f'{count:,} {status}' for status, count in statuses)}"),
    ]
    if evaluation.all_agreement is not None:
        lines.append(Text(f"Agreement with text layers, all pages: {evaluation.all_agreement:.3f}"))
    scripts = ", ".join(f"{name} {count}" for name, count in evaluation.scripts.items())
    if scripts:
        lines.append(Text(f"Scripts: {scripts}"))
    proportions = _table("", "pages", "share", "95%")
    for name, proportion in evaluation.proportions.items():
        proportions.add_row(name, f"{proportion.passed:g}", *_proportion_cells(proportion))
    worst = _table("worst pages", "doubt", "status")
    worst.add_column("remarks", overflow="fold")
    doubtful = [page for page in evaluation.pages if page.remarks]
    for page in doubtful[:MAX_ROWS]:
        title = Text(f"{page.document} {page.number}")
        worst.add_row(title, f"{page.doubt:.2f}", page.status, Text("; ".join(page.remarks)))
    tables = [_means_table(evaluation.means), proportions, *([worst] if doubtful else [])]
    return Group(*lines, *_separate(tables), *_omission_note(len(doubtful), "page"))


def _separate(tables: Sequence[Table]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for table in tables:
        parts += [Text(""), table]
    return parts


def _render_comparison(comparison: Comparison) -> Group:
    counts = ", ".join(f"{comparison.count(outcome):,} {outcome}" for outcome in PairOutcome)
    pages = pluralize(len(comparison.pairs), "page")
    lines = [
        Text(f"{comparison.a}\nagainst {comparison.b}, {pages} by {COMPARED_BY[comparison.by]}"),
        Text(f"{counts} (p = {comparison.p_value:.2g}, sign test over pages)"),
    ]
    mean = comparison.difference
    if mean is not None:
        interval = f"95% {mean.low:+.3f} to {mean.high:+.3f} (bootstrap over documents)"
        lines.append(Text(f"mean difference {mean.value:+.3f}, {interval}"))
    if comparison.unpaired:
        lines.append(Text(f"only in one run: {pluralize(comparison.unpaired, 'page')}"))
    table = _table("page", "", "difference")
    table.add_column("remarks", overflow="fold")
    for pair in comparison.examples[:MAX_EXAMPLES]:
        worse = pair.b if pair.outcome is PairOutcome.WIN else pair.a
        title = Text(f"{pair.document} {pair.number or ''}")
        remarks = Text("; ".join(worse.remarks[:3]))
        table.add_row(title, pair.outcome, f"{pair.difference:+.3f}", remarks)
    return Group(*lines, *(_separate([table]) if comparison.examples else []))
