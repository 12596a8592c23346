"""Evaluations as HTML pages of one file each, with the pages' images beside what is wrong."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice

from llm_ocr.evaluation import html_parts as html
from llm_ocr.evaluation.comparing import Comparison, PagePair, Side
from llm_ocr.evaluation.intervals import Mean, Share
from llm_ocr.evaluation.page_tests import Problem
from llm_ocr.evaluation.printing import BY, heading_rows, interval, ordered, percent
from llm_ocr.evaluation.readings import PageRead, Readings
from llm_ocr.evaluation.rules import Outcome, Verdict
from llm_ocr.evaluation.sampling import PageSigns, SampleEvaluation
from llm_ocr.evaluation.scoring import Evaluation, Score, TestResult
from llm_ocr.evaluation.text import plain
from llm_ocr.evaluation.truth import Measured, TruthEvaluation, without_tables
from llm_ocr.messages import counted

# Pages that are shown with their images, the worst ones; the JSON file has all.
MOST_PAGES = 100

Key = tuple[str, int]


def tests_page(found: Evaluation, readings: Readings) -> str:
    """The scores, then the pages with tests that failed."""
    by_page: dict[Key, list[TestResult]] = defaultdict(list)
    for one in found.failures:
        by_page[one.document, one.test.page].append(one)
    worst = sorted(by_page.items(), key=lambda page: -len(page[1]))[:MOST_PAGES]
    body = [
        html.tables(_by("kind", _kinds(found)), _by("document", _documents(found))),
        _problems(found.problems),
        html.heading(f"{counted(sum(map(len, by_page.values())), 'test')} that did not pass"),
        *_left_out(len(by_page)),
        *_tested(worst, _pictured(readings, [key for key, _ in worst])),
    ]
    overall, rest = found.overall.share, found.without_absent.share
    facts = [
        f"{percent(overall.value)} of {counted(overall.total, 'test')} passed "
        f"(95%: {interval(overall.low, overall.high)}); {percent(rest.value)} of the "
        f"{rest.total:,} that an empty page does not pass"
    ]
    return html.document(f"Tests of {found.place}", facts, body)


def _kinds(found: Evaluation) -> Iterator[tuple[str, Score, bool]]:
    for kind, score in found.by_kind.items():
        yield kind, score, False
    yield "all", found.overall, True
    yield "all but absent", found.without_absent, True


def _documents(found: Evaluation) -> Iterator[tuple[str, Score, bool]]:
    for name, score in islice(ordered(found.by_document), MOST_PAGES):
        yield name, score, False


def _by(what: str, rows: Iterable[tuple[str, Score, bool]]) -> str:
    head = (what, "passed", "of", "share", "", "95%", "page failed", "skipped")
    return html.score_table(
        head,
        (
            (
                (
                    *(name, f"{score.share.passed:g}", score.share.total),
                    *_share_cells(score.share),
                    *(score.failed_pages or "", score.skipped or ""),
                ),
                whole,
            )
            for name, score, whole in rows
        ),
    )


def _share_cells(share: Share) -> tuple[object, ...]:
    scale = html.Scale(share.value, share.low, share.high)
    return percent(share.value), scale, interval(share.low, share.high) if share.total else ""


def _problems(problems: Sequence[Problem]) -> str:
    if not problems:
        return ""
    shown = html.remarks([str(one) for one in problems[:MOST_PAGES]])
    more = f"<p>and {len(problems) - MOST_PAGES:,} more</p>" if len(problems) > MOST_PAGES else ""
    return (
        html.heading(f"Could not be used: {len(problems):,}")
        + f'<div class="card problems">{shown}{more}</div>'
    )


def _left_out(count: int) -> list[str]:
    if count <= MOST_PAGES:
        return []
    return [
        f'<p class="legend">The first {MOST_PAGES} of {counted(count, "page")}; JSON has all.</p>'
    ]


def _pictured(readings: Readings, keys: Sequence[Key]) -> dict[Key, PageRead]:
    found = readings.pictured(frozenset(keys))
    return {(page.document, page.number): page for page in found}


def _tested(
    pages: Iterable[tuple[Key, Sequence[TestResult]]], read: Mapping[Key, PageRead]
) -> Iterator[str]:
    for key, results in pages:
        page = read.get(key) or read.get((key[0], 0))
        sheet = html.picture(page.jpeg if page else None)
        findings = [_finding(one) for one in results]
        findings.append(html.folded("What was read of the page", page.markdown if page else ""))
        note = f"{len(results)} did not pass"
        yield html.page(f"{key[0]}, page {key[1]}", note, sheet, findings)


def _finding(one: TestResult) -> str:
    outcome = one.outcome
    looks = "skipped" if one.verdict is Verdict.SKIPPED else ""
    why = f"skipped: {outcome.why}" if looks else outcome.why
    return html.finding(one.test.kind, one.test.id, why, _outcome(outcome), looks)


def _outcome(outcome: Outcome) -> str:
    pairs = [("expected", escape(outcome.expected))] if outcome.expected else []
    pairs += [("nearest", html.excerpt(one)) for one in outcome.found]
    if outcome.grid:
        pairs.append(("the cell", html.cells(outcome.grid, outcome.center)))
    return html.said(pairs)


def truth_page(found: TruthEvaluation, readings: Readings) -> str:
    """The measures, then the pages furthest from their truth."""
    uneven = [page for page in found.pages if page.edits or page.order or min(page.teds, default=1)]
    worst = sorted(uneven, key=lambda page: -page.edits)[:MOST_PAGES]
    keys = [(page.document, page.truth.page or 1) for page in worst]
    read = _pictured(readings, keys)
    headings = [((name, percent(value), ""), False) for name, value in heading_rows(found.headings)]
    body = [
        html.tables(_means(found.means), *([_rows(headings)] if headings else [])),
        _problems(found.problems),
        html.heading("Pages, the furthest from their truth first"),
        '<p class="legend">Struck out: in the truth, but not read. Marked green: read, but not in'
        " the truth. Tables are told apart.</p>",
        *_left_out(len(uneven)),
        *(_measured(page, read.get(key)) for page, key in zip(worst, keys, strict=True)),
    ]
    facts = [f"{counted(len(found.pages), 'page')}, {found.failed_pages:,} of which failed"]
    return html.document(f"{found.place} against ground truth", facts, body)


def _means(means: Mapping[str, Mean]) -> str:
    return html.score_table(
        ("", "mean", "", "95%", "of"),
        (
            (
                (
                    *(name, f"{one.value:.3f}", html.Scale(one.value, one.low, one.high)),
                    *(f"{one.low:.3f}-{one.high:.3f}", f"{one.count:,}"),
                ),
                False,
            )
            for name, one in means.items()
        ),
    )


def _rows(rows: Sequence[tuple[Sequence[object], bool]]) -> str:
    return html.score_table(("", "", ""), rows)


def _measured(page: Measured, read: PageRead | None) -> str:
    teds = "".join(f", TEDS {one:.3f}" for one in page.teds)
    note = f"edit distance {page.edits:.3f}, reading order distance {page.order:.3f}{teds}"
    name = f"{page.document}, page {page.truth.page}" if page.truth.page else page.document
    texts = (plain(without_tables(text)) for text in (page.truth.text, page.said))
    why = f"the page failed: {page.error}" if page.error else ""
    inner = html.differences(*texts) + html.folded("What was read", page.said)
    findings = [html.finding("truth", page.truth.source, why, inner)]
    return html.page(name, note, html.picture(read.jpeg if read else None), findings)


def sample_page(found: SampleEvaluation, readings: Readings) -> str:
    """What the pages give away, the worst first."""
    shown = found.pages[:MOST_PAGES]
    read = _pictured(readings, [(page.document, page.number) for page in shown])
    shares = html.score_table(
        ("", "pages", "share", "", "95%"),
        (((name, f"{one.passed:g}", *_share_cells(one)), False)
         for name, one in found.shares.items()),
    )  # fmt: skip
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(found.statuses.items()))
    facts = [
        f"{len(found.pages):,} of {counted(found.total, 'page')}, at random (seed {found.seed})",
        f"All pages: {statuses}",
    ]
    body = [
        html.tables(_means(found.means), shares),
        html.heading("Pages, the worst first"),
        '<p class="legend">Red frames: ink that no block covers.</p>',
        *_left_out(len(found.pages)),
        *(_shown(page, read.get((page.document, page.number))) for page in shown),
    ]
    return html.document(f"A sample of {found.place}", facts, body)


def _shown(page: PageSigns, read: PageRead | None) -> str:
    known = (
        ("agreement", page.agreement),
        ("ink in blocks", page.coverage),
        ("confidence", page.confidence),
    )
    note = ", ".join(f"{name} {value:.2f}" for name, value in known if value is not None)
    looks = "" if page.remarks else "win"
    why = "" if page.remarks else "nothing odd"
    inner = html.remarks(page.remarks) + html.folded("What was read", page.markdown, "open")
    finding = html.finding(page.status, f"doubt {page.doubt:.2f}", why, inner, looks)
    sheet = html.picture(read.jpeg if read else None, page.regions)
    return html.page(f"{page.document}, page {page.number}", note, sheet, [finding])


def comparison_page(found: Comparison, a: Readings, b: Readings) -> str:
    """How many pages each reads better, then those pages with both readings."""
    examples = found.examples[:MOST_PAGES]
    mine = _pictured(a, [(pair.a.document, pair.number or 1) for pair in examples])
    theirs = _pictured(b, [(pair.b.document, pair.number or 1) for pair in examples])
    counts = ", ".join(f"{found.count(side):,} {side}" for side in Side)
    facts = [
        f"A: {found.a}",
        f"B: {found.b}",
        f"A by {BY[found.by]}, page by page: {counts}; p = {found.p_value:.2g} (sign test)",
    ]
    if found.difference is not None:
        one = found.difference
        facts.append(f"mean difference {one.value:+.3f}, 95% {one.low:+.3f} to {one.high:+.3f}")
    body = [
        _problems(found.problems),
        html.heading("Pages in which one is better"),
        '<p class="legend">Struck out: read by A alone. Marked green: read by B alone.</p>',
        *_left_out(len(found.examples)),
        *(_pair(pair, mine, theirs) for pair in examples),
    ]
    return html.document("A against B", facts, body)


def _pair(pair: PagePair, mine: Mapping[Key, PageRead], theirs: Mapping[Key, PageRead]) -> str:
    number = pair.number or 1
    a, b = mine.get((pair.a.document, number)), theirs.get((pair.b.document, number))
    findings = [
        html.finding(name, f"{score.value:.3f}", "", html.remarks(score.remarks), looks)
        for name, score, looks in (
            ("A", pair.a, "win" if pair.side is Side.WIN else ""),
            ("B", pair.b, "win" if pair.side is Side.LOSS else ""),
        )
    ]
    texts = (plain(page.markdown if page else "") for page in (a, b))
    findings.append(html.finding("A and B", "", "", html.differences(*texts)))
    name = f"{pair.document}, page {number}" if pair.number else pair.document
    note = f"{'A' if pair.side is Side.WIN else 'B'} is better by {abs(pair.difference):.3f}"
    return html.page(name, note, html.picture(a.jpeg if a else None), findings)
