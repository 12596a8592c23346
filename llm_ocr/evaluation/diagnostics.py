"""Diagnose a sample of a run's pages without ground truth.

Small columns are read of all pages; images and texts are read of the sample only.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from llm_ocr.evaluation.ink_coverage import InkCoverage, measure_ink_coverage
from llm_ocr.evaluation.intervals import Mean, Proportion, estimate_mean, estimate_proportion
from llm_ocr.evaluation.layout_checks import (
    BrokenSentences,
    count_broken_sentences,
    count_repeated_words,
    count_uneven_tables,
    share_outside_blocks,
)
from llm_ocr.evaluation.scripts import count_scripts, foreign_share, main_script
from llm_ocr.inference.loops import find_loop
from llm_ocr.messages import pluralize
from llm_ocr.records import FURNITURE_LABELS, Box, PageStatus
from llm_ocr.storage.store import Store
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import mask_escapes

_COLUMNS_OF_ALL = ["page_id", "status", "agreement", "confidence"]
_COLUMNS_OF_SAMPLE = [
    *("page_id", "doc_id", "name", "page_number", "image", "width", "height", "markdown"),
    *("blocks", "notes", "status", "error_code", "error", "finish_reason", "raw_answer"),
    *("agreement", "confidence", "text_layer", "layer_text", "lines"),
]
# Special tokens of models that the parser should have removed.
_STRAY_TAG = re.compile(r"<\|[^|<>]{1,20}\|>|\[\[\d+(?:, ?\d+){3}\]\]")
# Notes of parsers that repaired an answer; other notes are about its quality.
_REPAIR_NOTE = re.compile(r"\btags?\b|tail dropped|has no box|no area|\bcells?\b|front matter")
_TAG = re.compile(r"<(/?)(table|tr|td|th|thead|tbody)\b", re.IGNORECASE)
# Weights of issues in the doubt of a page; that of a failed page is the highest.
FAILED_WEIGHT, TRUNCATED_WEIGHT, LOOP_WEIGHT = 10.0, 4.0, 3.0
EMPTY_WEIGHT, FALLBACK_WEIGHT = 3.0, 1.0
DISAGREEMENT_WEIGHT, UNCOVERED_INK_WEIGHT, FOREIGN_SCRIPT_WEIGHT = 3.0, 3.0, 2.0
LOW_CONFIDENCE_WEIGHT, TAG_ERRORS_WEIGHT, OUTSIDE_BLOCKS_WEIGHT = 2.0, 0.5, 3.0
# Weights of one and, at most, of all broken sentences, repeated runs and uneven tables of a page.
BROKEN_SENTENCE_WEIGHT, MAX_BROKEN_SENTENCES_WEIGHT = 1.0, 4.0
REPEATED_RUN_WEIGHT, MAX_REPEATED_RUNS_WEIGHT = 0.1, 2.0
UNEVEN_TABLE_WEIGHT, MAX_UNEVEN_TABLES_WEIGHT = 0.5, 2.0
# From this trust on, the text layer of a PDF is a reference for text and reading order.
MIN_LAYER_TRUST = 0.8
# Values below these are remarked on.
GOOD_AGREEMENT, GOOD_COVERAGE, GOOD_CONFIDENCE = 0.9, 0.95, 0.8


@dataclass(frozen=True)
class PageDiagnostics:
    """Diagnostics of a page. `doubt` (0 or more) ranks pages, `remarks` explain it.

    `agreement` with the text layer, `confidence` and `ink_coverage` are 0..1, None if not known;
    `uncovered_regions` have ink but no block; `foreign_share` is the share of letters in a script
    that is rare in the document. `broken_sentences` compares with the text layer (None without a
    trusted one), `repeated_runs` counts runs of words that occur more often than on the page,
    `outside_share` is the share of the engine's words in no block (None if it gives no lines), and
    `uneven_tables` counts tables with rows of different widths.
    """

    page_id: str
    document: str
    number: int
    status: str
    doubt: float
    remarks: tuple[str, ...]
    agreement: float | None
    confidence: float | None
    ink_coverage: float | None
    uncovered_regions: tuple[Box, ...]
    has_loop: bool
    tag_errors: int
    script: str | None
    foreign_share: float
    broken_sentences: BrokenSentences | None = None
    repeated_runs: int = 0
    outside_share: float | None = None
    uneven_tables: int = 0
    markdown: str = ""


@dataclass(frozen=True)
class SampleEvaluation:
    """A sample of a run's pages, the most doubtful first, and statistics of all its pages."""

    uri: str
    total: int
    seed: int
    statuses: Mapping[str, int]
    all_agreement: float | None
    pages: tuple[PageDiagnostics, ...]

    @cached_property
    def means(self) -> Mapping[str, Mean]:
        """The means over sampled pages by name, without those that are not known for any page."""
        means = {
            "agreement with the text layer": self._mean("agreement"),
            "ink within blocks": self._mean("ink_coverage"),
            "confidence": self._mean("confidence"),
        }
        return {name: mean for name, mean in means.items() if mean is not None}

    @cached_property
    def proportions(self) -> Mapping[str, Proportion]:
        """The proportions of sampled pages with an issue."""
        issues: dict[str, Callable[[PageDiagnostics], bool]] = {
            "pages with a loop": lambda page: page.has_loop,
            "pages with tag errors": lambda page: page.tag_errors > 0,
            "pages in a different script than their document": lambda page: (
                page.foreign_share > 0.5
            ),
            "pages with ink outside of blocks": lambda page: bool(page.uncovered_regions),
            "pages with broken sentences": lambda page: bool(
                page.broken_sentences and page.broken_sentences.broken
            ),
            "pages with repeated words": lambda page: page.repeated_runs > 0,
            "pages with words outside of blocks": lambda page: bool(page.outside_share),
            "pages with tables with uneven rows": lambda page: page.uneven_tables > 0,
        }
        return {
            name: estimate_proportion(self._by_document(has_issue))
            for name, has_issue in issues.items()
        }

    @cached_property
    def scripts(self) -> Mapping[str, int]:
        """The number of sampled pages in each script."""
        return Counter(page.script for page in self.pages if page.script is not None)

    def _mean(self, name: str) -> Mean | None:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            value = getattr(page, name)
            if value is not None:
                by_document[page.document].append(value)
        return estimate_mean(by_document, self.seed)

    def _by_document(self, has_issue: Callable[[PageDiagnostics], bool]) -> dict[str, list[float]]:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            if page.status != PageStatus.FAILED:
                by_document[page.document].append(float(has_issue(page)))
        return by_document


