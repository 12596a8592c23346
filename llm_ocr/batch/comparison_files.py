"""Write the files of a comparison of two runs.

index.html            the pages that differ most, side by side
comparison.json       all numbers and all pages
verdicts-…/           the judge's verdicts, see `llm_ocr.batch.judge`
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from llm_ocr.evaluation.intervals import Mean, Proportion
from llm_ocr.evaluation.judgment import EQUAL, Judgment, Verdict
from llm_ocr.evaluation.run_agreement import PageAgreement, PageGap, RunAgreement, RunPair
from llm_ocr.evaluation.text_differences import DifferingPassage
from llm_ocr.messages import format_duration, pluralize
from llm_ocr.records import PageStatus
from llm_ocr.report.run_usage import RunUsage
from llm_ocr.report.side_by_side import (
    FactTable,
    SideBySidePage,
    TextColumn,
    write_side_by_side,
)
from llm_ocr.storage.store import Store

HTML_PATH, JSON_PATH = "index.html", "comparison.json"
# Pages, and passages of each, that are printed; the files have more.
MAX_PAGES, MAX_PASSAGES = 5, 3


@dataclass(frozen=True)
class PageDifference:
    """One of the pages that differ most: how far its texts agree, the passages that differ, and
    the judge's verdicts, if there is a judge."""

    agreement: PageAgreement
    passages: Sequence[DifferingPassage]
    verdicts: Sequence[Verdict] = ()


@dataclass(frozen=True)
class RunComparison:
    """Two runs of the same pages.

    `agreement` has the measures of all pages that both could read, and the pages that only one of
    them has or could read. `usage` is what the pages of A and B took, None for a folder of Markdown
    files. `differences` are the pages that differ most, the least similar first. `judgment` is
    what a judge model says, None without one. `files` are the URIs of what was written.
    """

    agreement: RunAgreement
    usage: tuple[RunUsage | None, RunUsage | None]
    differences: tuple[PageDifference, ...]
    judgment: Judgment | None = None
    files: tuple[str, ...] = ()

    @property
    def means(self) -> Mapping[str, Mean]:
        """How far the runs agree: the mean of each measure (0..1), with a 95% interval."""
        return self.agreement.means

    def as_dict(self) -> dict[str, object]:
        """The content of `comparison.json`."""
        agreement = self.agreement
        return {
            "a": agreement.a,
            "b": agreement.b,
            "pages_in_both": agreement.common,
            "pages_sampled": agreement.sampled,
            "pages_compared": len(agreement.pages),
            "means": {name: _mean(mean) for name, mean in agreement.means.items()},
            "identical": _proportion(agreement.identical),
            "not_compared": {gap.value: agreement.count(gap) for gap in PageGap},
            "usage": {
                name: None if usage is None else asdict(usage)
                for name, usage in zip("ab", self.usage, strict=True)
            },
            "judgment": None if self.judgment is None else _judgment(self.judgment),
            "most_different": [_difference(page) for page in self.differences],
            "pages": [
                {**asdict(page), "overall": page.overall}
                for page in sorted(agreement.pages, key=lambda page: page.key)
            ],
            "uncompared": [asdict(page) for page in agreement.uncompared],
            "problems": [asdict(problem) for problem in agreement.problems],
        }


def _mean(mean: Mean) -> dict[str, object]:
    return {"mean": mean.value, "count": mean.count, "low": mean.low, "high": mean.high}


def _proportion(share: Proportion) -> dict[str, object]:
    return {**asdict(share), "share": share.value}


def _judgment(judgment: Judgment) -> dict[str, object]:
    return {
        "model": judgment.model,
        "pages": len(judgment.pages),
        "better_a": _proportion(judgment.better_a),
        "better_b": _proportion(judgment.better_b),
        "same_in_both_orders": _proportion(judgment.consistency),
        "first_preferred": _proportion(judgment.first_preferred),
        "p_value": judgment.p_value,
        "identical": judgment.identical,
        "without_image": judgment.without_image,
        "failures": judgment.failures,
        "verdicts": [asdict(verdict) for verdict in judgment.verdicts],
    }


