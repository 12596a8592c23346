"""Documents with their Markdown as people left it after a review: NAME.pdf beside NAME.md."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.reading.samples import Sample
from benchmarks.reading.scores import Ratio
from llm_ocr.evaluation.headings import HeadingScore, score_headings
from llm_ocr.evaluation.reading_order import find_paragraphs, measure_reading_order
from llm_ocr.evaluation.table_similarity import match_tables
from llm_ocr.evaluation.text_similarity import bag_of_characters, bag_of_words, strip_markup
from llm_ocr.records import DocumentResult
from llm_ocr.text.table_markup import read_tables

_FENCE = re.compile(r"^```.*$", re.MULTILINE)


def load_samples(folder: Path) -> list[Sample]:
    samples = []
    for path in sorted(folder.rglob("*.md")):
        pdf, name = path.with_suffix(".pdf"), path.relative_to(folder).with_suffix("").as_posix()
        if pdf.exists():
            truth = _FENCE.sub("", path.read_text("utf-8"))
            samples.append(Sample(name, pdf, name, partial(score, truth)))
    return samples


def score(truth: str, result: DocumentResult) -> tuple[Mapping[str, Ratio], Sequence[str]]:
    """Characters and words in any order, weighted by pages; pairs of neighboring paragraphs in
    order; headings; TEDS of tables."""
    said, pages = _FENCE.sub("", result.markdown), float(max(1, len(result.pages)))
    expected, text = strip_markup(truth), strip_markup(said)
    paragraphs = find_paragraphs(truth)
    order = measure_reading_order(paragraphs, said)
    headings = score_headings(truth, said)
    tables = match_tables(read_tables(truth), read_tables(said))
    measures = {
        "characters": (pages * bag_of_characters(expected, text), pages),
        "words": (pages * bag_of_words(expected, text), pages),
        "order": order_ratio(order.neighbors, len(paragraphs) - 1),
        **heading_ratios(headings),
        "TEDS": (sum(match.teds for match in tables), float(len(tables))),
    }
    failures = [f"not found: {paragraphs[k][:60]}" for k in order.missing]
    return {name: ratio for name, ratio in measures.items() if ratio[1] > 0}, failures


def order_ratio(neighbors: float | None, pairs: int) -> Ratio:
    """The pairs of neighbors in order, of all pairs."""
    return (0.0, 0.0) if neighbors is None else (neighbors * pairs, float(pairs))


def heading_ratios(score: HeadingScore) -> Mapping[str, Ratio]:
    return {
        "heading precision": (float(score.matched), float(score.predicted)),
        "heading recall": (float(score.matched), float(score.expected)),
    }
