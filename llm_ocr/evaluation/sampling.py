"""A run without ground truth: what its pages give away about themselves, the worst ones first.

All rows are looked at by a few small columns; images and texts are read of the sample alone.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from llm_ocr.evaluation.ink import Coverage, coverage
from llm_ocr.evaluation.intervals import Mean, Share, mean, share
from llm_ocr.evaluation.layout_checks import (
    BrokenSentences,
    broken_sentences,
    outside_blocks,
    repeated_words,
    uneven_tables,
)
from llm_ocr.evaluation.scripts import main_script, scripts, strangeness
from llm_ocr.inference.loops import find_loop
from llm_ocr.markdown import hidden
from llm_ocr.messages import counted
from llm_ocr.records import FURNITURE_LABELS, Box, PageStatus
from llm_ocr.storage.store import Store
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row

_SEEN = ["page_id", "status", "agreement", "confidence"]
_LOOKED_AT = [
    *("page_id", "doc_id", "name", "page_number", "image", "width", "height", "markdown"),
    *("blocks", "notes", "status", "error_code", "error", "finish_reason", "raw_answer"),
    *("agreement", "confidence", "text_layer", "layer_text", "lines"),
]
# Tags of models that should have been read, and HTML that was opened and not closed.
_STRAY = re.compile(r"<\|[^|<>]{1,20}\|>|\[\[\d+(?:, ?\d+){3}\]\]")
# What parsers note that had to mend an answer; other notes are of judging and reading it.
_MENDED = re.compile(r"\btags?\b|tail dropped|has no box|no area|\bcells?\b|front matter")
_TAG = re.compile(r"<(/?)(table|tr|td|th|thead|tbody)\b", re.IGNORECASE)
# What a page's flaws weigh in its doubt; the doubt of a failed page is the highest.
FAILED, CUT, LOOPS, EMPTY, FALLBACK = 10.0, 4.0, 3.0, 3.0, 1.0
DISAGREES, UNCOVERED, STRANGE, UNSURE, TAGS = 3.0, 3.0, 2.0, 2.0, 0.5
# For one, and at most, of a page's broken sentences, repeated runs of words, uneven tables.
BROKEN, MOST_BROKEN = 1.0, 4.0
REPEATED, MOST_REPEATED = 0.1, 2.0
UNEVEN, MOST_UNEVEN = 0.5, 2.0
OUTSIDE = 3.0
# From this trust on, a PDF's own text is taken for the page's, its order included.
TRUSTED_LAYER = 0.8
# Below these a page is remarked on.
GOOD_AGREEMENT, GOOD_COVERAGE, GOOD_CONFIDENCE = 0.9, 0.95, 0.8


@dataclass(frozen=True)
class PageSigns:
    """What a page gives away. `doubt` (0 and up) orders pages, `remarks` say what it comes from.

    `agreement` with the text layer, `confidence` and `coverage` of ink are 0..1, None where not
    known; `regions` have ink and no block; `tags` are tag errors; `strange` is the share of letters
    in a script that the document else has not. `broken` are sentences of the text layer torn apart
    (None without a layer that can be trusted), `repeated` runs of words that stand more often than
    on the page, `outside` the share of the engine's words in no block (None where it gives no
    lines), `uneven` the tables whose rows have unlike widths.
    """

    page_id: str
    document: str
    number: int
    status: str
    doubt: float
    remarks: tuple[str, ...]
    agreement: float | None
    confidence: float | None
    coverage: float | None
    regions: tuple[Box, ...]
    loops: bool
    tags: int
    script: str | None
    strange: float
    broken: BrokenSentences | None = None
    repeated: int = 0
    outside: float | None = None
    uneven: int = 0
    markdown: str = ""


@dataclass(frozen=True)
class SampleEvaluation:
    """A sample of a run's pages, the worst first, and the statuses and means of all its pages."""

    place: str
    total: int
    seed: int
    statuses: Mapping[str, int]
    all_agreement: float | None
    pages: tuple[PageSigns, ...]

    @cached_property
    def means(self) -> Mapping[str, Mean]:
        """Of the sampled pages that were read, by name; those that are known of some."""
        found = {
            "agreement with the text layer": self._mean("agreement"),
            "ink within blocks": self._mean("coverage"),
            "confidence": self._mean("confidence"),
        }
        return {name: one for name, one in found.items() if one is not None}

    @cached_property
    def shares(self) -> Mapping[str, Share]:
        """The shares of sampled pages with a flaw."""
        flaws: dict[str, Callable[[PageSigns], bool]] = {
            "pages with a loop": lambda page: page.loops,
            "pages with tag errors": lambda page: page.tags > 0,
            "pages in another script than their document": lambda page: page.strange > 0.5,
            "pages with ink that no block covers": lambda page: bool(page.regions),
            "pages with sentences torn apart": lambda page: bool(
                page.broken and page.broken.broken
            ),
            "pages with words that stand twice": lambda page: page.repeated > 0,
            "pages with words outside of every block": lambda page: bool(page.outside),
            "pages with tables of uneven rows": lambda page: page.uneven > 0,
        }
        return {name: share(self._by_document(flaw)) for name, flaw in flaws.items()}

    @cached_property
    def scripts(self) -> Mapping[str, int]:
        """How many of the sampled pages are in each script."""
        return Counter(page.script for page in self.pages if page.script is not None)

    def _mean(self, name: str) -> Mean | None:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            value = getattr(page, name)
            if value is not None:
                by_document[page.document].append(value)
        return mean(by_document, self.seed)

    def _by_document(self, flaw: Callable[[PageSigns], bool]) -> dict[str, list[float]]:
        by_document: dict[str, list[float]] = defaultdict(list)
        for page in self.pages:
            if page.status != PageStatus.FAILED:
                by_document[page.document].append(float(flaw(page)))
        return by_document