def _difference(page: PageDifference) -> dict[str, object]:
    return {
        "document": page.agreement.document,
        "number": page.agreement.number,
        "overall": page.agreement.overall,
        "passages": [asdict(passage) for passage in page.passages],
    }


def write_comparison(comparison: RunComparison, runs: RunPair, store: Store) -> tuple[str, ...]:
    """Write the files; returns their URIs."""
    sink = io.BytesIO()
    write_side_by_side(
        _shown_pages(comparison, runs),
        (comparison.agreement.a, comparison.agreement.b),
        list(describe(comparison)),
        list(fact_tables(comparison)),
        sink,
    )
    text = json.dumps(comparison.as_dict(), ensure_ascii=False, indent=1)
    files: dict[str, bytes] = {
        HTML_PATH: sink.getvalue(),
        JSON_PATH: text.encode("utf-8", "replace"),
    }
    store.put_many(files, f"Comparison with {comparison.agreement.b}")
    return tuple(f"{store.uri}/{path}" for path in files)


def _shown_pages(comparison: RunComparison, runs: RunPair) -> Iterator[SideBySidePage]:
    keys = [page.agreement.key for page in comparison.differences]
    pairs = {pair.key: pair for pair in runs.pages_with_images(keys)}
    for page in comparison.differences:
        # One image in memory less, with each page that is written.
        pair = pairs.pop(page.agreement.key)
        columns = [
            TextColumn(
                side.markdown if side is not None else "",
                () if status in (None, PageStatus.OK) else (f"status: {status}",),
            )
            for side, status in zip((pair.a, pair.b), page.agreement.statuses, strict=True)
        ]
        jpeg = (pair.a and pair.a.jpeg) or (pair.b and pair.b.jpeg)
        yield SideBySidePage(
            title=page_title(page.agreement.document, page.agreement.number),
            note=page_note(page.agreement),
            image=None if jpeg is None else {"bytes": jpeg},
            a=columns[0],
            b=columns[1],
            remarks=[verdict_line(verdict) for verdict in page.verdicts],
        )


# Words for people --------------------------------------------------------------------------------


def page_title(document: str, number: int) -> str:
    """A page's name for people."""
    return f"{document}, page {number}" if number else document


def page_note(page: PageAgreement) -> str:
    """How far the texts of a page agree, in one line."""
    values = {
        "text": page.text,
        "words": page.words,
        "order": page.order,
        "tables": page.tables,
        "headings": page.headings,
    }
    known = (f"{name} {value:.2f}" for name, value in values.items() if value is not None)
    return f"agreement {page.overall:.2f}: {', '.join(known)}"


def verdict_line(verdict: Verdict) -> str:
    """A verdict in one line."""
    order = f"{verdict.first.upper()} shown first"
    if verdict.preferred is None:
        return f"Judge ({order}): no verdict: {verdict.error}"
    is_equal = verdict.preferred == EQUAL
    choice = "both are equal" if is_equal else f"{verdict.preferred.upper()} is better"
    return f"Judge ({order}): {choice}. {verdict.reason}"


def describe(comparison: RunComparison) -> Iterator[str]:
    """Facts about a comparison, as sentences."""
    agreement, judgment = comparison.agreement, comparison.judgment
    sampled = agreement.sampled < agreement.common
    pages = pluralize(len(agreement.pages), "page")
    if sampled:
        pages = f"{len(agreement.pages):,} of {agreement.common:,} pages, chosen at random,"
    yield (
        f"{pages} compared; "
        f"on {agreement.identical.passed:,.0f} of them the texts agree in every measure"
    )
    gaps = [f"{agreement.count(gap):,} {gap}" for gap in PageGap if agreement.count(gap)]
    if gaps:
        yield f"Pages that were not compared: {', '.join(gaps)}"
    if agreement.problems:
        yield (
            f"{pluralize(len(agreement.problems), 'document')} with the same name but different "
            f"content, such as {agreement.problems[0].location}"
        )
    if judgment is not None:
        yield from _describe_judgment(judgment)