@dataclass(frozen=True)
class PageSample:
    """The ids of sampled pages, and the statuses and mean agreement of all pages."""

    page_ids: frozenset[str]
    total: int
    statuses: Mapping[str, int]
    agreement: float | None


def draw_sample(store: Store, count: int, seed: int) -> PageSample:
    """`count` pages of a run at random (reservoir sampling)."""
    generator = random.Random(seed)
    sampled: list[str] = []
    statuses: Counter[str] = Counter()
    agreements, known, total = 0.0, 0, 0
    for row in read_table(store, "pages", _COLUMNS_OF_ALL):
        statuses[row["status"]] += 1
        if row.get("agreement") is not None:
            agreements, known = agreements + row["agreement"], known + 1
        index = total if total < count else generator.randrange(total + 1)
        if total < count:
            sampled.append(row["page_id"])
        elif index < count:
            sampled[index] = row["page_id"]
        total += 1
    return PageSample(frozenset(sampled), total, statuses, agreements / known if known else None)


def diagnose_sample(store: Store, count: int, seed: int) -> SampleEvaluation:
    """The diagnostics of `count` pages of a run, the most doubtful first."""
    sample = draw_sample(store, count, seed)
    pages = sorted(
        diagnose_pages(store, sample.page_ids), key=lambda page: (-page.doubt, page.page_id)
    )
    return SampleEvaluation(
        store.uri, sample.total, seed, sample.statuses, sample.agreement, tuple(pages)
    )


def diagnose_pages(store: Store, page_ids: Collection[str]) -> Iterator[PageDiagnostics]:
    """The diagnostics of some pages, in the order of the run."""
    doc_ids = {page_id.partition("/")[0] for page_id in page_ids}
    scripts = _count_scripts_of_documents(store, doc_ids)
    for row in read_table(store, "pages", _COLUMNS_OF_SAMPLE, ("page_id", page_ids)):
        yield _diagnose_page(row, scripts[row["doc_id"]])