@dataclass(frozen=True)
class Drawn:
    """The ids of a sample of pages, and what is known of all of them."""

    page_ids: frozenset[str]
    total: int
    statuses: Mapping[str, int]
    agreement: float | None


def draw(store: Store, count: int, seed: int) -> Drawn:
    """`count` pages of a run by chance, each as likely as any other; `seed` draws others."""
    chance = random.Random(seed)
    kept: list[str] = []
    statuses: Counter[str] = Counter()
    agreements, known, total = 0.0, 0, 0
    for row in read_table(store, "pages", _SEEN):
        statuses[row["status"]] += 1
        if row.get("agreement") is not None:
            agreements, known = agreements + row["agreement"], known + 1
        place = total if total < count else chance.randrange(total + 1)
        if total < count:
            kept.append(row["page_id"])
        elif place < count:
            kept[place] = row["page_id"]
        total += 1
    return Drawn(frozenset(kept), total, statuses, agreements / known if known else None)


def sample(store: Store, count: int, seed: int) -> SampleEvaluation:
    """The signs of `count` pages of a run, the most doubtful first."""
    drawn = draw(store, count, seed)
    pages = sorted(signs_of(store, drawn.page_ids), key=lambda page: (-page.doubt, page.page_id))
    return SampleEvaluation(
        store.uri, drawn.total, seed, drawn.statuses, drawn.agreement, tuple(pages)
    )


def signs_of(store: Store, page_ids: Collection[str]) -> Iterator[PageSigns]:
    """The signs of some pages, in the order of the run."""
    documents = _scripts_of_documents(store, {one.partition("/")[0] for one in page_ids})
    for row in read_table(store, "pages", _LOOKED_AT, ("page_id", page_ids)):
        yield _signs(row, documents[row["doc_id"]])