def _describe_judgment(judgment: Judgment) -> Iterator[str]:
    judged = f"{pluralize(len(judgment.pages), 'page')} judged in both orders"
    if judgment.pages:
        judged += f"; p = {judgment.p_value:.2g} (sign test over pages)"
    yield f"Judge {judgment.model}: {judged}"
    skipped = {
        "with the same text": judgment.identical,
        "without an image": judgment.without_image,
    }
    parts = [f"{count:,} {what}" for what, count in skipped.items() if count]
    if parts:
        yield f"Pages that were not judged: {', '.join(parts)}"
    if judgment.failures:
        first = next(one.error for one in judgment.verdicts if not one.is_known)
        yield f"Questions that the judge did not answer: {judgment.failures:,}, such as {first}"


def fact_tables(comparison: RunComparison) -> Iterator[FactTable]:
    """The numbers of a comparison: agreement, the judge's shares, and what both runs took."""
    means = [
        (name, f"{mean.value:.3f}", f"{mean.low:.3f}-{mean.high:.3f}", f"{mean.count:,}")
        for name, mean in comparison.means.items()
    ]
    yield FactTable(("agreement", "mean", "95%", "pages"), means)
    if comparison.judgment is not None:
        shares = [
            (name, f"{share.passed:g} of {share.total:,}", _percent(share), _interval(share))
            for name, share in comparison.judgment.shares()
        ]
        yield FactTable(("judge", "", "share", "95%"), shares)
    if any(comparison.usage):
        columns = [_usage_cells(usage) for usage in comparison.usage]
        rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
        yield FactTable(("run", "A", "B"), rows)


def render_comparison(comparison: RunComparison) -> Group:
    """The facts, the numbers and the first of the differences, for the terminal."""
    parts: list[Text | Table] = [
        Text(f"A: {comparison.agreement.a}\nB: {comparison.agreement.b}"),
        *map(Text, describe(comparison)),
    ]
    for table in fact_tables(comparison):
        parts += [Text(""), _render_table(table)]
    for page in comparison.differences[:MAX_PAGES]:
        title = page_title(page.agreement.document, page.agreement.number)
        parts.append(Text(f"\n{title}: {page_note(page.agreement)}"))
        for passage in page.passages[:MAX_PASSAGES]:
            before = f"… {passage.before} " if passage.before else ""
            parts.append(Text(f"  A: {before}[{passage.a}]\n  B: {before}[{passage.b}]"))
    return Group(*parts)


def _render_table(table: FactTable) -> Table:
    rendered = Table(box=None, pad_edge=False)
    for column in table.columns:
        rendered.add_column(Text(column), overflow="fold")
    for row in table.rows:
        rendered.add_row(*map(Text, row))
    return rendered


def _usage_cells(usage: RunUsage | None) -> dict[str, str]:
    names = (
        *("model", "pages", "statuses", "requests", "tokens in", "tokens out"),
        *("answers took", "sessions took", "cost"),
    )
    if usage is None:
        return dict.fromkeys(names, "–")
    values = (
        ", ".join(f"{model} ({count:,})" for model, count in usage.models.items()) or "none",
        f"{usage.pages:,}",
        ", ".join(f"{count:,} {status}" for status, count in usage.statuses.items()),
        f"{usage.attempts:,}",
        f"{usage.prompt_tokens:,}",
        f"{usage.completion_tokens:,}",
        format_duration(usage.answer_seconds),
        format_duration(usage.session_seconds),
        "–" if usage.cost is None else f"${usage.cost:,.2f}",
    )
    return dict(zip(names, values, strict=True))


def _percent(share: Proportion) -> str:
    return "–" if share.value is None else f"{share.value:.1%}"


def _interval(share: Proportion) -> str:
    return f"{share.low:.1%}-{share.high:.1%}" if share.total else "–"