def _count_scripts_of_documents(store: Store, doc_ids: Collection[str]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in read_table(store, "pages", ["doc_id", "markdown"], ("doc_id", doc_ids)):
        counts[row["doc_id"]] += count_scripts(row["markdown"] or "")
    return counts


def _diagnose_page(row: Row, document_scripts: Counter[str]) -> PageDiagnostics:
    markdown = row["markdown"] or ""
    loop = find_loop(row.get("raw_answer") or markdown, row.get("finish_reason"))
    scripts = count_scripts(markdown)
    ink = _measure_ink_coverage(row)
    layer = _trusted_layer(row)
    blocks = row.get("blocks") or ()
    headers_footers = [block["text"] for block in blocks if block["label"] in FURNITURE_LABELS]
    lines = row.get("lines") or ()
    page_text = layer or "\n".join(line["text"] for line in lines) or None
    page = PageDiagnostics(
        page_id=row["page_id"],
        document=row["name"],
        number=row["page_number"],
        status=row["status"],
        doubt=0.0,
        remarks=(),
        agreement=row.get("agreement"),
        confidence=row.get("confidence"),
        ink_coverage=ink.share if ink else None,
        uncovered_regions=ink.regions if ink else (),
        has_loop=loop is not None,
        tag_errors=_count_tag_errors(markdown, row.get("notes") or ()),
        script=main_script(scripts),
        foreign_share=foreign_share(scripts, document_scripts),
        broken_sentences=(
            count_broken_sentences(markdown, layer, headers_footers) if layer else None
        ),
        # A loop is reported as such.
        repeated_runs=0 if loop else count_repeated_words(markdown, page_text),
        outside_share=share_outside_blocks(lines, blocks),
        uneven_tables=count_uneven_tables(markdown),
        markdown=markdown,
    )
    issues = list(_find_issues(page, row, bool(markdown.strip())))
    doubt = sum(weight for weight, _ in issues)
    return replace(page, doubt=doubt, remarks=tuple(remark for _, remark in issues if remark))


def _measure_ink_coverage(row: Row) -> InkCoverage | None:
    """None for pages without an image, and for engines that return no boxes."""
    jpeg = (row.get("image") or {}).get("bytes")
    blocks = row.get("blocks") or ()
    boxes = [
        Box(block["x1"], block["y1"], block["x2"], block["y2"])
        for block in blocks
        if block["x1"] is not None
    ]
    if not jpeg or row["status"] == PageStatus.FAILED or (blocks and not boxes):
        return None
    try:
        return measure_ink_coverage(jpeg, boxes)
    except OSError:
        return None


def _trusted_layer(row: Row) -> str | None:
    """The text layer of the page, if it can be trusted."""
    trust = row.get("text_layer")
    return row.get("layer_text") if trust is not None and trust >= MIN_LAYER_TRUST else None


def _count_tag_errors(markdown: str, notes: Sequence[str]) -> int:
    """The number of repairs by the parser, special tokens left in the text, and kinds of table tags
    that are not balanced."""
    open_tags: Counter[str] = Counter()
    for slash, name in _TAG.findall(mask_escapes(markdown)):
        open_tags[name.lower()] += -1 if slash else 1
    unbalanced = sum(1 for count in open_tags.values() if count)
    repairs = sum(_REPAIR_NOTE.search(note) is not None for note in notes)
    return repairs + len(_STRAY_TAG.findall(markdown)) + unbalanced


def _find_issues(page: PageDiagnostics, row: Row, has_text: bool) -> Iterable[tuple[float, str]]:
    """The issues of a page: weights and remarks; a weight without a remark is minor."""
    if page.status == PageStatus.FAILED:
        yield FAILED_WEIGHT, f"failed: {row.get('error') or row.get('error_code')}"
        return
    if page.status in (PageStatus.TRUNCATED, PageStatus.REPETITIVE):
        yield TRUNCATED_WEIGHT, page.status
    if page.status == PageStatus.FALLBACK:
        yield FALLBACK_WEIGHT, "read by the fallback"
    if page.has_loop:
        yield LOOP_WEIGHT, "a loop"
    if not has_text and page.ink_coverage is not None and page.ink_coverage < GOOD_COVERAGE:
        yield EMPTY_WEIGHT, "ink, but no text"
    for value, good, weight, remark in (
        (
            page.agreement,
            GOOD_AGREEMENT,
            DISAGREEMENT_WEIGHT,
            "agreement {:.2f} with the text layer",
        ),
        (page.ink_coverage, GOOD_COVERAGE, UNCOVERED_INK_WEIGHT, "{:.0%} of the ink within blocks"),
        (page.confidence, GOOD_CONFIDENCE, LOW_CONFIDENCE_WEIGHT, "confidence {:.2f}"),
    ):
        if value is not None:
            yield weight * (1 - value), remark.format(value) if value < good else ""
    if page.foreign_share > 0.1:
        weight = FOREIGN_SCRIPT_WEIGHT * page.foreign_share
        yield weight, f"{page.foreign_share:.0%} of the letters in a script rare in the document"
    sentences = page.broken_sentences
    if sentences is not None and sentences.broken:
        weight = min(MAX_BROKEN_SENTENCES_WEIGHT, BROKEN_SENTENCE_WEIGHT * sentences.broken)
        yield (
            weight,
            f"{sentences.broken} of {sentences.compared} sentences of the text layer broken",
        )
    if page.repeated_runs:
        weight = min(MAX_REPEATED_RUNS_WEIGHT, REPEATED_RUN_WEIGHT * page.repeated_runs)
        yield weight, f"{pluralize(page.repeated_runs, 'repeated run')} of words"
    if page.outside_share:
        weight = OUTSIDE_BLOCKS_WEIGHT * page.outside_share
        yield weight, f"{page.outside_share:.0%} of the words outside of blocks"
    if page.uneven_tables:
        weight = min(MAX_UNEVEN_TABLES_WEIGHT, UNEVEN_TABLE_WEIGHT * page.uneven_tables)
        yield weight, f"tables with rows of different widths: {page.uneven_tables}"
    if page.tag_errors:
        yield TAG_ERRORS_WEIGHT, f"tag errors: {page.tag_errors}"