def _scripts_of_documents(store: Store, doc_ids: Collection[str]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in read_table(store, "pages", ["doc_id", "markdown"], ("doc_id", doc_ids)):
        found[row["doc_id"]] += scripts(row["markdown"] or "")
    return found


def _signs(row: Row, document: Counter[str]) -> PageSigns:
    markdown = row["markdown"] or ""
    said = row.get("raw_answer") or markdown
    loop = find_loop(said, row.get("finish_reason"))
    letters = scripts(markdown)
    covered = _covered(row)
    layer = _trusted_layer(row)
    blocks = row.get("blocks") or ()
    running = [block["text"] for block in blocks if block["label"] in FURNITURE_LABELS]
    lines = row.get("lines") or ()
    page_text = layer or "\n".join(line["text"] for line in lines) or None
    page = PageSigns(
        page_id=row["page_id"],
        document=row["name"],
        number=row["page_number"],
        status=row["status"],
        doubt=0.0,
        remarks=(),
        agreement=row.get("agreement"),
        confidence=row.get("confidence"),
        coverage=covered.share if covered else None,
        regions=covered.regions if covered else (),
        loops=loop is not None,
        tags=_tag_errors(markdown, row.get("notes") or ()),
        script=main_script(letters),
        strange=strangeness(letters, document),
        broken=broken_sentences(markdown, layer, running) if layer else None,
        # What loops is said to loop.
        repeated=0 if loop else repeated_words(markdown, page_text),
        outside=outside_blocks(lines, blocks),
        uneven=uneven_tables(markdown),
        markdown=markdown,
    )
    doubts = list(_doubts(page, row, bool(markdown.strip())))
    total = sum(weight for weight, _ in doubts)
    return replace(page, doubt=total, remarks=tuple(said for _, said in doubts if said))


def _covered(row: Row) -> Coverage | None:
    """None for pages without an image, and for engines that give no boxes."""
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
        return coverage(jpeg, boxes)
    except OSError:
        return None


def _trusted_layer(row: Row) -> str | None:
    """The page's own text, where it can be trusted and the engine read the same page."""
    trust = row.get("text_layer")
    return row.get("layer_text") if trust is not None and trust >= TRUSTED_LAYER else None


def _tag_errors(markdown: str, notes: Sequence[str]) -> int:
    """Notes of the parser, tags that a model left in the text, and tags of tables that are not
    closed."""
    open_tags: Counter[str] = Counter()
    for slash, name in _TAG.findall(hidden(markdown)):
        open_tags[name.lower()] += -1 if slash else 1
    unbalanced = sum(1 for count in open_tags.values() if count)
    mended = sum(_MENDED.search(note) is not None for note in notes)
    return mended + len(_STRAY.findall(markdown)) + unbalanced


def _doubts(page: PageSigns, row: Row, has_text: bool) -> Iterable[tuple[float, str]]:
    """What speaks against a page, each with its weight."""
    if page.status == PageStatus.FAILED:
        yield FAILED, f"failed: {row.get('error') or row.get('error_code')}"
        return
    if page.status in (PageStatus.TRUNCATED, PageStatus.REPETITIVE):
        yield CUT, page.status
    if page.status == PageStatus.FALLBACK:
        yield FALLBACK, "read by the fallback"
    if page.loops:
        yield LOOPS, "a loop"
    if not has_text and page.coverage is not None and page.coverage < GOOD_COVERAGE:
        yield EMPTY, "no text, but ink"
    for value, good, weight, what in (
        (page.agreement, GOOD_AGREEMENT, DISAGREES, "agrees {:.2f} with the text layer"),
        (page.coverage, GOOD_COVERAGE, UNCOVERED, "{:.0%} of the ink in blocks"),
        (page.confidence, GOOD_CONFIDENCE, UNSURE, "confidence {:.2f}"),
    ):
        if value is not None:
            yield weight * (1 - value), what.format(value) if value < good else ""
    if page.strange > 0.1:
        yield STRANGE * page.strange, f"{page.strange:.0%} in a script of its own"
    if page.broken is not None and page.broken.broken:
        broken, compared = page.broken.broken, page.broken.compared
        weight = min(MOST_BROKEN, BROKEN * broken)
        yield weight, f"{broken} of {compared} sentences of the text layer torn apart"
    if page.repeated:
        weight = min(MOST_REPEATED, REPEATED * page.repeated)
        yield weight, f"{counted(page.repeated, 'repeated run')} of words"
    if page.outside:
        yield OUTSIDE * page.outside, f"{page.outside:.0%} of the words outside of every block"
    if page.uneven:
        weight = min(MOST_UNEVEN, UNEVEN * page.uneven)
        yield weight, f"tables with rows of unlike width: {page.uneven}"
    if page.tags:
        yield TAGS, f"tag errors: {page.tags}"
