"""Render evaluations as self-contained HTML pages, with page images beside what is wrong.

All text is untrusted: the templates escape it, and a content security policy lets the page run and
fetch nothing.
"""

import base64
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.comparison import Comparison, PagePair, PairOutcome
from llm_ocr.evaluation.diagnostics import PageDiagnostics, SampleEvaluation
from llm_ocr.evaluation.ground_truth import GroundTruthEvaluation, PageMetrics, without_tables
from llm_ocr.evaluation.olmocr_bench.scoring import PageTestEvaluation, PageTestResult, PassRate
from llm_ocr.evaluation.predictions import PagePrediction, Predictions
from llm_ocr.evaluation.reporters.text import (
    COMPARED_BY,
    format_interval,
    format_percent,
    heading_rows,
    worst_documents,
)
from llm_ocr.evaluation.text_similarity import strip_markup
from llm_ocr.messages import pluralize
from llm_ocr.records import Box

# The number of pages shown with their images, the worst ones; the JSON file has all.
MAX_PAGES = 100
PAGE_SIDE = 1000
JPEG_QUALITY = 70
# Words of a page that are compared, and words of context shown around a difference.
MAX_WORDS = 3_000
CONTEXT_WORDS = 8

Key = tuple[str, int]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("llm_ocr.evaluation.reporters"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": format_percent, "interval": format_interval}
    environment.globals["max_pages"] = MAX_PAGES
    return environment


def _render(template: str, **context: object) -> str:
    return _environment().get_template(template).render(context) + "\n"


@dataclass(frozen=True)
class _PageImage:
    """A page's image as a data URI; `regions` are left, top, width and height in percent of it."""

    data_uri: str
    regions: tuple[tuple[float, float, float, float], ...] = ()


def render_page_tests(evaluation: PageTestEvaluation, predictions: Predictions) -> str:
    """The pass rates, then the pages with tests that did not pass."""
    by_page: dict[Key, list[PageTestResult]] = defaultdict(list)
    for result in evaluation.failures:
        by_page[result.document, result.test.page].append(result)
    worst = sorted(by_page.items(), key=lambda page: -len(page[1]))[:MAX_PAGES]
    predicted = _read_pages(predictions, [key for key, _ in worst])
    overall, rest = evaluation.overall.proportion, evaluation.without_absent.proportion
    fact = (
        f"{format_percent(overall.value)} of {pluralize(overall.total, 'test')} passed "
        f"(95%: {format_interval(overall)}); {format_percent(rest.value)} of the "
        f"{rest.total:,} that an empty page does not pass"
    )

    def pages() -> Iterator[tuple[Key, list[PageTestResult], PagePrediction | None, object]]:
        for key, results in worst:
            page = predicted.get(key) or predicted.get((key[0], 0))
            yield key, results, page, _page_image(page)

    return _render(
        "page_tests.html",
        title=f"Tests of {evaluation.uri}",
        facts=[fact],
        kinds=list(_pass_rates_by_kind(evaluation)),
        documents=[
            (name, rate, False)
            for name, rate in islice(worst_documents(evaluation.by_document), MAX_PAGES)
        ],
        problems=evaluation.problems,
        failure_count=pluralize(sum(map(len, by_page.values())), "test"),
        page_count=len(by_page),
        pages=pages(),
    )


def _pass_rates_by_kind(evaluation: PageTestEvaluation) -> Iterator[tuple[str, PassRate, bool]]:
    for kind, rate in evaluation.by_kind.items():
        yield kind, rate, False
    yield "all", evaluation.overall, True
    yield "all but absent", evaluation.without_absent, True


def render_ground_truth(evaluation: GroundTruthEvaluation, predictions: Predictions) -> str:
    """The means, then the pages with the largest edit distance."""
    different = [
        page
        for page in evaluation.pages
        if page.edit_distance or page.order_distance or min(page.teds, default=1)
    ]
    worst = sorted(different, key=lambda page: -page.edit_distance)[:MAX_PAGES]
    predicted = _read_pages(predictions, [_key(page) for page in worst])
    return _render(
        "ground_truth.html",
        title=f"{evaluation.uri} against ground truth",
        facts=[f"{pluralize(len(evaluation.pages), 'page')}, {evaluation.failed_pages:,} failed"],
        means=evaluation.means,
        headings=list(heading_rows(evaluation.headings)),
        problems=evaluation.problems,
        page_count=len(different),
        pages=(
            (
                page,
                _metrics_note(page),
                find_differences(
                    *(
                        strip_markup(without_tables(text))
                        for text in (page.truth.text, page.prediction)
                    )
                ),
                _page_image(predicted.get(_key(page))),
            )
            for page in worst
        ),
    )


def _key(page: PageMetrics) -> Key:
    return page.document, page.truth.page or 1


def _metrics_note(page: PageMetrics) -> str:
    teds = "".join(f", TEDS {value:.3f}" for value in page.teds)
    distances = page.edit_distance, page.order_distance
    return "edit distance {:.3f}, reading order distance {:.3f}".format(*distances) + teds


def render_sample(evaluation: SampleEvaluation, predictions: Predictions) -> str:
    """The diagnostics of pages, the most doubtful first."""
    shown = evaluation.pages[:MAX_PAGES]
    predicted = _read_pages(predictions, [(page.document, page.number) for page in shown])
    statuses = sorted(evaluation.statuses.items())
    return _render(
        "sample.html",
        title=f"A sample of {evaluation.uri}",
        facts=[
            f"{len(evaluation.pages):,} of {pluralize(evaluation.total, 'page')}, at random "
            f"(seed {evaluation.seed})",
            f"All pages: {', '.join(f'{count:,} {status}' for status, count in statuses)}",
        ],
        means=evaluation.means,
        proportions=evaluation.proportions,
        page_count=len(evaluation.pages),
        pages=(
            (
                page,
                _diagnostics_note(page),
                _page_image(predicted.get((page.document, page.number)), page.uncovered_regions),
            )
            for page in shown
        ),
    )


def _diagnostics_note(page: PageDiagnostics) -> str:
    values = (
        ("agreement", page.agreement),
        ("ink within blocks", page.ink_coverage),
        ("confidence", page.confidence),
    )
    return ", ".join(f"{name} {value:.2f}" for name, value in values if value is not None)


def render_comparison(comparison: Comparison, a: Predictions, b: Predictions) -> str:
    """The numbers of pages that each run reads better, then those pages with the differences."""
    examples = comparison.examples[:MAX_PAGES]
    firsts = _read_pages(a, [(pair.a.document, pair.number or 1) for pair in examples])
    seconds = _read_pages(b, [(pair.b.document, pair.number or 1) for pair in examples])
    counts = ", ".join(f"{comparison.count(outcome):,} {outcome}" for outcome in PairOutcome)
    facts = [
        f"A: {comparison.a}",
        f"B: {comparison.b}",
        f"A by {COMPARED_BY[comparison.by]}, page by page: {counts}; "
        f"p = {comparison.p_value:.2g} (sign test)",
    ]
    mean = comparison.difference
    if mean is not None:
        facts.append(f"mean difference {mean.value:+.3f}, 95% {mean.low:+.3f} to {mean.high:+.3f}")

    def pages() -> Iterator[tuple[PagePair, object, object]]:
        for pair in examples:
            number = pair.number or 1
            first = firsts.get((pair.a.document, number))
            second = seconds.get((pair.b.document, number))
            texts = (strip_markup(page.markdown if page else "") for page in (first, second))
            yield pair, find_differences(*texts), _page_image(first)

    return _render(
        "comparison.html",
        title="A against B",
        facts=facts,
        problems=comparison.problems,
        page_count=len(comparison.examples),
        pages=pages(),
    )


def _read_pages(predictions: Predictions, keys: Sequence[Key]) -> dict[Key, PagePrediction]:
    pages = predictions.pages_with_images(frozenset(keys))
    return {(page.document, page.number): page for page in pages}


def _page_image(page: PagePrediction | None, regions: Sequence[Box] = ()) -> _PageImage | None:
    """A page's image, downscaled; None without one, or for a damaged one."""
    if page is None or not page.jpeg:
        return None
    try:
        with Image.open(io.BytesIO(page.jpeg)) as opened:
            width, height = opened.size
            opened.draft("RGB", (PAGE_SIDE, PAGE_SIDE))
            image = opened.convert("RGB")
    except OSError:
        return None
    image.thumbnail((PAGE_SIDE, PAGE_SIDE))
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=JPEG_QUALITY)
    data = base64.b64encode(sink.getvalue()).decode()
    across, down = 100 / width, 100 / height
    percent = (
        (box.x1 * across, box.y1 * down, (box.x2 - box.x1) * across, (box.y2 - box.y1) * down)
        for box in regions
    )
    return _PageImage(f"data:image/jpeg;base64,{data}", tuple(percent))


def find_differences(truth: str, other: str) -> list[tuple[str, str]]:
    """Two texts word by word, as (equal, deleted or inserted; words); long equal passages are
    shortened."""
    words, others = truth.split()[:MAX_WORDS], other.split()[:MAX_WORDS]
    segments: list[tuple[str, str]] = []
    for step in Levenshtein.opcodes(words, others):
        deleted = words[step.src_start : step.src_end]
        inserted = others[step.dest_start : step.dest_end]
        if step.tag == "equal":
            segments.append(("equal", _shorten(deleted)))
            continue
        if deleted:
            segments.append(("deleted", " ".join(deleted)))
        if inserted:
            segments.append(("inserted", " ".join(inserted)))
    return segments


def _shorten(words: Sequence[str]) -> str:
    if len(words) <= 3 * CONTEXT_WORDS:
        return " ".join(words)
    return f"{' '.join(words[:CONTEXT_WORDS])} […] {' '.join(words[-CONTEXT_WORDS:])}"
